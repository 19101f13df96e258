"""The ratified commits that a table's HEAD still carries, for readers and for those who lost a race (design 2.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from turnstile.delta.content import FileSizes, content_of, materialise, unpack
from turnstile.delta.core.head import DROPPED, RECOVERING, Positioned, TableHead, final_bytes, positioned
from turnstile.delta.heads import read_head
from turnstile.store.core.errors import NotFound, StateConflict, TurnstileError
from turnstile.store.core.limits import Limits
from turnstile.store.core.locations import published_path
from turnstile.store.core.names import MAX_VERSION
from turnstile.store.ports import BATCH_GET_MAX, World

_FILES = 10_000


class Listing(msgspec.Struct, frozen=True):
    """Commits of one HEAD, ascending and contiguous: one consistent view (I1, I6).

    ``sizes`` bytes of the file under a commit's name, where it is known; ``contents`` inline content that was asked
    for. A commit without content here has its file, or is published.
    """

    head: TableHead
    places: Sequence[Positioned]
    sizes: Mapping[int, int]
    contents: Mapping[int, bytes]


class Earlier(msgspec.Struct, frozen=True):
    """A commit ratified before: its ``place`` while a tail has it, its exact bytes (None: the log was cleaned up
    since; a prefix when not ``whole``) and the ``size`` of its published file."""

    place: Positioned | None
    raw: bytes | None
    whole: bool
    size: int = 0


class Commits:
    """Reads HEADs and lists their tails. One per sandbox: it remembers which files it has written."""

    def __init__(self, world: World, limits: Limits | None = None) -> None:
        self._world = world
        self._limits = limits or Limits()
        self._files = FileSizes(_FILES)

    def head(self, table_id: str) -> TableHead:
        """``read_head``."""
        return read_head(self._world, table_id)

    def listed(self, table_id: str, start: int = 0, end: int = MAX_VERSION, *, content: bool = False) -> Listing:
        """As ``of``, for the table's present HEAD."""
        return self.of(self.head(table_id), start, end, content=content)

    def of(self, head: TableHead, start: int = 0, end: int = MAX_VERSION, *, content: bool = False) -> Listing:
        """Returns the commits of ``head`` from ``start`` to ``end``, both included.

        Every inline commit among them has its file when this returns, unless its content is in the result (``content``,
        newest first up to ``winners_bytes``).

        Raises:
            NotFound: the table was dropped; its folder must not be written to any more (I10).
            StateConflict: the HEAD does not yet know all that storage knows (I6).
            StorageFault: a file could not be written; try again.
        """
        check_readable(head)
        places = [place for place in positioned(head) if start <= place.version <= end]
        contents = inline_contents(self._world, head.catalog, places, self._limits.winners_bytes) if content else {}
        files = [place for place in places if place.version not in contents]
        sizes = materialise(self._world, head, files, known=self._files)
        return Listing(
            head=head,
            places=places,
            sizes=sizes | {version: len(content) for version, content in contents.items()},
            contents=contents,
        )

    def earlier(self, table_id: str, version: int) -> Earlier:
        """A version that was ratified before, for the response to a replay (I2, I3). Off the hot path.

        Raises:
            StorageFault: storage could not be read; try again.
        """
        head = self.head(table_id)
        for place in positioned(head):
            if place.version == version:
                return Earlier(place, content_of(self._world, head, place), whole=True)
        storage = self._world.storages.open(head.location)
        file = storage.read(published_path(version), limit=self._limits.prefix_bytes)
        if file is None:
            return Earlier(None, None, whole=False)
        raw, stat = file
        return Earlier(None, raw, whole=len(raw) == stat.size, size=stat.size)


def check_readable(head: TableHead) -> None:
    """Raise unless the table's commits may be shown."""
    if head.state == DROPPED:
        raise NotFound("table", head.table_id, field="table_id", remedy="the table was dropped; list the namespace")
    if head.state == RECOVERING:
        raise StateConflict(
            "TableNotActive",
            "the coordinator was restored and is catching up with storage",
            remedy="try again shortly",
            state=head.state,
            latest=head.latest,
        )


def inline_contents(world: World, catalog: str, places: Sequence[Positioned], budget: int) -> dict[int, bytes]:
    """Returns the ratified bytes of inline commits that are not published yet, by version.

    The newest come first, as many as fit. Leaving one out is never wrong, since every commit has a file or can get one: so
    a fault while objs are read leaves theirs out, and does not fail the request. No HEAD is read: a refusal brought the row
    with it (design 2.1), and only content in objs costs one more request.

    Args:
        catalog: whose objs hold the larger contents.
        places: in any order.
        budget: bytes in all.
    """
    chosen: list[Positioned] = []
    for place in sorted(places, key=lambda place: place.version, reverse=True):
        if place.published or not place.entry.inline or not (place.entry.data or place.entry.obj):
            continue
        budget -= place.entry.size
        if budget < 0:
            break
        chosen.append(place)
    packed = {place.version: place.entry.data for place in chosen if place.entry.data}
    packed |= _from_objs(world, catalog, [place for place in chosen if not place.entry.data][:BATCH_GET_MAX])
    return {
        place.version: final_bytes(place, unpack(packed[place.version])) for place in chosen if place.version in packed
    }


def _from_objs(world: World, catalog: str, places: Sequence[Positioned]) -> dict[int, bytes]:
    if not places:
        return {}
    try:
        objs = world.objs.get_many(world.space.objs(catalog), [place.entry.obj for place in places])
    except TurnstileError:
        return {}
    return {place.version: objs[place.entry.obj].payload for place in places if place.entry.obj in objs}
