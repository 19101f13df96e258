"""Counts in Spark what a server asks about the table of a branch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType

from turnstile_spark.delta.table import DeltaTable, scala_seq
from turnstile_spark.jvm import Jvm

#: Rows that a finding shows, and columns of these beside the ones of the predicate.
EXAMPLES: Final = 5
SHOWN_COLUMNS: Final = 3
#: More new files than this are not listed: then all rows of the table are checked.
NEW_FILES: Final = 10_000
_EXAMPLE_CHARACTERS: Final = 200
_DAY_US: Final = 86_400_000_000

Check = dict[str, Any]
Finding = dict[str, Any]


class AttachedTable(Protocol):
    """A table of a branch."""

    @property
    def sql_name(self) -> str: ...


class AttachedBranch(AbstractContextManager[Any], Protocol):
    """A branch in a session of its own."""

    spark: Any
    jvm: Jvm

    def table(self, name: str) -> AttachedTable: ...


class BranchRows:
    """The rows of a branch's table at a version: ``all``, and ``new`` of files that it has not had
    at the version ``base``, or with other deleted rows. New rows of a branch with an update are
    also the ones that the update brought."""

    def __init__(self, lake: AttachedBranch, table: str, version: int, base: int | None) -> None:
        lake.spark.conf.set("spark.sql.session.timeZone", "UTC")
        name = lake.table(table).sql_name
        self.all: DataFrame = lake.spark.sql(f"SELECT * FROM {name} VERSION AS OF {version}")
        self.new = self.all if base is None else _new_rows(lake, name, base, version) or self.all


def _new_rows(lake: AttachedBranch, name: str, base: int, version: int) -> DataFrame | None:
    """The rows of new files; None for too many of them."""
    table = DeltaTable(lake.jvm, lake.spark, name)
    latest = table.at(version)
    now, before = (DataFrame(each.allFiles().toDF(), lake.spark) for each in (latest, table.at(base)))
    old = before.select(F.col("path").alias("old_path"), F.col("deletionVector").alias("old_vector"))
    same = (F.col("path") == F.col("old_path")) & F.col("deletionVector").eqNullSafe(F.col("old_vector"))
    paths = [row.path for row in now.join(old, same, "left_anti").select("path").take(NEW_FILES + 1)]
    if len(paths) > NEW_FILES:
        return None
    wanted: Any = F.col("path").isin(paths)
    files = scala_seq(lake.jvm, latest.allFiles().filter(wanted._jc).collectAsList())
    none = getattr(table.log, "createDataFrame$default$4")()
    return DataFrame(table.log.createDataFrame(latest, files, False, none), lake.spark)


class Rows(Protocol):
    """The rows that questions are about: of ``every_row`` the ``new`` ones."""

    all: DataFrame
    new: DataFrame


def findings_of(rows: Rows, checks: Sequence[Check]) -> list[Finding | Exception]:
    """Returns the finding for each check of a table, or the error where it cannot be evaluated. All
    are counted together; after an error one by one."""
    try:
        return [*_count_all(rows, checks)]
    except PySparkException as error:
        if len(checks) == 1:
            return [error]
        return [finding for check in checks for finding in findings_of(rows, [check])]


def _count_all(rows: Rows, checks: Sequence[Check]) -> list[Finding]:
    frames = [_frame(rows, check["question"]) for check in checks]
    totals: dict[int, dict[str, Any]] = {}
    for frame in {id(each): each for each in frames}.values():
        wanted = [F.count(F.lit(1)).alias("rows")]
        for at, check in enumerate(checks):
            if frames[at] is frame:
                wanted += [column.alias(f"{name}{at}") for name, column in _measures(frame, check["question"]).items()]
        totals[id(frame)] = frame.agg(*wanted).collect()[0].asDict()
    numbered = enumerate(zip(checks, frames, strict=True))
    return [_finding(check, frame, at, totals[id(frame)]) for at, (check, frame) in numbered]


def _frame(rows: Rows, question: Mapping[str, Any]) -> DataFrame:
    return rows.new if question["kind"] == "every_row" else rows.all


def _measures(frame: DataFrame, question: Mapping[str, Any]) -> dict[str, Column]:
    """The aggregates of a question."""
    columns = [_column(path) for path in question["columns"]]
    match question["kind"]:
        case "every_row":
            return {"broken": F.count_if(_breaks(question["text"]))}
        case "null_fraction":
            return {"broken": F.count_if(columns[0].isNull())}
        case "unique":  # rows with a null count in none of the two
            return {"keys": F.count_distinct(*columns), "with_key": F.count_if(_has_key(columns))}
        case "freshness":
            is_date = isinstance(frame.select(columns[0]).schema[0].dataType, DateType)
            micros = F.unix_date(columns[0]).cast("long") * _DAY_US if is_date else _micros(columns[0])
            return {"newest": F.max(micros)}
    return {}


def _finding(check: Check, frame: DataFrame, at: int, totals: Mapping[str, Any]) -> Finding:
    question = check["question"]
    names = {"table": check["table"], "expectation": check["expectation"], "text": question["text"]}
    finding = {**names, "rows": totals["rows"]}
    match question["kind"]:
        case "every_row":
            broken = totals[f"broken{at}"]
            examples = _examples_of_rows(frame, question) if broken else ""
            return {**finding, "broken": broken, "examples": examples}
        case "null_fraction":
            return {**finding, "broken": totals[f"broken{at}"]}
        case "unique":
            is_broken = totals[f"keys{at}"] < totals[f"with_key{at}"]
            return finding | (_repeated_keys(frame, question) if is_broken else {})
        case "freshness":
            return {**finding, "newest_us": totals[f"newest{at}"]}
    return finding


def _repeated_keys(frame: DataFrame, question: Mapping[str, Any]) -> Finding:
    """The number of keys that occur more than once, and some of them."""
    columns = [_column(path) for path in question["columns"]]
    labels = [f"k{at}" for at in range(len(columns))]
    keys = frame.where(_has_key(columns)).select([c.alias(label) for c, label in zip(columns, labels, strict=True)])
    counted = keys.groupBy(*labels).count().where("count > 1").localCheckpoint()  # it is read twice
    some = counted.limit(EXAMPLES).collect()
    names = [".".join(path) for path in question["columns"]]
    return {"broken": counted.count(), "examples": _text([dict(zip(names, row, strict=False)) for row in some])}


def _examples_of_rows(frame: DataFrame, question: Mapping[str, Any]) -> str:
    own = [path[0] for path in question["columns"]]
    names = dict.fromkeys([*own, *frame.columns[:SHOWN_COLUMNS]])
    some = frame.where(_breaks(question["text"])).select([_column([name]) for name in names]).limit(EXAMPLES)
    return _text([row.asDict(recursive=True) for row in some.collect()])


def _breaks(predicate: str) -> Column:
    return ~F.coalesce(F.expr(predicate), F.lit(False))  # a literal of SQL


def _has_key(columns: Sequence[Column]) -> Column:
    found = columns[0].isNotNull()
    for column in columns[1:]:
        found &= column.isNotNull()
    return found


def _micros(column: Column) -> Column:
    return F.unix_micros(column.cast("timestamp"))


def _column(path: Sequence[str]) -> Column:
    return F.col(".".join("`" + name.replace("`", "``") + "`" for name in path))


def _text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as the server's messages show them."""
    return ", ".join(json.dumps(row, default=str)[:_EXAMPLE_CHARACTERS] for row in rows)
