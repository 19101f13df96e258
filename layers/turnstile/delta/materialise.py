"""Materialising: giving inline commits the files that readers are promised (design 2.3).

An inline commit's name was fixed when it was ratified, and so were its bytes: anybody may write the file, in any
order, any number of times. Clients write their own copy in parallel with the request.

What if the file exists with other bytes? The row's bytes are the ratified ones (I2) and a reader who follows the name
must find those (I4), so the name is not given out: the answer is "try again" until the version is published, which
needs no staged file. Replacing the file would need the right to delete in the lake, which the commit function does not
have, and would race with whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from turnstile.delta.content import content_of
from turnstile.delta.core.head import Positioned, TableHead
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.locations import staged_path
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import LogStorage, World

_LOOKS = 3


class Materialised:
    """What this sandbox has materialised already: (table, staged name) -> size. Files above the floor never go away,
    so an entry stays true for as long as it is asked for."""

    def __init__(self, most: int = 10_000) -> None:
        self._sizes: dict[tuple[str, str], int] = {}
        self._most = most

    def size(self, table_id: str, name: str) -> int | None:
        """The file's size in bytes, or None when this sandbox has not seen it."""
        return self._sizes.get((table_id, name))

    def remember(self, table_id: str, name: str, size: int) -> None:
        """The file is there and has ``size`` bytes."""
        if len(self._sizes) >= self._most:
            self._sizes.clear()
        self._sizes[(table_id, name)] = size


def materialise(
    world: World,
    head: TableHead,
    places: Iterable[Positioned],
    *,
    known: Materialised | None = None,
    workers: int = 8,
    faults: Faults = no_faults,
) -> dict[int, int]:
    """Make sure that every inline, unpublished commit of ``places`` has its file.

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
        size = known.size(head.table_id, place.name) if known is not None else None
        if place.entry.inline and not place.published:
            if size is None:
                missing.append(place)
                continue
            sizes[place.version] = size
        elif not (place.published and place.entry.ticket):
            sizes[place.version] = place.entry.size

    def one(place: Positioned) -> int:
        content = content_of(world, head, place)
        _put(storage, staged_path(place.name), content)
        faults("materialise.put")
        return len(content)

    if len(missing) <= 1 or workers <= 1:
        written = [one(place) for place in missing]
    else:
        with ThreadPoolExecutor(min(workers, len(missing))) as pool:
            written = list(pool.map(one, missing))
    for place, size in zip(missing, written, strict=True):
        sizes[place.version] = size
        if known is not None:
            known.remember(head.table_id, place.name, size)
    return sizes


def _put(storage: LogStorage, path: str, content: bytes) -> None:
    """Create the file, or see that it holds ``content``; several looks, as a client's own copy may still be growing."""
    for _ in range(_LOOKS):
        if storage.put_if_absent(path, content):
            return
        found = storage.read(path)
        if found is not None and found[0] == content:
            return
    raise StorageFault(
        f"{path} holds other bytes than were ratified under this name",
        remedy="try again: publication, which follows at once, needs no staged file; find out who writes there",
        retry_after_ms=200,
        path=path,
    )
