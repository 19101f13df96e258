"""The HEAD of a Delta table: one small row, and the tail of ratified commits it carries (design
2.1)."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import ClassVar, Final, Literal

import msgspec

from turnstile.delta.core.content import ROW_TRACKING_DOMAIN
from turnstile.store.core.names import MAX_ROW_ID, inline_unique, staged_file
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import Row

State = Literal["active", "leaving", "dropped", "stuck", "recovering", "pinned"]

ACTIVE: Final[State] = "active"
LEAVING: Final[State] = "leaving"
DROPPED: Final[State] = "dropped"
STUCK: Final[State] = "stuck"
RECOVERING: Final[State] = "recovering"
PINNED: Final[State] = "pinned"
"""Of a clone: one version of another table's log. Read like every table, and never written
(``catalog.clone.core``)."""

READ_ONLY: Final = (
    "a clone of a Delta table is read-only: write to its source, or copy it with CREATE TABLE ... AS SELECT"
)
"""The remedy for a refused write to a pinned table."""

EXPORTED: Final = "exported"
PURGING: Final = "purging"
PURGED: Final = "purged"
"""``reason`` of a dropped table that cannot come back: it left with its files, or gc removes or
removed them."""

KEEP_PUBLISHED: Final = 3
"""How many published entries stay in the tail, without bytes, so that early replays need no second
look-up."""

INLINE_IN_ROW: Final = 4_096
"""Compressed inline content up to this many bytes rides in the row; beyond it becomes an obj
written first."""

ROWS_KEPT: Final = -2
"""``Entry.hwm`` of a commit that leaves the row-id high-water mark alone."""

ROWS_OFF: Final = -3
"""``Entry.hwm`` of a commit that ends row tracking."""

ROWS_UNREAD: Final = MAX_ROW_ID + 1
"""The mark after a commit that was too large to be read whole: no ticket may assign row ids until
one names them."""

MAX_APPS: Final = 2
"""Streaming applications one commit may name in the row; a commit with more counts as unread. Few
enough that every floor write forgets at least as many as the commits it covers brought (I11)."""

APP_BYTES: Final = 32
"""Bytes a streaming application takes in the row's ``apps``: its hashed id, a version, and
DynamoDB's overhead."""

_REMEMBERED: Final = 2_048
"""How many small entries are remembered as they were unpacked."""

_SMALL_BYTES: Final = 2_048
"""Entries of at most this size are remembered, so that all of them take 10 MB at most."""

PRINCIPAL_MAX: Final = 128
"""Characters of a principal's name that an entry keeps."""

_DIGEST_BYTES: Final = 8
"""Long enough that no other content has the same digest by mistake or by design; short, because
every byte of every entry is paid for with every write."""


class ContentDigest:
    """The digest of a staged commit's bytes that the row keeps: BLAKE2b, 64 bits; nine bytes as a
    number of msgpack."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=_DIGEST_BYTES)

    def update(self, piece: bytes) -> None:
        """Adds the next bytes."""
        self._hash.update(piece)

    def value(self) -> int:
        """The digest of all bytes so far."""
        return int.from_bytes(self._hash.digest())


def digest_of(content: bytes) -> int:
    """The digest of ``content`` as a whole."""
    return digest_of_pieces((content,))


def digest_of_pieces(pieces: Iterable[bytes]) -> int:
    """The digest of content that comes in pieces."""
    digest = ContentDigest()
    for piece in pieces:
        digest.update(piece)
    return digest.value()


class Entry(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """One ratified commit as the row keeps it, packed to a few dozen bytes.

    ``unique`` is the unique part of the staged name (empty: derived from the txn id); ``data``
    compressed inline content; ``obj`` id of the obj that holds it instead; ``size`` bytes of the
    proposed content; ``ict`` proposed in-commit timestamp (ms); ``modified_ms`` the staged file's
    modification time (0: the in-commit timestamp); ``ticket`` version and timestamp follow from the
    position; ``rows`` row ids a ticket needs; ``hwm`` the row-id high-water mark a named commit
    sets (or ``ROWS_KEPT``, ``ROWS_OFF``); ``group`` id of the group it was ratified in (empty:
    alone); ``ratified_ms`` server clock; ``apps`` how many streaming applications it names;
    ``digest`` of a staged commit's bytes as they were validated (0: they were not read whole, or
    are in ``_delta_log``); ``principal`` that proposed it (empty: the operator, or several).
    """

    txn: str
    ict: int
    size: int
    changed: str
    operation: str = ""
    unique: str = ""
    name: str = ""
    modified_ms: int = 0
    data: bytes = b""
    obj: str = ""
    inline: bool = False
    ticket: bool = False
    rows: int = 0
    hwm: int = ROWS_KEPT
    group: str = ""
    ratified_ms: int = 0
    apps: int = 0
    digest: int = 0
    principal: str = ""

    def pack(self) -> bytes:
        """The bytes stored in the row's tail. The last two members are left out while they are
        empty, as in most entries: each takes one byte then."""
        packed = _ENCODER.encode(self)
        if self.principal:
            return packed
        empty = 1 if self.digest else 2
        return _ARRAY + (_MEMBERS - empty).to_bytes(2) + packed[3:-empty]

    def without_content(self) -> Entry:
        """The entry after publication: its content is in ``_delta_log``."""
        return msgspec.structs.replace(self, data=b"", obj="", digest=0)

    @staticmethod
    def unpack(packed: bytes) -> Entry:
        """The entry of ``pack``, of this release, an older or a newer one. Small entries that were
        used last are remembered: most entries of a row were in the row before it."""
        return _unpack_remembered(packed) if len(packed) <= _SMALL_BYTES else _unpack(packed)


def _unpack(packed: bytes) -> Entry:
    if packed[:1] == _ARRAY and int.from_bytes(packed[1:3]) > _MEMBERS:
        return LaterEntry.of(packed)
    return _DECODER.decode(packed)


_unpack_remembered: Final = functools.lru_cache(_REMEMBERED)(_unpack)

_MEMBERS: Final = len(Entry.__struct_fields__)
_ARRAY: Final = b"\xdc"
"""How msgpack begins an array of 16 members or more; two bytes with their number follow."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Entry)
_PARTS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])


