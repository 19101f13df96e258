"""Delta Spark's planning, as a process of its own: ``python -m benchmarks.planning.spark_delta
FOLDER ROUNDS QUESTIONS``; prints a line of JSON for each question.

Planning is to make a DataFrame of the table and its list of files (``inputFiles``); counted on the
JVM's side. ``cold``: Delta's cache of logs is cleared, the JVM is warm; ``warm``: the same session
again, with the snapshot that it holds. The session has two cores and 4 GB.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from turnstile_spark import session


def condition(question: list[Any]) -> str:
    """The question as SQL."""
    day, low, high = question
    return f"day = DATE '{day}'" if day else f"id BETWEEN {low} AND {high}" if high else "true"


def main() -> None:
    folder = sys.argv[1]
    rounds = int(sys.argv[2])
    questions = json.loads(sys.argv[3])
    options = {"spark.driver.memory": "4g", "spark.databricks.delta.snapshotPartitions": "2"}
    spark = session(small=True, master="local[2]", options=options)
    spark.sparkContext.setLogLevel("ERROR")
    jvm = spark.sparkContext._jvm  # noqa: SLF001
    arrays = jvm.java.lang.reflect.Array

    def plan(text: str) -> tuple[float, int]:
        start = time.perf_counter()
        frame = spark.read.format("delta").load(folder).where(text)
        count = arrays.getLength(frame._jdf.inputFiles())  # noqa: SLF001
        return (time.perf_counter() - start) * 1000, count

    plan("id = 1")  # classes are loaded
    for name, question in questions.items():
        text = condition(question)
        cold = []
        warm = []
        count = 0
        for _ in range(rounds):
            jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
            cold.append(plan(text)[0])
            for _ in range(2):
                ms, count = plan(text)
                warm.append(ms)
        print(json.dumps({"question": name, "cold": cold, "warm": warm, "planned": count}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
