"""Runs all cases on a server and in a Spark session of this machine:
``python -m benchmarks.hermitage [--write]``.

Prints every run and the tables. Ends with 1 if a verdict is not the expected one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.hermitage.cases import CASES, FORMS
from benchmarks.hermitage.over_http import HttpSystem
from benchmarks.hermitage.page import EXPECTED, HEADINGS, SYSTEMS, table, write
from benchmarks.hermitage.running import System, run
from turnstile_server import Server


@contextmanager
def _systems(names: list[str]) -> Iterator[dict[str, System]]:
    """These systems, on a server of their own."""
    with tempfile.TemporaryDirectory() as home, Server.start(Path(home) / "server", 0) as server:
        systems: dict[str, System] = {}
        for name in names:
            way, _, level = name.partition("-")
            if way == "http":
                systems[name] = HttpSystem(server.url, server.token, level)
        if all(name.startswith("http") for name in names):
            yield systems
            return
        import turnstile_spark
        from benchmarks.hermitage.over_spark import DeltaSystem, LakeSystem

        options = {
            "spark.sql.warehouse.dir": f"{home}/warehouse",
            # Statements are small and each differs: compiling them costs more than it gains.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.shuffle.partitions": "1",
            "spark.databricks.delta.snapshotPartitions": "1",
        }
        spark = turnstile_spark.session("hermitage", small=True, master="local[2]", options=options)
        spark.sparkContext.setLogLevel("OFF")
        lake = turnstile_spark.attach(spark, "lake", server.url, token=server.token or None)
        for name in names:
            way, _, level = name.partition("-")
            if way == "spark":
                systems[name] = LakeSystem(lake, spark, level)
            elif way == "delta":
                systems[name] = DeltaSystem(spark, f"{home}/delta")
        yield systems
        lake.detach()
        spark.stop()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help=f"some of {', '.join(SYSTEMS)} (all)")
    parser.add_argument(
        "--write", action="store_true", help="write the tables into docs/isolation.md; needs all systems"
    )
    options = parser.parse_args()
    names = options.systems.split(",")
    if unknown := set(names) - set(SYSTEMS):
        parser.error(f"no such system: {', '.join(sorted(unknown))}")
    if options.write and set(names) != set(SYSTEMS):
        parser.error("--write needs all systems")
    results: dict = {}
    with _systems(names) as systems:
        for name, system in systems.items():
            for form in FORMS:
                for case in CASES:
                    verdict = run(case, form, system)
                    results[name, form, case.name] = verdict.text
                    print(name, form, case.name, verdict.text, *verdict.refused, flush=True)
    for form, heading in HEADINGS.items():
        print(f"\n{heading}\n\n{table(form, results)}")
    different = {run: verdict for run, verdict in results.items() if verdict != EXPECTED[run]}
    for (name, form, case), verdict in different.items():
        print(f"NOT AS EXPECTED: {name} {form} {case}: {verdict}, expected {EXPECTED[name, form, case]}")
    if options.write:
        write(results)
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
