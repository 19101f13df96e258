"""Catalogs with a past, clones, and owned entities: nothing is found in the services as they
are."""

from __future__ import annotations

import os
import re

import pytest

from tests.simulation.auditors.record import Violation
from tests.simulation.engine.plans import FREEZE
from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.run import Failed, run, run_seeds
from tests.simulation.scenarios.by_name import PLANTED, SCENARIOS
from tests.simulation.scenarios.catalog_history import CHANGERS, OTHERS, CatalogHistory
from tests.simulation.scenarios.clocks_ahead import ClocksAhead
from tests.simulation.scenarios.frozen_sandboxes import CHANGERS as FREEZING
from tests.simulation.scenarios.frozen_sandboxes import OTHERS as BESIDE
from tests.simulation.scenarios.frozen_sandboxes import FrozenSandboxes
from tests.simulation.scenarios.owners import KINDS, Owners
from tests.simulation.scenarios.undrops import CHANGERS as UNDROPPING
from tests.simulation.scenarios.undrops import OTHERS as BESIDE_UNDROPS
from tests.simulation.scenarios.undrops import Undropped
from tests.support.repository import ROOT

SEEDS = os.environ.get("TURNSTILE_SEEDS", "")
"""How many seeds each long test runs; ``make simulate`` runs any number."""

CHANGES = {"commit create", "commit update", "commit drop", "commit rename", "commit reset", "commit snapshot"}
KEPT = {"snapshot", "snapshot of the past", "snapshot dropped", "reset", "clone", "cloned the past", "catalog dropped"}
READ = {"listed", "read the past", "walked the log"}
GONE = {"deleted commit", "deleted entity", "deleted segment", "deleted file", "gc", "gc waits", "task taken over"}
MERGED = {"merged", "merge unanswered", "iceberg 1", "iceberg 2"}
OWNED = {"task begun", "task finished", "task lost", "task taken over", "task fenced off", "task busy"}
FROZEN = {"made", "merged with a key", "reset to what may go", "another name", "row expired", "task taken over"}
UNDROPPED = {
    "undropped",
    "undropped at a moment",
    "iceberg came back before its purge",
    "refused CannotUndrop",
    "clone",
}
SHARED = {"added", "moved", "ref applied", "ref replayed", "refused RefMoved", "refused ReloadRequired"}


def test_i3_i8_i9_i10_a_catalogs_past_is_whole_at_every_step_whatever_fails() -> None:
    seen = run_seeds(0, 15, CatalogHistory())
    assert {"commit update", "commit reset", "listed", "gc", "merged"} <= seen.keys(), (
        "the simulation must not be vacuous"
    )


def test_i3_i8_i9_i10_i11_a_sandbox_that_was_frozen_for_hours_does_no_harm() -> None:
    seen = run_seeds(0, 10, FrozenSandboxes())
    assert {"fault freeze", "made", "merged with a key", "gc"} <= seen.keys(), "the simulation must not be vacuous"


def test_i9_i10_i11_a_gc_run_with_a_clock_that_is_ahead_harms_no_head_and_no_change_for_long() -> None:
    seen = run_seeds(0, 10, ClocksAhead())
    assert {"gc with a clock ahead", "made", "merged", "gc"} <= seen.keys(), "the simulation must not be vacuous"


def test_i3_i9_i10_a_table_comes_back_as_it_was_or_is_refused_whatever_fails() -> None:
    seen = run_seeds(0, 20, Undropped())
    assert {"undropped", "undropped at a moment", "iceberg came back before its purge", "gc"} <= seen.keys(), (
        "the simulation must not be vacuous"
    )


