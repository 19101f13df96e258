"""The tables and queries of TPC-H and TPC-DS, made by DuckDB's generators:
``python tpc.py SUITE FOLDER SCALE`` writes a Parquet file for each table, and prints the names of
the tables and the queries in JSON. SUITE is ``tpch`` or ``tpcds``."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

VERSION = "1.5.5"
GENERATOR = {"tpch": "dbgen", "tpcds": "dsdgen"}


def python(suite: str) -> Path:
    """An interpreter with DuckDB and its generator; raises Missing where it cannot be made."""
    from tests.support.downloads import environment

    packages = (f"duckdb=={VERSION}", f"duckdb-extension-{suite}=={VERSION}")
    return environment(f"duckdb-{suite}-{VERSION}", *packages)


def generate(suite: str, folder: Path, scale: float) -> tuple[list[str], list[str]]:
    """Writes the tables; returns their names and the queries."""
    import duckdb

    spec = importlib.util.find_spec(f"duckdb_extension_{suite}")
    assert spec is not None
    database = duckdb.connect()
    extension = f"{Path(str(spec.origin)).parent}/extensions/v{duckdb.__version__}/{suite}.duckdb_extension"
    database.execute(f"LOAD '{extension}'")
    database.execute(f"CALL {GENERATOR[suite]}(sf = {scale})")
    tables = sorted(row[0] for row in database.execute("SHOW TABLES").fetchall())
    for table in tables:
        database.execute(f"COPY {table} TO '{folder}/{table}.parquet'")
    queries = database.execute(f"SELECT query FROM {suite}_queries() ORDER BY query_nr").fetchall()
    return tables, [row[0] for row in queries]


def shown(rows: list[Any]) -> list[str]:
    """Rows as texts in one order; sums of floats depend on the order of files, so these have six
    digits."""
    return sorted(str(tuple(f"{value:.6g}" if isinstance(value, float) else value for value in row)) for row in rows)


if __name__ == "__main__":
    print(json.dumps(generate(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))))
