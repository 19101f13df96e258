"""Reads a whole table with a client other than Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyiceberg.table import Table

from tests.support.clients import duck
from tests.support.journeys.origins import iceberg_catalog
from tests.support.journeys.places import Journey
from turnstile_client import connect


def by_client(journey: Journey) -> pa.Table:
    with connect(journey.place.url, token=journey.place.token or None) as lake:
        return lake.table(journey.name).read()


def by_duckdb(journey: Journey, columns: str = "*") -> pa.Table:
    with duck.connect(journey.place.work) as db:
        duck.attach(db, journey.place, ", READ_ONLY")  # type: ignore[arg-type]
        return db.execute(f"SELECT {columns} FROM lake.{journey.name}").to_arrow_table()


def by_pyiceberg(journey: Journey) -> pa.Table:
    return planned_table(journey).scan().to_arrow()


def planned_table(journey: Journey) -> Table:
    """Returns PyIceberg's table; the catalog plans its scans."""
    return iceberg_catalog(journey.place, **{"scan-planning-mode": "server"}).load_table(journey.name)


READERS: Final[dict[str, Callable[[Journey], pa.Table]]] = {
    "client": by_client, "duckdb": by_duckdb, "pyiceberg": by_pyiceberg,
}  # fmt: skip
