"""Every mistake that is planted in the code for a catalog's past, or for owned entities, is found;
harmless changes are not."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure
from tests.simulation.mistakes.catalog_history import HARMLESS, PAST_MISTAKES
from tests.simulation.mistakes.frozen_sandboxes import FROZEN_MISTAKES
from tests.simulation.mistakes.owners import OWNER_MISTAKES
from tests.simulation.scenarios.by_name import LIKELY
from tests.simulation.scenarios.catalog_history import CatalogHistory
from tests.simulation.scenarios.clocks_ahead import AHEAD_MISTAKES, ClocksAhead
from tests.simulation.scenarios.frozen_sandboxes import FrozenSandboxes
from tests.simulation.scenarios.owners import Owners
from tests.simulation.scenarios.undrops import UNDROP_MISTAKES, Undropped

SEARCHED = 4_000
"""Seeds in which every mistake is found."""
QUIET = int(os.environ.get("TURNSTILE_SEEDS", "100"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("name", PAST_MISTAKES)
def test_i3_i8_i9_i10_a_mistake_planted_in_what_keeps_a_past_is_found(name: str) -> None:
    assert first_failure(PAST_MISTAKES[name][0], SEARCHED, CatalogHistory(), likely=LIKELY.get(name, 0)) is not None


@pytest.mark.parametrize("name", FROZEN_MISTAKES)
def test_i8_i9_i10_i11_a_mistake_planted_in_what_guards_against_frozen_sandboxes_is_found(name: str) -> None:
    assert first_failure(FROZEN_MISTAKES[name][0], SEARCHED, FrozenSandboxes(), likely=LIKELY.get(name, 0)) is not None


@pytest.mark.parametrize("name", AHEAD_MISTAKES)
def test_i9_i10_i11_a_mistake_planted_in_what_takes_a_mark_back_is_found(name: str) -> None:
    assert first_failure(AHEAD_MISTAKES[name][0], SEARCHED, ClocksAhead(), likely=LIKELY.get(name, 0)) is not None


@pytest.mark.parametrize("name", UNDROP_MISTAKES)
def test_i3_i9_i10_a_mistake_planted_in_what_brings_a_table_back_is_found(name: str) -> None:
    assert first_failure(UNDROP_MISTAKES[name][0], SEARCHED, Undropped(), likely=LIKELY.get(name, 0)) is not None


@pytest.mark.parametrize("name", OWNER_MISTAKES)
def test_i3_i6_i10_a_mistake_planted_in_what_has_an_owner_is_found(name: str) -> None:
    assert first_failure(OWNER_MISTAKES[name][0], SEARCHED, Owners(), likely=LIKELY.get(name, 0)) is not None


@pytest.mark.parametrize("name", HARMLESS)
def test_i9_i10_nothing_but_speed_and_fairness_depends_on_turns_and_on_one_collector_at_a_time(name: str) -> None:
    """ADR 15: a turn is a request and no lock; ADR 16: work that two collectors do twice is
    harmless."""
    failed = first_failure(HARMLESS[name], QUIET, CatalogHistory())
    assert failed is None, str(failed)
