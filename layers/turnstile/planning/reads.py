"""Judges a read of a Delta table by the commits since: by the files that they added and removed
(I20).

    read = CommitJudge(world, metadata)("day = '2026-11-01'", 17)
    read.change(head, head.latest)     # None: no commit from version 18 on may have changed such a
                                       row

A commit that removes a file without its statistics may have removed any row of the file's
partition. A caller with a file index can look up the rows of the file (``was_read``). A transaction
is judged without an index, so that the answer follows from the commits alone
(``delta.transactions.group_reads``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from turnstile.delta.core.head import TableHead
from turnstile.delta.log.lines import where_of
from turnstile.delta.metadata import MetadataStore
from turnstile.maintenance.file_actions import actions_of_line
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
MOST_CHARACTERS: Final = 100_000
"""Of all predicates of one request. The parser takes about 15 microseconds for each."""

WasRead = Callable[[Predicate | None, Action], bool]
"""Whether a file may have had rows which satisfy a predicate."""


class CommitJudge:
    """Judges reads with predicates (``delta.transactions.group_reads.Judge``)."""

    def __init__(self, world: World, metadata: MetadataStore) -> None:
        self._world = world
        self._metadata = metadata

    def __call__(self, text: str, after: int, was_read: WasRead | None = None) -> ReadInCommits:
        """Returns the judgement of a read, of which nothing is judged yet.

        Args:
            text: the predicate; empty: every row was read.
            after: the version that was read.
            was_read: whether a file that was there in version ``after`` may have rows that satisfy
                the predicate.
        """
        return ReadInCommits(self._world, self._metadata, text, after, was_read)


class ReadInCommits:
    """One read, and the commits that it was judged by so far: each is read once."""

    def __init__(self, world: World, metadata: MetadataStore, text: str, after: int, was_read: WasRead | None) -> None:
        self._world = world
        self._metadata = metadata
        self._text = text
        self._after = after
        self._was_read = was_read
        self._judge: ReadJudge | None = None
        self._upto = after

    def change(self, head: TableHead, upto: int) -> ChangedRead | None:
        """Returns the first possible change by the versions after the one that was read, up to
        ``upto``; None for none. Versions that were checked before changed nothing.

        Raises:
            InvalidRequest: the predicate does not fit the table's columns.
            UnsupportedTable: a commit is missing, or cannot be read.
            StorageFault: a commit's bytes are not the ratified ones.
        """
        if head.epoch > self._after:
            return ChangedRead(head.epoch, "it changed the table's definition or protocol")
        if upto - self._after > MAX_VERSIONS:
            return ChangedRead(upto, f"it is more than {MAX_VERSIONS} commits later, which are not judged")
        judge = self._judge = self._judge or self._begin(head)
        for version, content in commits_of(self._world, head, self._upto + 1, upto):
            where = where_of(version)
            change = judge.change(version, [_action(line, where) for line in content])
            if change is not None:
                return change
            if judge.remembered_files > MAX_ADDED:
                return ChangedRead(version, f"with the commits before it, it added more than {MAX_ADDED} files")
            self._upto = version
        return None

    def _begin(self, head: TableHead) -> ReadJudge:
        columns = TableColumns(self._metadata.get(head.catalog, head.metadata).metadata)
        was_read = self._was_read
        predicate = _predicate(self._text, columns)
        return ReadJudge(predicate, columns.schema, lambda file: was_read is None or was_read(predicate, file))


def _predicate(text: str, columns: TableColumns) -> Predicate | None:
    if not text:
        return None
    from turnstile.planning.core.sql import predicate_parser  # with the parser, which takes long to import

    return predicate_parser(text)(columns)


def check_predicates(texts: Mapping[str, str]) -> None:
    """Requires texts, by the member of the request that has each, that are predicates of some
    columns. Raises InvalidRequest, naming the member; also where all together are longer than
    ``MOST_CHARACTERS``, since each takes time to be read.
    """
    from turnstile.planning.core.sql import predicate_parser  # with the parser, which takes long to import

    characters = 0
    for field, text in texts.items():
        characters += len(text)
        if characters > MOST_CHARACTERS:
            problem = f"the predicates of a request have more than {MOST_CHARACTERS} characters"
            raise InvalidRequest(
                problem, field=field, remedy="leave the predicates of some reads out: the whole table is read then"
            )
        try:
            predicate_parser(text)(AnyColumns())
        except InvalidRequest as error:
            error.field = field
            raise


def _action(line: bytes, where: str) -> dict[str, Any]:
    """A line of a commit. Raises UnsupportedTable for an invalid file action."""
    actions_of_line(line, where)
    action: dict[str, Any] = msgspec.json.decode(line)
    return action


class IndexedPlanner(Protocol):
    """The protocol of a planner (``turnstile.planning.planner.Planner``)."""

    def first_files(self, table: TableHead, predicate: PredicateOf, version: int) -> Plan | None:
        """Returns the first files of a plan, as far as an index has them; None where none
        serves."""


class IndexedFiles:
    """Statistics of a table's file index for the files that were there at a version: so a commit
    that removes files without their statistics matters only if they had such rows. Without an
    index, or beyond ``MAX_LOOKED_UP`` files, every file may have had them.
    """

    def __init__(self, planner: IndexedPlanner, head: TableHead, version: int) -> None:
        self._planner = planner
        self._head = head
        self._version = version
        self._left = MAX_LOOKED_UP

    def was_read(self, predicate: Predicate | None, file: Action) -> bool:
        """As ``CommitJudge`` asks it."""
        if predicate is None or self._left <= 0:
            return True
        self._left -= 1
        by_path = Comparison(path_column(), "=", Value("string", file["path"]))
        there = self._planner.first_files(self._head, by_path, self._version)
        if there is None or not there.files:  # it may be written in another way
            return True
        matching = self._planner.first_files(self._head, And((by_path, predicate)), self._version)
        return matching is None or bool(matching.files)
