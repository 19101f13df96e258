"""Statements on a lake's table that Delta refuses for catalog-managed tables, planned as the lake's
own.

Delta parses OPTIMIZE, VACUUM and REORG, finds the table, and refuses when it runs them. Between the
two Spark asks the session's own planner strategies (``experimental.extraStrategies``) before its
and Delta's. The strategy here recognises these commands when their table is a lake's, and plans one
that calls :class:`turnstile_spark.lake_commands.LakeCommands` when it is executed; every other plan
it leaves alone, without a call to Python. A strategy is an abstract class, which no Python object
can be, so it is in Java (``java/LakeStrategy.java``).
"""

from __future__ import annotations

from typing import Any

from turnstile_spark.java_classes import java_object
from turnstile_spark.jvm import JavaObject, Jvm, items
from turnstile_spark.transactions.scopes.scope import catalog_of


class CommandPlanning:
    """The strategy of one lake. ``commands``: executes the statements."""

    def __init__(self, jvm: Jvm, lake: str, commands: Any) -> None:
        self._jvm = jvm
        self._strategy = java_object(jvm, "LakeStrategy", lake, catalog_of(lake), commands)

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
