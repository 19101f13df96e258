"""Races for one table over HTTP on the embedded stack, with figures: ``python -m benchmarks.race``.

8 processes x 100 commits    every one names its version; conflicts are rebased from the answer
32 appenders x 50 commits    every one asks for the next version; nobody loses
"""

from __future__ import annotations

import argparse
import sys
import tempfile

from benchmarks.racing import heats, racers, table
from turnstile_local import Stack


def show(title: str, heat: heats.Heat) -> None:
    ordered = sorted(heat.ms)
    p50 = ordered[len(ordered) // 2]
    p95 = ordered[int(len(ordered) * 0.95)]
    print(
        f"{title}: {heat.commits} commits in {heat.seconds:.1f} s = {heat.commits / heat.seconds:.0f}/s, all published"
        f" after {heat.published_seconds:.1f} s; {heat.conflicts} conflicts; request p50 {p50:.1f} ms, p95 {p95:.1f} ms"
    )
    others = {kind: count for kind, count in heat.results.items() if kind not in ("ok", "CommitVersionConflict")}
    if others:
        print(f"  also answered: {others}")
    for violation in heat.violations[:10]:
        print(f"  VIOLATED: {violation}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100, help="commits of each racing process")
    parser.add_argument("--appends", type=int, default=50, help="appends of each blind appender")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, Stack.start(home=home, port=0) as stack:
        raced = table.create(stack.url, stack.token, "race")
        named = heats.run(raced, racers.named, 8, options.commits)
        show("8 processes, named versions", named)
        appended = table.create(stack.url, stack.token, "appends", row_tracking=True)
        tickets = heats.run(appended, racers.tickets, 4, options.appends, appenders=8)
        show("32 blind appenders, tickets", tickets)
    return 1 if named.violations or tickets.violations else 0


if __name__ == "__main__":
    sys.exit(main())
