"""How inline content is packed for the row or an obj."""

from __future__ import annotations

import zlib

import msgspec

from turnstile.delta.core.head import Positioned, TableHead, digest_of, final_bytes
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.locations import published_path, staged_path
from turnstile.store.ports import LogStorage, World


def pack(content: bytes) -> bytes:
    """Compressed content."""
    return zlib.compress(content, 6)


def unpack(packed: bytes) -> bytes:
    """The content that ``pack`` was given."""
    return zlib.decompress(packed)


# -- content ----------------------------------------------------------------------------------------------------------
# The ratified bytes of a commit, wherever they are kept (I2, I4).
#
#     staged, not yet published      the staged file, whole, if its bytes are those that were judged
#     inline in the row              the entry's bytes, made final for their position
#     inline in an obj               the same, from the obj
#     published                      ``_delta_log/<v>.json``
#
# When the place a commit should be in has lost it, the published file counts if it carries the same transaction: an
# engine may have published by itself and cleaned up behind itself.


class ContentMissing(StorageFault):
    """A ratified commit's content is not where the HEAD says it is; ``version`` and ``path`` are in ``details``."""


class ContentChanged(StorageFault):
    """A staged file does not hold what was ratified: somebody wrote to it afterwards."""


class _Info(msgspec.Struct):
    txnId: str = ""


class _First(msgspec.Struct):
    commitInfo: _Info | None = None


def transaction_of(raw: bytes) -> str:
    """The txn id on a commit's first line, or "" when there is none."""
    end = raw.find(b"\n")
    try:
        first = msgspec.json.decode(raw if end < 0 else raw[:end], type=_First)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return first.commitInfo.txnId if first.commitInfo else ""


def is_same_commit(place: Positioned, raw: bytes) -> bool:
    """Whether ``raw`` is what was ratified, as far as the row knows: by its transaction; but for a ticket, by its size; and
    by its digest, if it is a staged commit that was read whole."""
    entry = place.entry
    if transaction_of(raw) != entry.txn or not (entry.ticket or len(raw) == entry.size):
        return False
    return not entry.digest or digest_of(raw) == entry.digest


def content_of(world: World, head: TableHead, place: Positioned) -> bytes:
    """The exact bytes that version ``place.version`` was ratified with. At most two requests; usually one or none.

    Raises:
        ContentMissing: they are nowhere.
        ContentChanged: the staged file was changed after it was ratified.
        StorageFault: storage could not be read; try again.
    """
    entry = place.entry
    if entry.data:
        return final_bytes(place, unpack(entry.data))
    storage = world.storages.open(head.location)
    if place.published:
        return _published(storage, place) or _missing(place, published_path(place.version))
    if entry.inline:
        obj = world.objs.get(world.space.objs(head.catalog), entry.obj) if entry.obj else None
        if obj is not None:
            return final_bytes(place, unpack(obj.payload))
        return _published(storage, place) or _missing(place, f"obj {entry.obj}")
    path = staged_path(place.name)
    found = storage.read(path)
    if found is None:
        return _published(storage, place) or _missing(place, path)
    raw, _ = found
    if not is_same_commit(place, raw):
        was = f"was ratified with {entry.size}" if len(raw) != entry.size else "was ratified with other content"
        raise ContentChanged(
            f"staged file {place.name} has {len(raw)} bytes but {was}",
            remedy="restore the file as it was ratified, then run 'turnstile repair'",
            version=place.version,
            path=path,
        )
    return raw


def _published(storage: LogStorage, place: Positioned) -> bytes | None:
    found = storage.read(published_path(place.version))
    return found[0] if found is not None and is_same_commit(place, found[0]) else None


def _missing(place: Positioned, where: str) -> bytes:
    raise ContentMissing(
        f"the content of version {place.version} is missing: {where}",
        remedy="restore it, then run 'turnstile repair'",
        version=place.version,
        path=where,
    )
