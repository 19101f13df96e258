"""Members on one store, for tests of members."""

from __future__ import annotations

from typing import Any

from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.fleet.core.decisions import WHOLE_LOOK_BEATS, granule_of
from turnstile.fleet.core.rows import FleetRow, GranuleRow, MemberRow
from turnstile.fleet.member import Beat, Member
from turnstile.store.ports import World

BEAT = 10
ALONE = 40


class Site:
    """Members on one store, with one monotonic clock that only ``pass_time`` moves."""

    def __init__(self) -> None:
        self.world: FakeWorld = fake_world()
        self.now_ms = 0

    def member(self, name: str = "a", world: World | None = None, **granules: int) -> Member:
        roles = granules or {"publish": 8}
        return Member(
            world or self.world, lambda: self.now_ms, name=name, granules=roles, beat_ms=BEAT, alone_beat_ms=ALONE
        )

    def beats(self, *members: Member, times: int = 1, step_ms: int = BEAT) -> list[Beat]:
        """Every member beats, ``times`` times; the last answers."""
        answers: list[Beat] = []
        for _ in range(times):
            self.now_ms += step_ms
            answers = [member.beat() for member in members]
        return answers

    def rows(self, kind: Any) -> list[Any]:
        return [kind.from_row(row) for row in self.world.refs.rows.values() if row["kind"] == kind.kind]

    def owners(self) -> dict[str, str]:
        return {granule.name: granule.owner for granule in self.rows(GranuleRow)}

    def agree(self, *members: Member) -> None:
        """Members and granules agree with the rows, and the statements of members about themselves
        are true."""
        (fleet,) = self.rows(FleetRow)
        rows = {row.id: row for row in self.rows(MemberRow)}
        assert fleet.members == rows.keys() == {member.id for member in members}
        for member in members:
            owned = {name for name, owner in self.owners().items() if owner == member.id}
            assert set(member.owned_granules()) == owned and rows[member.id].owned == len(owned)


def pair() -> tuple[Site, Member, Member]:
    """Two members that know each other, with four granules each."""
    site = Site()
    first = site.member()
    site.beats(first)
    second = site.member("b")
    site.beats(first, second, times=2 * WHOLE_LOOK_BEATS + 2)
    site.agree(first, second)
    assert len(first.owned_granules()) == len(second.owned_granules()) == 4
    assert first.members() == second.members() == 2 and site.member("c").members() == 0
    return site, first, second


def subject_of(member: Member, role: str = "publish", granules: int = 8) -> str:
    """A subject in a granule that the member owns."""
    return next(f"t{n}" for n in range(1_000) if granule_of(role, f"t{n}", granules) in member.owned_granules())
