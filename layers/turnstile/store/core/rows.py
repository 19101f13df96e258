"""Rows of the two tables: their keys, the types of objs, and the attributes of refs.

* Rows of ``refs`` change in place. ``Space`` makes their keys; a ``StoredRow`` declares the
  attributes of a kind.
* Rows of ``objs`` are written once. Their types are registered by name (Polaris, "Object Types"):
  how they are addressed and cached, and which kind of gc removes them. Names and ids are stored and
  never change.

    commit, segment, entities    made by a change of a catalog under a random id, which a HEAD names
                                 afterwards
    metadata, inline             of one Delta table, addressed by content: written again, they are
                                 the same obj
    identity                     of one Delta table, addressed by its subject
    transaction                  the commits of an announced transaction, addressed by content; ends
                                 by itself
    file-index                   the root of a Delta table's file index (``planning``), addressed by
                                 version and content
    events                       a full chunk of an event log, addressed by its place; ends by
                                 itself
    checks                       findings about a state of a branch (``branches.records``), addressed
                                 by the state; ends by itself
    task                         updateable: a row of ``refs`` that changes in place
                                 (``coordination.core.rows``)

**Absence.** That an obj is missing may be cached only if it can never be written later. That holds
for random ids, which become known only after the obj is written: one that is missing was removed by
gc. It does not hold for the rest: an identity is written when its commit leaves the tail (I3),
content and metadata may be proposed again at any moment, and names and HEADs are no objs at all
(I6).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self, Union, get_args, get_origin

import msgspec

from turnstile.store.core.errors import NewerFormat, OutcomeUnknown, UnreadableRow
from turnstile.store.core.names import branched_catalog, inline_unique, is_inline_unique, parse_staged_file
from turnstile.store.core.writes import FIRST, FORMAT, KNOWN, Row

# -- keys of refs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Space:
    """A tenant's key space: every key carries the realm, every obj key realm and catalog (Polaris,
    "Multi-tenancy")."""

    realm: str

    def table(self, table_id: str) -> str:
        """A Delta table's HEAD."""
        return f"{self.realm}/table/{table_id}"

    def attention(self, of: str = "tables") -> str:
        """The work list of a schedule, and its progress; ``tables`` is the sweeper's."""
        return f"{self.realm}/attention/{of}"

    def group(self, ref: str) -> str:
        """The row that decides a large group of commits."""
        return f"{self.realm}/group/{ref}"

    def reservations(self) -> str:
        """The register of reservations of tables."""
        return f"{self.realm}/reservations/all"

    def catalog(self, name: str) -> str:
        """A catalog's HEAD."""
        return f"{self.realm}/catalog/{name.lower()}"

    def dropped_catalog(self, name: str) -> str:
        """A dropped catalog whose objs are still there."""
        return f"{self.realm}/gone/{name.lower()}"

    def staging(self, table_id: str) -> str:
        return f"{self.realm}/staging/{table_id}"

    def location(self, location: str) -> str:
        """The owner of a normalised storage location."""
        return f"{self.realm}/location/{location}"

    def external(self, table_id: str) -> str:
        """An external table's location, by uuid."""
        return f"{self.realm}/external/{table_id}"

    def request(self, catalog: str, principal: str, idempotency_key: str) -> str:
        """A request with an idempotency key."""
        digest = hashlib.sha256(f"{len(principal)}/{principal}/{idempotency_key}".encode()).hexdigest()[:40]
        return f"{self.realm}/request/{catalog.lower()}/{digest}"

    def client(self, client_id: str) -> str:
        return f"{self.realm}/client/{client_id}"

    def transaction(self, id: str) -> str:
        """The journal's entry of a transaction over tables."""
        return f"{self.realm}/transaction/{id}"

    def ref(self, name: str) -> str:
        """Another system's reference; its kind keeps it apart from all other keys."""
        return f"{self.realm}/ref/{name}"

    def updateable(self, name: str) -> str:
        """An updateable object, ``<type>/<id>``."""
        return f"{self.realm}/updateable/{name}"

    def event_log(self, catalog: str) -> str:
        """A catalog's event log."""
        return f"{self.realm}/event-log/{catalog.lower()}"

    def event_mark(self, key: str) -> str:
        """Up to where the changes of the HEAD under ``key``, a table's or a catalog's, have
        events."""
        return f"{self.realm}/event-mark/{key.removeprefix(self.realm + '/')}"

    def event_delivery(self, catalog: str, target: str) -> str:
        """Up to where a target has got the events of a catalog."""
        return f"{self.realm}/event-delivery/{catalog.lower()}/{target}"

    def fleet(self) -> str:
        """The members of the fleet."""
        return f"{self.realm}/fleet/members"

    def fleet_member(self, id: str) -> str:
        return f"{self.realm}/fleet-member/{id}"

    def fleet_granule(self, name: str) -> str:
        """A granule, ``<role>/<number>``."""
        return f"{self.realm}/fleet-granule/{name}"

    def fleet_moves(self, member: str, number: int) -> str:
        """An entry of a member's log: granules that left it."""
        return f"{self.realm}/fleet-moves/{member}/{number}"

    def objs(self, catalog: str) -> str:
        """A catalog's partition of objs, which its branches share."""
        return f"{self.realm}/{branched_catalog(catalog).lower()}"


