"""Fetches Delta's packages for Spark into the Ivy cache, so that the first session of a user does not wait for it."""

from __future__ import annotations

import sys
from pathlib import Path

PACKAGES = "io.delta:delta-spark_4.2_2.13:4.4.0"


def fetched() -> bool:
    """Whether the jars are there; looking is quicker than starting a JVM."""
    jar = PACKAGES.replace(":", "_", 1).replace(":", "-") + ".jar"
    return any(jar in {path.name for path in home.glob("jars/*.jar")} for home in Path.home().glob(".ivy2*"))


def main() -> int:
    if fetched():
        return 0
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.packages", PACKAGES)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.stop()
    if not fetched():
        print("warm_spark: the packages are not where they were expected; sessions will fetch them", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
