"""Content of inline commits for answers: what a loser must see of the winners, and readers who want bytes, not files.

Nothing here reads a HEAD: a refusal already brought the row with it (design 2.1), and only content that was moved to
an obj costs one more request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from turnstile.delta.content import content_of, unpack
from turnstile.delta.core.head import Positioned, TableHead, final_bytes, positioned
from turnstile.delta.materialise import Materialised, materialise
from turnstile.store.core.errors import NotFound, StateConflict, TurnstileError
from turnstile.store.core.limits import Limits
from turnstile.store.core.locations import published_path
from turnstile.store.core.names import MAX_VERSION
from turnstile.store.ports import BATCH_GET_MAX, World


def inline_contents(world: World, catalog: str, places: Sequence[Positioned], budget: int) -> dict[int, bytes]:
    """The ratified bytes of inline commits that are not published yet, by version.

    The newest come first, as many as fit; leaving one out is never wrong, since every commit has a file or can get
    one. So a fault while fetching objs leaves theirs out instead of hiding the answer they would have decorated.

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
        found = world.objs.get_many(world.space.objs(catalog), [place.entry.obj for place in places])
    except TurnstileError:
        return {}
    return {place.version: found[place.entry.obj].payload for place in places if place.entry.obj in found}


# -- commits ----------------------------------------------------------------------------------------------------------
# The ratified commits that a table's HEAD still carries, for readers (design 2.3).


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
        self._materialised = Materialised()

    def head(self, table_id: str) -> TableHead:
        """The HEAD in whatever state, also a dropped table's tombstone. One strongly consistent read.

        Raises:
            NotFound: no such table.
        """
        row = self._world.refs.read(self._world.space.table(table_id))
        if row is None:
            raise NotFound("table", table_id, field="table_id", remedy="load the table by name again")
        return TableHead.from_row(row)

    def listed(self, table_id: str, start: int = 0, end: int = MAX_VERSION, *, content: bool = False) -> Listing:
        """``of`` for the table's present HEAD."""
        return self.of(self.head(table_id), start, end, content=content)

    def of(self, head: TableHead, start: int = 0, end: int = MAX_VERSION, *, content: bool = False) -> Listing:
        """The commits of ``head`` from ``start`` to ``end``, both included.

        Every inline commit among them has its file when this returns, unless its content is in the answer
        (``content``, newest first up to the limit of an answer).

        Raises:
            NotFound: the table was dropped; its folder must not be written to any more (I10).
            StateConflict: the HEAD does not yet know all that storage knows (I6).
            StorageFault: a file could not be written; try again.
        """
        check_readable(head)
        places = [place for place in positioned(head) if start <= place.version <= end]
        contents = inline_contents(self._world, head.catalog, places, self._limits.winners_bytes) if content else {}
        files = [place for place in places if place.version not in contents]
        sizes = materialise(self._world, head, files, known=self._materialised)
        return Listing(
            head=head,
            places=places,
            sizes=sizes | {version: len(content) for version, content in contents.items()},
            contents=contents,
        )

    def earlier(self, table_id: str, version: int) -> Earlier:
        """A version that was ratified before, for the answer to a replay (I2, I3). Off the hot path.

        Raises:
            StorageFault: storage could not be read; try again.
        """
        head = self.head(table_id)
        for place in positioned(head):
            if place.version == version:
                return Earlier(place, content_of(self._world, head, place), whole=True)
        found = self._world.storages.open(head.location).read(published_path(version), limit=self._limits.prefix_bytes)
        if found is None:
            return Earlier(None, None, whole=False)
        raw, stat = found
        return Earlier(None, raw, whole=len(raw) == stat.size, size=stat.size)


def check_readable(head: TableHead) -> None:
    """Raise unless the table's commits may be shown."""
    if head.state == "dropped":
        raise NotFound("table", head.table_id, field="table_id", remedy="the table was dropped; list the namespace")
    if head.state == "recovering":
        raise StateConflict(
            "TableNotActive",
            "the coordinator was restored and is catching up with storage",
            remedy="try again shortly",
            state=head.state,
            latest=head.latest,
        )
