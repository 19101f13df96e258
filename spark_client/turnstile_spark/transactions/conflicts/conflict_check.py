"""Conflict checks: whether a transaction's reads and writes of one table are still valid after the
commits that came before it. Pure.

Two questions, as in Delta's conflict checker, but answered for the rows that were read and not for
the table:

* :func:`judge`: could a later commit have changed the result of a read? Only rows of files that it
  added or removed can. A file matters if some row within its partition values and statistics can
  satisfy the predicate of the read.
* :func:`assess`: may the transaction's own changes be committed on top of the winners, under an
  isolation level?

The rule for a file is sound: it never misses a matching row (property-tested). It may report a
match where there is none: then a transaction runs again without need, and nothing else happens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self
from urllib.parse import unquote

from turnstile_predicates.conflicts import Action, ReadJudge, definition_change
from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import Column, Predicate

Isolation = Literal["snapshot", "serializable"]
ISOLATION: Final = ("snapshot", "serializable")
#: The domain in which a table with row tracking keeps the highest row id that was given out.
ROW_TRACKING: Final = "delta.rowTracking"


@dataclass(frozen=True, slots=True)
class Read:
    """A read of one table by a query or command of a transaction.

    ``table``: path of the table (Delta's, without ``_delta_log``); ``version``: of the log that was
    read, where a transaction's own commits count on from its cut. ``predicate``: rows that do not
    satisfy it had no influence; None: every row may have had. ``columns``: names of the columns
    read; None: any. ``files``: paths of all files of that version that may have rows which satisfy
    the predicate, as the scan chose them; None: not known. ``is_time_travel``: the query names the
    version. ``is_stale_allowed``: the reader has declared that the read may be of the past (slack),
    so it is never checked. ``why``: why it is the whole table, where a predicate was to be
    expected.
    """

    table: str
    version: int
    predicate: Predicate | None = None
    columns: frozenset[Column] | None = None
    files: frozenset[str] | None = None
    is_time_travel: bool = False
    is_stale_allowed: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Winner:
    """A ratified commit that came before ours: its version and its actions, one mapping for each
    line."""

    version: int
    actions: Sequence[Action]

    @classmethod
    def parse(cls, version: int, content: str) -> Self:
        """Of newline-delimited JSON."""
        return cls(version, parse(content))


@dataclass(frozen=True, slots=True)
class Conflict:
    """The reason why a transaction cannot be committed on top of a winner.

    ``kind``: ``read`` (a read would return something else), ``write`` (both changed a file),
    ``metadata`` (table definition or protocol), ``application`` (both moved a streaming application
    on), ``domain`` (both changed a metadata domain). ``version``: of the winner; ``path``: its
    file, if it is about one; ``read``: the read, if it is about one.
    """

    kind: Literal["read", "write", "metadata", "application", "domain"]
    version: int
    reason: str
    path: str | None = None
    read: Read | None = None

    def __str__(self) -> str:
        file = f", file {self.path}" if self.path else ""
        where = (
            ""
            if self.read is None
            else f" (read: {'the whole table' if self.read.predicate is None else self.read.predicate})"
        )
        return f"version {self.version}{file}: {self.reason}{where}"


@dataclass(frozen=True, slots=True)
class Assessment:
    """The answer of :func:`assess`: ``rebase`` if there is no conflict. Conflicts are in the order
    of versions."""

    conflicts: tuple[Conflict, ...] = field(default=())

    @property
    def is_rebase(self) -> bool:
        """Whether the changes may be committed on top of the winners."""
        return not self.conflicts


def parse(content: str) -> list[dict[str, Any]]:
    """The actions of a commit, one JSON object a line."""
    return [json.loads(line) for line in content.split("\n") if line.strip()]


def judge(read: Read, commits: Iterable[Winner], schema: TableSchema) -> Conflict | None:
    """The first of ``commits`` that may have changed the result of ``read``; None if none can have.

    ``commits``: of the table, after the version that was read (earlier ones are skipped);
    ``schema``: of the version that was read. A file that only moved rows (``dataChange`` false)
    changes no read. A remove is checked by its own statistics, by those of the winner that added
    the file, and by whether the scan chose the file.
    """
    if read.is_stale_allowed:
        return None
    files = None if read.files is None else Paths(read.files)
    reads = ReadJudge(read.predicate, schema, lambda file: files is None or file["path"] in files)
    for commit in commits:
        if commit.version > read.version and (change := reads.change(commit.version, commit.actions)) is not None:
            kind: Literal["read", "metadata"] = "metadata" if change.path is None else "read"
            return Conflict(kind, change.version, change.reason, change.path, read)
    return None


def assess(
    reads: Iterable[Read],
    own_actions: Sequence[Action],
    winners: Sequence[Winner],
    isolation: Isolation,
    *,
    schema: TableSchema,
    base: int,
) -> Assessment:
    """Whether a transaction's part in one table may be committed on top of ``winners``, and why
    not: all conflicts.

    ``reads``: of this table (:mod:`turnstile_spark.transactions.reads.read_sets`). ``own_actions``:
    of the one commit that the transaction's statements come to; none if it only read. ``winners``:
    all commits after ``base``, ascending; also earlier ones back to the earliest version that was
    read, if a read is of before the base (a DataFrame planned before the transaction). ``schema``:
    of the base. ``base``: the table's version in the transaction's cut; reads of later versions are
    of the base and its own changes. Raises ``ValueError`` for another level and for commits that
    are missing.

    ``snapshot``: only changes conflict: of the same file, of the definition, of the same
    application or domain. ``serializable``: so does every read that a winner may have changed.
    Commits that only add files and read nothing conflict with neither.
    """
    if isolation not in ISOLATION:
        raise ValueError(f"isolation={isolation!r}: one of {', '.join(ISOLATION)}")
    judged = [replace(read, version=min(read.version, base)) for read in judged_reads(reads, base)]
    first = min([base, *(read.version for read in judged)] if isolation == "serializable" else [base]) + 1
    _check_complete(winners, first)
    conflicts: list[Conflict] = []
    if own_actions:
        for winner in winners:
            if winner.version > base:
                conflicts += _write_conflicts(own_actions, winner)
    if isolation == "serializable":
        redefines = definition_change(own_actions) is not None
        for read in judged:
            # After an own change of the definition a name may be another column than in the base.
            whole = replace(read, predicate=None, files=None) if redefines else read
            if (conflict := judge(whole, winners, schema)) is not None:
                conflicts.append(conflict)
    unique = {(c.kind, c.version, c.path): c for c in reversed(conflicts)}
    return Assessment(tuple(sorted(unique.values(), key=lambda c: (c.version, c.kind, c.path or ""))))


def judged_reads(reads: Iterable[Read], base: int) -> list[Read]:
    """Reads that later commits can have changed: not reads of an earlier version by its number,
    whose rows never change."""
    return [r for r in reads if not r.is_stale_allowed and not (r.is_time_travel and r.version < base)]


def _check_complete(winners: Sequence[Winner], first: int) -> None:
    versions = [winner.version for winner in winners]
    if versions and (versions[0] > first or versions != list(range(versions[0], versions[0] + len(versions)))):
        raise ValueError(f"winners have versions {versions[:20]}: they must be all from {first} on, ascending")


def _write_conflicts(own: Sequence[Action], winner: Winner) -> list[Conflict]:
    conflicts = []
    if reason := definition_change(winner.actions):
        conflicts.append(Conflict("metadata", winner.version, reason))
    added = next((a["add"]["path"] for a in winner.actions if "add" in a and a["add"].get("dataChange", True)), None)
    if added is not None and definition_change(own):
        reason = "it added rows, which were not checked against the definition that this transaction gives the table"
        conflicts.append(Conflict("metadata", winner.version, reason, added))
    own_files = _touched_paths(own)
    for kind in ("remove", "add"):
        for action in winner.actions:
            if kind in action and action[kind]["path"] in own_files:
                file = action[kind]
                moved = "" if file.get("dataChange", True) else " (its rows only moved to another file)"
                reason = f"it also changed a file that this transaction changes{moved}"
                conflicts.append(Conflict("write", winner.version, reason, file["path"]))
    for kind, key, conflict_kind in (("txn", "appId", "application"), ("domainMetadata", "domain", "domain")):
        both = _names(own, kind, key) & _names(winner.actions, kind, key)
        for name in sorted(both - {ROW_TRACKING}):  # marks of row ids are set anew, by rebased()
            reason = f"it also set {kind} '{name}'"
            conflicts.append(Conflict(conflict_kind, winner.version, reason))  # type: ignore[arg-type]
    return conflicts


def _names(actions: Iterable[Action], kind: str, key: str) -> set[str]:
    return {action[kind][key] for action in actions if kind in action}


def _touched_paths(actions: Iterable[Action]) -> Paths:
    return Paths(action[kind]["path"] for action in actions for kind in ("add", "remove") if kind in action)


def _is_absolute(path: str) -> bool:
    return ":" in path.split("/", 1)[0] or path.startswith("/")


class Paths:
    """A set of file paths as logs write them. ``path in paths``: whether it may be one of them,
    however both are written: escaped or not, relative or absolute (then the last part decides, for
    a table's root is not known here).
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._plain = {unquote(path) for path in paths}
        self._names = {_name(path) for path in self._plain}
        self._absolute = {_name(path) for path in self._plain if _is_absolute(path)}

    def __contains__(self, path: str) -> bool:
        plain = unquote(path)
        return plain in self._plain or _name(plain) in (self._names if _is_absolute(plain) else self._absolute)


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
