"""Metadata snapshots as objs, cached for the life of the sandbox (they are immutable)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

import msgspec

from turnstile.delta.core.content import Content
from turnstile.delta.core.decide import Proposal
from turnstile.delta.core.head import ROWS_KEPT, ROWS_OFF, ROWS_UNREAD, TableHead
from turnstile.delta.core.metadata import DeltaMetadata, apply, check_shown
from turnstile.delta.proposals import CommitRequest
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.keys import Space, metadata_obj
from turnstile.store.core.obj_types import METADATA
from turnstile.store.ports import Obj, Objs

_CACHED = 512


class MetadataStore:
    """Reads and writes metadata snapshots by id."""

    def __init__(self, objs: Objs, space: Space) -> None:
        self._objs, self._space = objs, space
        self._cache: OrderedDict[tuple[str, str], DeltaMetadata] = OrderedDict()

    def cached(self, catalog: str, id: str) -> DeltaMetadata | None:
        """The snapshot if this sandbox has it."""
        return self._cache.get((catalog, id))

    def get(self, catalog: str, id: str) -> DeltaMetadata:
        """The snapshot ``id``; at most one request, none when cached."""
        known = self._cache.get((catalog, id))
        if known is not None:
            return known
        obj = self._objs.get(self._space.objs(catalog), id)
        if obj is None:
            raise TurnstileError(f"metadata snapshot {id} is missing", remedy="restore the objs table")
        return self.adopt(catalog, obj)

    def get_many(self, catalog: str, ids: Collection[str]) -> dict[str, DeltaMetadata]:
        """Several of one catalog: one request per hundred that are not cached. Missing ones are left out."""
        found = {id: known for id in ids if (known := self.cached(catalog, id)) is not None}
        missing = [id for id in ids if id not in found]
        if missing:
            for id, obj in self._objs.get_many(self._space.objs(catalog), missing).items():
                found[id] = self.adopt(catalog, obj)
        return found

    def adopt(self, catalog: str, obj: Obj) -> DeltaMetadata:
        """Decode and cache an obj that was read elsewhere."""
        snapshot = msgspec.json.decode(obj.payload, type=DeltaMetadata)
        self._remember(catalog, obj.id, snapshot)
        return snapshot

    def put(self, catalog: str, table_id: str, snapshot: DeltaMetadata, now_ms: int) -> str:
        """Write a snapshot and return its id, the etag; idempotent.

        Raises:
            TooLarge: no answer could tell it; nothing was written.
        """
        check_shown(snapshot)
        payload = msgspec.json.encode(snapshot)
        id = metadata_obj(table_id, snapshot.version, payload)
        self._objs.put(Obj(self._space.objs(catalog), id, METADATA.name, payload, created_us=now_ms * 1000))
        self._remember(catalog, id, snapshot)
        return id

    def _remember(self, catalog: str, id: str, snapshot: DeltaMetadata) -> None:
        self._cache[(catalog, id)] = snapshot
        while len(self._cache) > _CACHED:
            self._cache.popitem(last=False)


# -- effects ----------------------------------------------------------------------------------------------------------
# What a commit does to a table's metadata: the snapshot after it, and the mark of the row ids it may have assigned.


def with_effects(
    snapshots: MetadataStore,
    head: TableHead,
    proposal: Proposal,
    content: Content,
    *,
    request: CommitRequest,
    now_ms: int,
) -> Proposal:
    """The proposal of ``request``, with the snapshot that its commit makes written and the one it was made from asserted.

    Args:
        head: the HEAD that the commit is to extend; its snapshot is the one before.
        now_ms: server clock (ms), when the snapshot is written.

    Raises:
        TurnstileError: what ``request.describe`` raises; nothing was written then.
    """
    if not content.changes_metadata and not request.always:  # not read whole: it may have assigned any row ids
        unread = not content.whole and head.row_hwm is not None and content.hwm is None
        return _with_mark(proposal, ROWS_UNREAD) if unread else proposal
    version = request.version or 0
    before = snapshots.get(head.catalog, head.metadata)
    if request.describe is None:
        after = apply(before, content, version)
    else:
        after = request.describe(head.metadata, before, content, version)
    metadata = snapshots.put(head.catalog, head.table_id, after, now_ms)
    if not after.row_tracking:
        proposal = _with_mark(proposal, ROWS_KEPT if head.row_hwm is None else ROWS_OFF)
    elif proposal.entry.hwm == ROWS_KEPT and (head.row_hwm is None or not content.whole):
        proposal = _with_mark(proposal, -1 if content.whole else ROWS_UNREAD)
    return msgspec.structs.replace(
        proposal,
        metadata=metadata,
        asserts=request.etag if request.etag is not None else head.metadata,
    )


def _with_mark(proposal: Proposal, hwm: int) -> Proposal:
    return msgspec.structs.replace(proposal, entry=msgspec.structs.replace(proposal.entry, hwm=hwm))
