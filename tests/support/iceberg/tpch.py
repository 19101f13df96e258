"""The tables and queries of TPC-H, made by DuckDB's generator: ``python tpch.py FOLDER SCALE`` writes a Parquet file for each table, and prints the queries in JSON."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

VERSION = "1.5.5"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def python() -> Path:
    """An interpreter with DuckDB and its generator; raises Missing where it cannot be made."""
    from tests.support.downloads import Missing, alone, cache

    home = cache(f"duckdb-tpch-{VERSION}")
    interpreter, complete, uv = home / "bin" / "python", home / "complete", Path(sys.executable).with_name("uv")
    packages = [f"duckdb=={VERSION}", f"duckdb-extension-tpch=={VERSION}"]
    with alone(home):
        if not complete.exists():
            for command in (
                [uv, "venv", "--quiet", "--clear", "--python", sys.executable, home],
                [uv, "pip", "install", "--quiet", "--python", interpreter, *packages],
            ):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise Missing(f"no environment with DuckDB's TPC-H generator: {done.stderr[-300:]}")
            complete.touch()
    return interpreter


def generate(folder: Path, scale: float) -> list[str]:
    """Writes the tables; returns the queries."""
    import duckdb

    spec = importlib.util.find_spec("duckdb_extension_tpch")
    assert spec is not None
    database = duckdb.connect()
    database.execute(f"LOAD '{Path(str(spec.origin)).parent}/extensions/v{duckdb.__version__}/tpch.duckdb_extension'")
    database.execute(f"CALL dbgen(sf = {scale})")
    for table in TABLES:
        database.execute(f"COPY {table} TO '{folder}/{table}.parquet'")
    return [row[0] for row in database.execute("SELECT query FROM tpch_queries() ORDER BY query_nr").fetchall()]


if __name__ == "__main__":
    print(json.dumps(generate(Path(sys.argv[1]), float(sys.argv[2]))))
