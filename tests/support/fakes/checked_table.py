"""A table in memory with data files, whose expectations are checked."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from tests.support.delta_table import Table, inline_vector
from tests.support.fakes.rows import column, parquet_body
from tests.support.fakes.world import fake_world
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.expectations.core.conditions import expectations_of
from turnstile.expectations.delta_source import DeltaSource
from turnstile.expectations.table_check import TableCheck
from turnstile.planning.read_budget import ReadBudget


class Lake:
    """A table with data files, which are in its log or not."""

    def __init__(self, budget: int = 10**6) -> None:
        self.table = Table(fake_world())
        self.world = self.table.world
        schema = json.dumps({"type": "struct", "fields": [column("id", "long"), column("s", "string")]})
        metadata = {"id": "m", "schemaString": schema, "partitionColumns": [], "configuration": {}}
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
        self.metadata = DeltaMetadata(0, protocol, metadata, {})
        self.budget = ReadBudget(budget, small_files=True)
        self.files = 0

    def add(self, *ids: int | None, stats: bool = True, deleted: tuple[int, ...] = ()) -> dict[str, Any]:
        """A data file with these rows, and its action."""
        self.files += 1
        path = f"{self.files}.parquet"
        rows = pa.table({"id": pa.array(ids, pa.int64()), "s": pa.array(["x"] * len(ids))})
        content = parquet_body(rows)
        self.world.storages.open(self.table.location).put_if_absent(path, content)
        there = [id for id in ids if id is not None]
        bounds = {"minValues": {"id": min(there)}, "maxValues": {"id": max(there)}} if there else {}
        counts = {"numRecords": len(ids), "nullCount": {"id": len(ids) - len(there)}, **bounds}
        body = {"path": path, "partitionValues": {}, "size": len(content), "modificationTime": 1, "dataChange": True}
        if stats:
            body["stats"] = json.dumps(counts)
        if deleted:
            body["deletionVector"] = inline_vector({*deleted})
        return body

    def problem(self, text: str, *added: dict[str, Any]) -> str | None:
        source = self.source()
        (expectation,) = expectations_of({"turnstile.expect.e": text})
        return TableCheck(source, 0).problem(expectation.condition, lambda: map(source.file, added))

    def source(self) -> DeltaSource:
        head = self.table.head
        return DeltaSource(self.world.storages, self.budget, head.location, self.metadata, latest=head.latest)
