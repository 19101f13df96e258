"""What a Spark driver waits for to count the rows of one day of a large Delta table: by the table's
log, and by a plan of the server's.

    python -m benchmarks.planning.driver --files 500000

The table of ``benchmarks.planning.tables`` is imported into a server of its own, whose light work
makes the index. Its data files do not exist, so what is timed is the DataFrame with its list of
files, in a session that has just begun and in one that knows the table. Everything is on local
disk.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

import turnstile_spark
from benchmarks.planning.tables import delta_folder, questions
from tests.support.fakes import delta
from turnstile_server import Server

SECONDS = 900
"""How long the index may take."""


def imported(server: Any, folder: Path, files: int) -> None:
    """Imports the table as default.large, and waits for its index."""
    delta_folder(files, folder)
    route = f"{server.url}/v1/catalogs/main/namespaces/default/imports"
    body = {"name": "large", "location": folder.as_uri(), "dry_run": False}
    answer = httpx.post(route, json=body, timeout=SECONDS).raise_for_status().json()
    table = f"{server.url}/v1/tables/{answer['table_id']}"
    for _ in range(12):  # light work looks at a table when something was committed
        head = httpx.get(f"{table}/head").raise_for_status().json()
        version = head["latest"] + 1
        stamp = max(int(time.time() * 1000), head["timestamp"] + 1)
        content = delta.lines(delta.info(f"empty-{version}", stamp)).decode()
        body = {"version": version, "inline": {"content": content}}
        httpx.post(f"{table}/commits", json=body).raise_for_status()
    for _ in range(SECONDS // 5):
        time.sleep(5)
        loaded = httpx.get(f"{server.url}/v1/catalogs/main/namespaces/default/tables/large?statistics=true").json()
        if loaded["statistics"] is not None:
            return
    raise TimeoutError("light work has made no index")


def timed(count: Any) -> tuple[float, int]:
    start = time.perf_counter()
    files = count()
    return round((time.perf_counter() - start) * 1000, 1), files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    day = questions(options.files)["one day"][0]
    with tempfile.TemporaryDirectory() as folder, Server.start(Path(folder) / "home", 0) as server:
        imported(server, Path(folder) / "large", options.files)
        settings = {"spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.driver.memory": "4g"}
        spark = turnstile_spark.session("driver", small=True, master="local[2]", options=settings)
        spark.sparkContext.setLogLevel("OFF")
        lake = turnstile_spark.attach(spark, "lake", server.url)
        table = lake.table("default.large")
        jvm = spark.sparkContext._jvm  # noqa: SLF001
        condition = f"day = DATE '{day}'"
        ways = {
            "plan": lambda: len(table.planned(condition).inputFiles()),
            "log": lambda: len(table.to_df().where(condition).inputFiles()),
        }
        spark.range(1).count()
        for number in range(options.rounds):
            for way, count in ways.items():
                jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
                cold_ms, files = timed(count)
                warm_ms, _ = timed(count)
                figures = {
                    "way": way,
                    "round": number,
                    "files": options.files,
                    "planned": files,
                    "cold_ms": cold_ms,
                    "warm_ms": warm_ms,
                }
                print(json.dumps({**figures, "load": round(os.getloadavg()[0], 1)}), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
