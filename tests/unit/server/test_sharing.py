"""A process of a fleet works for its roles: on its own granules, on granules without a sure owner,
and on granules that it had left to a member that is in doubt by now (I19)."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pytest

from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.fleet.core.decisions import SILENT_BEATS, SUSPECTED_BEATS, WHOLE_LOOK_BEATS
from turnstile.fleet.core.owners import CATALOGS, Address, Owners
from turnstile.fleet.core.roles import ALL, EVENTS, MAINTAIN, PUBLISH, SWEEP
from turnstile.fleet.core.rows import GranuleRow
from turnstile.fleet.core.shares import Ownership, Shares
from turnstile_server.fleet import member
from turnstile_server.fleet.member import Processes, Sharing, Work, Worked, differences

BEAT = 1_000
KEYS = [f"table/{number}" for number in range(200)]


class Clock:
    now_ms = 0


class Process:
    """The part of one process in the fleet, without its thread: the requested work."""

    def __init__(self, world: FakeWorld, *roles: str, address: Address | None = None) -> None:
        self.done = {role: dict[str, int]() for role in (PUBLISH, EVENTS) if role in roles}
        self.missed = list[set[str]]()
        self.hears = True
        self.owners = Owners()
        self.shares = Shares()
        self.worked = dict[str, int]()
        work = {role: Work(lambda _: True, done.update) for role, done in self.done.items()}
        processes = Processes(self._take_owners, self._take_shares, lambda: self.worked)
        self.sharing = Sharing(
            world,
            roles,
            work,
            self._catch_up,
            hears=lambda: self.hears,
            beat_ms=BEAT,
            address=address,
            processes=processes,
        )

    def _catch_up(self, roles: Collection[str]) -> None:
        self.missed.append(set(roles))

    def _take_owners(self, owners: Owners) -> None:
        self.owners = owners

    def _take_shares(self, shares: Shares) -> None:
        self.shares = shares

    def beat(self, *, stood_still: bool = False) -> None:
        """One round of its thread."""
        self.sharing._beat(stood_still=stood_still)
        for role in self.done:
            self.sharing._look_again(role)
        self.sharing._tell()

    def mine(self, role: str) -> set[str]:
        return set(self.sharing.mine(role, dict.fromkeys(KEYS, 1)))


class Site:
    """Processes on one store."""

    def __init__(self) -> None:
        self.world = fake_world()
        self.processes = list[Process]()

    def process(self, *roles: str, address: Address | None = None) -> Process:
        self.processes.append(Process(self.world, *roles, address=address))
        return self.processes[-1]

    def beats(self, *processes: Process, times: int = 1) -> None:
        for _ in range(times):
            Clock.now_ms += BEAT
            for process in processes:
                process.beat()

    def owners(self, role: str) -> set[str]:
        rows = [GranuleRow.from_row(row) for row in self.world.refs.rows.values() if row["kind"] == GranuleRow.kind]
        return {granule.owner for granule in rows if granule.role == role}


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(member, "_monotonic_ms", lambda: Clock.now_ms)
    monkeypatch.setattr(member.metrics, "FleetMetrics", Figures)
    opened = Site()
    yield opened
    for process in opened.processes:
        process.sharing._journal.close()


class Figures:
    def record(self, *_: Any, **__: Any) -> None: ...


def test_i19_each_role_is_shared_by_the_members_that_work_for_it_and_no_other_owns_any_of_it(site: Site) -> None:
    server = site.process(PUBLISH, SWEEP, EVENTS)
    worker = site.process(PUBLISH, MAINTAIN)
    nothing = site.process(address=Address("h", 1, "s"))
    site.beats(server, worker, nothing, times=4 * WHOLE_LOOK_BEATS)
    ids = {process: process.sharing.member.id for process in (server, worker, nothing)}
    assert site.owners(PUBLISH) == {ids[server], ids[worker]}
    assert site.owners(EVENTS) == site.owners(SWEEP) == {ids[server]}
    assert site.owners(MAINTAIN) == {ids[worker]} and site.owners(CATALOGS) == {ids[nothing]}
    assert server.mine(PUBLISH) | worker.mine(PUBLISH) == set(KEYS) and not server.mine(PUBLISH) & worker.mine(PUBLISH)
    assert server.mine(EVENTS) == set(KEYS) and server.sharing.sweeps()


def test_i19_a_process_catches_up_in_the_roles_that_it_got_granules_of(site: Site) -> None:
    server = site.process(*ALL)
    site.beats(server)
    assert server.missed == [set(ALL)]
    worker = site.process(MAINTAIN)
    site.beats(server, worker, times=4 * WHOLE_LOOK_BEATS)
    assert worker.missed == [{MAINTAIN}] and len(server.missed) == 1, "what it gives away it need not look for"
    server.beat(stood_still=True)
    assert server.missed[1:] == [set(ALL)]


def test_i19_a_member_that_is_alone_beats_at_once_when_another_comes(site: Site) -> None:
    beats = list[int]()
    rested = threading.Event()
    first = Process(site.world, PUBLISH)
    site.processes.append(first)

    def beat(*, stood_still: bool) -> None:
        beats.append(first.sharing.member.members())
        Sharing._beat(first.sharing, stood_still=stood_still)
        rested.set()

    first.sharing._beat = beat  # type: ignore[method-assign]
    first.sharing.start()
    assert rested.wait(60)
    rested.clear()
    second = site.process(PUBLISH)
    second.beat()
    first.sharing.notice({"table/1": 1})
    assert not rested.is_set(), "it beats every fifteen seconds"
    first.sharing.notice({site.world.space.fleet(): 1})
    assert rested.wait(60)
    until_s = time.monotonic() + 60
    while first.sharing.member.members() < 2:
        assert time.monotonic() < until_s
        time.sleep(0.01)
    first.sharing.close()


def test_i11_what_was_left_to_an_owner_in_doubt_is_done_here_in_each_role(site: Site) -> None:
    first = site.process(PUBLISH, EVENTS)
    second = site.process(PUBLISH, EVENTS)
    site.beats(first, second, times=4 * WHOLE_LOOK_BEATS)
    left = {role: set(KEYS) - first.mine(role) for role in (PUBLISH, EVENTS)}
    assert all(left.values()) and first.done == {PUBLISH: {}, EVENTS: {}}
    site.beats(first, times=SUSPECTED_BEATS + 1)
    assert {role: set(done) for role, done in first.done.items()} == left


def test_what_was_left_to_others_long_ago_is_theirs(site: Site) -> None:
    first = site.process(PUBLISH)
    second = site.process(PUBLISH)
    site.beats(first, second, times=4 * WHOLE_LOOK_BEATS)
    assert set(KEYS) - first.mine(PUBLISH)
    site.beats(first, second, times=2 * SILENT_BEATS + 1)
    site.beats(first, times=SUSPECTED_BEATS + 1)
    assert first.done == {PUBLISH: {}}


def test_light_work_reads_the_owners_of_catalogs_and_says_what_it_has_done(site: Site) -> None:
    first = site.process(MAINTAIN)
    second = site.process(MAINTAIN)
    site.beats(first, second, times=4 * WHOLE_LOOK_BEATS)
    catalogs = [f"c{number}" for number in range(40)]

    def mine(process: Process) -> set[str]:
        return {name for name in catalogs if process.shares.whose(MAINTAIN, name, Clock.now_ms) is Ownership.MINE}

    assert mine(first) | mine(second) == set(catalogs) and not mine(first) & mine(second)
    busy = next(iter(mine(first)))
    first.worked = {busy: 500}
    site.beats(first)
    first.worked = {}
    site.beats(first, second, times=4 * WHOLE_LOOK_BEATS)
    assert len(mine(second)) > len(mine(first)), "who has much to do there gives other granules away"


def test_a_member_that_does_not_hear_of_every_change_leaves_and_works_as_one_that_is_alone(site: Site) -> None:
    process = site.process(PUBLISH, MAINTAIN)
    site.beats(process)
    process.hears = False
    site.beats(process)
    assert process.sharing.member.members() == 0 and process.mine(PUBLISH) == set(KEYS)
    assert process.shares == Shares()


def test_what_light_work_has_done_is_counted_once_also_when_its_process_began_anew() -> None:
    counts: Mapping[str, int] = {}
    since = differences(lambda: Worked(counts))
    assert since() == {}
    counts = {"main": 5, "it": 1}
    assert since() == counts
    counts = {"main": 7, "it": 1}
    assert since() == {"main": 2}
    counts = {"main": 3}
    assert since() == {"main": 3}
    assert since() == {}