def test_i3_i6_i10_owners_and_shared_values_are_as_they_were_answered_whatever_fails() -> None:
    seen = run_seeds(0, 30, Owners())
    assert {"task begun", "added", "ref applied"} <= seen.keys(), "the simulation must not be vacuous"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_i3_i8_i9_i10_a_catalogs_past_is_whole_over_many_seeds_and_everything_is_met() -> None:
    seen = run_seeds(100_000, int(SEEDS or 800), CatalogHistory())
    assert {f"fault {kind}" for kind in FAULTS} <= seen.keys()
    assert seen.keys() >= CHANGES | KEPT | READ | GONE | MERGED


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_i3_i8_i9_i10_i11_sandboxes_that_were_frozen_do_no_harm_over_many_seeds_and_everything_is_met() -> None:
    seen = run_seeds(100_000, int(SEEDS or 200), FrozenSandboxes())
    assert seen.keys() >= {f"fault {kind}" for kind in (*FAULTS, FREEZE)} | FROZEN


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_i9_i10_i11_gc_runs_with_clocks_ahead_do_no_harm_over_many_seeds_and_everything_is_met() -> None:
    seen = run_seeds(100_000, int(SEEDS or 400), ClocksAhead())
    assert seen.keys() >= {
        "gc with a clock ahead",
        "reset to what may go",
        "another name",
        "reset",
        "snapshot of the past",
    }


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_i3_i9_i10_undropped_tables_are_restored_or_refused_under_all_faults() -> None:
    seen = run_seeds(100_000, int(SEEDS or 800), Undropped())
    assert {f"fault {kind}" for kind in FAULTS} <= seen.keys()
    assert seen.keys() >= UNDROPPED | GONE


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_i3_i6_i10_owners_and_shared_values_are_right_over_many_seeds_and_everything_is_met() -> None:
    seen = run_seeds(100_000, int(SEEDS or 2_000), Owners())
    assert {f"fault {kind}" for kind in FAULTS} <= seen.keys()
    assert seen.keys() >= OWNED | SHARED


@pytest.mark.parametrize(
    "scenario", [CatalogHistory(), FrozenSandboxes(), ClocksAhead(), Undropped(), Owners()], ids=lambda one: one.name
)
def test_a_seed_is_the_same_run_every_time(scenario: CatalogHistory | Owners) -> None:
    """Any order of sets in this process."""
    for seed in (3, 4):
        plan = scenario.plan(seed)
        assert run(plan, scenario, tracing=True) == run(plan, scenario, tracing=True)


def test_every_actor_takes_part_in_some_seed() -> None:
    def kinds(scenario: CatalogHistory | Owners) -> set[str]:
        return {actor.split("-")[0] for seed in range(200) for actor in scenario.plan(seed).actors}

    assert kinds(CatalogHistory()) == {*CHANGERS, *(name.split("-")[0] for name in OTHERS)}
    assert kinds(FrozenSandboxes()) == {*FREEZING, *(name.split("-")[0] for name in BESIDE)}
    assert kinds(Undropped()) == {*UNDROPPING, *(name.split("-")[0] for name in BESIDE_UNDROPS)}
    assert kinds(Owners()) == set(KINDS)


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        pytest.param(scenario, name, marks=() if number % 3 == 0 else pytest.mark.slow)
        for scenario in PLANTED
        for number, name in enumerate(PLANTED[scenario])
    ],
)
def test_a_mistake_can_be_planted_and_breaks_nothing_but_invariants(scenario: str, name: str) -> None:
    """A longer search finds it (test_planted_mistakes.py); here it must fit the product."""
    cause: BaseException | None = None
    with PLANTED[scenario][name][0]():
        try:
            run(SCENARIOS[scenario].plan(0), SCENARIOS[scenario])
        except Failed as failed:
            cause = failed.cause
    assert cause is None or isinstance(cause, Violation), cause


def test_the_page_about_the_simulation_names_each_scenario() -> None:
    text = (ROOT / "tests/simulation/README.md").read_text()
    rows = text.partition("| scenario | world |")[2].splitlines()
    named = [name for row in rows for name in re.findall(r"`([a-z-]+)`", row[: row.find("|", 2)])]
    assert sorted(named) == sorted(SCENARIOS)
