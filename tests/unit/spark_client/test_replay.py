"""When a transaction that lost is not replayed: it ends, and says why."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException

from turnstile_http.errors import ApiError
from turnstile_spark.errors import TransactionConflict
from turnstile_spark.transactions.conflicts.conflict_check import Read, Winner
from turnstile_spark.transactions.conflicts.rebase import CannotRebase
from turnstile_spark.transactions.reads.catalog_reads import CatalogReadLog
from turnstile_spark.transactions.recovery.replay import PAUSE_S, Replayer
from turnstile_spark.transactions.recovery.statements import Recorded, Statements, Text
from turnstile_spark.transactions.scopes.catalog_changes import CatalogChanges, NewNamespace
from turnstile_spark.transactions.scopes.scope import Held, ScopedTable

STATE = SimpleNamespace(name="main.default.t", table_id="t", location="file:/t", metadata={"schema": {"fields": []}})


@pytest.fixture(autouse=True)
def _jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's exceptions are made beside a JVM."""
    monkeypatch.setattr(SparkContext, "_jvm", Mock())
    monkeypatch.setattr(CapturedException, "_log_exception", lambda _: None)


@pytest.fixture
def lost(_jvm: None) -> TransactionConflict:
    return TransactionConflict("id", ApiError(409, "TransactionConflict", "lost"), ["t: why"])


class _Scope:
    """The parts of a scope that a plan is made of."""

    def __init__(self) -> None:
        self.changes = CatalogChanges()
        self.catalog_reads: CatalogReadLog | None = None
        self.table = ScopedTable(STATE, 4)  # type: ignore[arg-type]

    def tables(self) -> dict[str, ScopedTable]:
        return {"t": self.table}

    def at(self, path: str) -> ScopedTable | None:
        return self.table if path == "file:/t" else None


def _replayer(*entries: Recorded, limit: int = 2, until: float | None = None, jitter: float = 0.0) -> Replayer:
    statements: Any = SimpleNamespace(scope=_Scope(), entries=list(entries))
    nothing: Any = SimpleNamespace()
    return Replayer(nothing, statements, limit=limit, until=until, jitter=lambda: jitter)


def _latest(ids: list[str]) -> dict[str, int]:
    return dict.fromkeys(ids, 5)


def _winners(table: ScopedTable, latest: int) -> list[Winner]:
    return [Winner(version, [{"metaData": {}}]) for version in range(table.base + 1, latest + 1)]


def test_replays_are_counted_and_end(lost: TransactionConflict) -> None:
    replayer = _replayer(limit=2)
    for count in (1, 2):
        plan = replayer.plan(lost, _latest, _winners)
        assert (plan.cut, [w.version for w in plan.tables["t"].winners], replayer.count) == ({"t": 5}, [5], count)
    with pytest.raises(TransactionConflict) as raised:
        replayer.plan(lost, _latest, _winners)
    assert raised.value.reasons == ["t: why", "not replayed: it has been replayed 2 times"]
    with pytest.raises(TransactionConflict, match="replayed 0 times"):
        _replayer(limit=0).plan(lost, _latest, _winners)


def test_none_is_begun_after_the_deadline_nor_a_pause_that_ends_after_it(lost: TransactionConflict) -> None:
    now = time.monotonic()
    for until, jitter in ((now - 1, 0.0), (now + 3600, 3600 / PAUSE_S + 1)):
        replayer = _replayer(until=until, jitter=jitter)
        with pytest.raises(TransactionConflict, match="the time for replays is over"):
            replayer.plan(lost, _latest, _winners)
        assert replayer.count == 0
    assert _replayer(until=now + 3600).plan(lost, _latest, _winners).cut == {"t": 5}


def test_what_cannot_be_read_or_moved_is_not_replayed(lost: TransactionConflict) -> None:
    def refuses(_: Any) -> Any:
        raise ApiError(404, "NoSuchTable", "no table t")

    def unreadable(*_: Any) -> Any:
        raise CannotRebase("its log was not opened")

    for latest, winners, why in (
        (refuses, _winners, "no table t"),
        (lambda _: {}, _winners, "not there any more"),
        (_latest, unreadable, "its log was not opened"),
    ):
        with pytest.raises(TransactionConflict, match=why):
            _replayer().plan(lost, latest, winners)
    replayer = _replayer()
    replayer._statements.scope.changes.add(NewNamespace("sales"))
    with pytest.raises(TransactionConflict, match="changes the catalog"):
        replayer.plan(lost, _latest, _winners)
    replayer = _replayer()
    replayer._statements.scope.catalog_reads = CatalogReadLog(SimpleNamespace())  # type: ignore[arg-type]
    replayer._statements.scope.catalog_reads.name("sales", "absent", "")
    with pytest.raises(TransactionConflict, match="searches the catalog"):
        replayer.plan(lost, _latest, _winners)


def test_what_the_program_read_is_judged_and_other_tables_are_not(lost: TransactionConflict) -> None:
    look = Recorded("what the program did", None, [Read("file:/t", 4)], {}, "it was not run with txn.sql")
    with pytest.raises(TransactionConflict, match="what the program did would have to run again"):
        _replayer(look).plan(lost, _latest, _winners)
    other = Recorded("what the program did", None, [Read("file:/other", 4)], {}, "it was not run with txn.sql")
    assert [dict(s.reads) for s in _replayer(other).plan(lost, _latest, _winners).statements] == [{}]


def test_going_back_leaves_what_was_done_before_the_point() -> None:
    scope = _Scope()
    collector: Any = SimpleNamespace(window=lambda _: [])
    statements = Statements(None, None, scope, collector, is_from_begin=True)  # type: ignore[arg-type]
    first, second, third = (
        Held.of(version, '{"commitInfo":{"inCommitTimestamp":1,"txnId":"x"}}\n') for version in (5, 6, 7)
    )
    read = Read("file:/t", 4)
    statements.entries = [
        Recorded("what the program did", None, [read], {"t": [first]}),
        Recorded("statement 1", Text("sql", "settings"), [read], {"t": [second]}),
        Recorded("statement 2", Text("sql", "settings"), [read]),
        Recorded("what the program did", None, [read], {"t": [third]}),
    ]
    scope.table.held[:] = [first]  # the point was before any statement
    statements.go_back(0)
    assert [(entry.text, entry.reads, dict(entry.held)) for entry in statements.entries] == [
        (None, [read], {"t": [first]}),
        (None, [read], {}),
    ]
    scope.table.held.append(second)
    statements.flush()
    assert statements.entries[-1].held == {"t": [second]}
