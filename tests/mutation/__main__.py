"""``python -m tests.mutation [--only TEXT] [--jobs N] [--list]``: killed out of how many, and who survives, and why."""

from __future__ import annotations

import argparse
import multiprocessing
import sys

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.runner import Verdict, failing_without, judge
from tests.mutation.survivors import EXPECTED


def main() -> int:
    """Exit status 1 when a mutant survives that has no reason to, or one does not survive that has."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--only", default="", help="only mutants whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at once")
    parser.add_argument("--list", action="store_true", help="name the mutants and end")
    asked = parser.parse_args()
    chosen = [(number, one) for number, one in enumerate(mutants()) if asked.only in str(one)]
    if asked.list:
        print("\n".join(str(one) for _, one in chosen))
        return 0
    if failing := failing_without(chosen):
        print(f"a test fails without any mutant: {failing}")
        return 2
    with multiprocessing.get_context("fork").Pool(asked.jobs) as pool:
        verdicts = [_told(verdict) for verdict in pool.imap(_judged, chosen)]
    survivors = [verdict.mutant for verdict in verdicts if not verdict.killer]
    print(f"\nkilled {len(verdicts) - len(survivors)} of {len(verdicts)}")
    for mutant in survivors:
        print(f"  survived  {mutant}\n            {EXPECTED.get(str(mutant), 'NO REASON KNOWN')}")
    stale = [str(verdict.mutant) for verdict in verdicts if verdict.killer and str(verdict.mutant) in EXPECTED]
    for name in stale:
        print(f"  killed by now, needs no reason any more: {name}")
    return int(bool(stale) or any(str(mutant) not in EXPECTED for mutant in survivors))


def _judged(numbered: tuple[int, Mutant]) -> Verdict:
    return judge(*numbered)


def _told(verdict: Verdict) -> Verdict:
    print(f"{'killed  ' if verdict.killer else 'SURVIVED'}  {verdict.mutant}  {verdict.killer[:90]}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
