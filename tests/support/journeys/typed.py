"""A table with a column of each type, and a partition column: ways to make it, to read it, and to
add a row to it."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.fakes import delta
from tests.support.journeys import origins
from tests.support.journeys.foreign import field, metadata, protocol
from tests.support.journeys.origins import iceberg_catalog
from tests.support.journeys.places import NAMESPACES, Journey, Place
from tests.support.journeys.reading import by_duckdb, planned_table
from turnstile_client import connect

Row = dict[str, Any]

SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("flag", pa.bool_()),
        ("number", pa.int32()),
        ("ratio", pa.float32()),
        ("size", pa.float64()),
        ("amount", pa.decimal128(20, 3)),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("list", pa.list_(pa.int32())),
        ("pairs", pa.map_(pa.string(), pa.int64())),
        ("place", pa.struct([("lat", pa.float64()), ("tag", pa.string())])),
        ("part", pa.string()),
    ]
)
FULL: Final[Row] = {
    "id": 1,
    "flag": True,
    "number": -5,
    "ratio": 1.5,
    "size": 1e300,
    "amount": decimal.Decimal("12345678901234567.890"),
    "name": 'a\'b "c" ü',
    "raw": b"\x00\xff",
    "day": dt.date(1969, 12, 31),
    "at": dt.datetime(2026, 11, 26, 1, 2, 3, 456789, dt.UTC),
    "list": [1, None, 3],
    "pairs": [("k", 7), ("l", None)],
    "place": {"lat": 0.5, "tag": None},
    "part": "x/y z=%",
}
AS_JSON: Final[Row] = {
    "amount": "12345678901234567.890", "raw": "AP8=", "day": "1969-12-31", "at": "2026-11-26T01:02:03.456789Z",
    "pairs": {"k": 7, "l": None},
}  # fmt: skip
EMPTY: Final[Row] = {"id": 2, **dict.fromkeys(SCHEMA.names[1:]), "part": "p"}
"""PyIceberg takes no null as a partition value."""
LOCAL: Final = pa.schema([("id", pa.int64()), ("local", pa.timestamp("us"))])
LOCAL_TIMES: Final = [dt.datetime(2026, 11, 26, 1, 2, 3, 456789), None]
_DELTA: Final = [
    field("id"),
    field("flag", "boolean"),
    field("number", "integer"),
    field("ratio", "float"),
    field("size", "double"),
    field("amount", "decimal(20,3)"),
    field("name", "string"),
    field("raw", "binary"),
    field("day", "date"),
    field("at", "timestamp"),
    field("list", {"type": "array", "elementType": "integer", "containsNull": True}),
    field("pairs", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}),
    field("place", {"type": "struct", "fields": [field("lat", "double"), field("tag", "string")]}),
    field("part", "string"),
]
_DDL: Final = (
    "id BIGINT, flag BOOLEAN, number INT, ratio FLOAT, size DOUBLE, amount DECIMAL(20, 3), name STRING, raw BINARY, "
    "day DATE, at TIMESTAMP, list ARRAY<INT>, pairs MAP<STRING, BIGINT>, "
    "place STRUCT<lat: DOUBLE, tag: STRING>, part STRING"
)


def rows(*given: Row) -> pa.Table:
    return pa.Table.from_pylist(list(given), SCHEMA)


def expected(journey: Journey) -> list[Row]:
    """Returns the rows of a table: ``EMPTY``, and ``FULL`` with the other ids."""
    return [EMPTY if id == EMPTY["id"] else FULL | {"id": id} for id in sorted(journey.ids)]


def compare_rows(journey: Journey, table: pa.Table) -> None:
    """Compares what a client read with the rows of the table."""
    found = sorted(table.select(SCHEMA.names).to_pylist(), key=lambda row: int(row["id"]))
    utc = [{name: _in_utc(value) for name, value in row.items()} for row in found]
    assert utc == expected(journey)


def _in_utc(value: Any) -> Any:
    is_instant = isinstance(value, dt.datetime) and value.tzinfo is not None
    return value.astimezone(dt.UTC) if is_instant else value


# -- ways to make it --------------------------------------------------------------------------------------------------


def client(place: Place, namespace: str = "default") -> Journey:
    name = f"{namespace}.{place.fresh('typed')}"
    with connect(place.url, token=place.token or None) as lake:
        lake.create(name, SCHEMA, partition_by=["part"]).append(rows(FULL, EMPTY))
    return Journey(place, name, [1, 2])


def imported(place: Place) -> Journey:
    """A file of each partition, with the number of rows as the only statistic."""
    name = place.fresh("typed")
    folder = place.work / name
    definition = metadata(*_DELTA)
    definition["metaData"]["partitionColumns"] = ["part"]
    adds = []
    for row in (FULL, EMPTY):
        path = Path(f"part-{row['id']}.parquet")
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(row).drop_columns(["part"]), folder / path)
        size = (folder / path).stat().st_size
        values = {"part": row["part"]}
        add = {"path": str(path), "partitionValues": values, "size": size, "modificationTime": 1, "dataChange": True,
               "stats": '{"numRecords":1}'}  # fmt: skip
        adds.append({"add": add})
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE"}}
    zero = (info, protocol(), definition, *adds)
    log = folder / "_delta_log"
    log.mkdir()
    (log / f"{0:020d}.json").write_bytes(delta.lines(*zero))
    place.ask("POST", f"{NAMESPACES}/default/imports", {"name": name, "location": folder.as_uri(), "dry_run": False})
    return Journey(place, f"default.{name}", [1, 2])


def clone(place: Place) -> Journey:
    return origins.clone(place, client)


def iceberg(place: Place) -> Journey:
    name = f"default.{place.fresh('typed')}"
    catalog = iceberg_catalog(place)
    with catalog.create_table(name, SCHEMA).update_spec() as spec:
        spec.add_identity("part")
    catalog.load_table(name).append(rows(FULL, EMPTY))
    return Journey(place, name, [1, 2])


def spark_sql(place: Place, spark: Any, lake: Any) -> Journey:
    name = f"default.{place.fresh('typed')}"
    spark.sql(f"CREATE TABLE {lake.name}.{name} ({_DDL}) PARTITIONED BY (part)")
    _insert(spark, f"{lake.name}.{name}", rows(FULL, EMPTY))
    return Journey(place, name, [1, 2])


def _insert(spark: Any, table: str, given: pa.Table) -> None:
    """Inserts rows, with TIMESTAMP columns as PyIceberg reads them (docs/iceberg.md)."""
    spark.createDataFrame(given).createOrReplaceTempView("typed_rows")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    try:
        spark.sql(f"INSERT INTO {table} SELECT * FROM typed_rows")
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")


# -- ways to use it ---------------------------------------------------------------------------------------------------


def client_reads(journey: Journey) -> None:
    with connect(journey.place.url, token=journey.place.token or None) as lake:
        table = lake.table(journey.name)
        compare_rows(journey, table.read())
        for name in ("amount", "name", "day", "at", "part", "raw", "flag"):
            found = table.read(where=[(name, "=", FULL[name])])["id"].to_pylist()
            assert sorted(found) == [id for id in sorted(journey.ids) if id != EMPTY["id"]], name


def client_appends(journey: Journey) -> None:
    with connect(journey.place.url, token=journey.place.token or None) as lake:
        lake.table(journey.name).append(rows(FULL | {"id": 3}))
    journey.ids.append(3)
    client_reads(journey)


def rows_added(journey: Journey) -> None:
    """As Arrow, and as JSON."""
    with connect(journey.place.url, token=journey.place.token or None) as lake:
        lake.table(journey.name).append_rows(rows(FULL | {"id": 4}))
    journey.ids.append(4)
    row = FULL | AS_JSON | {"id": 5}
    journey.place.ask("POST", f"/v1/tables/{journey.load()['table_id']}/rows", [row])
    journey.ids.append(5)
    client_reads(journey)


def sampled(journey: Journey) -> None:
    """Compares the rows as JSON: rows of this form are what ``rows_added`` sends."""
    sample = journey.place.ask("GET", f"/v1/tables/{journey.load()['table_id']}/sample")
    found = sorted(sample["rows"], key=lambda row: int(row["id"]))
    assert found == [row if row is EMPTY else row | AS_JSON | {"id": row["id"]} for row in expected(journey)]


def duckdb_reads(journey: Journey) -> None:
    compare_rows(journey, by_duckdb(journey))


def pyiceberg_reads(journey: Journey) -> None:
    table = planned_table(journey)
    compare_rows(journey, table.scan().to_arrow())
    found = table.scan(row_filter="amount = 12345678901234567.890").to_arrow()["id"].to_pylist()
    assert sorted(found) == [id for id in sorted(journey.ids) if id != EMPTY["id"]]


def spark_reads(journey: Journey, spark: Any, lake: Any) -> None:
    compare_rows(journey, spark.sql(f"SELECT * FROM {lake.name}.{journey.name}").toArrow())


def spark_writes(journey: Journey, spark: Any, lake: Any) -> None:
    _insert(spark, f"{lake.name}.{journey.name}", rows(FULL | {"id": 6}))
    journey.ids.append(6)
    spark_reads(journey, spark, lake)


PLAIN_ORIGINS: Final[dict[str, Callable[[Place], Journey]]] = {
    "client": client, "imported": imported, "clone": clone, "iceberg": iceberg,
}  # fmt: skip
PLAIN_USES: Final[dict[str, Callable[[Journey], None]]] = {
    "client_reads": client_reads, "duckdb_reads": duckdb_reads, "pyiceberg_reads": pyiceberg_reads,
    "sampled": sampled, "client_appends": client_appends, "rows_added": rows_added,
}  # fmt: skip
SPARK_USES: Final[dict[str, Callable[[Journey, Any, Any], None]]] = {
    "spark_reads": spark_reads, "spark_writes": spark_writes,
}  # fmt: skip
