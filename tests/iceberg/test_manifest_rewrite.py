"""Small manifests that PyIceberg, as it was released, wrote, put together by the catalog, and read
by PyIceberg over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, LongType, NestedField, StringType, TimestampType

from tests.support.iceberg.pyarrow_tables import ids
from tests.support.server import MovingServer, moving_server
from turnstile.catalog.services import ensure
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import Grace

PROPERTIES = {
    "turnstile.maintenance.rewrite-manifests": "true",
    "commit.manifest.min-count-to-merge": "5",
    "commit.manifest-merge.enabled": "false",
}
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "day", TimestampType(), required=False),
    NestedField(4, "price", DecimalType(9, 2), required=False),
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "region"),
    PartitionField(3, 1001, IdentityTransform(), "day"),
    PartitionField(4, 1002, IdentityTransform(), "price"),
)
ARROW = pa.schema(
    [("id", pa.int64()), ("region", pa.string()), ("day", pa.timestamp("us")), ("price", pa.decimal128(9, 2))]
)
DAY_US = 86_400_000_000


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MovingServer]:
    with pytest.MonkeyPatch.context() as patch, moving_server(tmp_path_factory.mktemp("manifests"), patch) as server:
        yield server


@pytest.fixture
def catalog(own_server: MovingServer) -> RestCatalog:
    services = own_server.services
    ensure(services.world, "manifests", lake_root=services.settings.lake_root)
    return RestCatalog("manifests", uri=f"{own_server.url}/iceberg", warehouse="manifests")


def batch(number: int) -> pa.Table:
    """Rows of several partitions, some of which have no value."""
    region = [None, "eu", "us", "ä"][number % 4]
    columns = [[number, 100 + number], [region, "eu"], [number * DAY_US, None], [Decimal(number * -3), Decimal(7)]]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)], schema=ARROW)


def collect(server: MovingServer) -> Report:
    world = server.services.world
    return Collector(world, Grace(), workers=1).collect(["iceberg-manifests"], dry_run=False)


def manifests(table: Table) -> list[ManifestFile]:
    current = table.refresh().current_snapshot()
    assert current is not None
    return current.manifests(table.io)


def files(table: Table) -> dict[str, Any]:
    """All that the manifests say of each data file, with what its entry inherits."""
    found: dict[str, Any] = {}
    for manifest in manifests(table):
        entries: list[ManifestEntry] = manifest.fetch_manifest_entry(table.io)
        for entry in entries:
            file = entry.data_file
            assert file.file_path not in found
            found[file.file_path] = (
                entry.snapshot_id,
                entry.sequence_number,
                entry.file_sequence_number,
                list(file._data),
            )
    return found


def test_few_manifests_in_the_order_of_partitions_have_the_same_files(
    own_server: MovingServer, catalog: RestCatalog
) -> None:
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", SCHEMA, partition_spec=SPEC, properties=PROPERTIES)
    late = catalog.load_table("sales.orders")
    for number in range(12):
        table.append(batch(number))
    table.delete("id = 3")
    before = files(table)
    rows = ids(table.refresh())
    listed = manifests(table)
    late.refresh()
    transaction = late.transaction()
    transaction.append(batch(50))
    report = collect(own_server)
    assert report.problems == () and report.deleted == 1
    assert files(table) == before and ids(table) == rows and len(manifests(table)) < len(listed) - 8
    snapshot = table.current_snapshot()
    assert snapshot is not None and snapshot.summary is not None
    assert snapshot.summary.operation.value == "replace" and int(snapshot.summary["manifests-replaced"]) >= 10
    assert snapshot.summary["total-records"] == str(len(rows))
    for condition in (
        "region = 'eu'",
        "region is null",
        "region = 'ä'",
        "day >= '1970-01-09T00:00:00'",
        "price < -20",
        "id = 7",
    ):
        expected = batched(rows, condition)
        assert sorted(table.scan(condition, selected_fields=("id",)).to_arrow()["id"].to_pylist()) == expected, (
            condition
        )
    transaction.commit_transaction()  # an append from before: the catalog merges it
    assert ids(table.refresh()) == sorted([*rows, 50, 150])
    table.delete("id = 4")
    assert ids(table.refresh()) == sorted([*rows, 50, 150][: rows.index(4)] + [*rows, 50, 150][rows.index(4) + 1 :])
    assert collect(own_server).items == ()


def batched(rows: list[int], condition: str) -> list[int]:
    """The ids among ``rows`` of which ``condition`` holds, by DuckDB from the same rows."""
    import duckdb

    everything = pa.concat_tables([batch(number) for number in range(12)])
    with duckdb.connect() as connection:
        connection.register("everything", everything)
        found = connection.sql(f"select id from everything where {condition}").fetchall()
    return sorted(id for (id,) in found if id in rows)