def app_key(app_id: str) -> str:
    """Bounded key of a streaming ``txn.appId`` in a HEAD's ``apps``."""
    return hashlib.sha256(app_id.encode()).hexdigest()[:16]


# -- attributes of refs ------------------------------------------------------------------------------------------------


class StoredAs(Enum):
    """How the value of an attribute is stored."""

    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    BINARY = "binary"
    TEXT_SET = "set of texts"
    TEXT_LIST = "list of texts"
    BINARY_LIST = "list of binaries"
    COUNTS = "map of numbers"


def format_of(row: Mapping[str, Any]) -> int:
    """Returns the format that ``row`` needs."""
    return int(row.get(FORMAT[0], FIRST))


def require_known(rows: Iterable[Row | None], *, uncertain: bool = False) -> None:
    """Refuses rows that are of a newer format than this release knows; None is a row that is not
    there. A store calls it on the rows that refused a write, before it answers.

    Args:
        uncertain: the same write was sent before, and its answer lost: it may have been applied
            before newer code came.

    Raises:
        NewerFormat: a row is newer; nothing was changed.
        OutcomeUnknown: a row is newer, and ``uncertain`` is set.
    """
    for row in rows:
        if row is not None and format_of(row) > KNOWN:
            error = NewerFormat(str(row.get("key")), format_of(row), KNOWN)
            raise OutcomeUnknown(f"an answer was lost, and now {error.public_message}") if uncertain else error


DAMAGED: Final = "damaged"
"""The member of a placeholder for a row that cannot be decoded, with the reason."""


def damaged_row(key: str, error: Exception) -> Row:
    """Returns a placeholder for a row that a store cannot decode, in a result of several rows: the
    others are returned, and it is not taken for a missing row. Parsing it raises UnreadableRow."""
    kind = key.split("/", 2)[1] if key.count("/") >= 2 else ""
    return {"key": key, "kind": kind, DAMAGED: str(error) or type(error).__name__}


def is_damaged(row: Row) -> bool:
    """Whether this stands for a row that cannot be decoded."""
    return DAMAGED in row


def require_readable(row: Row) -> Row:
    """Returns the row. Raises UnreadableRow if it stands for one that cannot be decoded."""
    if DAMAGED in row:
        raise UnreadableRow(str(row["key"]), str(row[DAMAGED]))
    return row


class Attribute(NamedTuple):
    """One attribute of a kind of row.

    ``optional``: a row may lack it, and a parsed row then has ``default``. ``decode`` and
    ``encode`` convert between the stored value and the member's.
    """

    name: str
    stored_as: StoredAs
    optional: bool
    default: Any
    decode: Callable[[Any], Any]
    encode: Callable[[Any], Any]


class StoredRow(msgspec.Struct, frozen=True):
    """A parsed row of ``refs``. Subclasses declare ``kind`` and the attributes, each once, as an
    annotated member.

    The declaration determines how a row is parsed (``from_row``), how a new row is written
    (``to_row``), and the attributes for adapters (``attributes``).

        annotation                 stored as               not stored
        ``str``, a ``Literal``     text
        ``int``, ``bool``          number, flag
        ``bytes``                  binary
        ``frozenset[str]``         set of texts            when empty: DynamoDB has no empty set
        ``tuple[str, ...]``        list of texts
        ``tuple[Struct, ...]``     list of binaries        the struct's ``pack()``; read back by its
                                                           ``unpack``, or as msgpack
        ``dict[str, int]``         map of numbers          never left out: writes set members in it

    A member that has a default is not stored while it has it; ``None`` never is.
    """

    key: str
    kind: ClassVar[str]

    @classmethod
    def from_row(cls, row: Row) -> Self:
        """Parses a row of this kind. Attributes that are not declared are ignored: a newer release
        may have written them.

        Raises:
            UnreadableRow: the row is damaged: an attribute without a default is missing, or has an
                impossible value.
            NewerFormat: this release does not know the row's format (I22).
        """
        require_known((row,))
        require_readable(row)
        try:
            return cls(
                **{name: attribute.decode(row[name]) for name, attribute in attributes(cls).items() if name in row}
            )
        except (TypeError, ValueError, msgspec.DecodeError) as error:
            raise UnreadableRow(str(row.get("key")), str(error)) from error

    def to_row(self) -> Row:
        """Returns the row to be inserted."""
        row: Row = {"key": self.key, "kind": self.kind}
        for name, attribute in attributes(type(self)).items():
            value = getattr(self, name)
            if value is not None and not (attribute.optional and value == attribute.default):
                row[name] = attribute.encode(value)
        return row


