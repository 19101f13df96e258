"""Histories of simulated clients, where far more goes wrong than on a stack, have one order as well
(I1, I2, I3, I6)."""

from __future__ import annotations

import os

import pytest

from tests.histories.check import Operation, judge, needs_go
from tests.simulation.engine.run import Failed, on_one_cpu, plan, run
from tests.simulation.mistakes.tables import MISTAKES

pytestmark = needs_go
BATCH = 250


def operations(seeds: range, store: str = "fake") -> list[Operation]:
    """Every seed's table is a table of its own."""
    found = []
    with on_one_cpu():
        for seed in seeds:
            for operation in run(plan(seed), store=store).operations:
                operation.table = f"{seed}/{operation.table}"
                found.append(operation)
    return found


def check(start: int, seeds: int, store: str = "fake") -> None:
    for first in range(start, start + seeds, BATCH):
        judgement = judge(operations(range(first, min(first + BATCH, start + seeds)), store))
        assert judgement.linearizable, judgement.said


@pytest.mark.parametrize(("store", "seeds"), [("fake", 100), ("sqlite", 40)])
def test_i1_i2_i3_i6_simulated_clients_see_one_history(store: str, seeds: int) -> None:
    check(0, seeds, store)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i1_i2_i3_i6_many_simulated_clients_see_one_history() -> None:
    check(10_000, int(os.environ.get("TURNSTILE_SEEDS", "1000")))


def test_i3_porcupine_sees_a_planted_mistake_without_the_auditors_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused write that is told as won: the history alone gives it away."""
    for name in ("told_ratified", "told_never"):
        monkeypatch.setattr(f"tests.simulation.auditors.invariants.Auditor.{name}", lambda *_: None)
    with MISTAKES["a refused write looks won"][0]():
        for seed in range(40):
            try:
                found = operations(range(seed, seed + 1))
            except Failed:
                continue
            if not judge(found).linearizable:
                return
    raise AssertionError("not one of 40 seeds gave the mistake away")
