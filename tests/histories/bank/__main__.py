"""Plays the bank for a while and says how it went; the exit code is 1 if anything was wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.histories.bank.campaign import Plan, play
from tests.histories.bank.clients import Habits
from tests.histories.bank.doubles import FAULTS, faulty_client
from tests.histories.bank.kills import Killer
from turnstile_server import Server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.histories.bank", description=__doc__)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--auditors", type=int, default=4)
    parser.add_argument("--customers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--workers", type=int, default=3, help="processes of the server that answer requests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--level", choices=["serializable", "snapshot"], default="serializable")
    parser.add_argument("--fault", choices=FAULTS, help="a fault that the server is to have")
    options = parser.parse_args()
    habits = Habits(deaths=0.002, hang_ups=0.04, sends_reads=options.level == "serializable")
    plan = Plan(
        options.writers, options.auditors, options.customers, seconds=options.seconds, kills=[None] * options.kills,
        between=1, habits=habits, seed=options.seed,
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        server = Server.start(Path(folder) / "home", 0, workers=options.workers)
        killer = Killer(server, options.workers, options.seed)
        try:
            connect = (lambda: faulty_client(server, options.fault)) if options.fault else None
            report = play(server, plan, killer, connect)
        finally:
            killer.server.stop()
    sys.stdout.write("\n".join([str(report), *report.problems[:20]]) + "\n")
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