@cache
def attributes(row: type[StoredRow]) -> Mapping[str, Attribute]:
    """The attributes that a kind of row declares, by name; ``kind``, which every row has, is not
    among them."""
    return {field.name: _attribute(field) for field in msgspec.structs.fields(row)}


def _attribute(field: msgspec.structs.FieldInfo) -> Attribute:
    annotation = field.type
    if get_origin(annotation) in (UnionType, Union):
        (annotation,) = (part for part in get_args(annotation) if part is not type(None))
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    stored_as, decode, encode = _codec(annotation)
    optional = not field.required and stored_as is not StoredAs.COUNTS
    return Attribute(field.name, stored_as, optional, default, decode, encode)


def _codec(annotation: Any) -> tuple[StoredAs, Callable[[Any], Any], Callable[[Any], Any]]:
    plain = {str: StoredAs.TEXT, int: StoredAs.NUMBER, bool: StoredAs.FLAG, bytes: StoredAs.BINARY}.get(annotation)
    if plain is not None:
        return plain, annotation, annotation
    origin = get_origin(annotation)
    (first, *_) = get_args(annotation)
    if isinstance(first, str):  # a Literal
        return StoredAs.TEXT, str, str
    if origin is frozenset:
        return StoredAs.TEXT_SET, frozenset, set
    if origin is dict:
        return StoredAs.COUNTS, dict, dict
    if first is str:
        return StoredAs.TEXT_LIST, tuple, list
    decode = getattr(first, "unpack", None) or msgspec.msgpack.Decoder(first).decode
    return (
        StoredAs.BINARY_LIST,
        lambda packed: tuple(map(decode, packed)),
        lambda members: [member.pack() for member in members],
    )


# -- types and ids of objs ---------------------------------------------------------------------------------------------

Kind = Literal[
    "staged",
    "log",
    "staging",
    "dropped",
    "objs",
    "metadata",
    "iceberg-manifests",
    "iceberg-snapshots",
    "iceberg",
    "iceberg-files",
    "history",
    "catalogs",
    "refs",
    "transactions",
    "groups",
    "file-index",
]
"""Kinds of garbage collection (``gc``)."""


class Caching(Enum):
    """A process's cache of a type. Immutable objs are never invalidated."""

    SHARED = "as much as fits, with all others of this kind"
    APART = "in a small memory of its own: large, and soon of no use"
    NEVER = "nothing: read once, or mutable"


class ObjType(msgspec.Struct, frozen=True):
    """One type.

    Attributes:
        name: ``Obj.type``, or the type of an updateable object.
        prefix: the beginning of ids of this type; types that gc treats alike share one.
        absence_ms: for how long a process may treat an obj that it did not find as missing. More
            than 0 is sound only as above; it is short, so that a restored table is soon seen.
        collected: the kind of gc that removes it; None: it ends by itself (``Obj.expires_s``), or
            is never removed.
        remedy: the advice about one that is over the limit.
        mutable: whether it is an updateable object instead of an obj.
    """

    name: str
    prefix: str
    caching: Caching = Caching.SHARED
    absence_ms: int = 0
    collected: Kind | None = None
    remedy: str | None = None
    mutable: bool = False

    def id(self, rest: str) -> str:
        return self.prefix + rest


ONCE_MS: Final = 30_000
"""For how long the absence of an obj with a random id is believed."""

