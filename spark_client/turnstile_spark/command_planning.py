"""Statements on a lake's table that Delta refuses for catalog-managed tables, planned as the lake's
own.

Delta parses OPTIMIZE, VACUUM and REORG, finds the table, and refuses when it runs them. Between the
two Spark asks the session's own planner strategies (``experimental.extraStrategies``) before its
and Delta's. The strategy here recognises these commands when their table is a lake's, and plans one
that calls :class:`turnstile_spark.lake_commands.LakeCommands` when it is executed; every other plan
it leaves alone, without a call to Python. A strategy is an abstract class, which no Python object
can be: Janino, with which Spark compiles its own generated code, compiles these two.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from turnstile_spark.jvm import JavaObject, Jvm, items
from turnstile_spark.transactions.scope import catalog_of

_COMPILER: Final = "org.codehaus.janino.SimpleCompiler"
_CLASS: Final = "turnstile.spark.LakeStrategy"
_TABLE: Final = "org.apache.spark.sql.delta.catalog.DeltaTableV2"
SOURCE: Final = """
package turnstile.spark;

import io.delta.tables.execution.VacuumTableCommand;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.delta.catalog.DeltaTableV2;
import org.apache.spark.sql.delta.commands.AlterTableDropFeatureDeltaCommand;
import org.apache.spark.sql.delta.commands.DeltaReorgTableCommand;
import org.apache.spark.sql.delta.commands.OptimizeTableCommand;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.command.ExecutedCommandExec;
import org.apache.spark.sql.execution.command.RunnableCommand;
import scala.Option;
import scala.collection.immutable.Seq;

public class LakeStrategy extends SparkStrategy {
    private final String lake;
    private final String scopes;
    private final UDF2 commands;

    public LakeStrategy(String lake, String scopes, UDF2 commands) {
        this.lake = lake;
        this.scopes = scopes;
        this.commands = commands;
    }

    public Seq apply(LogicalPlan plan) {
        Seq none = (Seq) scala.collection.immutable.Nil$.MODULE$;
        if (plan instanceof AlterTableDropFeatureDeltaCommand) {
            return this.isOfLake(((AlterTableDropFeatureDeltaCommand) plan).table()) ? this.planned(plan, plan) : none;
        }
        LogicalPlan target = null;
        if (plan instanceof OptimizeTableCommand) {
            target = ((OptimizeTableCommand) plan).child();
        } else if (plan instanceof VacuumTableCommand) {
            target = ((VacuumTableCommand) plan).child();
        } else if (plan instanceof DeltaReorgTableCommand) {
            target = ((DeltaReorgTableCommand) plan).target();
        }
        if (!(target instanceof ResolvedTable) || !(((ResolvedTable) target).table() instanceof DeltaTableV2)) {
            return none;
        }
        return this.isOfLake((DeltaTableV2) ((ResolvedTable) target).table()) ? this.planned(plan, target) : none;
    }

    private Seq planned(LogicalPlan plan, LogicalPlan target) {
        LakeCommand command = new LakeCommand(plan, target, this.commands);
        return (Seq) ((Seq) scala.collection.immutable.Nil$.MODULE$).appended(new ExecutedCommandExec(command));
    }

    private boolean isOfLake(DeltaTableV2 table) {
        Option described = table.catalogTable();
        if (described.isEmpty()) {
            return false;
        }
        Option catalog = ((CatalogTable) described.get()).identifier().catalog();
        return catalog.isDefined() && (this.lake.equals(catalog.get()) || this.scopes.equals(catalog.get()));
    }

    public static class LakeCommand extends VacuumTableCommand {
        private final LogicalPlan command;
        private final UDF2 commands;

        public LakeCommand(LogicalPlan command, LogicalPlan target, UDF2 commands) {
            super(target, Option.empty(), Option.empty(), Option.empty(), false, Option.empty());
            this.command = command;
            this.commands = commands;
        }

        public Seq output() {
            return this.command.output();
        }

        public String nodeName() {
            return this.command.nodeName();
        }

        public Seq run(SparkSession session) {
            try {
                return (Seq) this.commands.call(this.command, session);
            } catch (RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new java.lang.reflect.UndeclaredThrowableException(e);
            }
        }
    }
}
"""
_compiled: dict[int, JavaObject] = {}  # the gateway's port, which stands for the JVM -> class
_lock = threading.Lock()


class CommandPlanning:
    """The strategy of one lake. ``commands``: executes the statements."""

    def __init__(self, jvm: Jvm, lake: str, commands: Any) -> None:
        constructor = _strategy_class(jvm).getConstructors()[0]
        self._jvm = jvm
        arguments = jvm.new("java.util.ArrayList")  # an array's element can be no proxy
        for argument in (lake, catalog_of(lake), commands):
            arguments.add(argument)
        self._strategy = constructor.newInstance(arguments.toArray())

    def join(self, session: JavaObject) -> None:
        """Puts the strategy before the others of a JVM session. Idempotent."""
        self.leave(session)
        others = session.experimental().extraStrategies()
        getattr(session.experimental(), "extraStrategies_$eq")(others.prepended(self._strategy))

    def leave(self, session: JavaObject) -> None:
        """Takes the strategy out of a JVM session. Idempotent."""
        convert = self._jvm.cls("scala.jdk.javaapi.CollectionConverters")
        there = convert.asJavaCollection(session.experimental().extraStrategies())
        kept = self._jvm.new("java.util.ArrayList")
        for strategy in items(there):
            if not strategy.equals(self._strategy):
                kept.add(strategy)
        if kept.size() < there.size():
            getattr(session.experimental(), "extraStrategies_$eq")(convert.asScala(kept).toSeq())


def _strategy_class(jvm: Jvm) -> JavaObject:
    """The compiled class, which a JVM has once."""
    port = int(jvm.gateway.gateway_parameters.port)
    with _lock:
        if port not in _compiled:
            compiler = jvm.new(_COMPILER)
            compiler.setParentClassLoader(jvm.class_for_name(_TABLE).getClassLoader())
            compiler.cook(SOURCE)
            _compiled[port] = compiler.getClassLoader().loadClass(_CLASS)
        return _compiled[port]
