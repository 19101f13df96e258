"""A table as Delta's own classes have it, below the commands that Delta refuses for catalog-managed
tables.

The client is pinned to Delta 4.4.0: the calls here are not Delta's public interface.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from turnstile_spark.errors import turnstile_error
from turnstile_spark.jvm import JavaObject, Jvm, items, string_dict

DELTA: Final = "org.apache.spark.sql.delta."
#: Tables with other features are refused: nobody has looked what upkeep does to what these mean.
FEATURES: Final = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "catalogManaged",
        "changeDataFeed",
        "checkConstraints",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)


class DeltaTable:
    """A table, quoted ``name`` with its catalog: its ``log``, its ``catalog_table`` (an ``Option``)
    and the latest ``snapshot``."""

    def __init__(self, jvm: Jvm, spark: Any, name: str) -> None:
        self._jvm = jvm
        self._spark = spark
        activate(jvm, spark)
        table = jvm.cls("io.delta.tables.DeltaTable").forName(spark._jsparkSession, name)
        member = table.getClass().getDeclaredField("table")
        member.setAccessible(True)
        self._v2 = member.get(table)
        self.log = self._v2.deltaLog()
        self.catalog_table = self._v2.catalogTable()
        self.snapshot = self._v2.initialSnapshot()

    @property
    def version(self) -> int:
        """Of the snapshot."""
        return int(self.snapshot.version())

    def update(self) -> None:
        """Makes the snapshot that of the latest version."""
        activate(self._jvm, self._spark)
        self.snapshot = self._v2.update()

    def at(self, version: int) -> JavaObject:
        """Delta's snapshot of a version."""
        activate(self._jvm, self._spark)
        default = self.log
        return self.log.getSnapshotAt(version, getattr(default, "getSnapshotAt$default$2")(), self.catalog_table, False)

    def options(self) -> dict[str, str]:
        """The options with which Delta opens the table's files, credentials among them."""
        return string_dict(self._jvm.cls("scala.jdk.javaapi.CollectionConverters").asJava(self.log.options()))


def activate(jvm: Jvm, spark: Any) -> None:
    """Makes ``spark`` the session of this thread, which Delta's classes ask for. In a thread that
    Spark has not started, or not run a statement in, there is none."""
    jvm.cls("org.apache.spark.sql.SparkSession").setActiveSession(spark._jsparkSession)


def check_features(jvm: Jvm, snapshot: JavaObject, name: str, operation: str) -> set[str]:
    """Returns the features of a table. Raises ``TURNSTILE_REFUSED`` where one is not in
    :data:`FEATURES`."""
    features = {str(f) for f in items(snapshot.protocol().readerAndWriterFeatureNames())}
    if unsure := sorted(f.removesuffix("-preview") for f in features - FEATURES):
        text = f"{operation} of {name}: the table has the feature {', '.join(unsure)}, which it is not known to keep"
        raise turnstile_error("TURNSTILE_REFUSED", text)
    return features


def scala_seq(jvm: Jvm, values: Sequence[Any]) -> JavaObject:
    """An immutable Scala ``Seq``."""
    array_list = jvm.new("java.util.ArrayList")
    for value in values:
        array_list.add(value)
    return jvm.cls("scala.jdk.javaapi.CollectionConverters").asScala(array_list).toSeq()
