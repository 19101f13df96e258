"""Metadata snapshots as objs, cached for the life of the sandbox (they are immutable)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

import msgspec

from turnstile.delta.core.metadata import MetadataSnapshot
from turnstile.delta.core.metadata_size import check_shown
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.keys import Space, metadata_obj
from turnstile.store.core.obj_types import METADATA
from turnstile.store.ports import Obj, Objs

_CACHED = 512


class Snapshots:
    """Reads and writes metadata snapshots by id."""

    def __init__(self, objs: Objs, space: Space) -> None:
        self._objs, self._space = objs, space
        self._cache: OrderedDict[tuple[str, str], MetadataSnapshot] = OrderedDict()

    def cached(self, catalog: str, id: str) -> MetadataSnapshot | None:
        """The snapshot if this sandbox has it."""
        return self._cache.get((catalog, id))

    def get(self, catalog: str, id: str) -> MetadataSnapshot:
        """The snapshot ``id``; at most one request, none when cached."""
        known = self._cache.get((catalog, id))
        if known is not None:
            return known
        obj = self._objs.get(self._space.objs(catalog), id)
        if obj is None:
            raise TurnstileError(f"metadata snapshot {id} is missing", remedy="restore the objs table")
        return self.adopt(catalog, obj)

    def get_many(self, catalog: str, ids: Collection[str]) -> dict[str, MetadataSnapshot]:
        """Several of one catalog: one request per hundred that are not cached. Missing ones are left out."""
        found = {id: known for id in ids if (known := self.cached(catalog, id)) is not None}
        missing = [id for id in ids if id not in found]
        if missing:
            for id, obj in self._objs.get_many(self._space.objs(catalog), missing).items():
                found[id] = self.adopt(catalog, obj)
        return found

    def adopt(self, catalog: str, obj: Obj) -> MetadataSnapshot:
        """Decode and cache an obj that was read elsewhere."""
        snapshot = msgspec.json.decode(obj.payload, type=MetadataSnapshot)
        self._remember(catalog, obj.id, snapshot)
        return snapshot

    def put(self, catalog: str, table_id: str, snapshot: MetadataSnapshot, now_ms: int) -> str:
        """Write a snapshot and return its id, the etag; idempotent.

        Raises:
            TooLarge: no answer could tell it; nothing was written.
        """
        check_shown(snapshot)
        payload = msgspec.json.encode(snapshot)
        id = metadata_obj(table_id, snapshot.version, payload)
        self._objs.put(Obj(self._space.objs(catalog), id, METADATA.name, payload, created=now_ms * 1000))
        self._remember(catalog, id, snapshot)
        return id

    def _remember(self, catalog: str, id: str, snapshot: MetadataSnapshot) -> None:
        self._cache[(catalog, id)] = snapshot
        while len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
