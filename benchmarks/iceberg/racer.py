"""The processes of ``benchmarks.iceberg.writers``, with nothing but PyIceberg: ``racer.py
WHAT ARGUMENTS``, in JSON."""

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
    """Appends for some time. Ids of rows that were acknowledged, ids whose outcome is unknown,
    failures by class, the times of the acknowledged ones, and the CPU time of the process
    meanwhile."""
    table = table_of(catalog)
    done = []
    unknown = []
    failures = Counter()
    ms = []
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + seconds
    number = 0
    used = time.process_time()
    while time.monotonic() < end:
        number += 1
        id = writer * 1_000_000 + number
        began = time.perf_counter()
        try:
            table.append(rows(id))
            done.append(id)
            ms.append((time.perf_counter() - began) * 1000)
        except Exception as error:  # every class is counted
            failures[type(error).__name__] += 1
            if isinstance(error, CommitStateUnknownException):
                unknown.append(id)
            table = table_of(catalog)
    used = time.process_time() - used
    return {"done": done, "unknown": unknown, "failures": failures, "ms": ms, "cpu_s": used}


def read(catalog: dict[str, str]) -> list[int]:
    return table_of(catalog).scan().to_arrow()["id"].to_pylist()


if __name__ == "__main__":
    parts = {"prepare": prepare, "write": write, "read": read}
    print(json.dumps(parts[sys.argv[1]](*map(json.loads, sys.argv[2:]))))