class LaterEntry(Entry, frozen=True, array_like=True):
    """An entry with members that this release does not know. ``later`` has them as they were
    packed, and every change of the entry here keeps them (I22)."""

    later: tuple[bytes, ...] = ()

    def pack(self) -> bytes:
        """The bytes stored in the row: every known member, and the unknown ones behind them."""
        members = [getattr(self, name) for name in Entry.__struct_fields__]
        count = (_MEMBERS + len(self.later)).to_bytes(2)
        return _ARRAY + count + _ENCODER.encode(members)[3:] + b"".join(self.later)

    @classmethod
    def of(cls, packed: bytes) -> LaterEntry:
        """The entry that a newer release packed."""
        parts = [bytes(part) for part in _PARTS.decode(packed)]
        entry = _DECODER.decode(_ARRAY + _MEMBERS.to_bytes(2) + b"".join(parts[:_MEMBERS]))
        members = {name: getattr(entry, name) for name in Entry.__struct_fields__}
        return cls(**members, later=tuple(parts[_MEMBERS:]))


def cost(entry: Entry, packed: bytes | None = None) -> int:
    """Bytes that ``entry`` adds to the row: the ``packed`` entry (by default as it packs itself),
    its identity in ``ids``, DynamoDB's overhead, and the streaming applications it names, which the
    row may forget when the entry leaves the tail.
    """
    packed = entry.pack() if packed is None else packed
    return len(packed) + len(entry.txn.encode()) + 8 + entry.apps * APP_BYTES


Packed = bytes
"""The type, where ``bytes`` is a member."""


class TableHead(StoredRow, frozen=True):
    """A parsed HEAD: every attribute of a refs row of kind ``table``. Times in ms.

    Attributes:
        latest: the newest ratified version.
        floor: the newest version known to be in ``_delta_log``, with all before it.
        tail_from: version of the first entry of ``tail``; ``tail_ict`` and ``tail_hwm`` are the
            in-commit timestamp and the row-id high-water mark before it.
        ids: transaction ids of the entries in ``tail``.
        epoch: the newest version that changed metadata.
        last_ict: in-commit timestamp of ``latest``.
        bytes: the tail's part of ``ROW_BUDGET``.
        metadata: id of the table metadata, an obj.
        created, changed_at: server clock.
        managed: whether the catalog may remove the table's files.
        row_hwm: row-id high-water mark; None where row tracking is off.
        apps: the last version in or before the tail that carried a ``txn`` of a streaming
            application, by hashed id.
        pending: there while something may be unpublished.
        reason: why the table is in its state.
        source: uuid of the source of a pinned clone, which shows the source's log; empty for every
            other table.
        undecided: a commit of a large group that is not decided yet, packed
            (``core.undecided``); empty for none.
        reserved_by: the holder of a reservation of the table (``core.reservations``), empty for
            none; it counts until ``reserved_until`` (ms).
        first: the version that the table was created or imported with, which was not ratified here.
    """

    kind: ClassVar[str] = "table"

    table_id: str
    catalog: str
    name: str
    location: str
    state: State
    latest: int
    floor: int
    tail_from: int
    tail: tuple[Entry, ...]
    tail_ict: int
    epoch: int
    last_ict: int
    bytes: int
    metadata: str
    created: int
    changed_at: int
    managed: bool
    tail_hwm: int | None = None
    row_hwm: int | None = None
    ids: frozenset[str] = frozenset()
    apps: dict[str, int] = msgspec.field(default_factory=dict)
    pending: int | None = None
    reason: str = ""
    source: str = ""
    undecided: Packed = b""
    first: int = 0
    reserved_by: str = ""
    reserved_until: int = 0

    @classmethod
    def from_row(cls, row: Row) -> TableHead:
        """Parses a refs row of kind ``table``; one of an early release may lack ``changed_at``."""
        if not row.get("changed_at") and "created" in row:
            row = {**row, "changed_at": row["created"]}
        return super().from_row(row)


