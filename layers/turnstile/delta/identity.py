"""The identity index: (table, txn id or staged name) -> version, for commits that have left the
tail (I3); and outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from turnstile.delta.commits import read_head
from turnstile.delta.core.decide import find_identity
from turnstile.delta.core.head import PlacedCommit, gone_for_good, tail_by_version
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import parse_staged_file
from turnstile.store.core.rows import IDENTITY, Space, identity_obj, identity_objs
from turnstile.store.ports import Clock, Obj, Objs, World

_VERSION: Final = msgspec.msgpack.Decoder(int)


class IdentityIndex:
    """Reads and writes the entries. Written once, kept for ``days`` days: so long a replay is
    recognised after publication."""

    def __init__(self, objs: Objs, space: Space, clock: Clock, days: int) -> None:
        self._objs = objs
        self._space = space
        self._clock = clock
        self._days = days

    def remember(self, catalog: str, table_id: str, places: Iterable[PlacedCommit]) -> None:
        """Writes the entries of ``places``; must be durable before they leave the tail."""
        now = self._clock.now_ms()
        self._objs.put_many(
            Obj(
                space=self._space.objs(catalog),
                id=id,
                type=IDENTITY.name,
                payload=msgspec.msgpack.encode(place.version),
                created_us=now * 1000,
                expires_s=now // 1000 + self._days * 86_400,
            )
            for place in places
            for id in {identity_obj(table_id, identity): None for identity in (place.entry.txn, place.name)}
        )

    def recall(self, catalog: str, table_id: str, identities: Iterable[str]) -> int | None:
        """Returns the version that one of ``identities`` became, or None. One request."""
        ids = [id for identity in identities if identity for id in identity_objs(table_id, identity)]
        for obj in self._objs.get_many(self._space.objs(catalog), ids).values():
            return obj.decode_with(_VERSION.decode)
        return None

    def versions_of(self, catalog: str, table_id: str, txns: Iterable[str]) -> dict[str, int]:
        """Returns the versions that transactions became, by transaction id, as far as the index has
        them. One request for fifty."""
        ids = {id: txn for txn in txns if txn for id in identity_objs(table_id, txn)}
        objs = self._objs.get_many(self._space.objs(catalog), list(ids))
        return {ids[id]: obj.decode_with(_VERSION.decode) for id, obj in objs.items()}


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a proposal.

    ``ratified``: as ``version``. ``never``: it is not ratified and never will be. ``open``: an
    earlier attempt may still be accepted; only the same proposal may be sent again.
    """

    outcome: Literal["ratified", "never", "open"]
    latest: int
    version: int | None = None


class Outcomes:
    """Finds the outcome of a proposal whose response was lost (design 2.1, I3): in the HEAD, then
    in the identity index. At most two requests."""

    def __init__(self, world: World, limits: Limits | None = None) -> None:
        self._world = world
        self._index = IdentityIndex(world.objs, world.space, world.clock, (limits or Limits()).identity_days)

    def of(self, table_id: str, *, txn: str = "", name: str = "", version: int | None = None) -> Outcome:
        """Returns the outcome of the proposal with this txn id or staged name, for ``version``,
        which a staged name contains; without one (a ticket) an unknown identity stays ``open``.
        Raises NotFound; and InvalidRequest unless exactly one identity is given and ``name`` is a
        staged commit of ``version``.
        """
        version = _proposed_version(txn, name, version)
        # The HEAD first: what leaves its tail afterwards is in the index already.
        head = read_head(self._world, table_id)
        place = find_identity(tail_by_version(head), txn, name)
        ratified = place.version if place is not None else self._index.recall(head.catalog, table_id, [txn, name])
        if ratified is not None:
            return Outcome("ratified", head.latest, ratified)
        # A table that was dropped may be restored, and then an earlier attempt may be accepted.
        final = gone_for_good(head) or (version is not None and version <= head.latest)
        return Outcome("never" if final else "open", head.latest)


def _proposed_version(txn: str, name: str, version: int | None) -> int | None:
    if bool(txn) == bool(name):
        raise InvalidRequest("give either txn_id or name", field="txn_id", remedy="exactly one of the two")
    if not name:
        return version
    parsed = parse_staged_file(name)
    if parsed is None:
        remedy = "<20 digits of the version>.<uuid>.json"
        raise InvalidRequest(f"name {name!r} is not a staged commit", field="name", remedy=remedy)
    if version is not None and version != parsed[0]:
        remedy = "leave version out; the name says it"
        raise InvalidRequest(f"name {name!r} is not of version {version}", field="version", remedy=remedy)
    return parsed[0]
