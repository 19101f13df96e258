"""The journal of transactions: the commits that a client is about to make, so that any principal
with the rights can finish or undo them.

    1  announce        the commits as an obj, then the entry's row: two writes, before the group is
                       sent
    2  commit          the group's one write (``delta.transactions.groups``), which also turns the
                       entry from
                       open to committed
    3  resume          the same group again, from the obj: a replay if it was ratified (I3)
    4  abort           one write that turns an open entry to aborted: a copy of 2 that arrives later
                       is refused

So the entry's row is the outcome: exactly one of 2 and 4 happens in every race, and nothing has to
be recovered after a crash. An obj without a row, of a client that died inside 1, ends by itself.

Sources: LakeVilla, "Client failure recovery" (section 4.1).
"""

from __future__ import annotations

import hashlib
import uuid
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from turnstile.delta.core import journal_rows as rows
from turnstile.delta.core.journal_rows import ABORTED, COMMITTED, OPEN, JournalRow
from turnstile.delta.proposals import CommitRequest, GroupRequest, ReadVersion
from turnstile.delta.transactions.groups import (
    EntryRefused,
    GroupRatified,
    GroupRatifier,
    GroupRefused,
    check_group,
    check_members,
)
from turnstile.store.core.errors import ErrorType, InvalidRequest, NotFound, StateConflict, TurnstileError
from turnstile.store.core.rows import TRANSACTION
from turnstile.store.core.writes import Row
from turnstile.store.ports import DamagedRow, Obj, Rejected, World, parse_rows

SPACE: Final = "."
"""The partition of objs that holds announced commits: they are of no one catalog."""

_KEPT_S: Final = 86_400
"""How much longer than the entry its obj is kept: gc looks once a day."""

_ROUNDS: Final = 8

Isolation = str


class CatalogPart(msgspec.Struct, frozen=True, array_like=True):
    """The parts of an announced transaction besides its commits: changes, and reads, of
    ``catalog``, as texts that ``catalog.changes.announced`` understands."""

    catalog: str
    changes: bytes
    reads: bytes


class Announcement(msgspec.Struct, frozen=True):
    """The commits that a client is about to make. ``attempt``: 1, and one more whenever the commits
    differ from the announced ones; ``ttl_ms``: for how long it may be resumed."""

    group: GroupRequest
    attempt: int = 1
    isolation: Isolation = ""
    owner: str = ""
    ttl_ms: int = rows.USUAL_TTL_MS
    part: CatalogPart | None = None


class _Commit(msgspec.Struct, frozen=True, array_like=True):
    """A commit of the group as the obj holds it."""

    table_id: str
    version: int
    base: int | None
    staged: str
    size: int
    modified_ms: int
    content: bytes | None
    inline_name: str
    etag: str | None


class _Commits(msgspec.Struct, frozen=True, array_like=True):
    commits: tuple[_Commit, ...]
    reads: tuple[ReadVersion, ...]
    part: CatalogPart | None = None


