"""Engines that propose, copy and rewrite staged files which were refused, while gc removes such
files."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.tables import REUSED_FILE_MISTAKES, ReusedStagedFiles

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "40"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))
WAYS = {f"file {way}" for way in ("again", "renamed", "ahead", "rewritten", "anew")}


def test_i3_i4_i10_no_file_that_is_used_again_is_removed_while_it_is_needed() -> None:
    seen = run_seeds(0, QUICK, ReusedStagedFiles())
    assert WAYS | {"invalidcommit", "deleted file", "ratified"} <= seen.keys(), "the simulation must not be vacuous"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i3_i4_i10_no_file_that_is_used_again_is_removed_over_many_seeds() -> None:
    run_seeds(20_000, SEEDS, ReusedStagedFiles())


@pytest.mark.slow
@pytest.mark.parametrize("name", REUSED_FILE_MISTAKES)
def test_i10_a_mistake_planted_in_what_gc_believes_of_names_is_found(name: str) -> None:
    failed = first_failure(REUSED_FILE_MISTAKES[name][0], 400, ReusedStagedFiles())
    assert failed is not None and failed.cause.invariant in ("I3", "I4", "I10")  # type: ignore[attr-defined]
