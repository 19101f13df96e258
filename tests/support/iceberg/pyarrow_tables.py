"""Common parts of the tests of PyIceberg: a schema, rows, and the content of a table."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField, StringType

Connect = Callable[..., RestCatalog]


SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
)


def rows(*ids: int, region: str = "eu") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "region": pa.array([region] * len(ids), pa.string())})


def ids(table: Table) -> list[int]:
    return sorted(table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist())
