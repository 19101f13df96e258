"""Ways in which a table comes to be: each makes ``default.<name>``, or another one, with the column
``id`` and the rows ``FIRST``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from tests.support.clients.engine import Engine
from tests.support.fakes import delta
from tests.support.journeys.foreign import Foreign, metadata, protocol
from tests.support.journeys.places import NAMESPACES, Journey, Place, folder_of
from tests.support.stack import now_ms
from turnstile_client import connect

FIRST: Final = [1, 2]
COLUMN: Final = {
    "name": "id", "type_text": "bigint", "type_name": "LONG", "position": 0,
    "type_json": '{"name":"id","type":"long","nullable":true,"metadata":{}}',
}  # fmt: skip
"""As Unity's clients describe the one column."""
SCHEMA: Final = pa.schema([("id", pa.int64())])


def rows(ids: list[int]) -> pa.Table:
    return pa.table({"id": ids}, SCHEMA)


def unity(place: Place) -> Journey:
    engine: Any = Engine(place, place.fresh())  # type: ignore[arg-type]
    engine.create().append(range(1, 3))
    return Journey(place, f"default.{engine.name}", list(FIRST))


def v1(place: Place) -> Journey:
    """As docs/api.md says: stage, write version 0 by what the answer requires, give it its name,
    commit."""
    journey = Journey(place, f"default.{place.fresh()}", list(FIRST))
    name = journey.name.partition(".")[2]
    staged = place.ask("POST", f"{NAMESPACES}/default/staging-tables", {"name": name})
    required = staged["required_features"]
    readers = [feature for feature in required if feature in ("catalogManaged", "vacuumProtocolCheck")]
    made = delta.metadata(**staged["required_properties"])
    made["metaData"]["id"] = str(uuid.uuid4())
    zero = delta.lines(delta.info(str(uuid.uuid4()), now_ms(), "CREATE TABLE"), protocol(3, 7, readers, required), made)
    log = folder_of(staged["location"]) / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_bytes(zero)
    place.ask("POST", f"{NAMESPACES}/default/tables", {"name": name, "table_id": staged["table_id"]})
    loaded = journey.load()
    place.ask("POST", f"/v1/tables/{loaded['table_id']}/commits", journey.staged_append(loaded, FIRST))
    return journey


def client(place: Place, namespace: str = "default") -> Journey:
    name = f"{namespace}.{place.fresh()}"
    with connect(place.url, token=place.token or None) as lake:
        lake.create(name, SCHEMA).append(rows(FIRST))
    return Journey(place, name, list(FIRST))


def imported(place: Place) -> Journey:
    name = place.fresh()
    folder = place.work / name
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE"}}
    Foreign(name, ((info, protocol(), metadata()),)).write(folder)
    place.ask("POST", f"{NAMESPACES}/default/imports", {"name": name, "location": folder.as_uri(), "dry_run": False})
    return Journey(place, f"default.{name}", list(FIRST))


def external(place: Place) -> Journey:
    """Outside the lake, in Unity's API: its writers coordinate its commits themselves."""
    name = place.fresh()
    folder = place.work / name
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE"}}
    Foreign(name, ((info, protocol(), metadata()),)).write(folder)
    said = {"name": name, "catalog_name": "main", "schema_name": "default", "table_type": "EXTERNAL"}
    said |= {"data_source_format": "DELTA", "storage_location": folder.as_uri()}
    place.ask("POST", "/api/2.1/unity-catalog/tables", {**said, "columns": [COLUMN]})
    return Journey(place, f"default.{name}", list(FIRST))


def two_files(place: Place, namespace: str) -> Journey:
    """A table that maintenance would compact if a clone could be written."""
    made = client(place, namespace)
    with connect(place.url, token=place.token or None) as lake:
        lake.table(made.name).append(rows([3]))
    made.ids.append(3)
    return made


def clone(place: Place, make: Callable[[Place, str], Journey] = two_files) -> Journey:
    """The clone of a namespace with the table that ``make`` makes in it."""
    source = place.fresh("source")
    copy = place.fresh("copy")
    place.ask("POST", NAMESPACES, {"name": source})
    made = make(place, source)
    place.ask("POST", "/v1/catalogs/main/clones", {"from": source, "to": copy})
    return Journey(place, f"{copy}.{made.name.partition('.')[2]}", made.ids)


def iceberg_catalog(place: Place, warehouse: str = "main", **more: str) -> RestCatalog:
    given = {"token": place.token} if place.token else {}
    return RestCatalog("main", uri=f"{place.url}/iceberg", warehouse=warehouse, **given, **more)


def iceberg(place: Place) -> Journey:
    name = f"default.{place.fresh()}"
    iceberg_catalog(place).create_table(name, SCHEMA).append(rows(FIRST))
    return Journey(place, name, list(FIRST))


def spark_sql(place: Place, spark: Any, lake: Any) -> Journey:
    name = f"default.{place.fresh()}"
    spark.sql(f"CREATE TABLE {lake.name}.{name} (id BIGINT)")
    spark.sql(f"INSERT INTO {lake.name}.{name} VALUES (1), (2)")
    return Journey(place, name, list(FIRST))


def spark_dataframe(place: Place, spark: Any, lake: Any) -> Journey:
    name = f"default.{place.fresh()}"
    spark.range(1, 3).write.format("delta").saveAsTable(f"{lake.name}.{name}")
    return Journey(place, name, list(FIRST))


PLAIN: Final[dict[str, Callable[[Place], Journey]]] = {
    "unity": unity, "v1": v1, "client": client, "imported": imported, "external": external,
    "clone": clone, "iceberg": iceberg,
}  # fmt: skip
BY_SPARK: Final[dict[str, Callable[[Place, Any, Any], Journey]]] = {
    "spark_sql": spark_sql,
    "spark_dataframe": spark_dataframe,
}
