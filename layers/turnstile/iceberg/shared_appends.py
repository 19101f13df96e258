"""Appends to one Iceberg table that wait in a process share a metadata file, a commit of the
catalog and its swap (ADR 75).

    an append comes    1  it joins the line of its table
                       2  the first of the line leads; the others wait, and find their answers there
    the leader         1  takes the appends that wait. One alone is committed as without a line
                       2  authorizes each, and computes it from the metadata that those before it
                          leave: its requirements, or the merge of its manifests (``append_merger``)
                       3  writes one metadata file with all snapshots, and swaps the HEAD once, with
                          the rows of idempotency keys
                       4  answers each with the table as the group leaves it
                       5  when its own append has an answer, the next of the line leads

An append that is refused, or waits for a rewrite (``turns``), is no member: it is committed alone
afterwards, by the thread of its own request. So a refusal never comes from a state that exists only
if the swap is accepted (I21).

The answer names the group's metadata file, and has exactly that file: a client that had earlier
metadata under this name (Java's ``RESTTableOperations`` compares nothing but names) would not
notice the other members when it refreshes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import MAX_ROWS, Edit, RejectionHandler
from turnstile.catalog.core.entities import IcebergTable
from turnstile.catalog.core.paths import dotted_name, key_of
from turnstile.catalog.reader import View
from turnstile.iceberg.append_merger import MergedAppend
from turnstile.iceberg.changes import ChangeJudge
from turnstile.iceberg.context import Context
from turnstile.iceberg.core.metadata import TableMetadata, check_readable
from turnstile.iceberg.core.requirements import CommitFailed
from turnstile.iceberg.core.shared_appends import GROUP_APPENDS, Answer, Written, answer, fits
from turnstile.iceberg.core.table_updates import TableChange, apply_updates
from turnstile.iceberg.tables import LoadedTable, entity_at
from turnstile.iceberg.turns import TableTurn, has_to_wait
from turnstile.store.core.errors import (
    ErrorType,
    OutcomeUnknown,
    StateConflict,
    Throttled,
    TurnstileError,
)
from turnstile.store.core.writes import Row, Write
from turnstile.store.queue import WAITING_MOST, LeftLine, Line, Waiting, WaitingQueue, copy_of

PATIENCE_MS: Final = 5_000
"""How long an append waits for a line that does not move, before it is committed alone."""


class Alone(Exception):
    """The append has no answer from a group: it is committed alone."""


class WaitingAppend(Waiting[LoadedTable]):
    """An append in the line of its table. Its parts are called with the context of the thread that
    made it."""

    def __init__(self, context: Context, change: TableChange) -> None:
        super().__init__()
        self.change = change
        self.since = context.committer.since()
        self._context = context
        self._judge = ChangeJudge(context)
        self._variables = copy_context()
        self._on_rejected: RejectionHandler | None = None

    def writes(self, view: View) -> tuple[Write, ...]:
        """Authorizes the append in ``view``, and returns the writes that its own committer adds."""
        return self._variables.run(self._writes, view)

    def _writes(self, view: View) -> tuple[Write, ...]:
        authorizer = self._context.catalog.reader.authorizer
        if authorizer is not None:
            authorizer.authorize(view.tree)
        own, self._on_rejected = self._context.committer.extend(lambda _: Edit("append"))
        edit = own(view)
        assert edit is not None
        return edit.writes

    def apply(self, base: TableMetadata, now_ms: int, previous_file: str) -> tuple[TableMetadata, MergedAppend | None]:
        """Returns ``base`` with the append, which ``check_readable`` has not judged, and the
        manifest list that is to be written for it. Raises as ``ChangeJudge.updates`` and
        ``table_updates.applied``."""
        updates, merged = self._judge.updates(base, self.change)
        return apply_updates(base, updates, now_ms, previous_file, readable=False), merged

    def handle_rejection(self, rows: Mapping[int, Row | None]) -> None:
        """Handles rows that refused, by position in ``writes``. Raises the reason for refusing the
        append."""
        if self._on_rejected is not None:
            self._variables.run(self._on_rejected, rows)


class AppendQueue(WaitingQueue[WaitingAppend]):
    """The appends that wait in a process, by table. Safe for threads."""

    def __init__(self, most: int = WAITING_MOST) -> None:
        super().__init__(GROUP_APPENDS, "appends to the table", most)

    def commit(
        self, context: Context, catalog: str, change: TableChange, alone: Callable[[], LoadedTable]
    ) -> LoadedTable:
        """Returns the table with ``change``, a plain append: as a group leaves it, or as ``alone``
        returns it. Raises as ``alone``."""
        own = WaitingAppend(context, change)

        def lead(line: Line[WaitingAppend]) -> None:
            while not own.is_settled:
                group = self.take(line)
                try:
                    if len(group) == 1:
                        own.settle(_result(alone))
                    else:
                        AppendGroup(context, catalog, group).run()
                finally:
                    self.release(line, group, own)

        try:
            self.apply(f"{catalog}\n{key_of(change.path)}", own, lead, PATIENCE_MS)
            return own.outcome()
        except (LeftLine, Alone):
            return alone()


class AppendGroup:
    """One attempt to commit several appends to one table together. For one thread.

    Args:
        context: of the leader's request; nothing is done by its rights.
        group: at least one; all of them have an outcome after ``run``.
    """

    def __init__(self, context: Context, catalog: str, group: Sequence[WaitingAppend]) -> None:
        self._context = context
        self._catalog = catalog
        self._group = group
        self._path = group[0].change.path
        self._left = set[WaitingAppend]()
        self._members: tuple[WaitingAppend, ...] = ()
        self._rows: dict[WaitingAppend, range] = {}
        self._files: list[str] = []
        self._base_file = ""
        self._result: LoadedTable | None = None

    def run(self) -> None:
        """Commits what fits together, and settles every append: with the table, with the error of
        an unknown outcome, or to be committed alone."""
        try:
            written, error = self._commit()
        except BaseException:  # a defect, or the end of the process: the swap may have been sent
            for append in self._group:
                append.settle(OutcomeUnknown("the group of appends ended before its swap had an answer"))
            raise
        for append in self._group:
            match answer(written, member=append in self._members):
                case Answer.TABLE:
                    assert self._result is not None
                    append.settle(self._result)
                case Answer.ERROR:
                    assert error is not None
                    append.settle(copy_of(error))
                case Answer.ALONE:
                    append.settle(Alone())

    def _commit(self) -> tuple[Written, Exception | None]:
        context = self._context
        committer = _GroupCommitter(context, min(append.since for append in self._group))
        try:
            committer.commit(self._catalog, self._change, on_rejected=self._on_rejection)
        except OutcomeUnknown as error:
            return Written.UNKNOWN, error
        except StateConflict as error:
            context.forget(self._files)
            busy = error.type == ErrorType.CONCURRENT_CHANGE
            return (Written.BUSY, CommitFailed(error.message)) if busy else (Written.FAILED, error)
        except Throttled as error:
            context.forget(self._files)
            return Written.BUSY, error
        except TurnstileError as error:  # the commit of each member alone says its own reason
            context.forget(self._files)
            return Written.FAILED, error
        if not self._members:
            context.forget(self._files)
            return Written.FAILED, None
        self._forget_others()
        return Written.APPLIED, None

    def _forget_others(self) -> None:
        """Deletes the files that attempts wrote and that the applied metadata do not name."""
        assert self._result is not None
        assert self._result.entity is not None
        named = {snapshot.manifest_list for snapshot in self._result.metadata.snapshots}
        named.add(self._result.entity.metadata)
        self._context.forget([file for file in self._files if file not in named])

    def _change(self, view: View) -> Edit | None:
        """The appends that can be applied in ``view``, as one change; None if there is none."""
        before = entity_at(view, self._path, IcebergTable)
        now_ms = self._context.world.clock.now_ms()
        if has_to_wait(before, self._group[0].change.updates, now_ms):
            raise TableTurn(before.name)
        members: dict[WaitingAppend, tuple[Write, ...]] = {}
        taken = set[str]()
        for append in self._group:
            if append in self._left:
                continue
            try:
                writes = append.writes(view)
            except Exception:  # its own commit says why
                self._left.add(append)
                continue
            keys = [write.key for write in writes]
            if not fits(keys, taken, MAX_ROWS):
                self._left.add(append)
                continue
            taken |= set(keys)
            members[append] = writes
        if before.metadata != self._base_file or tuple(members) != self._members:
            self._compute(before, list(members), now_ms)
        if self._result is None:
            return None
        group_writes = [write for member in self._members for write in members[member]]
        ends = 0
        for member in self._members:
            self._rows[member] = range(ends, ends + len(members[member]))
            ends += len(members[member])
        assert self._result.entity is not None
        entity = msgspec.structs.replace(
            before, metadata=self._result.entity.metadata, digest=self._result.entity.digest,
            updated=self._result.entity.updated,
        )  # fmt: skip
        self._result = msgspec.structs.replace(self._result, entity=entity)
        message = f"{len(self._members)} appends to {dotted_name(*self._path)}"
        return Edit(message[:200], put={self._path: entity}, writes=tuple(group_writes))

    def _compute(self, before: IcebergTable, appends: Sequence[WaitingAppend], now_ms: int) -> None:
        """Applies ``appends`` to the table one after the other, and writes the metadata that the
        last one leaves. An append that is refused leaves the group."""
        self._result = None
        self._base_file = before.metadata
        metadata = self._context.files.table(before)
        members: list[WaitingAppend] = []
        lists: list[tuple[str, bytes]] = []
        for append in appends:
            try:
                after, merged = append.apply(metadata, now_ms, "" if members else before.metadata)
            except TurnstileError:  # its own commit says why
                self._left.add(append)
                continue
            metadata = after
            members.append(append)
            if merged is not None:
                self._files.append(merged.manifest_list)
                lists.append((merged.name, merged.content))
        self._members = tuple(members)
        if not members:
            return
        check_readable(metadata)
        file = self._context.files.write_after(lists, before.location, metadata, before)
        self._files.append(file.path)
        entity = msgspec.structs.replace(before, metadata=file.path, digest=file.digest, updated=now_ms)
        self._result = LoadedTable(entity, metadata, file.content)

    def _on_rejection(self, failed: Mapping[int, Row | None]) -> None:
        """Gives each member the rows of its own that refused; one that is refused by them leaves
        the group."""
        for member, rows in self._rows.items():
            own = {position - rows.start: row for position, row in failed.items() if position in rows}
            try:
                member.handle_rejection(own)
            except Exception:  # its own commit says why
                self._left.add(member)


class _GroupCommitter(Committer):
    """Commits a group, whose members are authorized one by one."""

    def __init__(self, context: Context, since: int) -> None:
        super().__init__(context.world, context.catalog.reader.without_authorizer(), pause=context.catalog.pause)
        self._first = since

    def since(self) -> int:
        """Returns when the first thing that any member depends on was read (ms)."""
        return self._first


def _result(alone: Callable[[], LoadedTable]) -> LoadedTable | Exception:
    """Returns the table that ``alone`` returns, or the error that it raises."""
    try:
        return alone()
    except Exception as error:
        return error
