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
