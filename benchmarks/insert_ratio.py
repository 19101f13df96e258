"""What a commit through Turnstile costs a Spark job: the same one-row INSERT three ways, interleaved in one session.

    python benchmarks/insert_ratio.py [--url URL] [--rounds 25] [--output json]

* through Turnstile;
* on a path-based Delta table with the same table features (in-commit timestamps, vacuum protocol check, deletion
  vectors), less the one that makes a table catalog-managed;
* on a plain path-based Delta table.

Prints medians and both ratios; goals: at most 1.15 of the same-features table, below 2 of the plain one. Without
``--url`` it starts an embedded stack of its own. The machine should have nothing else to do: ratios are of medians of
interleaved runs, so that what disturbs one disturbs all three, but a busy machine still blurs them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import turnstile_spark

WARM_UP = 8
SAME_FEATURES = {
    "delta.enableInCommitTimestamps": "true",
    "delta.enableDeletionVectors": "true",
    "delta.feature.vacuumProtocolCheck": "supported",
}
GOALS = {"same features": 1.15, "plain": 2.0}


@contextlib.contextmanager
def server(url: str | None, home: Path) -> Iterator[str]:
    """The server at ``url``, or an embedded stack for the time being."""
    if url:
        yield url
        return
    from turnstile_local.stack import Stack

    with Stack.start(home, port=0) as stack:
        yield stack.url


def measure(spark: Any, targets: dict[str, str], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each INSERT, by target; the first :data:`WARM_UP` rounds do not count."""
    taken: dict[str, list[float]] = {name: [] for name in targets}
    for number in range(WARM_UP + rounds):
        for name, table in targets.items():
            began = time.perf_counter()
            spark.sql(f"INSERT INTO {table} VALUES ({number}, 'x')")
            if number >= WARM_UP:
                taken[name].append((time.perf_counter() - began) * 1000)
    return taken


def run(url: str, work: Path, rounds: int) -> dict[str, Any]:
    """Makes the three tables, measures, and returns the figures."""
    options = {"spark.sql.warehouse.dir": str(work / "warehouse")}
    spark = turnstile_spark.session("insert ratio", small=True, master="local[2]", options=options)
    spark.sparkContext.setLogLevel("OFF")
    lake = turnstile_spark.attach(spark, "lake", url)
    name = f"default.insert_ratio_{time.time_ns()}"
    properties = ", ".join(f"'{k}' = '{v}'" for k, v in SAME_FEATURES.items())
    same, plain = f"delta.`{work}/same`", f"delta.`{work}/plain`"
    spark.sql(f"CREATE TABLE lake.{name} (id BIGINT, name STRING)")
    spark.sql(f"CREATE TABLE {same} (id BIGINT, name STRING) USING delta TBLPROPERTIES ({properties})")
    spark.sql(f"CREATE TABLE {plain} (id BIGINT, name STRING) USING delta")
    lake.api.http.requests.clear()
    taken = measure(spark, {"turnstile": f"lake.{name}", "same features": same, "plain": plain}, rounds)
    requests = {call: round(n / (rounds + WARM_UP), 2) for call, n in sorted(lake.api.http.requests.items())}
    features = {
        label: sorted(spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].tableFeatures)
        for label, table in (("turnstile", f"lake.{name}"), ("same features", same), ("plain", plain))
    }
    lake.table(name).drop()
    spark.stop()
    medians = {label: round(statistics.median(times), 1) for label, times in taken.items()}
    return {
        "rounds": rounds,
        "median_ms": medians,
        "quartiles_ms": {k: [round(q, 1) for q in statistics.quantiles(v, n=4)] for k, v in taken.items()},
        "ratios": {other: round(medians["turnstile"] / medians[other], 3) for other in GOALS},
        "goals": GOALS,
        "requests_per_insert": requests,
        "features": features,
    }


def main() -> None:
    """Parses the command line, runs, prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="base URL of a running server")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--output", choices=["text", "json"], default="text")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work, server(given.url, Path(work) / "home") as url:
        figures = run(url, Path(work), given.rounds)
    if given.output == "json":
        print(json.dumps(figures, indent=2))
        return
    for label, median in figures["median_ms"].items():
        low, _, high = figures["quartiles_ms"][label]
        print(f"{label:15} median {median:7.1f} ms   quartiles {low:.1f} .. {high:.1f}")
    for other, ratio in figures["ratios"].items():
        print(f"ratio to {other:15} {ratio:.3f}   goal {GOALS[other]}")
    print("requests per INSERT:", ", ".join(f"{call} {n}" for call, n in figures["requests_per_insert"].items()))


if __name__ == "__main__":
    main()
