"""Measures all clients at all sizes: see the package."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

import benchmarks.planning
from benchmarks.planning.peers import measured

SIZES = [10_000, 100_000, 500_000, 1_000_000]


def percentile(times: list[float], share: float) -> float | None:
    """The time that so many of them do not exceed."""
    return None if not times else round(sorted(times)[max(0, ceil(share * len(times)) - 1)], 1)


def shown(result: dict[str, Any]) -> dict[str, Any]:
    """A result with percentiles in the place of times."""
    for name in ("cold", "warm", "changing"):
        times = result.pop(name, None)
        if times:
            result |= {
                f"{name}_p50_ms": percentile(times, 0.5),
                f"{name}_p99_ms": percentile(times, 0.99),
                f"{name}_runs": len(times),
            }
    return result


def turnstile(files: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.planning.turnstile",
        str(files),
        str(options.storage_ms),
        str(options.store_ms),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=benchmarks.planning.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, nargs="*", default=SIZES)
    parser.add_argument("--only", nargs="*", default=[], help="turnstile, or a peer by its name")
    parser.add_argument("--storage-ms", type=float, default=20, help="what a request to table storage waits")
    parser.add_argument("--store-ms", type=float, default=5, help="what a request to the store of HEADs and objs waits")
    parser.add_argument("--rounds", type=int, default=5, help="cold plans of each peer, with two warm ones after each")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    peers = [name for name in options.only if name != "turnstile"]
    for files in options.files:
        results = []
        if not options.only or "turnstile" in options.only:
            results.append(turnstile(files, options))
        if not options.only or peers:
            results.append(measured(files, options.rounds, peers))
        for source in results:
            for result in source:
                at = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "load": round(os.getloadavg()[0], 1)}
                line = json.dumps(shown(result) | at)
                print(line, flush=True)
                if options.out:
                    with options.out.open("a") as file:
                        file.write(line + "\n")


if __name__ == "__main__":
    main()