class Journal:
    """Announces, lists, resumes and aborts transactions. The caller authorizes (I12): every method
    but ``announce`` and ``commit`` is given an entry that was read, and authorized, before."""

    def __init__(self, world: World, groups: GroupRatifier) -> None:
        self._world = world
        self._groups = groups

    # -- writing --------------------------------------------------------------------------------------------------

    def announce(self, announced: Announcement) -> JournalRow:
        """Writes the entry of a transaction, and returns it; the same again changes nothing.

        Raises:
            InvalidRequest: the group, its attempt or its time to live.
            StateConflict: ``TransactionAborted``, ``TransactionCommitted``;
                ``TransactionSuperseded``: a later attempt, or
                other commits as this attempt, are announced.
        """
        row, payload = self._row(announced)
        refs = self._world.refs
        objs = self._world.objs
        space = self._world.space.objs(SPACE)
        expires = row.until // 1000 + _KEPT_S
        objs.put(Obj(space, row.obj, TRANSACTION.name, payload, created_us=row.created * 1000, expires_s=expires))
        answer = refs.write(rows.announce(row))
        for _ in range(_ROUNDS):
            if not isinstance(answer, Rejected):
                return JournalRow.from_row(answer.row) if answer.row is not None else row
            if answer.row is None:  # gc removed it meanwhile
                answer = refs.write(rows.announce(row))
                continue
            stored = JournalRow.from_row(answer.row)
            if stored.catalog and stored.owner != row.owner:  # it is its owner's alone (I12)
                raise superseded_error(stored)
            if stored.state != OPEN:
                raise settled_error(stored)
            if stored.obj == row.obj:
                return stored
            same_tables = (stored.written.keys(), stored.read.keys()) == (row.written.keys(), row.read.keys())
            same_rights = same_tables and stored.catalog == row.catalog
            if stored.attempt >= row.attempt or not same_rights:  # rights were judged by these (I12)
                raise superseded_error(stored)
            answer = refs.write(rows.announce_again(row))
        raise _moving(row.id)

    def commit(self, group: GroupRequest) -> GroupRatified | GroupRefused:
        """Commits a group that was announced: as ``GroupRatifier.commit``, and its entry is
        committed with it.

        Raises:
            NotFound: there is no entry.
            StateConflict: ``TransactionAborted``, for good; ``TransactionSuperseded``: other
                commits are announced.
        """
        require_named(group)
        return self._commit(group, _pack(group)[0])

    def with_entry(self, group: GroupRequest, part: CatalogPart) -> tuple[GroupRequest, str]:
        """The group as a transaction of a catalog commits it, with the change of its entry, and the
        id of the obj that it was announced with. Its entries in logs have an id of their own:
        commits that were sent without ``part`` are another group's.
        """
        obj = _pack(group, part)[0]
        change = rows.commit_entry(self._world.space.transaction(group.id), obj, self._world.clock.now_ms())
        return msgspec.structs.replace(group, id=entry_id(group.id, obj), entry=change), obj

    def resume(self, entry: JournalRow) -> tuple[GroupRequest, GroupRatified | GroupRefused]:
        """Sends an announced group again, for any sender: the outcome is that of the first accepted
        attempt (I3). Returns the group that was sent, too, which is over the tables of ``entry``.
        Raises as ``commit``, as ``group``, and InvalidRequest for a transaction of a catalog
        (``catalog.changes.announced``).
        """
        if entry.catalog:
            raise InvalidRequest(
                f"transaction {entry.id} changes or read catalog '{entry.catalog}'",
                field="transaction_id",
                remedy=f"POST /v1/catalogs/{entry.catalog}/transactions/{entry.id}/resume",
            )
        for _ in range(_ROUNDS):
            if entry.state == ABORTED:
                raise settled_error(entry)
            group = self.group(entry)
            try:
                return group, self._commit(group, entry.obj)
            except StateConflict as error:
                if error.type != ErrorType.TRANSACTION_SUPERSEDED:
                    raise
            entry = self.entry(entry.id)  # its client was at work: it announced other commits since
        raise _moving(entry.id)

    def abort(self, entry: JournalRow, may_free: Callable[[str], bool] = lambda _: False) -> JournalRow:
        """Makes sure that nothing of the transaction is ever ratified, and returns the entry;
        again, it changes nothing. ``may_free``: whether the staged files of a table may be removed.
        Raises StateConflict, ``TransactionCommitted``.
        """
        for _ in range(_ROUNDS):
            if entry.state == ABORTED:
                return entry
            if entry.state == COMMITTED:
                raise settled_error(entry)
            freed = self._files_to_free(entry, may_free)
            now = self._world.clock.now_ms()
            answer = self._world.refs.write(rows.abort_entry(entry.key, entry.obj, freed, now))
            if answer.row is None:
                raise NotFound("transaction", entry.id, field="id")
            entry = JournalRow.from_row(answer.row)
        raise _moving(entry.id)

    # -- reading --------------------------------------------------------------------------------------------------

    def entry(self, id: str) -> JournalRow:
        """The entry of a transaction. Raises NotFound."""
        row = self._world.refs.read(self._world.space.transaction(id))
        if row is None:
            raise NotFound("transaction", id, field="id", remedy="its client did not announce it, or it was long ago")
        return JournalRow.from_row(row)

    def entries(self, damaged: list[DamagedRow]) -> Iterator[JournalRow]:
        """Every entry, in the store's order; adds those that cannot be read to ``damaged``. A
        scan."""
        return parse_rows(JournalRow, self._world.refs.scan(JournalRow.kind), damaged)

    def group(self, entry: JournalRow) -> GroupRequest:
        """The commits of an entry. Raises StateConflict where they are not kept any more:
        ``TransactionCommitted``, ``ReloadRequired``."""
        return self.content(entry)[0]

    def content(self, entry: JournalRow) -> tuple[GroupRequest, CatalogPart | None]:
        """The commits of an entry, and its changes of a catalog. Raises as ``group``."""
        obj = self._world.objs.get(self._world.space.objs(SPACE), entry.obj)
        if obj is None and entry.state == COMMITTED:
            raise settled_error(entry)
        if obj is None:
            problem = f"the commits of transaction {entry.id} are not kept any more: its end is over"
            remedy = "abort it, and run its statements again, as a new transaction"
            raise StateConflict(ErrorType.RELOAD_REQUIRED, problem, field="id", remedy=remedy)
        stored = _unpack(obj)
        commits = tuple(
            CommitRequest(**msgspec.structs.asdict(commit), principal=entry.owner) for commit in stored.commits
        )
        return GroupRequest(entry.id, commits, stored.reads), stored.part

    # -- parts ----------------------------------------------------------------------------------------------------

    def _commit(self, group: GroupRequest, obj: str) -> GroupRatified | GroupRefused:
        key = self._world.space.transaction(group.id)
        now = self._world.clock.now_ms()
        with_entry = msgspec.structs.replace(group, entry=rows.commit_entry(key, obj, now))
        try:
            return self._groups.commit(with_entry)
        except EntryRefused as refused:
            entry = self._refusing_entry(group.id, obj, refused.row)
        assert entry.state == COMMITTED
        return self._groups.commit(
            group
        )  # ratified: without its entry it is a replay, and can be nothing else (I2, I3)

    def _refusing_entry(self, id: str, obj: str, row: Row | None) -> JournalRow:
        """The entry that refused a group, if these commits are committed; raises why otherwise."""
        if row is None:
            raise NotFound("transaction", id, field="id", remedy="announce it first, or send it without its journal")
        entry = JournalRow.from_row(row)
        if entry.state == ABORTED:
            raise settled_error(entry)
        if entry.obj != obj:
            raise superseded_error(entry)
        if entry.state == OPEN:
            raise TurnstileError(f"the entry of transaction {id} refused for no reason")
        return entry

    def _row(self, announced: Announcement) -> tuple[JournalRow, bytes]:
        group = announced.group
        now = self._world.clock.now_ms()
        check = check_group if announced.part is None else check_members
        check(msgspec.structs.replace(group, entry=rows.commit_entry("", "", 0)))
        require_named(group)
        if not 1 <= announced.attempt <= 1_000_000:
            raise InvalidRequest(f"attempt must be 1 or more, not {announced.attempt}", field="attempt")
        if not rows.LEAST_TTL_MS <= announced.ttl_ms <= rows.MOST_TTL_MS:
            problem = f"ttl_ms must be between {rows.LEAST_TTL_MS} and {rows.MOST_TTL_MS}, not {announced.ttl_ms}"
            raise InvalidRequest(problem, field="ttl_ms", remedy="a minute at least, a week at most")
        obj, payload = _pack(group, announced.part)
        row = JournalRow(
            key=self._world.space.transaction(group.id),
            id=group.id,
            state=OPEN,
            attempt=announced.attempt,
            obj=obj,
            written={commit.table_id: commit.version or 0 for commit in group.commits},
            read={read.table_id: read.version for read in group.reads},
            slack={read.table_id: read.slack for read in group.reads if read.slack},
            isolation=announced.isolation,
            owner=announced.owner,
            created=now,
            until=now + announced.ttl_ms,
            catalog=announced.part.catalog if announced.part is not None else "",
        )
        return row, payload

    def _files_to_free(self, entry: JournalRow, may_free: Callable[[str], bool]) -> tuple[str, ...]:
        """The staged files that gc may remove once the entry is aborted."""
        try:
            commits = self.group(entry).commits
        except StateConflict:
            return ()
        return rows.freed_names({c.table_id: c.staged for c in commits if c.staged and may_free(c.table_id)})


