"""DuckDB with its own signed extensions, attached to a server's catalog."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

if TYPE_CHECKING:
    from turnstile_server import Server

EXTENSIONS = ("httpfs", "delta", "unity_catalog")


def extension(name: str) -> Path:
    """The extension's file in the package that carries it."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None and spec.origin is not None, f"duckdb-extension-{name} is not installed; run `make setup`"
    return Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"


def connect(home: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB with the three extensions. Nothing is downloaded, and DuckDB checks every
    signature."""
    settings = {"home_directory": str(home), "autoinstall_known_extensions": "false"}
    db = duckdb.connect(config=settings)  # type: ignore[arg-type]
    for name in EXTENSIONS:
        db.execute(f"LOAD '{extension(name)}'")
    assert db.execute("SELECT current_setting('allow_unsigned_extensions')").fetchone() == (False,)
    return db


def attach(db: duckdb.DuckDBPyConnection, server: Server, options: str = "", catalog: str = "main") -> None:
    """A catalog as the database ``lake``."""
    db.execute(
        f"CREATE OR REPLACE SECRET (TYPE unity_catalog, TOKEN '{server.token or 'none'}', ENDPOINT '{server.url}',"
        " AWS_REGION 'us-east-1')"
    )
    db.execute(f"ATTACH '{catalog}' AS lake (TYPE unity_catalog, DEFAULT_SCHEMA 'default'{options})")


def ids(db: duckdb.DuckDBPyConnection, table: str) -> list[int]:
    return sorted(row[0] for row in db.execute(f"SELECT id FROM lake.default.{table}").fetchall())


def insist(
    connect: Callable[[], duckdb.DuckDBPyConnection], write: Callable[[duckdb.DuckDBPyConnection], None]
) -> list[str]:
    """Repeats ``write`` until it is committed, with a new connection after each conflict: DuckDB's
    own snapshot would stay behind, and ``DETACH`` after a conflict may fail.

    Returns the messages of the conflicts.
    """
    told: list[str] = []
    while True:
        try:
            write(connect())
        except duckdb.TransactionException as conflict:
            if "HTTP 409" not in str(conflict):
                raise
            told.append(str(conflict))
        else:
            return told