COMMIT: Final = ObjType("commit", "commit/", absence_ms=ONCE_MS, collected="history", remedy="use another catalog")
SEGMENT: Final = ObjType("segment", "segment/", absence_ms=ONCE_MS, collected="history", remedy="use another catalog")
METADATA: Final = ObjType(
    "metadata", "metadata/", collected="metadata", remedy="shorten the table's comments or properties"
)
INLINE: Final = ObjType(
    "inline", "inline/", caching=Caching.APART, collected="objs", remedy="propose the commit as a staged file"
)
IDENTITY: Final = ObjType("identity", "identity/", caching=Caching.NEVER)
TRANSACTION: Final = ObjType(
    "transaction", "transaction/", caching=Caching.NEVER, remedy="propose its commits as staged files"
)
EVENTS: Final = ObjType("events", "events/", caching=Caching.APART)
EVENT_LOG: Final = ObjType("event-log", "event-log/", caching=Caching.NEVER)
FILE_INDEX: Final = ObjType(
    "file-index", "file-index/", collected="file-index", remedy="index fewer columns: shorten the schema"
)
CHECKS: Final = ObjType("checks", "checks/", caching=Caching.NEVER)
TASK: Final = ObjType("task", "task/", caching=Caching.NEVER, mutable=True)

ENTITY_PREFIX: Final = "entity/"
ENTITIES: Final = tuple(
    ObjType(name, ENTITY_PREFIX, absence_ms=ONCE_MS, collected="history", remedy="shorten its comment or properties")
    for name in ("namespace", "table", "catalog", "iceberg-table", "iceberg-view", "snapshot")
)
"""One for each struct of ``catalog.core.entities.Entity``: its tag."""

TYPES: Final = {
    type.name: type
    for type in (
        COMMIT,
        *ENTITIES,
        SEGMENT,
        METADATA,
        INLINE,
        IDENTITY,
        TRANSACTION,
        EVENTS,
        EVENT_LOG,
        FILE_INDEX,
        CHECKS,
        TASK,
    )
}
_BY_PREFIX: Final = {type.prefix: type for type in TYPES.values() if not type.mutable}


def register_type(name: str, id: str) -> ObjType:
    """Returns the type of an obj that is to be written.

    Raises:
        ValueError: no such type of objs, or not an id of that type: gc would never find it.
    """
    type = TYPES.get(name)
    if type is None or type.mutable:
        raise ValueError(f"no type {name!r} of objs is registered in core/rows.py (obj {id!r})")
    if not id.startswith(type.prefix):
        raise ValueError(f"ids of type {name!r} begin with {type.prefix!r}, which {id!r} does not")
    return type


def of_id(id: str) -> ObjType | None:
    """Returns the type of the obj with this id; any type with the same prefix, since they are
    treated alike. None: the type is not known here, as in a process that is older than the obj."""
    return _BY_PREFIX.get(id[: id.find("/") + 1])


def prefixes(kind: Kind) -> tuple[str, ...]:
    """Prefixes of the objs of a kind of gc, in the order of registration: objs that refer to others
    go before them."""
    return tuple(dict.fromkeys(type.prefix for type in TYPES.values() if type.collected == kind))


def identity_obj(table_id: str, identity: str) -> str:
    """Id of an identity-index entry: (table, txn id or staged name) -> version.

    The name of an inline commit is a function of its txn id, so both have the same entry: one
    write unit less for each commit.
    """
    key = identity
    if (staged := parse_staged_file(identity)) is None:
        key = inline_unique(identity)
    elif is_inline_unique(staged[1]):
        key = staged[1]
    return _identity(table_id, key)


def identity_objs(table_id: str, identity: str) -> tuple[str, ...]:
    """Ids under which an entry of this identity may lie: that of ``identity_obj``, and the one that
    releases up to 2026-11-23 wrote, which hashed every identity as it is. An upgrade must find both
    for as long as entries are kept (I3)."""
    ids = (identity_obj(table_id, identity), _identity(table_id, identity))
    return ids if ids[0] != ids[1] else ids[:1]


def _identity(table_id: str, key: str) -> str:
    return IDENTITY.id(f"{table_id}/{hashlib.sha256(key.encode()).hexdigest()[:40]}")


def inline_obj(table_id: str, now_ms: int, payload: bytes) -> str:
    """Id of inline content: addressed by its bytes, so that writing it twice is harmless, and by
    the day.

    gc removes old objs that no HEAD refers to. Without the day, a proposal that is sent again much
    later would find its old obj, write nothing, and be ratified while gc removes it (I10).
    """
    return INLINE.id(f"{table_id}/{now_ms // 86_400_000:06d}.{hashlib.sha256(payload).hexdigest()[:40]}")


def metadata_obj(table_id: str, version: int, payload: bytes) -> str:
    """Id of table metadata: in order of the version that made it, unique by content. It is the
    etag."""
    return METADATA.id(f"{table_id}/{version:020d}.{hashlib.sha256(payload).hexdigest()[:24]}")
