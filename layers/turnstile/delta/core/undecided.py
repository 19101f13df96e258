"""Undecided entries: the state of a large group of commits in the HEADs of its tables until it is
decided (ADR 24).

    prepare        HEAD: ``undecided`` is set, under exactly the conditions of the single-table
                   write
    decide         the group's row: open -> committed or aborted, one conditional write
    fold           HEAD: the actions of the single-table write, and ``undecided`` goes
    remove         HEAD: ``undecided`` goes

While a HEAD has an undecided entry nothing else is ratified on the table and nothing makes it leave
(clause ``settled``). So the conditions of the prepare still hold when the entry is folded,
whichever process folds it and whenever. A table that the group only read is held by an entry
without a commit; so is one that it hands over, which the fold drops.

A group may be begun anew after it was aborted. Each beginning has a token of its own, which its
entries carry: an entry with another token than its group's row is of a beginning that was aborted.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from typing import ClassVar, Final, Literal

import msgspec

from turnstile.delta.core.decide import Proposal
from turnstile.delta.core.head import Entry, TableHead
from turnstile.delta.core.writes.ratify import (
    hand_over_head,
    named_change,
    ticket_change,
    unchanged_check,
    with_name,
)
from turnstile.store.core.evaluate import apply_actions
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.terms import latest_ms
from turnstile.store.core.writes import Change, Clause, Drop, Equals, Erase, Insert, Set, new_row

LARGE_MAX: Final = 1_000
"""Tables of a group, including tables that are only read."""

OPEN_MS: Final = 15_000
"""How long after its beginning a group may be committed before others abort it: several times the
duration of preparing a thousand tables. Only progress depends on clocks: the decision is one
conditional write.
"""

GroupState = Literal["open", "committed", "aborted"]
OPEN: Final[GroupState] = "open"
COMMITTED: Final[GroupState] = "committed"
ABORTED: Final[GroupState] = "aborted"


class Undecided(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The content of ``TableHead.undecided``, packed.

    ``id`` is the group's, ``ref`` names its row, ``token`` the beginning of it. ``entry`` and the
    following members are the proposal that is folded (``decide.Proposal``); without ``entry`` the
    table was only read, at ``version``, or is handed over at it (``ends``). ``clock_behind``: the
    form of a ticket that was accepted, which stays the fitting one: ``last_ict`` does not move
    meanwhile. ``name``: the full name that the table gets with the commit; empty: it keeps its own.
    """

    id: str
    ref: str
    token: str
    version: int | None
    entry: Entry | None = None
    base: int = 0
    apps: tuple[str, ...] = ()
    metadata: str | None = None
    clock_behind: bool = False
    ends: bool = False
    name: str = ""

    def pack(self) -> bytes:
        return _ENCODER.encode(self)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Undecided)
_PARTS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_ENTRY: Final = Undecided.__struct_fields__.index("entry")


def undecided_of(head: TableHead) -> Undecided | None:
    """Returns the undecided entry that ``head`` has."""
    return _unpack(head.undecided) if head.undecided else None


def _unpack(packed: bytes) -> Undecided:
    """The entry of ``pack``. The commit that it holds keeps the members that are not known here
    (I22)."""
    undecided = _DECODER.decode(packed)
    if undecided.entry is None:
        return undecided
    entry = Entry.unpack(bytes(_PARTS.decode(packed)[_ENTRY]))
    return msgspec.structs.replace(undecided, entry=entry)


# -- HEADs ------------------------------------------------------------------------------------------------------------


class Beginning(msgspec.Struct, frozen=True):
    """One beginning of a group: its ``id``, its row's name (``ref``), and the ``token`` of the
    beginning."""

    id: str
    ref: str
    token: str

    def owns(self, entry: Undecided | None) -> bool:
        """Whether ``entry`` was prepared by it."""
        return entry is not None and (entry.ref, entry.token) == (self.ref, self.token)


def prepare(beginning: Beginning, change: Change, proposal: Proposal, *, clock_behind: bool, name: str = "") -> Change:
    """Adds the undecided entry of ``proposal``, with a new full ``name`` of the table, where
    ``change``, its single-table write (``writes.ratify``), would be accepted."""
    undecided = Undecided(
        beginning.id,
        beginning.ref,
        beginning.token,
        proposal.version,
        proposal.entry,
        proposal.base,
        proposal.apps,
        proposal.metadata,
        clock_behind,
        name=name,
    )
    return Change(change.key, change.clauses, (Set(("undecided",), undecided.pack()),))


def hold(beginning: Beginning, key: str, version: int, slack: int = 0) -> Change:
    """Keeps a table that the group read at ``version``, with this slack, as it is until the group
    is decided."""
    undecided = Undecided(beginning.id, beginning.ref, beginning.token, version)
    return Change(key, unchanged_check(key, version, slack).clauses, (Set(("undecided",), undecided.pack()),))


def hold_ending(beginning: Beginning, key: str, version: int, now: int) -> Change:
    """Keeps a table that the group hands over at ``version``, where ``hand_over_head`` would be
    accepted."""
    undecided = Undecided(beginning.id, beginning.ref, beginning.token, version, ends=True)
    return Change(key, hand_over_head(key, version, now).clauses, (Set(("undecided",), undecided.pack()),))


