"""Hermitage over HTTP, the cases themselves, and the page with its tables (I8)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.hermitage.cases import BY_NAME, CASES, FORMS, Case, Insert, Read, Row, Update
from benchmarks.hermitage.over_http import HttpSystem
from benchmarks.hermitage.page import EXPECTED, PAGE, SYSTEMS, filled
from benchmarks.hermitage.running import Refused, run

LEVELS = ("snapshot", "serializable")


@pytest.fixture(scope="module")
def systems(server: Any) -> Iterator[dict[str, HttpSystem]]:
    opened = {level: HttpSystem(server.url, server.token, level) for level in LEVELS}
    yield opened
    for system in opened.values():
        system.close()


@pytest.mark.parametrize("case", BY_NAME)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", LEVELS)
def test_i8_groups_over_http_allow_what_their_level_allows_and_nothing_else(
    systems: dict[str, HttpSystem], level: str, form: Any, case: str
) -> None:
    verdict = run(BY_NAME[case], form, systems[level])
    assert verdict.text == EXPECTED[f"http-{level}", form, case], verdict
    assert len(verdict.refused) <= 1, verdict  # the other one wins


class _Memory:
    """Tables in memory without any isolation; an abort puts back what the transaction replaced."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[int, Row]] = {}
        self.refuses = False

    def create(self, rows: list[Row]) -> str:
        name = f"t{len(self.tables)}"
        self.tables[name] = {row.id: row for row in rows}
        return name

    def begin(self, tables: list[str]) -> _MemoryTransaction:
        return _MemoryTransaction(self)

    def rows(self, table: str) -> list[Row]:
        return list(self.tables[table].values())


class _MemoryTransaction:
    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        self.replaced = []

    def do(self, statement: Any, table: str) -> list[Row]:
        rows = self.memory.tables[table]
        if isinstance(statement, Read):
            return [row for row in rows.values() if statement.where.holds(row)]
        if isinstance(statement, Insert):
            rows[statement.row.id] = statement.row
        elif isinstance(statement, Update):
            for row in [row for row in rows.values() if statement.where.holds(row)]:
                self.replaced.append((table, row))
                rows[row.id] = Row(row.id, statement.value)
        return []

    def commit(self) -> None:
        if self.memory.refuses:
            raise Refused

    def abort(self) -> None:
        for table, row in reversed(self.replaced):
            self.memory.tables[table][row.id] = row


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("form", FORMS)
def test_each_anomaly_happens_where_nothing_is_isolated(case: Case, form: Any) -> None:
    assert run(case, form, _Memory()).text == "allowed"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("form", FORMS)
def test_no_anomaly_happens_where_transactions_run_one_after_the_other(case: Case, form: Any) -> None:
    for order in itertools.permutations(case.clients):
        steps = tuple(sorted(case.steps, key=lambda step: order.index(step[0])))
        assert run(replace(case, steps=steps), form, _Memory()).text == "not visible", order


def test_a_case_in_which_everything_is_refused_names_all_of_it() -> None:
    memory = _Memory()
    memory.refuses = True
    verdict = run(BY_NAME["P4"], "multi", memory)
    assert (verdict.text, verdict.refused) == ("refused", ("T1", "T2"))


def test_other_failures_are_no_refusals() -> None:
    class Broken(_Memory):
        def begin(self, tables: list[str]) -> _MemoryTransaction:
            raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        run(BY_NAME["G0"], "single", Broken())


def test_the_page_shows_what_the_tests_expect() -> None:
    page = PAGE.read_text()
    assert {system for system, _, _ in EXPECTED} == set(SYSTEMS)
    assert filled(page, EXPECTED) == page


def test_snapshot_isolation_is_expected_to_allow_write_skew_and_nothing_else() -> None:
    """And serializable transactions nothing at all."""
    allowed = {(system, case) for (system, _, case), verdict in EXPECTED.items() if verdict == "allowed"}
    ours = {(system, case) for system, case in allowed if system != "delta"}
    assert ours == {(f"{way}-snapshot", case) for way in ("spark", "http") for case in ("G2-item", "G2")}
