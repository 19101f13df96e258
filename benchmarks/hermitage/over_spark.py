"""The systems in Spark: transactions of a lake, and plain Delta, where each statement is a
transaction of its own."""

from __future__ import annotations

import itertools
import uuid
from contextlib import ExitStack
from typing import Any

from delta.exceptions import DeltaConcurrentModificationException

from benchmarks.hermitage.cases import Read, Row, Statement
from benchmarks.hermitage.running import Refused
from turnstile_spark import TurnstileError

_CONFLICT = "TURNSTILE_TRANSACTION_CONFLICT"


def _execute(spark: Any, statement: Statement, table: str) -> list[Row]:
    rows = spark.sql(statement.sql(table)).collect()
    return sorted(Row(row.id, row.value) for row in rows) if isinstance(statement, Read) else []


def _create(spark: Any, table: str, rows: list[Row]) -> None:
    """A partition for each row, so that no two rows are in one file."""
    values = ", ".join(f"({row.id}L, {row.value}L)" for row in rows)
    spark.sql(
        f"CREATE TABLE {table} USING delta PARTITIONED BY (id) AS SELECT * FROM VALUES {values} AS rows(id, value)"
    )


def _rows(spark: Any, table: str) -> list[Row]:
    return sorted(Row(row.id, row.value) for row in spark.sql(f"SELECT id, value FROM {table}").collect())


class LakeSystem:
    """Transactions of a lake, each in a Spark session of its own. ``isolation``: their level.
    ``names_tables``: whether a transaction takes the cut of all its tables when it begins; else
    each joins as it is used."""

    def __init__(self, lake: Any, spark: Any, isolation: str, *, names_tables: bool = True) -> None:
        self._lake = lake
        self._spark = spark
        self._isolation = isolation
        self._names_tables = names_tables
        self._names = (f"default.hermitage_{uuid.uuid4().hex[:8]}_{n}" for n in itertools.count(1))

    def create(self, rows: list[Row]) -> str:
        table = next(self._names)
        _create(self._spark, f"{self._lake.name}.{table}", rows)
        return table

    def begin(self, tables: list[str]) -> LakeTransaction:
        session = self._spark.newSession()
        named = tables if self._names_tables else ()
        return LakeTransaction(
            self._lake.name, session, self._lake.transaction(self._isolation, tables=named, spark=session)
        )

    def rows(self, table: str) -> list[Row]:
        return _rows(self._spark, f"{self._lake.name}.{table}")


class LakeTransaction:
    """A ``with lake.transaction(...)`` block, entered when it is made."""

    def __init__(self, lake: str, session: Any, transaction: Any) -> None:
        self._lake = lake
        self._session = session
        self._transaction = transaction
        self._block = ExitStack()
        self._block.enter_context(transaction)

    def do(self, statement: Statement, table: str) -> list[Row]:
        try:
            return _execute(self._session, statement, f"{self._lake}.{table}")
        except TurnstileError as e:
            raise _refused(e) from e

    def commit(self) -> None:
        try:
            self._block.close()
        except TurnstileError as e:
            raise _refused(e) from e

    def abort(self) -> None:
        if self._transaction.state == "open":
            self._transaction.abort()
        self._block.close()


def _refused(e: TurnstileError) -> Exception:
    return Refused(str(e)) if e.condition == _CONFLICT else e


class DeltaSystem:
    """Plain Delta: tables that are paths below ``root``, and every statement a transaction of its
    own, committed at once."""

    def __init__(self, spark: Any, root: str) -> None:
        self._spark = spark
        self._root = root
        self._names = (f"delta.`{root}/hermitage_{uuid.uuid4().hex[:8]}_{n}`" for n in itertools.count(1))

    def create(self, rows: list[Row]) -> str:
        table = next(self._names)
        _create(self._spark, table, rows)
        return table

    def begin(self, tables: list[str]) -> DeltaStatements:
        return DeltaStatements(self._spark.newSession())

    def rows(self, table: str) -> list[Row]:
        return _rows(self._spark, table)


class DeltaStatements:
    """Statements, and nothing that holds them together: there is nothing to commit, and nothing
    that could be given up."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def do(self, statement: Statement, table: str) -> list[Row]:
        try:
            return _execute(self._session, statement, table)
        except DeltaConcurrentModificationException as e:
            raise Refused(str(e)) from e

    def commit(self) -> None: ...

    def abort(self) -> None: ...
