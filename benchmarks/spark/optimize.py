"""OPTIMIZE of a table of a lake beside Delta's own of an equal path-based table:
``python -m benchmarks.spark.optimize``.

Both tables get the same rows by the same writes, with the same features but the one that makes a
table catalog-managed, in a number of small files in each of four partitions. Delta's command
commits all bins at once, ``optimize()`` each bin by itself, so that another writer's commit costs
one bin. Said for each round: seconds, files and bytes rewritten and written, the sizes of the files
that are left, and whether the rows are equal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import turnstile_spark
from benchmarks.spark.insert_ratio import SAME_FEATURES
from turnstile_server import Server

PARTITIONS = 4


def fill(spark: Any, table: str, files: int, rows: int) -> None:
    """Appends ``rows`` rows in ``files`` files to each partition."""
    for part in range(PARTITIONS):
        texts = "concat_ws('-', sha2(cast(id AS string), 512), sha2(cast(id + 1 AS string), 512)) AS text"
        data = spark.range(part * rows, (part + 1) * rows, 1, files).selectExpr("id", f"{part} AS part", texts)
        data.write.format("delta").mode("append").saveAsTable(table) if table.startswith(
            "lake."
        ) else data.write.format("delta").mode("append").save(table)


def sizes(spark: Any, table: str) -> list[int]:
    """Bytes of the table's present files, of which Spark knows the names."""
    paths = {row.path for row in spark.sql(f"SELECT DISTINCT _metadata.file_path AS path FROM {table}").collect()}
    return sorted(Path(path.removeprefix("file:")).stat().st_size for path in paths)


def round_of(spark: Any, lake: Any, folder: Path, number: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Makes both tables and optimizes them, the one first in even rounds, the other in odd ones."""
    path = folder / f"path{number}"
    name = f"default.optimize{number}"
    plain = f"delta.`{path}`"
    own = f"lake.{name}"
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in SAME_FEATURES.items())
    columns = "(id BIGINT, part INT, text STRING)"
    spark.sql(f"CREATE TABLE {plain} {columns} USING delta PARTITIONED BY (part) TBLPROPERTIES ({properties})")
    spark.sql(f"CREATE TABLE {own} {columns} PARTITIONED BY (part)")
    for table in (str(path), own):
        fill(spark, table, options.files, options.rows)
    target = str(options.target_mb * 1024 * 1024)
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", target)
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", target)

    def delta() -> dict[str, Any]:
        metrics = spark.sql(f"OPTIMIZE {plain}").collect()[0].metrics
        return {
            "rewritten_files": metrics.numFilesRemoved,
            "rewritten_bytes": metrics.filesRemoved.totalSize,
            "written_files": metrics.numFilesAdded,
            "written_bytes": metrics.filesAdded.totalSize,
            "commits": 1,
        }

    def turnstile() -> dict[str, Any]:
        done = lake.table(name).optimize(target_bytes=int(target))
        figures = {member: getattr(done, member) for member in ("rewritten_files", "rewritten_bytes", "written_files")}
        return {**figures, "written_bytes": done.written_bytes, "commits": len(done.versions)}

    results = []
    ways = [("Delta", delta, plain), ("Turnstile", turnstile, own)]
    for way, optimize, table in ways[:: 1 if number % 2 == 0 else -1]:
        before = sizes(spark, table)
        begun_s = time.perf_counter()
        figures = optimize()
        seconds = round(time.perf_counter() - begun_s, 2)
        after = sizes(spark, table)
        figures |= {
            "files_before": len(before),
            "files_after": len(after),
            "median_bytes_after": int(statistics.median(after)),
        }
        results.append({"way": way, "round": number, "seconds": seconds, **figures})
    different = spark.sql(
        f"(SELECT * FROM {plain} EXCEPT ALL SELECT * FROM {own}) UNION ALL (SELECT * FROM {own} EXCEPT ALL SELECT * "
        f"FROM {plain})"
    )
    assert different.count() == 0, "the rows of both tables differ"
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50, help="in each of the four partitions")
    parser.add_argument("--rows", type=int, default=400_000, help="in each of the four partitions")
    parser.add_argument("--target-mb", type=int, default=64, help="size of the files that are to be written")
    parser.add_argument("--rounds", type=int, default=5, help="after one that is not counted")
    parser.add_argument("--out", type=Path, help="append the figures to this file, a JSON object a line")
    options = parser.parse_args()
    results = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder, Server.start(Path(folder) / "home", 0) as server:
        settings = {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
        spark = turnstile_spark.session("optimize", small=True, master="local[2]", options=settings)
        spark.sparkContext.setLogLevel("OFF")
        lake = turnstile_spark.attach(spark, "lake", server.url)
        for number in range(options.rounds + 1):
            rounds = round_of(spark, lake, Path(folder), number, options)
            results += rounds if number else []
            for figures in rounds:
                print(json.dumps(figures), flush=True)
        spark.stop()
    for way in ("Delta", "Turnstile"):
        seconds = [figures["seconds"] for figures in results if figures["way"] == way]
        print(f"{way}: median {statistics.median(seconds):.2f} s of {len(seconds)}, load {os.getloadavg()[0]:.1f}")
    if options.out:
        with options.out.open("a") as file:
            file.writelines(json.dumps(figures) + "\n" for figures in results)


if __name__ == "__main__":
    main()
