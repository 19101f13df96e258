"""Each statement of the sweep in a lake, and beside it in Spark's own catalog on tables with the
same features.

Differences are listed in sweep_differences.py, each with its reason; an entry without a difference
fails, too.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from delta import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.spark.sweep_differences import DIFFERENCES, Difference
from tests.spark.sweep_statements import SUBJECTS, Py

pytestmark = pytest.mark.slow

#: What a table of a lake has, so that its neighbour has it, too.
FEATURES = {
    "enableInCommitTimestamps": "true",
    "enableDeletionVectors": "true",
    "feature.appendOnly": "supported",
    "feature.invariants": "supported",
    "feature.vacuumProtocolCheck": "supported",
}
#: Plans of tables with a handful of rows: compiling them costs more than running them.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    # VACUUM and CONVERT list folders with this many tasks, whatever there is to list.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "FROM", "RESTORE", "TRUNCATE")
DEFAULTS = "spark.databricks.delta.properties.defaults."
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


@dataclass(frozen=True)
class Outcome:
    """The effect of a statement: the error, or the result; and the rows of table ``t`` after it."""

    error: str | None
    schema: Any
    rows: Any
    table: Any

    def __str__(self) -> str:
        parts = [self.error or "ok"]
        parts += [f"{name} {value}" for name, value in vars(self).items() if name != "error" and value is not None]
        return ", ".join(parts)


class Side:
    """One schema in which a subject's statements run, one after the other."""

    def __init__(self, spark: Any, catalog: str, schema: str, path: Path, defaults: dict[str, str]) -> None:
        self.spark = spark
        self.catalog = catalog
        self.schema = schema
        self.path = path
        self.here = f"{catalog}.{schema}"
        for key, value in {**QUICK, **{DEFAULTS + key: value for key, value in defaults.items()}}.items():
            spark.conf.set(key, value)

    def run(self, statements: tuple[str, ...]) -> tuple[list[Outcome], dict[str, Any]]:
        """The statements' outcomes, and the tables in the end."""
        self.path.mkdir()
        self.keys = set(re.findall(r"'([\w.]+)'", "".join(statements)))
        self.spark.sql(f"CREATE SCHEMA {self.here}")
        self.spark.sql(f"USE {self.here}")
        return [self.outcome(statement) for statement in statements], self.tables()

    def outcome(self, statement: str) -> Outcome:
        error = schema = rows = None
        try:
            result = self._run(statement)
            if isinstance(result, DataFrame):
                schema = result.schema.jsonValue()["fields"]
                rows = sorted(map(repr, result.collect()))
            elif isinstance(result, (bool, int, str, list)):
                rows = result
        except (SyntaxError, NameError):  # the statement's own
            raise
        except Exception as e:  # every other error is compared
            error = _named(e)
        return Outcome(error, *(self._plain(value) for value in (schema, rows, self._written(statement))))

    def _written(self, statement: str) -> Any:
        """The rows of table ``t`` after a statement that may write to it."""
        if not statement.startswith(WRITES) and ".write" not in statement:
            return None
        try:
            return sorted(map(repr, self.spark.table(f"{self.here}.t").collect()))
        except Exception as e:  # no such table, or one that cannot be read
            return _named(e)

    def _run(self, statement: str) -> Any:
        if not isinstance(statement, Py):
            return self.spark.sql(statement.format(path=self.path, here=self.here))
        names = {"spark": self.spark, "DeltaTable": DeltaTable, "F": F, "path": str(self.path), "here": self.here}
        return eval(statement, {**names, "copied": self._copied})

    def _copied(self, stream: Any, table: str) -> None:
        """Appends the stream's rows for a table, from where it stopped the last time."""
        writer = stream.writeStream.foreachBatch(lambda batch, _: batch.write.mode("append").saveAsTable(table))
        query = writer.option("checkpointLocation", str(self.path / table)).trigger(availableNow=True).start()
        query.awaitTermination()

    def table(self, name: str) -> Any:
        """Schema, rows and the user's properties of a table; None when there is none."""
        try:
            frame = self.spark.table(f"{self.here}.`{name}`")
            properties = self.spark.sql(f"SHOW TBLPROPERTIES {self.here}.`{name}`").collect()
            return (
                frame.schema.jsonValue()["fields"],
                sorted(map(repr, frame.collect())),
                sorted(tuple(row) for row in properties if row.key in self.keys),
            )
        except Exception as e:  # no such table, or one that cannot be read
            return _named(e)

    def tables(self) -> dict[str, Any]:
        """The tables of the schema."""
        rows = self.spark.sql(f"SHOW TABLES IN {self.here}").collect()
        return {row.tableName: self._plain(self.table(row.tableName)) for row in rows if not row.isTemporary}

    def _plain(self, value: Any) -> Any:
        """Without the differences between two like tables: names of catalog and schema, folders,
        ids."""
        if value is None:
            return None
        text = (
            str(value).replace(self.schema, "SCHEMA").replace(str(self.path), "PATH").replace(self.catalog, "CATALOG")
        )
        text = re.sub(_UUID, "UUID", text)
        # OPTIMIZE and VACUUM return the path; metrics have sizes and times.
        text = re.sub(r"path='file:[^']*'", "path='TABLE'", text)
        text = re.sub(r"(startTimeMs|endTimeMs|totalSize|min|max|avg|size)=[\d.]+", r"\1", text)
        return re.sub(r"(expId|exprId)'?: '?\d+", "", text)


