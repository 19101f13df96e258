"""Each pair of operations, one on a branch and one in its catalog, ends as the table of
``docs/branches.md`` says: promoted with row ids, change data and history, or refused (I28)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import pytest

import turnstile_spark
from tests.support.repository import ROOT
from turnstile.store.ports import in_batches

Notes = dict[int, str]

PROPERTIES = ", ".join(
    f"'delta.{name}' = 'true'" for name in ("enableDeletionVectors", "enableRowTracking", "enableChangeDataFeed")
)
BASE: Final = dict.fromkeys(range(40), "a") | dict.fromkeys(range(100, 140), "b")
"""The rows of each table by id, with the partition of each, in two files a partition."""


class Side(NamedTuple):
    """The rows that one side changes: those with ``id % 10`` from ``digit`` on, in a partition."""

    digit: int
    partition: str

    def statements(self) -> dict[str, str]:
        """The statement of each operation."""
        p = self.partition
        rows = f"p = '{p}' AND id % 10 ="
        return {
            "append": f"INSERT INTO {{0}} VALUES ({1000 + self.digit}, '{p}', 'new')",
            "delete": f"DELETE FROM {{0}} WHERE {rows} {self.digit}",
            "update": f"UPDATE {{0}} SET note = 'set' WHERE {rows} {self.digit + 1}",
            "merge": (
                f"MERGE INTO {{0}} t USING (SELECT id FROM range({1000 + self.digit}) WHERE id % 10 = {self.digit + 2}"
                f" UNION ALL SELECT {1000 + self.digit}L) s ON t.id = s.id AND t.p = '{p}'"
                " WHEN MATCHED THEN UPDATE SET note = 'merged'"
                f" WHEN NOT MATCHED AND s.id >= 1000 THEN INSERT (id, p, note) VALUES (s.id, '{p}', 'new')"
            ),
            "optimize": f"OPTIMIZE {{0}} WHERE p = '{p}'",
            "schema": f"ALTER TABLE {{0}} ADD COLUMN c{self.digit} INT",
            "drop": "DROP TABLE {0}",
            "rename": "ALTER TABLE {0} RENAME TO {0}_renamed",
        }

    def apply(self, operation: str, rows: Notes) -> Notes:
        """The note of each row by id after an operation."""
        changed = dict(rows)
        if operation in ("append", "merge"):
            changed[1000 + self.digit] = "new"
        for id in [id for id in rows if BASE.get(id) == self.partition]:
            if operation == "delete" and id % 10 == self.digit:
                del changed[id]
            elif operation == "update" and id % 10 == self.digit + 1:
                changed[id] = "set"
            elif operation == "merge" and id % 10 == self.digit + 2:
                changed[id] = "merged"
        return changed


BRANCH = Side(1, "a")
SAME = Side(4, "a")
OTHER = Side(4, "b")


class Pair(NamedTuple):
    """An operation on the branch, and one of the catalog: in the branch's files, or in others."""

    branch: str
    catalog: str
    side: Side

    @property
    def suffix(self) -> str:
        return f"{self.branch}_{self.catalog}_{self.side.partition}"


OPERATIONS: Final = tuple(BRANCH.statements())
COMMITS: Final = {
    "append": "WRITE",
    "delete": "DELETE",
    "update": "UPDATE",
    "merge": "MERGE",
    "optimize": "OPTIMIZE",
    "schema": "ADD COLUMNS",
}
"""The operation in the commit of a statement."""
CONFLICTS_MAX: Final = 40
"""Conflicts of one branch here; a refusal names fifty."""


def documented_pairs() -> tuple[list[Pair], list[Pair]]:
    """The pairs that the table of the page lets pass, and those that it refuses."""
    text = (ROOT / "docs" / "branches.md").read_text()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert [row[0] for row in rows] == ["branch", "---", *OPERATIONS]
    assert tuple(rows[0][1:]) == OPERATIONS
    passing: list[Pair] = []
    refused: list[Pair] = []
    for branch, *cells in rows[2:]:
        for catalog, cell in zip(OPERATIONS, cells, strict=True):
            same = Pair(branch, catalog, SAME)
            match cell:
                case "yes":
                    passing.append(same)
                case "no":
                    refused.append(same)
                case "files":
                    passing.append(Pair(branch, catalog, OTHER))
                    refused.append(same)
                case _:
                    pytest.fail(f"a cell {cell!r}")
    return passing, refused


