"""The types of objs and of updateable objects, registered by name (Polaris, "Object Types"): how they are addressed and
cached, and which kind of gc removes them. Ids and names are part of what is stored and never change.

    commit, segment, entities    made by a change of a catalog under a random id, which a HEAD names afterwards
    metadata, inline             of one Delta table, addressed by content: written again, they are the same obj
    identity                     of one Delta table, addressed by what they are about
    task                         updateable: a row of ``refs`` that changes in place (``coordination.core.rows``)

**Absence.** That an obj is missing may be remembered only if it can never be written later. That holds for random ids that
become known only after the obj is written: one that is missing was removed by gc. It does not hold for the rest: an identity
is written when its commit leaves the tail (I3), content and metadata may be proposed again at any moment, and names and
HEADs are no objs at all (I6).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

import msgspec

Kind = Literal["staged", "staging", "dropped", "objs", "metadata", "iceberg", "history", "catalogs", "refs"]
"""Kinds of garbage collection (``gc``)."""


class Caching(Enum):
    """What a process keeps of a type in memory. Immutable objs are never invalidated."""

    SHARED = "as much as fits, with all others of this kind"
    APART = "in a small memory of its own: large, and soon of no use"
    NEVER = "nothing: read once, or mutable"


class ObjType(msgspec.Struct, frozen=True):
    """One type.

    Attributes:
        name: ``Obj.type``, or the type of an updateable object.
        prefix: what ids of this type begin with; types that gc treats alike share one.
        caching: what a process keeps of it.
        absence_ms: for how long a process may believe that an obj it did not find is missing; 0: not at all. More
            than 0 is sound only as above; it is short, so that a restored table is soon seen.
        collected: the kind of gc that removes it; None: it ends by itself (``Obj.expires``), or is never removed.
        remedy: what to do about one that is over the limit.
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
        """An id of this type."""
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
TASK: Final = ObjType("task", "task/", caching=Caching.NEVER, mutable=True)

ENTITY_PREFIX: Final = "entity/"
ENTITIES: Final = tuple(
    ObjType(
        name,
        ENTITY_PREFIX,
        absence_ms=ONCE_MS,
        collected="history",
        remedy="shorten its comment or properties",
    )
    for name in ("namespace", "table", "catalog", "iceberg-table", "iceberg-view", "snapshot")
)
"""One for each struct of ``catalog.core.entities.Entity``: its tag."""

TYPES: Final = {type.name: type for type in (COMMIT, *ENTITIES, SEGMENT, METADATA, INLINE, IDENTITY, TASK)}
_BY_PREFIX: Final = {type.prefix: type for type in TYPES.values() if not type.mutable}


def registered(name: str, id: str) -> ObjType:
    """Returns the type of an obj that is to be written.

    Raises:
        ValueError: no such type of objs, or not an id of that type: gc would never find it.
    """
    type = TYPES.get(name)
    if type is None or type.mutable:
        raise ValueError(f"no type {name!r} of objs is registered in core/obj_types.py (obj {id!r})")
    if not id.startswith(type.prefix):
        raise ValueError(f"ids of type {name!r} begin with {type.prefix!r}, which {id!r} does not")
    return type


def of_id(id: str) -> ObjType | None:
    """Returns the type of the obj with this id; any of those that share a prefix, since they are treated alike. None: the
    type is not known here, as in a process that is older than the obj."""
    return _BY_PREFIX.get(id[: id.find("/") + 1])


def prefixes(kind: Kind) -> tuple[str, ...]:
    """Prefixes of what a kind of gc collects, in the order of registration: objs that refer to others go before them."""
    return tuple(dict.fromkeys(type.prefix for type in TYPES.values() if type.collected == kind))