def fold(key: str, packed: bytes, now: int) -> Change:
    """Ratifies the commit of an undecided entry, or drops the table that is handed over, of a group
    that is committed. Again is refused."""
    undecided = _unpack(packed)
    if undecided.ends:
        ending = hand_over_head(key, undecided.version or 0, now)
        return Change(key, (_same_entry(packed),), (*ending.actions, Drop(("undecided",))))
    if undecided.entry is None:
        return remove(key, packed)
    proposal = Proposal(
        undecided.version, undecided.base, undecided.entry, apps=undecided.apps, metadata=undecided.metadata
    )
    if undecided.version is None:
        change = ticket_change(key, proposal, now, clock_behind=undecided.clock_behind)
    else:
        change = named_change(key, proposal, now)
    named = with_name(change, undecided.name)
    return Change(key, (_same_entry(packed),), (*named.actions, Drop(("undecided",))))


def remove(key: str, packed: bytes) -> Change:
    """Removes an undecided entry, of a group that is aborted or of a table that was only read.
    Again is refused."""
    return Change(key, (_same_entry(packed),), (Drop(("undecided",)),))


def _same_entry(packed: bytes) -> Clause:
    return Clause("same entry", "I8", "the undecided entry is not resolved yet", Equals(("undecided",), packed))


def as_folded(head: TableHead) -> TableHead:
    """Returns ``head`` as it is once its undecided entry, of a group that is committed, is folded.
    For readers."""
    change = fold(head.key, head.undecided, head.changed_at)
    return TableHead.from_row(apply_actions(head.to_row(), change.actions))


def without_entry(head: TableHead) -> TableHead:
    """Returns ``head`` without its undecided entry, of a group that is not committed. For
    readers."""
    return msgspec.structs.replace(head, undecided=b"")


def has_changed(head: TableHead, version: int, slack: int = 0) -> bool:
    """Whether a table is no more as it was read at ``version``, or is further on than ``slack``
    versions, or another group holds it: then the read refuses."""
    return bool(head.undecided) or not version <= head.latest <= version + slack


# -- the group's row --------------------------------------------------------------------------------------------------


class GroupRow(StoredRow, frozen=True):
    """The row that decides a large group.

    Attributes:
        state: open until it is committed or aborted, which is final for the beginning of this
            ``token``.
        token: of its last beginning.
        tables: uuids of the tables that it writes or read, sixteen bytes each, ascending.
        created: when it was begun first; ``deadline`` when others may abort it; ``changed_at`` its
            last change. Server
            clocks, in ms.
    """

    kind: ClassVar[str] = "group"

    state: GroupState
    token: str
    tables: bytes
    created: int
    deadline: int
    changed_at: int

    def table_ids(self) -> list[str]:
        """The tables' uuids."""
        return [str(uuid.UUID(bytes=self.tables[at : at + 16])) for at in range(0, len(self.tables), 16)]


def packed_ids(table_ids: Sequence[str]) -> bytes:
    """``GroupRow.tables`` of these uuids."""
    return b"".join(sorted(uuid.UUID(id).bytes for id in table_ids))


def group_ref(id: str, proposals: bytes) -> str:
    """The name of the row of the group with this id and these proposals, as bytes that no other
    proposals have: another group under the same id has another row."""
    return f"{id}.{hashlib.sha256(proposals).hexdigest()[:32]}"


def begin(key: str, token: str, tables: bytes, now: int) -> Insert:
    """The first beginning of a group."""
    return Insert(GroupRow(key, OPEN, token, tables, now, now + OPEN_MS, now).to_row(), (new_row("I8"),))


def begin_anew(row: GroupRow, token: str, now: int) -> Change:
    """Another beginning of a group that was aborted: its entries of before are dead by their
    token."""
    actions = (
        Set(("state",), OPEN),
        Set(("token",), token),
        Set(("deadline",), now + OPEN_MS),
        Set(("changed_at",), now),
    )
    return Change(
        row.key,
        (_same_beginning(row.token), Clause("aborted", "I8", "the group is aborted", Equals(("state",), ABORTED))),
        actions,
    )


def decision_writes(key: str, token: str, state: GroupState, now: int) -> Change:
    """Open to committed, when every table is prepared by the beginning of ``token``; or open to
    aborted."""
    is_open = Clause("open group", "I8", "the group is not decided yet", Equals(("state",), OPEN))
    return Change(key, (_same_beginning(token), is_open), (Set(("state",), state), Set(("changed_at",), now)))


def forget_group(row: GroupRow) -> Erase:
    """Removes the row of a group that is aborted, or of one that is committed and has an entry in
    no HEAD any more."""
    same = Clause("still decided", "I8", "the group was not begun anew", Equals(("state",), row.state))
    return Erase(row.key, (_same_beginning(row.token), same))


def _same_beginning(token: str) -> Clause:
    return Clause("same beginning", "I8", "the group was not begun anew", Equals(("token",), token))


def is_late(row: GroupRow, now: int) -> bool:
    """Whether the deadline of an open group is past, or lies further away than a right clock can
    have put it."""
    return now > row.deadline or row.deadline > latest_ms(now, OPEN_MS)


Verdict = Literal["committed", "aborted", "open", "late"]
"""The state of an undecided entry's group. ``late``: open and past its deadline, so that any
process may abort it."""


def verdict(entry: Undecided, row: GroupRow | None, now: int) -> Verdict:
    """The next step for ``entry``, whose group's row is ``row``, read after the HEAD.

    Without a row, and with one of another beginning, the group was aborted: the row is written
    before anything is prepared, and a committed group's stays, with its token, for as long as a
    HEAD has an entry of it (``forget_group``).
    """
    if row is None or row.token != entry.token:
        return "aborted"
    if row.state == OPEN:
        return "late" if is_late(row, now) else "open"
    return "committed" if row.state == COMMITTED else "aborted"
