"""Engines that write tables of a branch. A benchmark writes other tables itself."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa

import turnstile_spark
from tests.support.clients import duck
from turnstile_client import connect
from turnstile_server import Server

TABLES = ("by_client", "by_duckdb", "by_spark")
BRANCH = "main@dev"


class Engines:
    """``turnstile_client``, DuckDB and Spark: each adds a row to a table of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._folder = tempfile.TemporaryDirectory()
        self._spark = turnstile_spark.session("promotions", small=True, master="local[2]")
        with connect(server.url) as lake:
            for name in TABLES:
                lake.create(f"default.{name}", pa.table({"id": pa.array([0], pa.int64())}))

    def write(self) -> None:
        """Adds a row to each of the tables on the branch."""
        with connect(self._server.url, catalog=BRANCH) as lake:
            lake.table("default.by_client").append_rows([{"id": 1}])
        with duck.connect(Path(self._folder.name)) as database:
            duck.attach(database, self._server, catalog=BRANCH)
            database.execute("INSERT INTO lake.default.by_duckdb VALUES (1)")
        lake = turnstile_spark.attach(self._spark, "dev", self._server.url, catalog=BRANCH)
        self._spark.sql("INSERT INTO dev.default.by_spark VALUES (1)")
        lake.detach()

    def close(self) -> None:
        """Ends Spark, and removes the settings of DuckDB."""
        self._spark.stop()
        self._folder.cleanup()
