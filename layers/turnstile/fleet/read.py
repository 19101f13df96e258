"""Reads the rows of a fleet: for its members, and for people (``FleetReport``). Strongly
consistent; rows of several requests are not of one moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.fleet.core.decisions import granule_names
from turnstile.fleet.core.granules import Entry
from turnstile.fleet.core.roles import without_members
from turnstile.fleet.core.rows import FleetRow, GranuleRow, MemberRow, MovesRow
from turnstile.store.core.writes import Row
from turnstile.store.ports import DamagedRow, World, parse_rows


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
    background work that no active member works for, ``unreadable`` the damaged rows of members and
    granules.
    """

    members: tuple[MemberReport, ...]
    granules: tuple[GranuleReport, ...]
    roles: dict[str, int]
    migrations: int
    without_members: tuple[str, ...]
    unreadable: list[DamagedRow] | UnsetType = UNSET


NO_FLEET: Final = FleetReport((), (), {}, 0, ())


def parse_members(rows: Iterable[Row], damaged: list[DamagedRow], known: Mapping[str, MemberRow]) -> list[MemberRow]:
    """Returns the rows of members; in place of a damaged one, which it adds to ``damaged``, the row
    that is ``known``, if there is one: it shows no life."""
    found = list[DamagedRow]()
    members = list(parse_rows(MemberRow, rows, found))
    damaged += found
    return members + [known[id] for row in found if (id := row.key.rpartition("/")[2]) in known]


class FleetReader:
    """Reads members and granules."""

    def __init__(self, world: World) -> None:
        self._refs = world.refs
        self._space = world.space

    def fleet(self) -> FleetRow | None:
        """Returns the fleet's row; None if there never was a member."""
        row = self._refs.read(self._space.fleet())
        return None if row is None else FleetRow.from_row(row)

    def members(self, ids: Iterable[str], damaged: list[DamagedRow]) -> dict[str, MemberRow]:
        """Returns the rows of members by id. Members without a row are left out, and those with a
        damaged one, which it adds to ``damaged``."""
        rows = self._refs.read_many([self._space.fleet_member(id) for id in sorted(ids)])
        return {member.id: member for member in parse_rows(MemberRow, rows.values(), damaged)}

    def granules(self, names: Iterable[str], damaged: list[DamagedRow]) -> dict[str, GranuleRow]:
        """Returns granules by name. One that was never owned has no row, and epoch 0. Those with a
        damaged row are left out, and added to ``damaged``."""
        keys = {name: self._space.fleet_granule(name) for name in names}
        rows = self._refs.read_many(list(keys.values()))
        known = {granule.key: granule for granule in parse_rows(GranuleRow, rows.values(), damaged)}
        return {
            name: known[key] if key in known else GranuleRow(key, name, "", 0, 0)
            for name, key in keys.items()
            if key in known or key not in rows
        }

    def entries(self, wanted: Iterable[Entry]) -> dict[Entry, MovesRow]:
        """Returns entries of members' logs. Entries that no longer exist are left out, and damaged
        ones: the granules are read instead."""
        keys = {self._space.fleet_moves(*entry): entry for entry in wanted}
        rows = self._refs.read_many(list(keys))
        return {keys[row.key]: row for row in parse_rows(MovesRow, rows.values(), [])}

    def report(self) -> FleetReport:
        """Returns members and granules as their rows are now."""
        fleet = self.fleet()
        if fleet is None:
            return NO_FLEET
        damaged = list[DamagedRow]()
        found = self.members(fleet.members, damaged).values()
        members = sorted(found, key=lambda member: (member.name, member.id))
        names = granule_names(fleet.granules)
        granules = [granule for granule in self.granules(names, damaged).values() if granule.epoch]
        owned = Counter((granule.owner, granule.role) for granule in granules)
        return FleetReport(
            tuple(_report(member, owned) for member in members),
            tuple(msgspec.convert(granule, GranuleReport, from_attributes=True) for granule in granules),
            dict(sorted(fleet.granules.items())),
            sum(granule.epoch for granule in granules),
            without_members(fleet.granules, [member.loads for member in members if member.state == "active"]),
            damaged or UNSET,
        )


def _report(member: MemberRow, owned: Mapping[tuple[str, str], int]) -> MemberReport:
    own = {name: getattr(member, name) for name in MemberReport.__struct_fields__ if hasattr(member, name)}
    granules = {role: owned.get((member.id, role), 0) for role in sorted(member.loads)}
    return MemberReport(**own, granules=granules, migrations=member.changes)
