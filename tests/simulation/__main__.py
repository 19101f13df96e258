"""Run many seeds: ``python -m tests.simulation --seeds 1000000 --start 0``. Ends at the first
failure, made small."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulation.engine.run import Failed, explain, first_failure, on_one_cpu, run
from tests.simulation.engine.stores import STORES
from tests.simulation.scenarios.by_name import PLANTED, SCENARIOS
from tests.simulation.scenarios.scenario import Scenario


def main() -> int:
    """Exit status 1 when an invariant broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, default="tables", help="what is simulated")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this seed alone and print its trace")
    parser.add_argument("--mistakes", action="store_true", help="how many seeds find each planted mistake")
    parser.add_argument("--store", choices=STORES, default="fake", help="where rows and objs are kept")
    asked = parser.parse_args()
    scenario = SCENARIOS[asked.scenario]
    with on_one_cpu():
        if asked.seed is not None:
            print("\n".join(run(scenario.plan(asked.seed), scenario, tracing=True, store=asked.store).trace))
            return 0
        if asked.mistakes:
            return _mistakes(scenario, asked.seeds, asked.store)
        return _many(scenario, asked.start, asked.seeds, asked.store)


def _mistakes(scenario: Scenario, seeds: int, store: str) -> int:
    missed = 0
    for name, (plant, invariant) in PLANTED[scenario.name].items():
        failed = first_failure(plant, seeds, scenario, store=store)
        missed += failed is None
        told = f"none of {seeds:,}" if failed is None else f"{failed.plan.seed + 1:>6,}   {failed.cause}"
        print(f"{name:52s} {invariant:4s} {told:.150s}", flush=True)
    return int(missed > 0)


def _many(scenario: Scenario, start: int, seeds: int, store: str) -> int:
    began = time.monotonic()
    said = time.monotonic()
    steps = 0
    seen = Counter[str]()
    for number, seed in enumerate(range(start, start + seeds), start=1):
        try:
            ran = run(scenario.plan(seed), scenario, store=store)
        except Failed as failed:
            print(f"seed {seed}: {failed.cause}\nmaking it smaller ...", flush=True)
            print(explain(seed, scenario, store))
            return 1
        steps += ran.steps
        seen += ran.seen
        if time.monotonic() - said > 10 or number == seeds:
            said = time.monotonic()
            rate = number / (said - began)
            print(f"{number:>9,} seeds  {steps:>12,} steps  {rate:6.0f} seeds/s", flush=True)
    print(", ".join(f"{what} {count:,}" for what, count in sorted(seen.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
