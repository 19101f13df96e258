"""Planning by Iceberg's Java library in a Spark session, as a script of its own:
``python spark_iceberg.py FOLDER ROUNDS QUESTIONS``; prints a line of JSON for each question.

``TableScan.planFiles`` is called as Spark does and its tasks are counted in the JVM. ``cold``: the
table is opened anew; ``warm``: the opened table again. Manifests are not cached by default. The
session has two cores and 4 GB.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark.sql import SparkSession

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"


def main() -> None:
    folder = sys.argv[1]
    rounds = int(sys.argv[2])
    questions = json.loads(sys.argv[3])
    builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", RUNTIME)
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
    iceberg = jvm.org.apache.iceberg
    expressions = iceberg.expressions.Expressions
    iterables = iceberg.relocated.com.google.common.collect.Iterables

    def opened() -> Any:
        return iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration()).load(folder)  # noqa: SLF001

    def plan(table: Any, question: list[Any]) -> int:
        day, low, high = question
        scan = table.newScan()
        if day:
            scan = scan.filter(expressions.equal("day", day))
        elif high:
            scan = scan.filter(expressions.greaterThanOrEqual("id", low)).filter(
                expressions.lessThanOrEqual("id", high)
            )
        tasks = scan.planFiles()
        count = iterables.size(tasks)
        tasks.close()
        return int(count)

    plan(opened(), ["", 1, 1])  # classes are loaded
    for name, question in questions.items():
        cold = []
        warm = []
        count = 0
        for _ in range(rounds):
            start = time.perf_counter()
            table = opened()
            count = plan(table, question)
            cold.append((time.perf_counter() - start) * 1000)
            for _ in range(2):
                start = time.perf_counter()
                plan(table, question)
                warm.append((time.perf_counter() - start) * 1000)
        print(json.dumps({"question": name, "cold": cold, "warm": warm, "planned": count}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
