"""The command line of maintenance without an engine: ``python -m turnstile_client.maintenance``
(docs/maintenance.md)."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence

from turnstile_client.errors import ApiError, ClientError
from turnstile_client.lake import Lake, connect
from turnstile_http.maintenance import TERM_S, Progress

#: Seconds between two looks at all tables.
PAUSE_S = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnstile_client.maintenance optimize|reorg NAMESPACE.TABLE``, or ``run
    [NAMESPACE.TABLE]``. Exit code 1: files were left, or a table failed; 2: it was refused."""
    parser = new_parser()
    args = parser.parse_intermixed_args(argv)  # the table may come after options
    if not args.uri:
        parser.error("--uri or the environment variable TURNSTILE_URL: the server's base URL")
    if args.operation != "run" and args.table is None:
        parser.error(f"{args.operation} needs a table: namespace.table")
    if args.term_s < 1 or args.pause_s < 0 or args.dpus < 0:
        parser.error("--term-s is at least 1 second; --pause-s and --dpus are not negative")
    signal.signal(signal.SIGTERM, _end)
    try:
        with connect(args.uri, catalog=args.catalog) as lake:
            if args.operation == "run":
                return _run_due(lake, args)
            table = lake.table(args.table)
            rewrite = table.optimize if args.operation == "optimize" else table.reorg
            result = rewrite(target_bytes=args.target_bytes, progress=_print)
    except (ValueError, ClientError, ApiError) as e:
        sys.stderr.write(f"{e}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(f"{result}\n")
    return 1 if result.left_files else 0


def new_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="turnstile_client.maintenance", description="Puts the small data files of tables together, without Spark."
    )
    what = "put small files together; rewrite files with deletion vectors; run: the due work by policy"
    parser.add_argument("operation", choices=("optimize", "reorg", "run"), help=what)
    parser.add_argument("table", nargs="?", help="namespace.table; run: only this one, by default all of the catalog")
    parser.add_argument(
        "--uri", default=os.environ.get("TURNSTILE_URL"), help="default: $TURNSTILE_URL; the token is $TURNSTILE_TOKEN"
    )
    parser.add_argument("--catalog", default="main")
    parser.add_argument("--target-bytes", type=int, help="size of the files; default: delta.targetFileSize, or 128 MiB")
    parser.add_argument("--loop", action="store_true", help="run: look again after --pause-s, until it is ended")
    parser.add_argument("--once", dest="loop", action="store_false", help="run: look at each table once (the default)")
    parser.add_argument("--pause-s", type=float, default=PAUSE_S, help="run --loop: between two looks at all tables")
    parser.add_argument(
        "--term-s",
        type=float,
        default=TERM_S,
        help="run: seconds after which another worker may take a dead one's table",
    )
    parser.add_argument(
        "--dpus", type=float, default=0.0, help="run: capacity of this process, for budgets of DPU-hours"
    )
    return parser


def _end(*_: object) -> None:
    """Ends the process in order on SIGTERM: a run is reported as stopped, not taken for dead."""
    raise SystemExit(143)


def _run_due(lake: Lake, args: argparse.Namespace) -> int:
    """Does the due work by policy."""
    only = None if args.table is None else [args.table]
    while True:
        failed = False
        try:
            for run in lake.maintain(only, term_s=args.term_s, dpus=args.dpus, progress=lambda _, step: _print(step)):
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
        time.sleep(args.pause_s)


def _print(progress: Progress) -> None:
    version = "" if progress.version is None else f", version {progress.version}"
    sys.stderr.write(
        f"{progress.step}: {progress.bins} bins, {progress.files} files, {progress.bytes} bytes{version}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
