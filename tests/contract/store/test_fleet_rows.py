"""Members and granules on every backend: the same beats, the same owners, whoever acts at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.fakes.storage import FakeClock
from tests.support.store.backends import Backend
from turnstile.adapters.machine import RandomIds
from turnstile.fleet.core.decisions import SILENT_BEATS, WHOLE_LOOK_BEATS
from turnstile.fleet.core.roles import ALL
from turnstile.fleet.core.rows import owned_still
from turnstile.fleet.member import Member
from turnstile.fleet.read import FleetReader, FleetReport
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Change, Clause, Equals, Set
from turnstile.store.ports import AllAccepted, SomeRejected, World

BEAT_MS = 10
GRANULES = {"publish": 100, "sweep": 1}


class Shared:
    """A store with members whose monotonic clock only ``beat`` moves."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.now_ms = 0

    def member(self, name: str, **granules: int) -> Member:
        roles = granules or GRANULES
        return Member(
            self.world, lambda: self.now_ms, name=name, granules=roles, beat_ms=BEAT_MS, alone_beat_ms=BEAT_MS
        )

    def beat(self, *members: Member, times: int = 1) -> None:
        for _ in range(times):
            self.now_ms += BEAT_MS
            for member in members:
                member.beat()

    def report(self) -> FleetReport:
        """The rows, which agree with each other."""
        report = FleetReader(self.world).report()
        ids = {member.id for member in report.members}
        assert {granule.owner for granule in report.granules} <= ids | {""}
        for member in report.members:
            assert member.owned == sum(granule.owner == member.id for granule in report.granules)
        return report


@pytest.fixture
def shared(backend: Backend, key: str) -> Shared:
    """A realm of its own."""
    realm = f"r{key.rpartition('/')[2]}"
    space = Space(realm)
    storages: Any = None
    world = World(backend.refs(realm=realm), backend.objs(), storages, FakeClock(step_ms=0), RandomIds(), space)
    return Shared(world)


def at_once(calls: Sequence[Callable[[], object]]) -> None:
    """Raises what any of them raised."""
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_i19_granules_are_claimed_shared_taken_over_and_given_back(shared: Shared) -> None:
    first = shared.member("a")
    second = shared.member("b")
    shared.beat(first)
    assert len(first.owned_granules()) == 101 and shared.report().migrations == 101
    shared.beat(first, second, times=2 * WHOLE_LOOK_BEATS + 2)
    assert len(first.owned_granules()) in (50, 51) and len(first.owned_granules()) + len(second.owned_granules()) == 101
    shared.report()
    shared.beat(second, times=SILENT_BEATS + 2)
    assert len(second.owned_granules()) == 101
    assert [member.name for member in shared.report().members] == ["b"]
    shared.beat(first, second, times=2 * WHOLE_LOOK_BEATS + 2)
    assert len(shared.report().members) == 2 and first.owned_granules()
    assert first.leave() and second.leave()
    report = shared.report()
    assert report.members == () and {granule.owner for granule in report.granules} == {""}


def test_i19_members_that_join_and_take_over_at_once_agree_in_the_end(shared: Shared) -> None:
    members = [shared.member(f"m{number}") for number in range(4)]
    at_once([member.beat for member in members])
    shared.beat(*members, times=2 * WHOLE_LOOK_BEATS)
    assert len(shared.report().members) == 4
    living = members[1:]
    for _ in range(SILENT_BEATS + WHOLE_LOOK_BEATS):
        shared.now_ms += BEAT_MS
        at_once([member.beat for member in living])
    shared.beat(*living, times=2 * WHOLE_LOOK_BEATS)
    report = shared.report()
    assert {member.id for member in report.members} == {member.id for member in living}
    assert {granule.owner for granule in report.granules} == {member.id for member in living}


def test_i19_what_a_former_owner_sends_late_changes_nothing(shared: Shared) -> None:
    first = shared.member("a")
    second = shared.member("b")
    shared.beat(first)
    granule = first.granule("sweep", "anything")
    assert granule is not None
    fence = owned_still(granule)
    subject = shared.world.space.fleet_member(first.id)
    name = Change(
        subject, (Clause("named", "I19", "it is there", Equals(("name",), "a")),), (Set(("name",), "fenced"),)
    )
    assert shared.world.refs.transact([fence, name], "t1") == AllAccepted()
    shared.beat(second, times=SILENT_BEATS + 2)
    subject = shared.world.space.fleet_member(second.id)
    late = Change(subject, (Clause("named", "I19", "it is there", Equals(("name",), "b")),), (Set(("name",), "late"),))
    response = shared.world.refs.transact([fence, late], "t2")
    assert isinstance(response, SomeRejected) and list(response.failed) == [0]
    assert [member.name for member in shared.report().members] == ["b"]


def test_i19_roles_come_and_go_with_the_members_that_work_for_them(shared: Shared) -> None:
    server = shared.member("a", catalogs=4)
    worker = shared.member("b", publish=6, maintain=3)
    shared.beat(server)
    assert shared.report().without_members == ALL
    shared.beat(server, worker, times=WHOLE_LOOK_BEATS)
    report = shared.report()
    assert report.without_members == ("sweep", "events")
    assert {member.name: member.granules for member in report.members} == {
        "a": {"catalogs": 4}, "b": {"maintain": 3, "publish": 6},
    }  # fmt: skip
    shared.beat(server, times=SILENT_BEATS + 2)
    report = shared.report()
    assert [member.name for member in report.members] == ["a"] and report.without_members == ALL
    assert {granule.owner for granule in report.granules if granule.name.startswith(("publish", "maintain"))} == {""}
    again = shared.member("c", maintain=3)
    shared.beat(server, again, times=WHOLE_LOOK_BEATS)
    report = shared.report()
    assert report.without_members == ("publish", "sweep", "events")
    assert [member.granules for member in report.members] == [{"catalogs": 4}, {"maintain": 3}]
