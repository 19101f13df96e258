"""CREATE TABLE AS, INSERT and SELECT by DuckDB's Iceberg extension: ``duck_story.py URI HOME``;
prints the rows in JSON."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import duckdb

EXTENSIONS = ("avro", "httpfs", "iceberg")


def extension(name: str) -> Path:
    """The signed extension in the package that carries it."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"


def story(uri: str, home: str) -> list[tuple[int, str]]:
    """The rows of a table that DuckDB made."""
    db = duckdb.connect(config={"home_directory": home, "autoinstall_known_extensions": "false"})
    for name in EXTENSIONS:
        db.execute(f"LOAD '{extension(name)}'")
    db.execute(f"ATTACH 'main' AS lake (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
    db.execute("CREATE SCHEMA lake.duck")
    db.execute("CREATE TABLE lake.duck.t AS SELECT 1 AS id, 'a' AS name")
    db.execute("INSERT INTO lake.duck.t VALUES (2, 'b')")
    return db.execute("SELECT id, name FROM lake.duck.t ORDER BY id").fetchall()


if __name__ == "__main__":
    print(json.dumps(story(*sys.argv[1:])))
