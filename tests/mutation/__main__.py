"""``python -m tests.mutation [--only TEXT ...] [--jobs N] [--list]``: how many mutants tests
notice, and which they do not."""

from __future__ import annotations

import argparse
import multiprocessing
import sys

from tests.mutation.modules import SURVIVORS
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.runner import Verdict, failing_without, try_mutant


def main() -> int:
    """Exit status 1 when a mutant survives that is not listed, or one that is listed does not; 2
    when a test fails without any mutant."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], help="only mutants whose name contains one of these")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at once")
    parser.add_argument("--list", action="store_true", help="name the mutants and end")
    options = parser.parse_args()
    chosen = [
        (number, mutant) for number, mutant in enumerate(mutants()) if any(text in str(mutant) for text in options.only)
    ]
    if options.list:
        print("\n".join(str(mutant) for _, mutant in chosen))
        return 0
    if failing := failing_without(chosen):
        print(f"a test fails without any mutant: {failing}")
        return 2
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool:
        verdicts = [_printed(verdict) for verdict in pool.imap(_try, chosen)]
    survivors = [verdict.mutant for verdict in verdicts if not verdict.killer]
    print(f"\nkilled {len(verdicts) - len(survivors)} of {len(verdicts)}")
    for mutant in survivors:
        print(f"  survived  {mutant}\n            {SURVIVORS.get(str(mutant), 'NO REASON KNOWN')}")
    stale = [str(verdict.mutant) for verdict in verdicts if verdict.killer and str(verdict.mutant) in SURVIVORS]
    for name in stale:
        print(f"  killed by now, needs no reason any more: {name}")
    return int(bool(stale) or any(str(mutant) not in SURVIVORS for mutant in survivors))


def _try(numbered: tuple[int, Mutant]) -> Verdict:
    return try_mutant(*numbered)


def _printed(verdict: Verdict) -> Verdict:
    print(f"{'killed  ' if verdict.killer else 'SURVIVED'}  {verdict.mutant}  {verdict.killer[:90]}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
