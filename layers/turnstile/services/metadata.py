"""Metadata snapshots as objs, cached for the life of the sandbox (they are immutable)."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from turnstile.core.errors import TurnstileError
from turnstile.core.keys import Space, metadata_obj
from turnstile.core.metadata import MetadataSnapshot
from turnstile.ports import Obj, Objs

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

    def adopt(self, catalog: str, obj: Obj) -> MetadataSnapshot:
        """Decode and cache an obj that was read elsewhere."""
        snapshot = msgspec.json.decode(obj.payload, type=MetadataSnapshot)
        self._remember(catalog, obj.id, snapshot)
        return snapshot

    def put(self, catalog: str, table_id: str, snapshot: MetadataSnapshot, now_ms: int) -> str:
        """Write a snapshot and return its id, the etag; idempotent."""
        payload = msgspec.json.encode(snapshot)
        id = metadata_obj(table_id, snapshot.version, payload)
        self._objs.put(Obj(self._space.objs(catalog), id, "metadata", payload, created=now_ms * 1000))
        self._remember(catalog, id, snapshot)
        return id

    def _remember(self, catalog: str, id: str, snapshot: MetadataSnapshot) -> None:
        self._cache[(catalog, id)] = snapshot
        while len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
