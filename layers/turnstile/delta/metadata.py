"""Table metadata as objs, and the effect of a commit on it."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from turnstile.delta.core.content import Content
from turnstile.delta.core.decide import Proposal
from turnstile.delta.core.head import ROWS_KEPT, ROWS_OFF, ROWS_UNREAD, TableHead
from turnstile.delta.core.metadata import DeltaMetadata, apply, check_shown
from turnstile.delta.proposals import CommitRequest
from turnstile.store.cache import Lru
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.rows import METADATA, Space, metadata_obj
from turnstile.store.ports import Obj, Objs

_CACHED = 512
_METADATA = msgspec.json.Decoder(DeltaMetadata)


class MetadataStore:
    """Reads and writes table metadata by id; keeps some in memory, since it never changes."""

    def __init__(self, objs: Objs, space: Space) -> None:
        self._objs = objs
        self._space = space
        self._cache = Lru[tuple[str, str], DeltaMetadata](_CACHED)

    def find_cached(self, catalog: str, id: str) -> DeltaMetadata | None:
        """Returns the metadata if this sandbox has it."""
        return self._cache.get((catalog, id))

    def get(self, catalog: str, id: str) -> DeltaMetadata:
        """Returns the metadata; at most one request, none when cached."""
        cached = self.find_cached(catalog, id)
        if cached is not None:
            return cached
        obj = self._objs.get(self._space.objs(catalog), id)
        if obj is None:
            raise TurnstileError(f"metadata snapshot {id} is missing", remedy="restore the objs table")
        return self.adopt(catalog, obj)

    def get_many(self, catalog: str, ids: Collection[str]) -> dict[str, DeltaMetadata]:
        """Several of one catalog: one request per hundred that are not cached. Missing ones are
        left out."""
        metadata = {id: cached for id in ids if (cached := self.find_cached(catalog, id)) is not None}
        missing = [id for id in ids if id not in metadata]
        if missing:
            for id, obj in self._objs.get_many(self._space.objs(catalog), missing).items():
                metadata[id] = self.adopt(catalog, obj)
        return metadata

    def adopt(self, catalog: str, obj: Obj) -> DeltaMetadata:
        """Decodes and caches an obj that was read elsewhere."""
        metadata = obj.decode_with(_METADATA.decode)
        self._cache.put((catalog, obj.id), metadata)
        return metadata

    def put(self, catalog: str, table_id: str, metadata: DeltaMetadata, now_ms: int) -> str:
        """Writes the metadata and returns its id, the etag; idempotent. Raises TooLarge if it fits
        no response."""
        check_shown(metadata)
        payload = msgspec.json.encode(metadata)
        id = metadata_obj(table_id, metadata.version, payload)
        self._objs.put(Obj(self._space.objs(catalog), id, METADATA.name, payload, created_us=now_ms * 1000))
        self._cache.put((catalog, id), metadata)
        return id


def with_effects(
    store: MetadataStore, head: TableHead, proposal: Proposal, content: Content, *, request: CommitRequest, now_ms: int
) -> Proposal:
    """Returns the proposal of ``request`` with the effect of its commit on the table of ``head``:
    the new metadata, which is written here, the metadata that it was made from, which it asserts,
    and the mark of the row ids that it may have assigned. Raises the errors of
    ``request.describe``; nothing was written then.
    """
    if not content.changes_metadata and not request.always:  # not read whole: it may have assigned any row ids
        unread = not content.whole and head.row_hwm is not None and content.hwm is None
        return _with_mark(proposal, ROWS_UNREAD) if unread else proposal
    version = request.version or 0
    before = store.get(head.catalog, head.metadata)
    describe = request.describe
    after = describe(head.metadata, before, content, version) if describe else apply(before, content, version)
    metadata = store.put(head.catalog, head.table_id, after, now_ms)
    if not after.row_tracking:
        proposal = _with_mark(proposal, ROWS_KEPT if head.row_hwm is None else ROWS_OFF)
    elif proposal.entry.hwm == ROWS_KEPT and (head.row_hwm is None or not content.whole):
        proposal = _with_mark(proposal, -1 if content.whole else ROWS_UNREAD)
    asserts = request.etag if request.etag is not None else head.metadata
    return msgspec.structs.replace(proposal, metadata=metadata, asserts=asserts)


def _with_mark(proposal: Proposal, hwm: int) -> Proposal:
    return msgspec.structs.replace(proposal, entry=msgspec.structs.replace(proposal.entry, hwm=hwm))
