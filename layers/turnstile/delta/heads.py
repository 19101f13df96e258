"""The HEADs of tables when this process saw them last, and constant facts about tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from turnstile.delta.commits import read_head
from turnstile.delta.core.decide import Proposal, Ratified
from turnstile.delta.core.head import PlacedCommit, TableHead
from turnstile.store.cache import Lru
from turnstile.store.ports import World

_FACTS: Final = 10_000
"""Tables with cached facts."""


class TableFacts(msgspec.Struct, frozen=True):
    """The constant facts about a table; ``name``, its full name, was so when this process read it
    last."""

    catalog: str
    location: str
    name: str


class LastSeen(msgspec.Struct, frozen=True):
    """A table's HEAD when this process saw it last. ``latest`` and ``last_ict`` never fall but by a
    restore, so they tell which writes would be refused; the row decides."""

    metadata: str
    latest: int
    last_ict: int


class SeenHeads:
    """Caches facts and HEADs by table id. Safe for threads; one per process, for all objects that
    decide commits."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._facts = Lru[str, TableFacts](_FACTS)
        self._seen = Lru[str, LastSeen](_FACTS)

    def facts(self, table_id: str) -> TableFacts:
        """Returns the constant facts about a table: no request once they are cached. Raises
        NotFound."""
        facts = self._facts.get(table_id)
        if facts is None:
            head = self.read(table_id)
            facts = TableFacts(head.catalog, head.location, head.name)
        return facts

    def last(self, table_id: str) -> LastSeen | None:
        """Returns the HEAD that was seen last; None if it is not cached."""
        return self._seen.get(table_id)

    def read(self, table_id: str) -> TableHead:
        """Returns a table's HEAD as it is now, and caches it. Raises NotFound."""
        return self.remember(read_head(self._world, table_id))

    def remember(self, head: TableHead) -> TableHead:
        """Caches the facts of a HEAD that was read or returned; returns it."""
        self._facts.put(head.table_id, TableFacts(head.catalog, head.location, head.name))
        self._seen.put(head.table_id, LastSeen(head.metadata, head.latest, head.last_ict))
        return head

    def remember_accepted(self, table_id: str, proposal: Proposal) -> Ratified:
        """Caches and returns the result of a named commit with asserted or new metadata, accepted
        in a transaction, which returns no row."""
        entry = proposal.entry
        version = proposal.version or 0
        metadata = proposal.metadata or proposal.asserts or ""
        self._seen.put(table_id, LastSeen(metadata, version, entry.ict))
        place = PlacedCommit(version, entry.ict, entry.modified_ms or entry.ict, None, False, entry)
        return Ratified(place, version, latest=version, metadata=metadata)

    def is_taken(self, table_id: str, proposal: Proposal) -> bool:
        """Whether the version of a proposal was seen taken: the write would be refused with the row
        that a read returns."""
        seen = self._seen.get(table_id)
        return seen is not None and proposal.version is not None and proposal.version <= seen.latest

    def has_facts(self, table_id: str) -> bool:
        """Whether the constant facts of a table are cached: it had a HEAD."""
        return self._facts.get(table_id) is not None

    def without_head(self, table_ids: Iterable[str]) -> list[str]:
        """Returns the ids of tables without a cached HEAD."""
        return [id for id in table_ids if self._seen.get(id) is None]
