"""Fetches the packages of a Spark session into the Ivy cache, so that nobody's first session waits for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark

from turnstile_spark.session import packages_of, session


def missing() -> list[str]:
    """The packages whose jar is in no Ivy cache; looking is quicker than starting a JVM."""
    there = {jar.name for home in Path.home().glob(".ivy2*") for jar in home.glob("jars/*.jar")}
    return [package for package in packages_of(pyspark.__version__, s3=True) if _jar(package) not in there]


def _jar(package: str) -> str:
    group, artifact, version = package.split(":")
    return f"{group}_{artifact}-{version}.jar"


def main() -> int:
    """Start and stop a session that needs them all; 0 when they are there."""
    if not missing():
        return 0
    local = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    session("turnstile-setup", s3=True, small=True, master="local[1]", options=local).stop()
    if missing():
        print(f"warm_spark: not in the Ivy cache: {', '.join(missing())}; sessions will fetch them", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
