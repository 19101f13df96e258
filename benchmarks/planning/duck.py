"""DuckDB's planning, as a script of its own:
``python duck.py delta|iceberg FOLDER ROUNDS QUESTIONS``. It prints a line of JSON for each
question.

``EXPLAIN`` binds the query and lists files, and reads no data. ``cold``: a new connection with the
extensions loaded; ``warm``: the same connection again. How many files were left is computed from
the rows that DuckDB estimates where it says so.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import Any

import duckdb

EXTENSIONS = {"delta": ("delta",), "iceberg": ("httpfs", "avro", "iceberg")}


def connected(kind: str) -> Any:
    database = duckdb.connect()
    for name in EXTENSIONS[kind]:
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None, f"duckdb-extension-{name} is not installed"
        folder = Path(str(spec.origin)).parent / "extensions" / f"v{duckdb.__version__}"
        database.execute(f"LOAD '{folder / name}.duckdb_extension'")
    database.execute("SET threads = 2")
    return database


def condition(question: list[Any]) -> str:
    day, low, high = question
    return f"day = DATE '{day}'" if day else f"id BETWEEN {low} AND {high}" if high else "true"


def main() -> None:
    kind = sys.argv[1]
    folder = sys.argv[2]
    rounds = int(sys.argv[3])
    questions = json.loads(sys.argv[4])
    for name, question in questions.items():
        query = f"EXPLAIN SELECT id FROM {kind}_scan('{folder}') WHERE {condition(question)}"
        cold = []
        warm = []
        for at in range(rounds):
            database = connected(kind)
            for times in (cold, warm) if at else (cold, warm, warm):
                start = time.perf_counter()
                database.execute(query).fetchall()
                times.append((time.perf_counter() - start) * 1000)
            database.close()
        print(json.dumps({"question": name, "cold": cold, "warm": warm, "planned": None}), flush=True)


if __name__ == "__main__":
    main()
