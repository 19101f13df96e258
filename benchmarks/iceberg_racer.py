"""What the processes of ``benchmarks.iceberg_writers`` do, with nothing but PyIceberg: ``iceberg_racer.py WHAT ARGUMENTS``, in JSON."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField


def table_of(catalog: dict[str, str]):
    return load_catalog("race", **catalog).load_table("race.t")


def rows(*ids: int):
    return pa.table({"id": pa.array(ids, pa.int64())})


def prepare(catalog: dict[str, str], properties: dict[str, str]) -> None:
    made = load_catalog("race", **catalog)
    made.create_namespace_if_not_exists("race")
    if made.table_exists("race.t"):
        made.drop_table("race.t")
    made.create_table("race.t", Schema(NestedField(1, "id", LongType(), required=False)), properties=properties)


def write(catalog: dict[str, str], writer: int, seconds: float) -> dict[str, object]:
    """Appends for some time. Ids of rows that were acknowledged, ids whose outcome is unknown, and failures by class."""
    table, done, unknown, failures = table_of(catalog), [], [], Counter()
    print("ready", flush=True)
    sys.stdin.readline()
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        number += 1
        id = writer * 1_000_000 + number
        try:
            table.append(rows(id))
            done.append(id)
        except Exception as error:  # every class is counted
            failures[type(error).__name__] += 1
            if isinstance(error, CommitStateUnknownException):
                unknown.append(id)
            table = table_of(catalog)
    return {"done": done, "unknown": unknown, "failures": failures}


def read(catalog: dict[str, str]) -> list[int]:
    return table_of(catalog).scan().to_arrow()["id"].to_pylist()


if __name__ == "__main__":
    parts = {"prepare": prepare, "write": write, "read": read}
    print(json.dumps(parts[sys.argv[1]](*map(json.loads, sys.argv[2:]))))
