"""The identity index: (table, txn id or staged name) -> version, for commits that have left the tail (I3)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from turnstile.delta.core.positions import Positioned
from turnstile.store.core.keys import Space, identity_obj
from turnstile.store.core.obj_types import IDENTITY
from turnstile.store.ports import Clock, Obj, Objs


class IdentityIndex:
    """Write-once entries, kept for ``days`` days.

    Args:
        objs: where the entries live.
        space: tenant key space.
        days: how long a replay is recognised after publication.
    """

    def __init__(self, objs: Objs, space: Space, clock: Clock, days: int) -> None:
        self._objs, self._space, self._clock, self._days = objs, space, clock, days

    def remember(self, catalog: str, table_id: str, places: Iterable[Positioned]) -> None:
        """Write the entries of ``places``; must be durable before they leave the tail."""
        now = self._clock.now_ms()
        entries = []
        for place in places:
            payload = msgspec.msgpack.encode(place.version)
            for identity in (place.entry.txn, place.name):
                entries.append(
                    Obj(
                        space=self._space.objs(catalog),
                        id=identity_obj(table_id, identity),
                        type=IDENTITY.name,
                        payload=payload,
                        created=now * 1000,
                        expires=now // 1000 + self._days * 86_400,
                    )
                )
        self._objs.put_many(entries)

    def recall(self, catalog: str, table_id: str, identities: Iterable[str]) -> int | None:
        """The version that one of ``identities`` became, or None. One request."""
        ids = [identity_obj(table_id, identity) for identity in identities if identity]
        for obj in self._objs.get_many(self._space.objs(catalog), ids).values():
            return msgspec.msgpack.decode(obj.payload, type=int)
        return None
