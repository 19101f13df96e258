"""Publishing one version: exactly the ratified bytes into ``_delta_log/<v>.json``, put-if-absent (I4)."""

from __future__ import annotations

from turnstile.delta.content import ContentMissing, content_of
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.positions import Positioned
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.paths import published_path
from turnstile.store.faults import Faults, no_faults
from turnstile.store.world import World

_TRIES = 3


class LogDiffers(StorageFault):
    """``_delta_log/<v>.json`` exists and is not the ratified commit. It is never overwritten. ``growing`` in
    ``details`` says that it is a beginning of the ratified bytes, as if somebody were still writing it."""


def publish_version(world: World, head: TableHead, place: Positioned, faults: Faults = no_faults) -> None:
    """See to it that version ``place.version`` is in ``_delta_log``; every version before it must be.

    An engine may have published it already: the same bytes are as good as our own.

    Raises:
        ContentMissing, ContentChanged: the ratified bytes are lost.
        LogDiffers: the file holds something else.
        StorageFault: storage did not answer; try again.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            _publish(world, head, place, faults)
        except LogDiffers as differs:
            if not (differs.details["growing"] and tries_left):
                raise
        except (ContentMissing, StorageFault):
            if not tries_left:
                raise
        else:
            return


def _publish(world: World, head: TableHead, place: Positioned, faults: Faults) -> None:
    content = content_of(world, head, place)
    faults("publish.fetched")
    storage = world.storages.open(head.location)
    path = published_path(place.version)
    if storage.put_if_absent(path, content):
        faults("publish.copied")
        return
    found = storage.read(path, limit=len(content) + 1)
    if found is None:
        raise StorageFault(f"{path} exists and cannot be read", remedy="try again", path=path)
    if found[0] != content:
        raise LogDiffers(
            f"{path} holds {found[1].size} bytes that are not the ratified commit's {len(content)}",
            remedy="somebody wrote it past the catalog: move the file away and run 'turnstile repair', "
            "which publishes the ratified bytes",
            version=place.version,
            path=path,
            growing=content.startswith(found[0]),
        )
    faults("publish.verified")
