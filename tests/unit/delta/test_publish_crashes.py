"""The publisher dies at every named point, at every visit; the sweeper heals what it left (I3, I4,
I5, I11)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.delta_table import TABLE, Killed, Table, kill_at
from tests.support.fakes import delta
from tests.support.fakes.heads import recount
from tests.support.fakes.world import fake_world
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import tail_by_version
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.sweep import Sweeper
from turnstile.store.core.names import published_path
from turnstile.store.faults import POINTS, faults_from, no_faults

PUBLISH_POINTS = [point for point in POINTS if point.startswith("publish.")]
COMMITS = 9


def _prepared(point: str) -> Table:
    """A table on which a publisher comes by ``point``."""
    table = Table(fake_world())
    table.mixed(COMMITS)
    if point == "publish.verified":
        for version in range(1, COMMITS + 1):
            table.put(published_path(version), table.ratified[version])
    if point in ("publish.stuck", "publish.unstuck"):
        table.put(published_path(4), b"foreign\n")
    if point == "publish.unstuck":
        Publisher(table.world).publish(TABLE)
        table.storage.delete(published_path(4))
    return table


@pytest.mark.parametrize("visit", range(1, COMMITS + 1))
@pytest.mark.parametrize("point", PUBLISH_POINTS)
def test_i4_i5_i11_a_publisher_killed_at_any_point_loses_nothing_and_the_sweeper_heals(point: str, visit: int) -> None:
    table = _prepared(point)
    world = table.world
    killed = False
    try:
        Publisher(world, step=3, faults=kill_at(point, visit)).publish(TABLE)
    except Killed:
        killed = True
    assert killed or visit > 1, f"no publisher comes by {point}"
    if point == "publish.stuck":
        table.storage.delete(published_path(4))  # the operator moves the foreign file away
    table.check_prefix()
    recount(table.head)
    if table.head.state == "active":
        table.mixed(2)  # writers do not care
    Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + 600_000, each_ms=600_000, workers=1)
    table.check_all_published()
    recount(table.head)
    _check_identities(table)


def _check_identities(table: Table) -> None:
    """I3: every identity is in the tail or in the index."""
    world = table.world
    head = table.head
    index = IdentityIndex(world.objs, world.space, world.clock, 30)
    tail = {place.name: place.version for place in tail_by_version(head)}
    for version, name in table.names.items():
        assert tail.get(name, index.recall("main", TABLE, [name])) == version


@pytest.mark.parametrize("point", ["publish.identities", "publish.floor", "publish.copied"])
def test_i3_a_replay_after_a_crash_gets_the_same_version(point: str) -> None:
    table = Table(fake_world())
    request = CommitRequest(TABLE, 1, content=delta.append("again", table.world.clock.now_ms()))
    assert isinstance(table.ratifier.commit(request), Ratified)
    table.ratified[1] = request.content or b""
    table.mixed(8)
    with pytest.raises(Killed):
        Publisher(table.world, faults=kill_at(point)).publish(TABLE)
    answer = table.ratifier.commit(request)
    assert isinstance(answer, Ratified)
    assert (answer.version, answer.replayed) == (1, True)


def test_a_dead_publisher_after_each_of_its_successors_still_ends() -> None:
    """Ten publishers in a row die in the middle of their work: every one of them moves things on or
    leaves them."""
    table = Table(fake_world())
    table.mixed(COMMITS)
    floor = 0
    for visit in range(1, 11):
        try:
            Publisher(table.world, step=2, faults=kill_at("publish.fetched", visit)).publish(TABLE)
        except Killed:
            table.check_prefix()
        assert table.head.floor >= floor
        floor = table.head.floor
    Publisher(table.world).publish(TABLE)
    table.check_all_published()


def test_the_fault_variable_is_off_unless_it_names_a_known_point() -> None:
    assert faults_from({}) is no_faults
    with pytest.raises(ValueError, match="TURNSTILE_FAULT_POINT"):
        faults_from({"TURNSTILE_FAULT_POINT": "publish.nowhere"})
    with pytest.raises(ValueError, match="TURNSTILE_FAULT_POINT"):
        faults_from({"TURNSTILE_FAULT_POINT": "publish.floor:x"})


def test_the_fault_variable_ends_the_process_at_the_visit_it_names() -> None:
    program = (
        "from turnstile.store.faults import faults_from\n"
        "faults = faults_from({'TURNSTILE_FAULT_POINT': 'publish.floor:2'})\n"
        "for point in ('publish.floor', 'publish.read', 'publish.floor'):\n"
        "    print(point, flush=True); faults(point)\n"
        "print('alive')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 137
    assert done.stdout.split() == ["publish.floor", "publish.read", "publish.floor"]
