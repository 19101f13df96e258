"""The ratified bytes of commits, wherever they are kept (I2, I4), and the files that readers are promised.

    staged, not yet published      the staged file, whole, if its bytes are those that were validated
    inline in the row              the entry's bytes, made final for their position
    inline in an obj               the same, from the obj
    published                      ``_delta_log/<v>.json``

When a commit is not where it should be, the published file counts if it carries the same transaction: an engine may have
published it and removed the staged file.

Inline commits get their files by ``materialise`` (design 2.3). Name and bytes were fixed when the commit was ratified, so
anybody may write the file, in any order, any number of times; clients write their own copy in parallel with the request.
If the file exists with other bytes, its name is not given out, since a reader who follows the name must find the ratified
bytes: the error is "try again", until the version is published, which needs no staged file. Replacing the file would need
the right to delete in the lake, which the commit function does not have, and would race with whoever wrote it.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from turnstile.delta.core.head import Positioned, TableHead, digest_of, final_bytes
from turnstile.store.cache import Lru
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.locations import published_path, staged_path
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import LogStorage, World

_WRITE_ATTEMPTS = 3

FileSizes = Lru[tuple[str, str], int]
"""Sizes in bytes of the files that exist, by table id and staged name. Files above the floor never go away, so an entry
stays true for as long as it is needed."""


class ContentMissing(StorageFault):
    """A ratified commit's content is not where the HEAD says it is; ``version`` and ``path`` are in ``details``."""


class ContentChanged(StorageFault):
    """A staged file does not hold what was ratified: it was overwritten afterwards."""


def pack(content: bytes) -> bytes:
    """Compresses inline content for the row or an obj."""
    return zlib.compress(content, 6)


def unpack(packed: bytes) -> bytes:
    """The content that ``pack`` was given."""
    return zlib.decompress(packed)


def content_of(world: World, head: TableHead, place: Positioned) -> bytes:
    """Returns the exact bytes that version ``place.version`` was ratified with. At most two requests; usually one or none.

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
    file = storage.read(path)
    if file is None:
        return _published(storage, place) or _missing(place, path)
    raw, _ = file
    if not is_same_commit(place, raw):
        was = f"was ratified with {entry.size}" if len(raw) != entry.size else "was ratified with other content"
        raise ContentChanged(
            f"staged file {place.name} has {len(raw)} bytes but {was}",
            remedy="restore the file as it was ratified, then run 'turnstile repair'",
            version=place.version,
            path=path,
        )
    return raw


def is_same_commit(place: Positioned, raw: bytes) -> bool:
    """Whether ``raw`` is what was ratified, as far as the row knows: by its transaction; by its size, except for a ticket;
    and by its digest, if it is a staged commit that was read whole."""
    entry = place.entry
    if transaction_of(raw) != entry.txn or not (entry.ticket or len(raw) == entry.size):
        return False
    return not entry.digest or digest_of(raw) == entry.digest


class _Info(msgspec.Struct):
    txnId: str = ""


class _FirstLine(msgspec.Struct):
    commitInfo: _Info | None = None


def transaction_of(raw: bytes) -> str:
    """The txn id on a commit's first line, or "" when there is none."""
    end = raw.find(b"\n")
    try:
        first = msgspec.json.decode(raw if end < 0 else raw[:end], type=_FirstLine)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return first.commitInfo.txnId if first.commitInfo else ""


def _published(storage: LogStorage, place: Positioned) -> bytes | None:
    file = storage.read(published_path(place.version))
    return file[0] if file is not None and is_same_commit(place, file[0]) else None


def _missing(place: Positioned, where: str) -> bytes:
    raise ContentMissing(
        f"the content of version {place.version} is missing: {where}",
        remedy="restore it, then run 'turnstile repair'",
        version=place.version,
        path=where,
    )


# -- files of inline commits ------------------------------------------------------------------------------------------


def materialise(
    world: World,
    head: TableHead,
    places: Iterable[Positioned],
    *,
    known: FileSizes | None = None,
    workers: int = 8,
    faults: Faults = no_faults,
) -> dict[int, int]:
    """Makes sure that every inline, unpublished commit of ``places`` has its file.

    Args:
        known: files that need no second look; keep one for the life of a sandbox.
        workers: how many files are written at once (1: strictly one after the other).

    Returns:
        version -> size in bytes of the file under its name, for every place but published tickets, whose
        final size the row no longer knows.

    Raises:
        ContentMissing: an inline commit's bytes are gone.
        StorageFault: a file could not be written, or holds other bytes; try again.
    """
    storage = world.storages.open(head.location)
    sizes: dict[int, int] = {}
    missing: list[Positioned] = []
    for place in places:
        if place.entry.inline and not place.published:
            size = known.get((head.table_id, place.name)) if known is not None else None
            if size is None:
                missing.append(place)
            else:
                sizes[place.version] = size
        elif not (place.published and place.entry.ticket):
            sizes[place.version] = place.entry.size

    def write(place: Positioned) -> int:
        content = content_of(world, head, place)
        _put(storage, staged_path(place.name), content)
        faults("materialise.put")
        return len(content)

    if len(missing) <= 1 or workers <= 1:
        written = [write(place) for place in missing]
    else:
        with ThreadPoolExecutor(min(workers, len(missing))) as pool:
            written = list(pool.map(write, missing))
    for place, size in zip(missing, written, strict=True):
        sizes[place.version] = size
        if known is not None:
            known.put((head.table_id, place.name), size)
    return sizes


def _put(storage: LogStorage, path: str, content: bytes) -> None:
    """Creates the file, or sees that it holds ``content``; several times, as a client's own copy may still be growing."""
    for _ in range(_WRITE_ATTEMPTS):
        if storage.put_if_absent(path, content):
            return
        file = storage.read(path)
        if file is not None and file[0] == content:
            return
    raise StorageFault(
        f"{path} holds other bytes than were ratified under this name",
        remedy="try again: publication, which follows at once, needs no staged file; find out who writes there",
        retry_after_ms=200,
        path=path,
    )
