"""A small engine of statements on tables of one column, which writes commits as Delta does, and the
same transaction at two cuts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import And, Comparison, Predicate, Value
from turnstile_spark.transactions.conflicts.conflict_check import ROW_TRACKING, Read, Winner
from turnstile_spark.transactions.conflicts.rebase import CannotRebase
from turnstile_spark.transactions.recovery.replay_choice import MovedTable, Replay, Statement

TABLES = ("a", "b", "c")
SCHEMA = TableSchema({"type": "struct", "fields": [{"name": "i", "type": "long", "nullable": True, "metadata": {}}]})
NAMES = ("append", "copy", "update", "delete", "count", "overwrite", "define")


@dataclass(frozen=True)
class Operation:
    """A statement: its action, its table, its source, the rows from ``low`` to ``high``, its
    number."""

    name: str
    target: str
    source: str
    low: int
    high: int
    number: int


@dataclass(frozen=True)
class File:
    """Values and, where they were copied from other files, the row ids that are written beside
    them."""

    values: tuple[int, ...]
    ids: tuple[int, ...] | None


@dataclass(frozen=True)
class State:
    """A version of a table. ``files``: adds by path; ``shift``: its definition, a number that every
    appended row gets added."""

    version: int = 0
    files: Mapping[str, Any] = field(default_factory=dict)
    shift: int = 0
    mark: int = -1
    timestamp: int = 0


class Disk:
    """The data files, and their rows. ``tracks_rows``: whether tables give out row ids."""

    def __init__(self, *, tracks_rows: bool) -> None:
        self.tracks_rows = tracks_rows
        self.files = {}
        self.clock = 0
        self._numbers = itertools.count()

    def add(self, values: Sequence[int], ids: Sequence[int] | None, state: State) -> dict[str, Any]:
        path = f"file-{next(self._numbers)}"
        self.files[path] = File(tuple(values), None if ids is None else tuple(ids))
        stats: dict[str, Any] = {"numRecords": len(values), "nullCount": {"i": 0}}
        if values:
            stats |= {"minValues": {"i": min(values)}, "maxValues": {"i": max(values)}}
        added = {"path": path, "partitionValues": {}, "size": 1, "dataChange": True, "stats": json.dumps(stats)}
        if self.tracks_rows:
            added |= {"baseRowId": state.mark + 1, "defaultRowCommitVersion": state.version + 1}
        return added

    def ids(self, added: Mapping[str, Any]) -> list[int]:
        file = self.files[added["path"]]
        if file.ids is not None:
            return list(file.ids)
        return [added.get("baseRowId", 0) + at for at in range(len(file.values))]

    def pairs(self, added: Mapping[str, Any]) -> list[tuple[int, int]]:
        """The values of a file with their row ids."""
        return list(zip(self.files[added["path"]].values, self.ids(added), strict=True))

    def rows(self, state: State) -> list[int]:
        return sorted(v for path in state.files for v in self.files[path].values)

    def commit(
        self,
        state: State,
        adds: Sequence[tuple[Sequence[int], Sequence[int] | None]],
        removes: Sequence[str] = (),
        shift: int | None = None,
    ) -> list[dict[str, Any]]:
        """The actions of a commit on top of ``state``."""
        self.clock += 1
        actions: list[dict[str, Any]] = [{"commitInfo": {"inCommitTimestamp": max(self.clock, state.timestamp + 1)}}]
        if shift is not None:
            actions.append({"metaData": {"id": "t", "shift": shift}})
        actions += [{"remove": {"path": path, "dataChange": True}} for path in removes]
        for values, ids in adds:
            actions.append({"add": self.add(values, ids, state)})
            state = replace(state, mark=state.mark + len(values))
        if self.tracks_rows and adds:
            mark = json.dumps({"rowIdHighWaterMark": state.mark})
            actions.append({"domainMetadata": {"domain": ROW_TRACKING, "configuration": mark, "removed": False}})
        return actions


def after(state: State, actions: Sequence[Mapping[str, Any]]) -> State:
    """The table after a commit. Fails where the commit has no meaning on top of this version."""
    files = dict(state.files)
    mark = state.mark
    shift = state.shift
    timestamp = state.timestamp
    for action in actions:
        if "remove" in action:
            del files[action["remove"]["path"]]
        elif "add" in action:
            assert action["add"]["path"] not in files
            files[action["add"]["path"]] = action["add"]
        elif "metaData" in action:
            shift = action["metaData"]["shift"]
        elif "domainMetadata" in action:
            now = json.loads(action["domainMetadata"]["configuration"])["rowIdHighWaterMark"]
            assert now >= mark
            mark = now
        else:
            assert action["commitInfo"]["inCommitTimestamp"] > timestamp
            timestamp = action["commitInfo"]["inCommitTimestamp"]
    return State(state.version + 1, files, shift, mark, timestamp)


def run(operation: Operation, disk: Disk, tables: dict[str, State]) -> Statement:
    """Runs a statement, and puts its commits into ``tables``. Returns its reads and commits."""
    target = tables[operation.target]
    source = tables[operation.source]
    reads: dict[str, list[Read]] = {}
    matches = range(operation.low, operation.high + 1)

    def read(name: str, *, is_whole: bool = False) -> None:
        files = frozenset(
            path for path in tables[name].files if is_whole or _overlaps(disk.files[path].values, matches)
        )
        predicate = None if is_whole else between(operation.low, operation.high)
        reads.setdefault(name, []).append(Read(name, tables[name].version, predicate, files=files))

    adds: list[tuple[Sequence[int], Sequence[int] | None]] = []
    removes: list[str] = []
    shift = None
    if operation.name == "append":
        adds = [([operation.number + target.shift], None)]
    elif operation.name == "copy":
        read(operation.source)
        values = [v for v in disk.rows(source) if v in matches]
        adds = [([v + operation.number + target.shift for v in values], None)] if values else []
    elif operation.name == "count":
        read(operation.source, is_whole=True)
        adds = [([len(disk.rows(source)) + target.shift], None)]
    elif operation.name == "overwrite":
        read(operation.target, is_whole=True)
        adds = [([operation.number + target.shift], None)]
        removes = list(target.files)
    elif operation.name == "compact":
        pairs = [pair for added in target.files.values() for pair in disk.pairs(added)]
        adds = [([v for v, _ in pairs], [i for _, i in pairs])] if pairs else []
        removes = list(target.files)
    elif operation.name == "define":
        read(operation.source, is_whole=True)
        shift = operation.number + len(disk.rows(source))
    else:
        read(operation.target)
        for path, added in target.files.items():
            pairs = disk.pairs(added)
            if any(v in matches for v, _ in pairs):
                removes.append(path)
                if operation.name == "update":
                    pairs = [(v + operation.number if v in matches else v, i) for v, i in pairs]
                else:
                    pairs = [(v, i) for v, i in pairs if v not in matches]
                if pairs:
                    adds.append(([v for v, _ in pairs], [i for _, i in pairs]))
    if not adds and not removes and shift is None:
        return Statement("statement", reads)
    actions = disk.commit(target, adds, removes, shift)
    if operation.name == "compact":
        actions = [
            {kind: {**a[kind], "dataChange": False}} if (kind := next(iter(a))) in ("add", "remove") else a
            for a in actions
        ]
    tables[operation.target] = after(target, actions)
    return Statement("statement", reads, {operation.target: [actions]})


def between(low: int, high: int) -> Predicate:
    return And((Comparison(("i",), ">=", Value("integer", low)), Comparison(("i",), "<=", Value("integer", high))))


def _overlaps(values: Sequence[int], matches: range) -> bool:
    return bool(values) and bool(matches) and min(values) <= matches[-1] and max(values) >= matches[0]


@dataclass
class Outcome:
    """A transaction that lost, replayed. ``rows``: by table; ``expected``: when all statements run
    at the new cut; ``kept``: which were; ``ids``: all row ids of each table."""

    rows: dict[str, list[int]]
    expected: dict[str, list[int]]
    kept: list[bool]
    ids: dict[str, list[int]]
    marks: dict[str, int]
    is_same: list[bool]


def replayed(
    before: Sequence[Operation],
    own: Sequence[Operation],
    winners: Sequence[Operation],
    *,
    tracks_rows: bool = False,
    kind: type[Replay] = Replay,
) -> Outcome:
    """``own`` as a transaction that begins after ``before``, while ``winners`` are committed, each
    alone."""
    disk = Disk(tracks_rows=tracks_rows)
    old = dict.fromkeys(TABLES, State())
    for operation in before:
        run(operation, disk, old)
    view = dict(old)
    statements = [run(operation, disk, view) for operation in own]
    new = dict(old)
    commits = {name: [] for name in TABLES}
    for operation in winners:
        for name, some in run(operation, disk, new).commits.items():
            commits[name] += [Winner(new[name].version, actions) for actions in some]
    alone = dict(new)
    for operation in own:
        run(operation, disk, alone)
    tables = {name: MovedTable(name, old[name].version, commits[name], SCHEMA) for name in TABLES}
    now = dict(new)
    decisions = kind(tables)
    kept = []
    is_same = []
    for operation, statement in zip(own, statements, strict=True):
        is_kept = not decisions.reason(statement)
        if is_kept:
            try:
                placed = decisions.reuse_commits(statement)
            except CannotRebase:
                is_kept = False
        if is_kept:
            for name, some in placed.items():
                for actions in some:
                    now[name] = after(now[name], actions)
            is_same.append(placed == statement.commits)
        else:
            decisions.ran_again(statement, run(operation, disk, now).commits)
        kept.append(is_kept)
    ids = {name: [i for added in now[name].files.values() for i in disk.ids(added)] for name in TABLES}
    return Outcome(
        {name: disk.rows(now[name]) for name in TABLES},
        {name: disk.rows(alone[name]) for name in TABLES},
        kept,
        ids,
        {name: now[name].mark for name in TABLES},
        is_same,
    )


def operations(names: Sequence[str] = NAMES) -> st.SearchStrategy[Operation]:
    """Statements with rows close to one another."""
    table = st.sampled_from(TABLES)
    low = st.integers(0, 6)
    return st.builds(
        lambda name, target, source, low, width, number: Operation(name, target, source, low, low + width, number),
        st.sampled_from(names),
        table,
        table,
        low,
        st.integers(0, 3),
        st.integers(1, 6),
    )