def tables_announced(world: World, id: str) -> frozenset[str]:
    """Returns the tables of all attempts that were announced as transaction ``id`` and are still
    kept; empty where none is. An obj is written before its entry, and ends a day after it: until
    then the tables of an entry which cannot be read are among them. Later only those of other
    attempts under this id may be left. Raises UnreadableObj.
    """
    tables = set[str]()
    for obj in world.objs.list(world.space.objs(SPACE), TRANSACTION.id(f"{id}/")):
        stored = _unpack(obj)
        tables |= {commit.table_id for commit in stored.commits}
        tables |= {read.table_id for read in stored.reads}
    return frozenset(tables)


def require_named(group: GroupRequest) -> None:
    """Raises InvalidRequest unless every commit names its version, as an entry shows them."""
    for index, commit in enumerate(group.commits):
        if commit.version is None:
            raise InvalidRequest(
                "a commit of an announced transaction names its version",
                field=f"commits[{index}].version",
                remedy="name it, or send the transaction without its journal",
            )


def settled_error(entry: JournalRow) -> StateConflict:
    """The error about a transaction that is committed or aborted."""
    if entry.state == COMMITTED:
        remedy = "undo it with another transaction, or RESTORE the tables"
        problem = f"transaction {entry.id} is committed"
        return StateConflict(ErrorType.TRANSACTION_COMMITTED, problem, field="id", remedy=remedy)
    problem = f"transaction {entry.id} was aborted: nothing of it was, or will be, applied"
    remedy = "run its statements again, as a new transaction"
    return StateConflict(ErrorType.TRANSACTION_ABORTED, problem, field="id", remedy=remedy)