class Tables:
    """The tables of the test, one for each pair, in a lake and on branches of it."""

    def __init__(self, sql: Any, prefix: str) -> None:
        self._sql = sql
        self._prefix = prefix

    def name(self, pair: Pair) -> str:
        """The name of the table, without the catalog."""
        return f"{self._prefix}_{pair.suffix}"

    def promoted_name(self, pair: Pair) -> str:
        """The name after a promotion."""
        return f"{self.name(pair)}_renamed" if pair.branch == "rename" else self.name(pair)

    def create(self, pair: Pair) -> None:
        self._sql(
            f"CREATE TABLE lake.{self.name(pair)} PARTITIONED BY (p) TBLPROPERTIES ({PROPERTIES}) AS"
            " SELECT /*+ REPARTITION(2, id) */ IF(id < 40, id, id + 60) AS id, IF(id < 40, 'a', 'b') AS p,"
            " 'old' AS note FROM range(80)"
        )

    def change_branch(self, pair: Pair) -> None:
        self._sql(BRANCH.statements()[pair.branch].format(f"dev.{self.name(pair)}"))

    def change_catalog(self, pair: Pair) -> None:
        self._sql(pair.side.statements()[pair.catalog].format(f"lake.{self.name(pair)}"))

    def read(self, pairs: Iterable[Pair], columns: str, source: Callable[[Pair], str]) -> dict[Pair, list[Any]]:
        """The rows of many tables in one query."""
        found: dict[str, list[Any]] = {pair.suffix: [] for pair in pairs}
        text = " UNION ALL ".join(f"SELECT '{pair.suffix}' AS pair, {columns} FROM {source(pair)}" for pair in pairs)
        for row in self._sql(text):
            found[row.pair].append(row)
        return {pair: found[pair.suffix] for pair in pairs}


@pytest.mark.slow
def test_i28_each_pair_of_operations_is_promoted_or_refused_as_the_page_says(
    lake: Any, sql: Any, server: Any, name: str
) -> None:
    passing, refused = documented_pairs()
    tables = Tables(sql, name)
    branch = f"b{name.rpartition('.')[2]}"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(tables.create, [*passing, *refused]))
        for some in in_batches(refused, CONFLICTS_MAX):
            lake.branches.create(branch)
            with turnstile_spark.attach(sql.spark, "dev", server.url, catalog=f"main@{branch}"):
                list(pool.map(tables.change_branch, some))
                list(pool.map(tables.change_catalog, some))
                require_conflicts(lake, branch, tables, some)
            lake.branches.drop(branch)
        base = tables.read(passing, "id, _metadata.row_id", lambda pair: f"lake.{tables.name(pair)}")
        lake.branches.create(branch)
        with turnstile_spark.attach(sql.spark, "dev", server.url, catalog=f"main@{branch}"):
            list(pool.map(tables.change_branch, passing))
            list(pool.map(tables.change_catalog, passing))
            assert lake.branches.changes(branch).conflicts == []
            lake.branches.promote(branch)
        require_promoted(sql, tables, passing, base)
        list(pool.map(lambda pair: require_history(sql, tables, pair, f"main@{branch}"), passing))


def require_conflicts(lake: Any, branch: str, tables: Tables, pairs: Iterable[Pair]) -> None:
    """Each pair has one conflict, which names the table, and the version and the operation of a
    commit of the catalog."""
    conflicts = lake.branches.changes(branch).conflicts
    with pytest.raises(turnstile_spark.TurnstileError, match="BranchConflict"):
        lake.branches.promote(branch)
    for pair in pairs:
        mine = [text for text in conflicts if re.search(f"'{tables.name(pair)}'", text)]
        assert len(mine) == 1, (pair, mine)
        if pair.catalog in COMMITS:
            assert "version 1" in mine[0], mine
            assert COMMITS[pair.catalog] in mine[0] or pair.branch == "drop", mine
        conflicts.remove(mine[0])
    assert conflicts == []


def require_promoted(sql: Any, tables: Tables, pairs: Iterable[Pair], base: dict[Pair, list[Any]]) -> None:
    """Rows have the changes of both sides, row ids are unique and stay, and the change data of the
    promotion are the branch's changes."""
    shown = [pair for pair in pairs if pair.branch != "drop"]
    rows = tables.read(shown, "id, note, _metadata.row_id", lambda pair: f"lake.{tables.promoted_name(pair)}")
    old = dict.fromkeys(BASE, "old")
    for pair in shown:
        found = {row.id: row for row in rows[pair]}
        assert {id: row.note for id, row in found.items()} == pair.side.apply(
            pair.catalog, BRANCH.apply(pair.branch, old)
        ), pair
        assert len(found) == len(rows[pair]) == len({row.row_id for row in rows[pair]}), pair
        kept = {row.id: row.row_id for row in base[pair] if row.id in found}
        assert kept == {id: found[id].row_id for id in kept}, pair
    written = [pair for pair in shown if pair.branch != "rename"]
    changes = tables.read(
        written, "_change_type AS kind, id, note", lambda pair: f"table_changes('lake.{tables.name(pair)}', 2)"
    )
    for pair in written:
        new = BRANCH.apply(pair.branch, old)
        gone = {("delete", id, note) for id, note in old.items() if new.get(id) != note}
        come = {("insert", id, note) for id, note in new.items() if old.get(id) != note}
        assert {(row.kind, row.id, row.note) for row in changes[pair]} == gone | come, pair


def require_history(sql: Any, tables: Tables, pair: Pair, branch: str) -> None:
    """The history has the catalog's commit, and above it the promotion with its branch."""
    if pair.branch == "drop":
        assert sql.names(tables.name(pair)) == set()
        return
    history = sql(f"DESCRIBE HISTORY lake.{tables.promoted_name(pair)} LIMIT 2")
    if pair.branch == "rename":
        assert history[0].operation == COMMITS[pair.catalog]
        assert sql.names(tables.name(pair)) == {"_renamed"}
        return
    assert [row.operation for row in history] == ["PROMOTE BRANCH", COMMITS[pair.catalog]]
    assert history[0].operationParameters["branch"].strip('"') == branch
