"""Judges what was read of a Delta table by the commits that were ratified since: by what they say of the files that they added and removed (I20).

    judge = CommitJudge(world, metadata)
    judge(head, "day = '2026-11-01'", 17, head.latest)       # None: no commit from version 18 on may have changed such a row

A commit that removes a file without saying its statistics may have removed any row of the file's partition. Who has a file index can ask it what was in the file
(``was_read``); a transaction is judged without one, so that the answer follows from the commits alone (``delta.group_reads``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from turnstile.delta.core.head import TableHead
from turnstile.delta.log import lines
from turnstile.delta.metadata import MetadataStore
from turnstile.maintenance.state import actions_of_line
from turnstile.planning.changes import commits_of
from turnstile.planning.core.files import AnyColumns, path_column
from turnstile.planning.core.plans import Plan, PredicateOf
from turnstile.planning.core.predicates import TableColumns
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.ports import World
from turnstile_predicates.conflicts import Action, ChangedRead, ReadJudge
from turnstile_predicates.predicates import And, Comparison, Predicate, Value

MAX_VERSIONS: Final = 1_000
"""Commits that one read is judged by; a read of longer ago counts as changed."""
MAX_ADDED: Final = 100_000
"""Files that they may have added."""
MAX_LOOKED_UP: Final = 1_000
"""Files that one question looks up in an index."""

WasRead = Callable[[Predicate | None, Action], bool]
"""Whether a file may have had rows which satisfy a predicate."""


class CommitJudge:
    """Judges reads with predicates (``delta.group_reads.Judge``)."""

    def __init__(self, world: World, metadata: MetadataStore) -> None:
        self._world, self._metadata = world, metadata

    def __call__(
        self,
        head: TableHead,
        text: str,
        after: int,
        upto: int,
        was_read: WasRead | None = None,
    ) -> ChangedRead | None:
        """Returns what the versions after ``after``, up to ``upto``, may have changed first; None for nothing.

        Args:
            text: the predicate; empty: every row was read.
            was_read: whether a file that was there in version ``after`` may have rows that satisfy the predicate.

        Raises:
            InvalidRequest: the predicate is none of the table's columns.
            UnsupportedTable: a commit is missing, or cannot be read.
            StorageFault: a commit's bytes are not what was ratified.
        """
        if head.epoch > after:
            return ChangedRead(head.epoch, "it changed the table's definition or protocol")
        if upto - after > MAX_VERSIONS:
            return ChangedRead(upto, f"it is more than {MAX_VERSIONS} commits later, which are not judged")
        columns = TableColumns(self._metadata.get(head.catalog, head.metadata).metadata)
        predicate = _predicate(text, columns)
        judge = ReadJudge(predicate, columns.schema, lambda file: was_read is None or was_read(predicate, file))
        for version, pieces in commits_of(self._world, head, after + 1, upto):
            where = f"version {version}"
            actions = [_action(line, where) for line in lines(pieces, where) if line.strip()]
            change = judge.change(version, actions)
            if change is not None:
                return change
            if judge.held > MAX_ADDED:
                return ChangedRead(version, f"with the commits before it, it added more than {MAX_ADDED} files")
        return None


def _predicate(text: str, columns: TableColumns) -> Predicate | None:
    if not text:
        return None
    from turnstile.planning.core.sql import parsed  # with the parser, which takes long to import

    return parsed(text)(columns)


def checked_predicate(text: str, field: str) -> str:
    """Returns a text that is a predicate of some columns. Raises InvalidRequest for any other, naming ``field``."""
    from turnstile.planning.core.sql import parsed  # with the parser, which takes long to import

    try:
        parsed(text)(AnyColumns())
    except InvalidRequest as error:
        error.field = field
        raise
    return text


def _action(line: bytes, where: str) -> dict[str, Any]:
    """A line of a commit. Raises UnsupportedTable for one whose file action is none."""
    actions_of_line(line, where)
    action: dict[str, Any] = msgspec.json.decode(line)
    return action


class IndexedPlanner(Protocol):
    """What is asked of a planner here (``turnstile.planning.planner.Planner``)."""

    def indexed(self, table: TableHead, predicate: PredicateOf, version: int) -> Plan | None:
        """Returns the first files of a plan, as far as an index has them; None where none serves."""


class IndexedFiles:
    """What a table's file index says of the files that were there at a version: so a commit that removes files without their statistics matters
    only if they had such rows. Without an index, or beyond ``MAX_LOOKED_UP`` files, every file may have had them."""

    def __init__(self, planner: IndexedPlanner, head: TableHead, version: int) -> None:
        self._planner, self._head, self._version = planner, head, version
        self._left = MAX_LOOKED_UP

    def was_read(self, predicate: Predicate | None, file: Action) -> bool:
        """As ``CommitJudge`` asks it."""
        if predicate is None or self._left <= 0:
            return True
        self._left -= 1
        by_path = Comparison(path_column(), "=", Value("string", file["path"]))
        there = self._planner.indexed(self._head, by_path, self._version)
        if there is None or not there.files:  # it may be written in another way
            return True
        matching = self._planner.indexed(self._head, And((by_path, predicate)), self._version)
        return matching is None or bool(matching.files)
