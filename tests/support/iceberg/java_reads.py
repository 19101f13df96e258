"""Reads metadata files with Iceberg's own Java code, all in one JVM:
``python java_reads.py FOLDER ANSWERS``.

It runs in the environment that ``spark41`` makes, and writes what Java said of each file, by its
name: null when it could be read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"


def read(folder: Path) -> dict[str, str | None]:
    """What ``TableMetadataParser`` says of the files."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.packages", RUNTIME)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    parser = spark._jvm.org.apache.iceberg.TableMetadataParser  # its version is the client's
    said: dict[str, str | None] = {}
    for file in sorted(folder.glob("*.json")):
        try:
            parser.fromJson(file.read_text())
            said[file.name] = None
        except (Py4JJavaError, PySparkException) as error:  # PySpark has classes of its own for some of Java's
            said[file.name] = str(error)
    return said


if __name__ == "__main__":
    folder, answers = map(Path, sys.argv[1:])
    answers.write_text(json.dumps(read(folder)))