def superseded_error(entry: JournalRow) -> StateConflict:
    """The error about content that differs from the announced content."""
    problem = f"other commits are announced as transaction {entry.id}, attempt {entry.attempt}"
    remedy = "announce these as a later attempt, before they are sent"
    return StateConflict(
        ErrorType.TRANSACTION_SUPERSEDED, problem, field="attempt", remedy=remedy, attempt=entry.attempt
    )


def _moving(id: str) -> StateConflict:
    return StateConflict(
        ErrorType.CONCURRENT_CHANGE,
        f"transaction {id} changed during every attempt",
        remedy="send the same request again",
        retry_after_ms=100,
    )


def entry_id(id: str, obj: str) -> str:
    """Returns the id of the entries of the transaction ``id`` that was announced with ``obj``."""
    return str(uuid.uuid5(uuid.UUID(id), obj))


def _unpack(obj: Obj) -> _Commits:
    """The content of an obj that ``_pack`` made. Raises UnreadableObj."""
    return obj.decode_with(lambda payload: msgspec.msgpack.decode(zlib.decompress(payload), type=_Commits))


def _pack(group: GroupRequest, part: CatalogPart | None = None) -> tuple[str, bytes]:
    """Id and payload of the obj that holds the commits of a group, and its changes of a catalog;
    the id follows from them."""
    commits = tuple(msgspec.convert(commit, _Commit, from_attributes=True) for commit in group.commits)
    plain = msgspec.msgpack.encode((commits, group.reads) if part is None else _Commits(commits, group.reads, part))
    digest = hashlib.sha256(plain).hexdigest()[:40]
    return TRANSACTION.id(f"{group.id}/{digest}"), zlib.compress(plain)