def _named(error: BaseException) -> str:
    """Class and condition of an exception."""
    if isinstance(error, Py4JJavaError):
        text = str(error.java_exception)
        conditions = re.findall(r"\[([A-Z_0-9.]{6,})\]", text)
        return " ".join(["Py4JJavaError", text.split(":", maxsplit=1)[0], *conditions])
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition is None and (bracketed := re.search(r"\[([A-Z_0-9.]{6,})\]", str(error))):
        condition = bracketed[1]
    return f"{type(error).__name__} {condition or str(error)[:120]}"


@cache
def listed() -> dict[str, Difference]:
    """The listed differences, by statement."""
    differences: dict[str, Difference] = {}
    for difference in DIFFERENCES:
        for statement in difference.statements:
            assert statement not in differences, f"twice in the list: {statement}"
            differences[statement] = difference
    return differences


def test_every_listed_difference_is_of_a_statement_of_the_sweep() -> None:
    assert set(listed()) <= {statement for statements in SUBJECTS.values() for statement in statements}
    assert all(difference.reason for difference in listed().values())


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_statement_does_in_a_lake_what_it_does_beside_it(subject: str, spark: Any, lake: Any, tmp_path: Path) -> None:
    number = list(SUBJECTS).index(subject)
    sides = [
        Side(spark.newSession(), "spark_catalog", f"beside_{number}", tmp_path / "plain", FEATURES),
        Side(spark.newSession(), lake.name, f"within_{number}", tmp_path / "lake", {}),
    ]
    with ThreadPoolExecutor() as threads:
        (plain, plain_tables), (ours, our_tables) = threads.map(Side.run, sides, [SUBJECTS[subject]] * 2)

    problems = []
    for statement, beside, within in zip(SUBJECTS[subject], plain, ours, strict=True):
        entry = listed().get(statement)
        if beside == within:
            problems += [f"{statement}\n  is listed, and does the same: {within}"] * bool(entry)
        elif entry is None or (entry.lake is not None and entry.lake not in str(within.error)):
            problems.append(f"{statement}\n  plain: {beside}\n  lake:  {within}")
    for name in sorted(set(plain_tables) & set(our_tables)):
        if plain_tables[name] != our_tables[name]:
            problems.append(f"table {name} in the end\n  plain: {plain_tables[name]}\n  lake:  {our_tables[name]}")
    assert not problems, "\n".join(["", *problems])
