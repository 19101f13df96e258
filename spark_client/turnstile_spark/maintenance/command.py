"""The command line of maintenance: ``python -m turnstile_spark.maintenance``
(docs/maintenance.md)."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from turnstile_http.maintenance import Progress
from turnstile_spark.errors import TurnstileError
from turnstile_spark.maintenance.rewrites import TARGET_BYTES
from turnstile_spark.maintenance.vacuum import VacuumStep


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnstile_spark.maintenance optimize|reorg|vacuum NAMESPACE.TABLE`` or ``run
    [NAMESPACE.TABLE]``, also for spark-submit. Exit code 1: files were left."""
    from turnstile_spark import attach, session

    parser = new_parser()
    args = parser.parse_intermixed_args(argv)  # the table may come after options
    if not args.uri:
        parser.error("--uri or the environment variable TURNSTILE_URL: the server's base URL")
    if args.operation == "reorg" and args.z_order_by:
        parser.error("--z-order-by is for optimize")
    if args.operation != "run" and args.table is None:
        parser.error(f"{args.operation} needs a table: namespace.table")
    spark = session(app="turnstile maintenance", small=args.small, s3=args.s3 or None)
    # Another name than a lake that this process has.
    with attach(spark, "maintained", args.uri, catalog=args.catalog) as lake:
        if args.operation == "run":
            return _run_due(lake, args)
        table = lake.table(args.table)
        options = {"where": args.where, "target_bytes": args.target_bytes, "progress": _print}
        try:
            if args.operation == "vacuum":
                removed = table.vacuum(
                    args.retention_hours,
                    args.dry_run,
                    args.lite,
                    allow_short=args.allow_short,
                    progress=_print_step,
                )
                sys.stdout.write("".join(f"{path}\n" for path in removed.paths if args.dry_run) + f"{removed}\n")
                return 0
            if args.operation == "optimize":
                result = table.optimize(z_order_by=args.z_order_by, **options)
            else:
                result = table.reorg(**options)
        except (ValueError, TurnstileError) as e:
            sys.stderr.write(f"{e}\n")
            return 2
    sys.stdout.write(f"{result}\n")
    return 1 if result.left_files else 0


def new_parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="turnstile_spark.maintenance", description="Rewrites the data files of a table, or removes old ones."
    )
    what = (
        "compaction, purging deletion vectors, removing files that no pinned version needs; run: the due work by policy"
    )
    parser.add_argument("operation", choices=("optimize", "reorg", "vacuum", "run"), help=what)
    parser.add_argument("table", nargs="?", help="namespace.table; run: only this one, by default all of the catalog")
    parser.add_argument(
        "--uri", default=os.environ.get("TURNSTILE_URL"), help="default: $TURNSTILE_URL; the token is $TURNSTILE_TOKEN"
    )
    parser.add_argument("--catalog", default="main")
    parser.add_argument("--where", help="a predicate on partition columns")
    parser.add_argument("--z-order-by", nargs="+", default=[], metavar="COLUMN")
    parser.add_argument("--target-bytes", type=int, default=TARGET_BYTES)
    parser.add_argument(
        "--retention-hours", type=float, help="vacuum: how old a file is that goes; default: the table's"
    )
    parser.add_argument("--allow-short", action="store_true", help="vacuum: a retention of less than a week")
    parser.add_argument("--dry-run", action="store_true", help="vacuum: only list the files to remove")
    parser.add_argument(
        "--lite", action="store_true", help="vacuum: only files that commits removed, without a listing"
    )
    parser.add_argument("--loop", action="store_true", help="run: look again after --pause-s, until it is ended")
    parser.add_argument("--once", dest="loop", action="store_false", help="run: look at each table once (the default)")
    parser.add_argument("--pause-s", type=float, default=300.0, help="run --loop: between two looks at all tables")
    parser.add_argument(
        "--term-s", type=float, default=300.0, help="run: after which another worker takes over from a dead one"
    )
    parser.add_argument("--dpus", type=float, default=0.0, help="run: capacity of this Spark, for budgets of DPU-hours")
    parser.add_argument("--s3", action="store_true", help="tables are on S3")
    parser.add_argument("--small", action="store_true", help="options for a laptop")
    return parser


def _print_step(step: VacuumStep) -> None:
    sys.stderr.write(f"{step.step}: {step.files} files, {step.bytes} bytes\n")


def _run_due(lake: Any, args: argparse.Namespace) -> int:
    """Does the due work by policy. Exit code 1: a table failed, or was lost to another worker."""
    from turnstile_spark.maintenance.runs import run

    only = None if args.table is None else [args.table]
    while True:
        failed = False
        for table_run in run(lake, only, term_s=args.term_s, dpus=args.dpus, progress=lambda _, step: _print(step)):
            done = f", {table_run.files} files, {table_run.bytes} bytes" if table_run.files else ""
            sys.stdout.write(f"{table_run.table}: {table_run.outcome}{done}: {table_run.reason}\n")
            sys.stdout.flush()
            failed |= table_run.outcome in ("failed", "lost", "unknown")
        if not args.loop:
            return 1 if failed else 0
        time.sleep(args.pause_s)


def _print(progress: Progress) -> None:
    version = "" if progress.version is None else f", version {progress.version}"
    sys.stderr.write(
        f"{progress.step}: {progress.bins} bins, {progress.files} files, {progress.bytes} bytes{version}\n"
    )
