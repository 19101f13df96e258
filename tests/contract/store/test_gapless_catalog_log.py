"""N writers times M commits on one catalog: on every backend, in every way of sharing, with every
loss, the catalog's log agrees with all answers, from its newest commit on and from its oldest
(I9).
"""

from __future__ import annotations

import copy

import pytest

from benchmarks.catalog_racing import heats
from benchmarks.catalog_racing.heats import Heat, Mode, Race, violations
from benchmarks.catalog_racing.worlds import CATALOG, world_of
from benchmarks.catalog_racing.writers import Kind
from tests.support.store.backends import FAKE, Backend
from tests.support.store.unreliable import Faults
from turnstile.catalog.changes.commit import DEADLINE_MS
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.paths import path_of
from turnstile.catalog.services import CatalogServices, build
from turnstile.store.core.limits import Limits, SpillLimits

SPILLING = Limits(spill=SpillLimits(embedded=200, segment=400))
"""So small that every few commits move a range of the index into a segment, split one or join
two."""

MODES: tuple[Mode, ...] = ("line", "no line", "sandboxes")


def race(mode: Mode, threads: int, commits: int, **more: int) -> Race:
    kind: Kind = "grow"
    return Race(mode, (kind,) * threads, commits=commits, limits=SPILLING, **more)


def cold(backend: Backend, heat: Heat) -> CatalogServices:
    """A sandbox that has seen nothing of the race."""
    return build(world_of(backend, heat.realm), lake_root="file:///lake", limits=SPILLING)


def gapless(backend: Backend, heat: Heat) -> None:
    """Every writer got through, the log agrees with the answers, and the tree has every name once,
    in segments."""
    assert heat.violations == []
    for report in heat.reports:
        assert report.acknowledged == list(range(heat.race.commits))
    services = cold(backend, heat)
    tree = services.reader.current(CATALOG)
    made = {f"{report.name}_{number:03d}" for report in heat.reports for number in report.acknowledged}
    assert [path_of(key) for key, _ in tree.subtree(())] == sorted((name,) for name in made | {"default"})
    assert len(tree.index.directory) > 1, "the index never spilled"


def test_i9_every_threads_sequence_is_gapless_in_the_log_walked_both_ways(backend: Backend) -> None:
    gapless(backend, heats.run(backend, race("sandboxes", 4, 10)))


@pytest.mark.parametrize("mode", MODES)
def test_i9_eight_threads_of_one_process_or_of_eight_leave_no_gap(mode: Mode) -> None:
    backend = Backend(FAKE)
    heat = heats.run(backend, race(mode, 8, 15))
    gapless(backend, heat)
    if mode == "line":
        assert heat.counts.attempts == heat.commits, "who stands in line is never too late"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_i9_eight_threads_times_twenty_commits_leave_no_gap(service: Backend, mode: Mode) -> None:
    heat = heats.run(service, race(mode, 8, 20))
    gapless(service, heat)
    assert mode == "line" or heat.counts.attempts > heat.commits, "nobody raced"


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "commits"), [(2, 40), (6, 15)])
def test_i9_every_process_has_a_gapless_sequence_too(service: Backend, processes: int, commits: int) -> None:
    heat = heats.run(service, race("processes", processes, commits))
    gapless(service, heat)
    assert heat.counts.attempts > heat.commits, "nobody raced"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", [1, 2])
def test_i9_answers_that_get_lost_leave_no_gap_and_make_nothing_twice(mode: Mode, seed: int) -> None:
    """I3: an attempt that landed unheard is found, however it is learned. Also with so little time
    that writers are told the outcome is unknown and send again."""
    for deadline_ms in (DEADLINE_MS, 25):
        backend = Backend(FAKE)
        faults = Faults(seed, lost=0.25)
        heat = heats.run(backend, race(mode, 4, 12, deadline_ms=deadline_ms), through=faults.world)
        gapless(backend, heat)
        assert faults.made["lost and applied"] > 2 and faults.made["lost on its way"] > 2
        assert any(report.unknown for report in heat.reports) or deadline_ms == DEADLINE_MS


@pytest.mark.parametrize("mode", MODES)
def test_i9_requests_that_are_put_off_leave_no_gap(mode: Mode) -> None:
    """Throttling beside lost answers: an answer that nothing was applied is true."""
    backend = Backend(FAKE)
    faults = Faults(3, lost=0.1, throttled=0.2)
    heat = heats.run(backend, race(mode, 4, 12), through=faults.world)
    gapless(backend, heat)
    assert faults.made["throttled"] > 2
    assert sum(report.put_off for report in heat.reports) > 0


def test_i9_on_a_slow_network_every_attempt_races_and_nothing_is_lost() -> None:
    backend = Backend(FAKE)
    heat = heats.run(backend, race("sandboxes", 6, 5), latency=1)
    gapless(backend, heat)
    assert heat.counts.attempts > heat.commits


def test_the_audit_finds_what_a_log_lacks_repeats_and_answered_to_no_client() -> None:
    backend = Backend(FAKE)
    heat = heats.run(backend, race("line", 2, 5))
    services = cold(backend, heat)
    first, second = heat.reports
    lost = copy.deepcopy(first)
    lost.acknowledged.append(5)
    assert violations(services, [lost, second]) == ["commit 5 of w00 was acknowledged and is lost"]
    unheard = copy.deepcopy(first)
    unheard.acknowledged.remove(2)
    assert violations(services, [unheard, second]) == ["commit 2 of w00 is there and nobody was told"]
    unheard.unknown.add(2)
    assert violations(services, [unheard, second]) == []
    services.committer.commit(CATALOG, lambda _: Edit("w01 3"))
    assert violations(cold(backend, heat), heat.reports) == [
        "the commits of w01 are out of order: [0, 1, 2, 3, 4, 3]",
        "commit 3 of w01 is there 2 times",
    ]
