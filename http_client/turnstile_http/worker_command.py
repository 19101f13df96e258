"""The parts of the command line that maintenance workers of all kinds have in common
(docs/maintenance.md)."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from turnstile_http.errors import ApiError
from turnstile_http.maintenance import TERM_S, Progress, TableRun


def add_options(
    parser: argparse.ArgumentParser, operations: Sequence[str], help: str, *, pause_s: float, worker: str
) -> None:
    """Adds the operation, the table, the address, and the options of ``run``.

    Args:
        help: of the operations.
        pause_s: the default of ``--pause-s``.
        worker: the name of the part that has a capacity, in the help of ``--dpus``.
    """
    parser.add_argument("operation", choices=operations, help=help)
    parser.add_argument("table", nargs="?", help="namespace.table; run: only this one, by default all of the catalog")
    parser.add_argument(
        "--uri", default=os.environ.get("TURNSTILE_URL"), help="default: $TURNSTILE_URL; the token is $TURNSTILE_TOKEN"
    )
    parser.add_argument("--catalog", default="main")
    parser.add_argument("--loop", action="store_true", help="run: look again after --pause-s, until it is ended")
    parser.add_argument("--once", dest="loop", action="store_false", help="run: look at each table once (the default)")
    parser.add_argument("--pause-s", type=float, default=pause_s, help="run --loop: between two looks at all tables")
    parser.add_argument(
        "--term-s",
        type=float,
        default=TERM_S,
        help="run: seconds after which another worker may take a dead one's table",
    )
    parser.add_argument("--dpus", type=float, default=0.0, help=f"run: capacity of {worker}, for budgets of DPU-hours")


def parse(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """Returns the arguments; ends the process for wrong ones."""
    args = parser.parse_intermixed_args(argv)  # the table may come after options
    if not args.uri:
        parser.error("--uri or the environment variable TURNSTILE_URL: the server's base URL")
    if args.operation != "run" and args.table is None:
        parser.error(f"{args.operation} needs a table: namespace.table")
    if args.term_s < 1 or args.pause_s < 0 or args.dpus < 0:
        parser.error("--term-s is at least 1 second; --pause-s and --dpus are not negative")
    return args


def run_due(runs: Callable[[Sequence[str] | None], Iterator[TableRun]], args: argparse.Namespace) -> int:
    """Does the due work by policy, and prints the result for each table. Exit code 1: a table
    failed, or was lost to another worker.

    ``runs``: does the due work on the named tables, or on all.
    """
    only = None if args.table is None else [args.table]
    while True:
        failed = False
        try:
            for run in runs(only):
                done = f", {run.files} files, {run.bytes} bytes" if run.files else ""
                sys.stdout.write(f"{run.table}: {run.outcome}{done}: {run.reason}\n")
                sys.stdout.flush()
                failed |= run.outcome in ("failed", "lost", "unknown")
        except ApiError as e:  # the tables could not be listed
            if not args.loop:
                raise
            sys.stderr.write(f"{e}\n")
        if not args.loop:
            return 1 if failed else 0
        sys.stdout.write(f"looking again in {args.pause_s:g} s\n")
        sys.stdout.flush()
        time.sleep(args.pause_s)


def print_step(progress: Progress) -> None:
    """Prints a step of a rewrite."""
    version = "" if progress.version is None else f", version {progress.version}"
    sys.stderr.write(
        f"{progress.step}: {progress.bins} bins, {progress.files} files, {progress.bytes} bytes{version}\n"
    )
