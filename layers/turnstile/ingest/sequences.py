"""The last sequence of a producer in a table, from the commit that recorded it."""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.delta.commits import content_of
from turnstile.delta.core.head import TableHead, tail_by_version
from turnstile.store.cache import Lru
from turnstile.store.core.names import published_path
from turnstile.store.core.rows import app_key
from turnstile.store.ports import World

_REMEMBERED: Final = 10_000
_CONTENT_BYTES: Final = 1024 * 1024


class _Txn(msgspec.Struct):
    appId: str
    version: int


class _Action(msgspec.Struct):
    txn: _Txn | None = None


_ACTIONS: Final = msgspec.json.Decoder(_Action)


class Sequences:
    """Finds the last sequence of a producer; remembers those that it has read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._last = Lru[tuple[str, str], tuple[int, int]](_REMEMBERED)

    def last_of(self, head: TableHead, producer: str) -> int | None:
        """Returns the sequence of the producer's newest commit, as long as the HEAD names that
        commit; None for a producer without one. At most one read, of that commit. Raises
        StorageFault.
        """
        version = head.apps.get(app_key(producer))
        if version is None:
            return None
        remembered = self._last.get((head.table_id, producer))
        if remembered is not None and remembered[0] == version:
            return remembered[1]
        last = _sequence_in(self._content(head, version), producer)
        if last is not None:
            self._last.put((head.table_id, producer), (version, last))
        return last

    def _content(self, head: TableHead, version: int) -> bytes:
        for place in tail_by_version(head):
            if place.version == version:
                return content_of(self._world, head, place)
        file = self._world.storages.open(head.location).read(published_path(version), _CONTENT_BYTES)
        return b"" if file is None else file[0]


def _sequence_in(content: bytes, producer: str) -> int | None:
    """The version of the producer's ``txn`` action in a commit."""
    for line in content.split(b"\n"):
        if b'"txn"' not in line:
            continue
        try:
            txn = _ACTIONS.decode(line).txn
        except msgspec.MsgspecError:  # the last line of a content that was cut
            continue
        if txn is not None and txn.appId == producer:
            return txn.version
    return None
