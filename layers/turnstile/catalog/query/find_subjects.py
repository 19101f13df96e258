"""What a predicate is judged on: first what the index knows, then the entity, then a Delta table's own properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from turnstile.catalog.core.entities import Entity, Table, id_of, kind_of
from turnstile.catalog.core.iceberg_entities import KINDS as ICEBERG
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.query.core.query import TYPES, Subject, Value
from turnstile.delta.core.head import TableHead
from turnstile.delta.metadata import Snapshots
from turnstile.store.world import World


def named(name: str, entry: IndexEntry) -> Subject:
    """What the index says of an entry: no request. Names compare folded, so the key's last level will do."""
    known: dict[str, Value] = {"name": name, "kind": entry.kind}
    if entry.table_id:
        known["id"] = entry.table_id
    return Subject(entry.kind, known)


def whole(entity: Entity, properties: Mapping[str, str] | None = None) -> Subject:
    """What an entity says; ``properties`` those that are not part of it, once they are known."""
    members: dict[str, Value | None] = {name: getattr(entity, name, None) for name in TYPES}
    if kind_of(entity) in ICEBERG:
        members["format"] = "iceberg"
    members |= {"kind": kind_of(entity), "id": id_of(entity)}
    if not getattr(entity, "updated", 0):
        members["updated"] = None
    known = {name: value for name, value in members.items() if value is not None}
    return Subject(kind_of(entity), known, whole=True, properties=_own(entity) if properties is None else properties)


def _own(entity: Entity) -> Mapping[str, str] | None:
    """An entity's properties; None for a Delta table, which has them beside its HEAD."""
    if isinstance(entity, Table):
        return None if entity.external is None else entity.external.properties
    return getattr(entity, "properties", {})  # an Iceberg table's are in its metadata file, which nobody opens for this


def characters(subject: Subject) -> int:
    """How much text there is to compare with a query."""
    said = [value for value in subject.attributes.values() if isinstance(value, str)]
    properties = subject.properties or {}
    return sum(map(len, said)) + sum(map(len, properties)) + sum(map(len, properties.values()))


class TableProperties:
    """Properties of Delta tables, as their HEADs have them now."""

    def __init__(self, world: World, snapshots: Snapshots) -> None:
        self._refs, self._space, self._snapshots = world.refs, world.space, snapshots

    def of(self, catalog: str, entries: Iterable[IndexEntry]) -> dict[str, Mapping[str, str]]:
        """By table uuid; one request per hundred HEADs, and one per hundred of their snapshots that are not cached.
        Tables that are gone are left out."""
        keys = [self._space.table(entry.table_id) for entry in entries if entry.table_id]
        if not keys:
            return {}
        heads = [TableHead.from_row(row) for row in self._refs.read_many(keys).values()]
        found = self._snapshots.get_many(catalog, {head.metadata for head in heads})
        return {
            head.table_id: {**said.beside.properties, **(said.metadata.get("configuration") or {})}
            for head in heads
            if (said := found.get(head.metadata)) is not None
        }
