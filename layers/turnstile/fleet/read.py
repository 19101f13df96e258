"""Reads the rows of a fleet: for its members, and for people (``FleetReport``). Strongly
consistent; rows of several requests are not of one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from turnstile.fleet.core.decisions import granule_names
from turnstile.fleet.core.granules import Entry
from turnstile.fleet.core.roles import without_members
from turnstile.fleet.core.rows import FleetRow, GranuleRow, MemberRow, MovesRow
from turnstile.store.ports import World


class MemberReport(msgspec.Struct, frozen=True):
    """A member, by its row. One look cannot tell whether it is alive: ``life`` changes while it is.

    Attributes:
        loads: by role that it works for, units of work a minute.
        granules: the number of granules of each of these roles that it owns.
        migrations: transactions that gave it granules or took some.
    """

    id: str
    name: str
    state: str
    life: int
    beat_ms: int
    owned: int
    loads: dict[str, int]
    granules: dict[str, int]
    migrations: int
    joined_at: int
    shown_at: int


class GranuleReport(msgspec.Struct, frozen=True):
    """A granule that ever had an owner: its owner's id (empty: none), its epoch, since when (server
    clock, ms). The epoch counts the changes of owner."""

    name: str
    owner: str
    epoch: int
    since: int


class FleetReport(msgspec.Struct, frozen=True):
    """Members and granules in the order of their names. ``roles`` has the number of granules of
    each role, ``migrations`` how often any changed hands, ``without_members`` the roles of
    background work that no active member works for.
    """

    members: tuple[MemberReport, ...]
    granules: tuple[GranuleReport, ...]
    roles: dict[str, int]
    migrations: int
    without_members: tuple[str, ...]


NO_FLEET: Final = FleetReport((), (), {}, 0, ())


class FleetReader:
    """Reads members and granules."""

    def __init__(self, world: World) -> None:
        self._refs = world.refs
        self._space = world.space

    def fleet(self) -> FleetRow | None:
        """Returns the fleet's row; None if there never was a member."""
        row = self._refs.read(self._space.fleet())
        return None if row is None else FleetRow.from_row(row)

    def members(self, ids: Iterable[str]) -> dict[str, MemberRow]:
        """Returns the rows of members by id; members without a row are left out."""
        rows = self._refs.read_many([self._space.fleet_member(id) for id in sorted(ids)])
        return {member.id: member for member in map(MemberRow.from_row, rows.values())}

    def granules(self, names: Iterable[str]) -> dict[str, GranuleRow]:
        """Returns granules by name. One that was never owned has no row, and epoch 0."""
        keys = {name: self._space.fleet_granule(name) for name in names}
        rows = self._refs.read_many(list(keys.values()))
        return {
            name: GranuleRow.from_row(rows[key]) if key in rows else GranuleRow(key, name, "", 0, 0)
            for name, key in keys.items()
        }

    def entries(self, wanted: Iterable[Entry]) -> dict[Entry, MovesRow]:
        """Returns entries of members' logs; entries that no longer exist are left out."""
        keys = {entry: self._space.fleet_moves(*entry) for entry in wanted}
        rows = self._refs.read_many(list(keys.values()))
        return {entry: MovesRow.from_row(rows[key]) for entry, key in keys.items() if key in rows}

    def report(self) -> FleetReport:
        """Returns members and granules as their rows are now."""
        fleet = self.fleet()
        if fleet is None:
            return NO_FLEET
        members = sorted(self.members(fleet.members).values(), key=lambda member: (member.name, member.id))
        granules = [granule for granule in self.granules(granule_names(fleet.granules)).values() if granule.epoch]
        owned = Counter((granule.owner, granule.role) for granule in granules)
        return FleetReport(
            tuple(_report(member, owned) for member in members),
            tuple(msgspec.convert(granule, GranuleReport, from_attributes=True) for granule in granules),
            dict(sorted(fleet.granules.items())),
            sum(granule.epoch for granule in granules),
            without_members(fleet.granules, [member.loads for member in members if member.state == "active"]),
        )


def _report(member: MemberRow, owned: Mapping[tuple[str, str], int]) -> MemberReport:
    own = {name: getattr(member, name) for name in MemberReport.__struct_fields__ if hasattr(member, name)}
    granules = {role: owned.get((member.id, role), 0) for role in sorted(member.loads)}
    return MemberReport(**own, granules=granules, migrations=member.changes)
