"""What a fleet costs, counted at the ports by DynamoDB's rules (``tests.support.meter``): a beat in
fleets of several sizes, and granules that change hands."""

from __future__ import annotations

import dataclasses
from typing import Final

from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.meter import Meter, metered
from turnstile.fleet.core.decisions import LOOKED_AT, WHOLE_LOOK_BEATS
from turnstile.fleet.core.rows import GRANULES_PER_WRITE
from turnstile.fleet.member import Member

BEAT_MS: Final = 1_000
SERVER: Final = {"publish": 64, "sweep": 1, "catalogs": 32}
"""The roles of a server, and their granules."""

REST_BEATS: Final = 40
"""After which nobody gives or claims any more."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """Means, of a beat or of a granule."""

    requests: float
    write_units: float
    read_units: float

    @staticmethod
    def of(meter: Meter, times: int) -> Cost:
        return Cost(len(meter.requests) / times, meter.write_units / times, meter.read_units / times)


class Fleet:
    """Members on one store whose requests are counted, with one clock that only ``beat`` moves. Ids
    are random, as real ones are."""

    def __init__(self, granules: dict[str, int]) -> None:
        self.meter = Meter()
        self._granules = granules
        self._now_ms = 0
        fake = fake_world()
        self._world: FakeWorld = metered(fake, self.meter)
        self.members = list[Member]()

    def join(self, count: int) -> None:
        """Has so many members more join."""
        for _ in range(count):
            member = Member(
                self._world, lambda: self._now_ms, name=f"server-{len(self.members)}:1", granules=self._granules,
                beat_ms=BEAT_MS, alone_beat_ms=BEAT_MS,
            )  # fmt: skip
            self.members.append(member)
            member.beat()

    def beat(self, times: int) -> None:
        """Every member beats, so many times."""
        for _ in range(times):
            self._now_ms += BEAT_MS
            for member in self.members:
                member.beat()


def beat(members: int, granules: dict[str, int] = SERVER) -> Cost:
    """A beat in a fleet at rest, all looks at others counted in."""
    fleet = Fleet(granules)
    fleet.join(members)
    fleet.beat(REST_BEATS)
    fleet.meter.reset()
    beats = max(WHOLE_LOOK_BEATS, members // LOOKED_AT)
    fleet.beat(beats)
    return Cost.of(fleet.meter, beats * members)


def hand_over() -> Cost:
    """A granule that changes hands, of many: its part of the transactions that give half of them to
    a second member."""
    count = 20 * GRANULES_PER_WRITE
    fleet = Fleet({"publish": count})
    fleet.join(2)
    fleet.beat(1)
    writes = requests = 0
    first = fleet.members[0]
    while len(first.owned_granules()) == count:
        fleet.meter.reset()
        fleet.beat(1)
        writes = fleet.meter.write_units - len(fleet.members)  # signs of life
        requests = fleet.meter.requests.count("refs.transact")
    moved = count - len(first.owned_granules())
    return Cost(requests / moved, writes / moved, 0)