def gone_for_good(head: TableHead) -> bool:
    """Whether a table was dropped and cannot be restored: its files are another's, or being
    removed. Any other reason is that of a table which was stuck when it was dropped."""
    return head.state == DROPPED and head.reason in (PURGING, PURGED, EXPORTED)


def new_head_row(
    *,
    key: str,
    table_id: str,
    catalog: str,
    name: str,
    location: str,
    metadata: str,
    version: int,
    ict: int,
    row_hwm: int | None,
    created: int,
    managed: bool,
) -> Row:
    """The row of a table whose versions up to ``version`` are all published (0 for a new one, N for
    an import)."""
    return TableHead(
        key=key,
        table_id=table_id,
        catalog=catalog,
        name=name,
        location=location,
        state=ACTIVE,
        latest=version,
        floor=version,
        tail_from=version + 1,
        tail=(),
        tail_ict=ict,
        tail_hwm=row_hwm,
        epoch=version,
        last_ict=ict,
        row_hwm=row_hwm,
        bytes=0,
        metadata=metadata,
        created=created,
        changed_at=created,
        managed=managed,
        first=version,
    ).to_row()


# -- the tail's commits at their versions -----------------------------------------------------------------------------


class PlacedCommit(msgspec.Struct, frozen=True):
    """A ratified commit with its version, in-commit timestamp, staged name and row ids.

    For a named commit they were proposed; for a ticket they follow from its position in the row
    (design 2.2), so the write that ratified it fixed them, and every process computes the same
    ones.

    ``first_row`` is the base row id of a ticket's first file (None without row tracking);
    ``modified_ms`` the one stable modification time of the version.
    """

    version: int
    ict: int
    modified_ms: int
    first_row: int | None
    published: bool
    entry: Entry

    @property
    def name(self) -> str:
        """Name of its staged file; of an inline commit the one that it would have."""
        return self.entry.name or staged_file(self.version, self.entry.unique or inline_unique(self.entry.txn))


def mark_after(mark: int | None, entry: Entry) -> int | None:
    """Row-id high-water mark after ``entry`` (None without row tracking)."""
    if entry.hwm == ROWS_OFF:
        return None
    if entry.hwm != ROWS_KEPT:
        return entry.hwm
    return mark + entry.rows if entry.ticket and mark is not None else mark


def tail_by_version(head: TableHead) -> tuple[PlacedCommit, ...]:
    """The tail of ``head`` in ascending version order (I1, I7 hold by construction)."""
    placed = []
    ict = head.tail_ict
    hwm = head.tail_hwm
    for version, entry in enumerate(head.tail, start=head.tail_from):
        ict = max(entry.ict, ict + 1) if entry.ticket else entry.ict
        first_row = hwm + 1 if entry.ticket and hwm is not None else None
        hwm = mark_after(hwm, entry)
        modified_ms = entry.modified_ms or ict
        published = version <= head.floor
        placed.append(PlacedCommit(version, ict, modified_ms, first_row, published, entry))
    return tuple(placed)


def newest(head: TableHead) -> PlacedCommit | None:
    """The last of ``tail_by_version(head)``, without the others; None if the tail is empty."""
    if not head.tail:
        return None
    entry = head.tail[-1]
    ict = head.last_ict
    first_row = None if not entry.ticket or head.row_hwm is None else head.row_hwm - entry.rows + 1
    return PlacedCommit(head.latest, ict, entry.modified_ms or ict, first_row, head.latest <= head.floor, entry)


# -- the final bytes of a ticket --------------------------------------------------------------------------------------

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Stats(msgspec.Struct):
    numRecords: int = 0


class _Add(msgspec.Struct):
    stats: str = "{}"


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def final_bytes(place: PlacedCommit, proposed: bytes) -> bytes:
    """The content of version ``place.version``: of a ticket the ``proposed`` bytes with the members
    filled in that follow from its position, else the proposed bytes themselves (I2).

    Members that do not depend on the position keep their exact bytes (``msgspec.Raw``), so every
    process computes the same bytes.
    """
    if not place.entry.ticket:
        return proposed
    next_row = place.first_row
    lines = []
    for line in proposed.rstrip(b"\n").split(b"\n"):
        ((name, body),) = _OBJECT.decode(line).items()
        if name == "commitInfo":
            body = _raw(_OBJECT.decode(body) | {"inCommitTimestamp": _raw(place.ict)})
        elif name == "add" and next_row is not None:
            rows = msgspec.json.decode(msgspec.json.decode(body, type=_Add).stats, type=_Stats).numRecords
            placed = {"baseRowId": _raw(next_row), "defaultRowCommitVersion": _raw(place.version)}
            body = _raw(_OBJECT.decode(body) | placed)
            next_row = next_row + rows
        elif name == "domainMetadata":
            continue  # only row tracking's own is allowed in a blind append; it is written anew below
        lines.append(msgspec.json.encode({name: body}))
    if next_row is not None:
        mark = msgspec.json.encode({"rowIdHighWaterMark": next_row - 1}).decode()
        domain = {"domain": ROW_TRACKING_DOMAIN, "configuration": mark, "removed": False}
        lines.append(msgspec.json.encode({"domainMetadata": domain}))
    return b"\n".join(lines) + b"\n"
