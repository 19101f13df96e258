"""Which statements of a transaction that lost keep their writes, and which run again. Pure.

A transaction whose changes cannot be put on top of the winners as they are
(:mod:`turnstile_spark.transactions.conflicts.conflict_check`) is moved to a new cut, statement by
statement, in their order. A statement is *kept* when it would do the same there: no winner may have
changed a row that it read, none changed a row that it changes, and no statement before it that ran
again wrote a row that it read. Its writes are then put on top of the new state
(:mod:`turnstile_spark.transactions.conflicts.rebase`), and no data file of it is written again.
Every other statement runs again. The result is the same as if all statements had run at the new
cut.

Source: LakeVilla, module 2 (physical and logical redo); serial dependency of statements by the
tables that they read and write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnstile_predicates.conflicts import Action, definition_change
from turnstile_predicates.file_stats import TableSchema
from turnstile_spark.transactions.conflicts.conflict_check import ROW_TRACKING, Read, Winner, assess
from turnstile_spark.transactions.conflicts.rebase import CannotRebase, TableHead, rebase

#: What one statement committed in one table: the actions of each of its commits, in order (nearly
#: always one commit).
Commits = Sequence[Sequence[Action]]


@dataclass(frozen=True, slots=True)
class Statement:
    """The reads and writes of a statement at the cut that lost. ``name``: for messages; ``reads``:
    by table id, with versions as :class:`Read` counts them; ``commits``: by table id. ``obstacle``:
    why it cannot run again; empty when it can.
    """

    name: str
    reads: Mapping[str, Sequence[Read]] = field(default_factory=dict)
    commits: Mapping[str, Commits] = field(default_factory=dict)
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class MovedTable:
    """A table of the transaction at both cuts. ``base``: its version at the one that lost;
    ``winners``: all commits from ``base`` + 1 to its version at the new one, ascending; ``schema``:
    of ``base``.
    """

    name: str
    base: int
    winners: Sequence[Winner]
    schema: TableSchema


class Replay:
    """Decides for the statements of a transaction, one after the other.

    For each statement: :meth:`reason`; then :meth:`kept`, or :meth:`ran_again` once it has run.
    ``tables``: by id, all that the transaction has used.
    """

    def __init__(self, tables: Mapping[str, MovedTable]) -> None:
        self._tables = tables
        self._heads: dict[str, TableHead] = {}
        self._old_versions = {table_id: table.base for table_id, table in tables.items()}
        self._written: set[str] = set()  # by any statement so far
        self._other: set[str] = set()  # by a statement that ran again: what is held there may be something else now
        self._redefined: set[str] = set()  # by any statement so far, at the old cut or at the new one

    def reason(self, statement: Statement) -> str:
        """Why the statement has to run again; empty when it is to be kept."""
        for table_id, reads in statement.reads.items():
            table = self._tables[table_id]
            for read in reads:
                if reason := self._reason_of_read(table_id, read):
                    return f"{table.name}: {reason}"
        for table_id, commits in statement.commits.items():
            table = self._tables[table_id]
            actions = [action for commit in commits for action in commit]
            assessment = assess([], actions, table.winners, "snapshot", schema=table.schema, base=table.base)
            if not assessment.is_rebase:
                return f"{table.name}: {assessment.conflicts[0]}"
            if reason := self._reason_of_order(table_id, actions):
                return f"{table.name}: {reason}"
        return ""

    def _reason_of_read(self, table_id: str, read: Read) -> str:
        table = self._tables[table_id]
        if read.is_time_travel and read.version < table.base:
            return ""
        if read.version < table.base:
            return f"version {read.version} was read, which is before the transaction's cut"
        if table_id in self._other:
            return "an earlier statement that runs again writes rows that this one read"
        if table_id in self._redefined:
            read = replace(
                read, predicate=None, files=None
            )  # its names are those of another definition than the base's
        assessment = assess([read], [], table.winners, "serializable", schema=table.schema, base=table.base)
        return "" if assessment.is_rebase else str(assessment.conflicts[0])

    def _reason_of_order(self, table_id: str, actions: Sequence[Action]) -> str:
        """The reason why changes that do not conflict with any winner still depend on commits that
        were held before them."""
        is_other = table_id in self._other
        is_append = is_append_only(actions)
        if is_other and not is_append:
            return "an earlier statement that runs again writes rows that this one changes"
        if is_other and table_id in self._redefined:
            return (
                "an earlier statement that runs again, or one before it, changes the definition of a table that this "
                "one writes"
            )
        if not has_row_ids(actions):
            return ""
        if is_other:
            return (
                "the table tracks rows, and an earlier statement that runs again writes it: their ids follow one "
                "another"
            )
        if table_id in self._written and not is_append and self._tables[table_id].winners:
            return "the table tracks rows, and rows of an earlier statement of this transaction may have been rewritten"
        return ""

    def reuse_commits(self, statement: Statement) -> dict[str, Commits]:
        """The statement's commits as they are at the new cut, by table id. Raises
        :class:`CannotRebase` when they have no counterpart there: then nothing has happened here,
        and the statement has to run again.
        """
        heads = dict(self._heads)
        placed: dict[str, Commits] = {}
        for table_id, commits in statement.commits.items():
            placed[table_id] = [
                self._place_commit(heads, table_id, self._old_versions[table_id] + at, commit)
                for at, commit in enumerate(commits)
            ]
        self._heads = heads
        self._pass(statement.commits)
        return placed

    def ran_again(self, statement: Statement, commits: Mapping[str, Commits]) -> None:
        """Records that ``statement`` has run again. ``commits``: its new commits, by table id."""
        for table_id, new in commits.items():
            head = self._heads.get(table_id) or self._head_at_cut(table_id, ())
            self._heads[table_id] = head.after(Winner(head.version + 1 + at, actions) for at, actions in enumerate(new))
        self._other |= set(statement.commits) | set(commits)
        self._pass(statement.commits)
        self._note(commits)

    def _place_commit(
        self, heads: dict[str, TableHead], table_id: str, old_version: int, commit: Sequence[Action]
    ) -> Sequence[Action]:
        """One commit on top of the new state; ``old_version``: the version of its old base."""
        head = heads.get(table_id) or self._head_at_cut(table_id, commit)
        # Above what ran again only appends without row ids are kept, which are the same at every
        # version.
        is_same = table_id in self._other
        on_top = commit if is_same else rebase(commit, TableHead.before(commit, old_version), head)
        actions = _after(on_top, head)
        heads[table_id] = head.after([Winner(head.version + 1, actions)])
        return actions

    def _head_at_cut(self, table_id: str, first: Sequence[Action]) -> TableHead:
        table = self._tables[table_id]
        return TableHead.before(first, table.base).after(table.winners)

    def _pass(self, commits: Mapping[str, Commits]) -> None:
        for table_id, some in commits.items():
            self._old_versions[table_id] += len(some)
        self._note(commits)

    def _note(self, commits: Mapping[str, Commits]) -> None:
        for table_id, some in commits.items():
            self._written.add(table_id)
            if any(definition_change(commit) for commit in some):
                self._redefined.add(table_id)


def refusal(statements: Sequence[Statement], tables: Mapping[str, MovedTable]) -> str:
    """Why the transaction cannot be moved to the new cut, as far as that is known before anything
    runs again; empty when it may be.

    It cannot where a statement has to run again that has an obstacle. That statements write the
    tables at the new cut that they wrote at the old one is an assumption: :class:`Replay` decides
    again as they run.
    """
    replay = Replay(tables)
    for statement in statements:
        reason = replay.reason(statement)
        if not reason:
            try:
                replay.reuse_commits(statement)
                continue
            except CannotRebase as e:
                reason = str(e)
        if statement.obstacle:
            return explain_refusal(statement, reason)
        replay.ran_again(statement, statement.commits)
    return ""


def explain_refusal(statement: Statement, reason: str) -> str:
    """Why a statement that has to run again, for ``reason``, cannot."""
    return f"{statement.name} would have to run again ({reason}), and cannot: {statement.obstacle}"


def at_cut(reads: Sequence[Read], old_base: int, base: int) -> list[Read]:
    """The reads of one table by a statement that was kept, as reads of the new cut, where they
    would return the same."""
    return [
        read
        if read.version < old_base or (read.is_time_travel and read.version == old_base)
        else replace(read, version=base)
        for read in reads
    ]


def is_append_only(actions: Sequence[Action]) -> bool:
    """Whether a commit does nothing but add rows in new files (and give them ids, where the table
    tracks rows)."""
    return all(_is_of_append(action) for action in actions)


def _is_of_append(action: Action) -> bool:
    if "add" in action:
        return bool(action["add"].get("dataChange", True)) and not action["add"].get("deletionVector")
    if "domainMetadata" in action:
        return bool(action["domainMetadata"]["domain"] == ROW_TRACKING)
    return "commitInfo" in action


def has_row_ids(actions: Sequence[Action]) -> bool:
    """Returns whether a commit has files with row ids, or sets the mark of the highest row id."""
    return any("domainMetadata" in action or action.get("add", {}).get("baseRowId") is not None for action in actions)


def _after(actions: Sequence[Action], head: TableHead) -> Sequence[Action]:
    """The commit with an in-commit timestamp that is later than the head's: they increase (I7)."""
    info = actions[0].get("commitInfo", {}) if actions else {}
    timestamp = info.get("inCommitTimestamp")
    last = head.in_commit_timestamp_ms
    if timestamp is None or last is None or timestamp > last:
        return actions
    return [{"commitInfo": {**info, "inCommitTimestamp": last + 1}}, *actions[1:]]


def content_of(actions: Sequence[Action]) -> str:
    """A commit's lines."""
    return "".join(json.dumps(action, separators=(",", ":"), ensure_ascii=False) + "\n" for action in actions)
