"""The identity index: (table, txn id or staged name) -> version, for commits that have left the tail (I3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from turnstile.delta.core.decide import find_identity
from turnstile.delta.core.head import Positioned, TableHead, gone_for_good, positioned
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.keys import Space, identity_obj
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import parse_staged_file
from turnstile.store.core.obj_types import IDENTITY
from turnstile.store.ports import Clock, Obj, Objs, World


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
                        created_us=now * 1000,
                        expires_s=now // 1000 + self._days * 86_400,
                    )
                )
        self._objs.put_many(entries)

    def recall(self, catalog: str, table_id: str, identities: Iterable[str]) -> int | None:
        """The version that one of ``identities`` became, or None. One request."""
        ids = [identity_obj(table_id, identity) for identity in identities if identity]
        for obj in self._objs.get_many(self._space.objs(catalog), ids).values():
            return msgspec.msgpack.decode(obj.payload, type=int)
        return None


# -- outcome ----------------------------------------------------------------------------------------------------------
# What became of a proposal: asked after an answer was lost (design 2.1, I3).


class Outcome(msgspec.Struct, frozen=True):
    """``ratified`` as ``version``; ``never``: final, it will not be the version that was asked about; ``open``: an
    earlier attempt may yet land, only the same proposal may be sent again."""

    outcome: Literal["ratified", "never", "open"]
    latest: int
    version: int | None = None


class Outcomes:
    """Answers from the HEAD, and from the identity index where the HEAD has forgotten. At most two requests."""

    def __init__(self, world: World, limits: Limits | None = None) -> None:
        self._refs, self._space = world.refs, world.space
        self._index = IdentityIndex(world.objs, world.space, world.clock, (limits or Limits()).identity_days)

    def of(self, table_id: str, *, txn: str = "", name: str = "", version: int | None = None) -> Outcome:
        """The outcome of the proposal with this txn id or staged name.

        Args:
            version: the version that was proposed; a staged name says it by itself. Without one (a ticket) an
                unknown identity stays ``open``.

        Raises:
            NotFound: no such table.
            InvalidRequest: not exactly one identity, or ``name`` is no staged commit of ``version``.
        """
        version = _asked_version(txn, name, version)
        row = self._refs.read(self._space.table(table_id))
        if row is None:
            raise NotFound("table", table_id, field="table_id", remedy="load the table by name again")
        head = TableHead.from_row(row)
        # The row first: what leaves its tail afterwards is in the index already.
        mine = find_identity(positioned(head), txn, name)
        found = mine.version if mine is not None else self._index.recall(head.catalog, table_id, [txn, name])
        if found is not None:
            return Outcome("ratified", head.latest, found)
        # A table that was dropped may be brought back, and with it what an earlier attempt needs.
        final = gone_for_good(head) or (version is not None and version <= head.latest)
        return Outcome("never" if final else "open", head.latest)


def _asked_version(txn: str, name: str, version: int | None) -> int | None:
    if bool(txn) == bool(name):
        raise InvalidRequest("give either txn_id or name", field="txn_id", remedy="exactly one of the two")
    if not name:
        return version
    parsed = parse_staged_file(name)
    if parsed is None:
        raise InvalidRequest(
            f"name {name!r} is not a staged commit", field="name", remedy="<20 digits of the version>.<uuid>.json"
        )
    if version is not None and version != parsed[0]:
        raise InvalidRequest(
            f"name {name!r} is not of version {version}", field="version", remedy="leave version out; the name says it"
        )
    return parsed[0]
