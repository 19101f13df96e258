"""The command line of maintenance without an engine: ``python -m turnstile_client.maintenance``
(docs/maintenance.md)."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial

from turnstile_client.errors import ApiError, ClientError
from turnstile_client.lake import connect
from turnstile_http.worker_command import add_options, parse, print_step, run_due

#: Seconds between two looks at all tables.
PAUSE_S = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m turnstile_client.maintenance optimize|reorg NAMESPACE.TABLE``, or ``run
    [NAMESPACE.TABLE]``. Exit code 1: files were left, or a table failed; 2: it was refused."""
    parser = new_parser()
    args = parse(parser, argv)
    signal.signal(signal.SIGTERM, _end)
    try:
        with connect(args.uri, catalog=args.catalog) as lake:
            if args.operation == "run":
                runs = partial(lake.maintain, term_s=args.term_s, dpus=args.dpus, progress=lambda _, at: print_step(at))
                return run_due(runs, args)
            table = lake.table(args.table)
            rewrite = table.optimize if args.operation == "optimize" else table.reorg
            result = rewrite(target_bytes=args.target_bytes, progress=print_step)
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
    add_options(parser, ("optimize", "reorg", "run"), what, pause_s=PAUSE_S, worker="this process")
    parser.add_argument("--target-bytes", type=int, help="size of the files; default: delta.targetFileSize, or 128 MiB")
    return parser


def _end(*_: object) -> None:
    """Ends the process in order on SIGTERM: a run is reported as stopped, not taken for dead."""
    raise SystemExit(143)


if __name__ == "__main__":
    raise SystemExit(main())
