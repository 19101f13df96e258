"""The command line of maintenance: ``python -m turnstile_spark.maintenance``
(docs/maintenance.md)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from turnstile_http.worker_command import add_options, parse, print_step, run_due
from turnstile_spark.errors import TurnstileError
from turnstile_spark.maintenance.rewrites import TARGET_BYTES
from turnstile_spark.maintenance.vacuum import VacuumStep


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnstile_spark.maintenance optimize|reorg|vacuum NAMESPACE.TABLE`` or ``run
    [NAMESPACE.TABLE]``, also for spark-submit. Exit code 1: files were left."""
    from turnstile_spark import attach, session
    from turnstile_spark.maintenance.runs import run

    parser = new_parser()
    args = parse(parser, argv)
    if args.operation == "reorg" and args.z_order_by:
        parser.error("--z-order-by is for optimize")
    spark = session(app="turnstile maintenance", small=args.small, s3=args.s3 or None)
    # Another name than a lake that this process has.
    with attach(spark, "maintained", args.uri, catalog=args.catalog) as lake:
        if args.operation == "run":
            runs = partial(run, lake, term_s=args.term_s, dpus=args.dpus, progress=lambda _, at: print_step(at))
            return run_due(runs, args)
        table = lake.table(args.table)
        options = {"where": args.where, "target_bytes": args.target_bytes, "progress": print_step}
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
    add_options(parser, ("optimize", "reorg", "vacuum", "run"), what, pause_s=300.0, worker="this Spark")
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
    parser.add_argument("--s3", action="store_true", help="tables are on S3")
    parser.add_argument("--small", action="store_true", help="options for a laptop")
    return parser


def _print_step(step: VacuumStep) -> None:
    sys.stderr.write(f"{step.step}: {step.files} files, {step.bytes} bytes\n")
