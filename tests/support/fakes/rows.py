"""Rows for tables in memory: definitions, bodies in every format, and a lake that takes them."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, copied
from tests.support.functions import Answer, Http, function
from tests.support.lake import LOCATION, ORDERS, START, Lake, make_lake
from turnstile.delta.core.content import read_content
from turnstile.delta.core.metadata import first_metadata
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.publish import Publisher
from turnstile_rows.definitions import Definition

JSON = "application/json"
LINES = "application/x-ndjson"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"


def column(name: str, type: Any, *, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    """A column as Delta's JSON has it."""
    return {"name": name, "type": type, "nullable": nullable, "metadata": metadata}


def mapped_column(name: str, type: Any, id: int, stored: str) -> dict[str, Any]:
    """A column of a table that maps its columns."""
    return column(name, type, **{"delta.columnMapping.id": id, "delta.columnMapping.physicalName": stored})


def struct_of(*fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def list_of(element: Any, *, nullable: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": nullable}


def map_of(key: Any, value: Any, *, nullable: bool = True) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": nullable}


def definition_of(*fields: Mapping[str, Any], partitions: Sequence[str] = (), **properties: str) -> Definition:
    """The definition of a table; members of ``properties`` without their ``delta.``."""
    named = {f"delta.{name}": value for name, value in properties.items()}
    return Definition(tuple(fields), tuple(partitions), named, frozenset(), frozenset())


def arrow_body(rows: pa.Table | pa.RecordBatch, **options: Any) -> bytes:
    """A stream of Arrow."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema, **options) as writer:
        writer.write(rows)
    return sink.getvalue()


def parquet_body(rows: pa.Table | pa.RecordBatch, **options: Any) -> bytes:
    """A Parquet file."""
    sink = io.BytesIO()
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    pyarrow.parquet.write_table(table, sink, **options)
    return sink.getvalue()


def csv_body(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> bytes:
    """CSV in which a null is empty, and every other value is in quotation marks."""
    lines = [",".join(_quoted(name) for name in names)]
    lines += [",".join("" if row[name] is None else _quoted(row[name]) for name in names) for row in rows]
    return "".join(line + "\n" for line in lines).encode()


def _quoted(value: Any) -> str:
    sink = io.StringIO()
    csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="").writerow([value])
    return sink.getvalue()


@dataclass
class RowLake:
    """A lake whose table takes rows. ``http``: the function that takes them."""

    lake: Lake
    http: Http

    @property
    def world(self) -> FakeWorld:
        return self.lake.world

    def send(self, body: Any, media: str = JSON, *, table: str = ORDERS, query: str = "", **headers: str) -> Answer:
        """A request with rows: bytes, or a value that is sent as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"content-type": media, **{name.replace("_", "-"): value for name, value in headers.items()}}
        text = base64.b64encode(raw).decode()
        path = f"/v1/tables/{table}/rows" if table.count("-") == 4 else table
        return self.http.call("POST", path, body=text, base64_encoded=True, headers=sent, query=query)

    def rows(self) -> list[dict[str, Any]]:
        """All rows that the table has, in order of versions; each is read from its file."""
        return [row for _, rows in self.versions() for row in rows]

    def versions(self) -> list[tuple[int, list[dict[str, Any]]]]:
        """The rows that each version added, as a table has them that is published by now."""
        return [
            (version, [row for add in adds for row in self.rows_of(add)])
            for version, adds in self.adds().items()
            if adds
        ]

    def adds(self) -> dict[int, list[dict[str, Any]]]:
        """The ``add`` actions of each version."""
        actions = self.actions()
        return {version: [one["add"] for one in each if "add" in one] for version, each in actions.items()}

    def actions(self) -> dict[int, list[dict[str, Any]]]:
        """The actions of each version, of a twin of the world that publishes everything."""
        twin = copied(self.world)
        head = self.lake.head
        if head.state == "active":
            Publisher(twin).publish(ORDERS)
        found = {}
        for version in range(head.latest + 1):
            content, _ = twin.storages.files[f"{LOCATION}/_delta_log/{version:020d}.json"]
            found[version] = [json.loads(line) for line in content.splitlines()]
        return found

    def rows_of(self, add: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The rows of a file, without partition columns."""
        content, _ = self.world.storages.files[f"{LOCATION}/{add['path']}"]
        assert len(content) == add["size"]
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(io.BytesIO(content), partitioning=None).to_pylist()
        assert len(rows) == json.loads(add["stats"])["numRecords"]
        return rows

    def files(self) -> set[str]:
        """The names of all data files in the table's folder."""
        return {name for name in self.world.storages.files if name.endswith(".parquet")}

    def evict(self, version: int) -> None:
        """Commits and publishes until the version has left the HEAD's tail."""
        while self.lake.head.tail_from <= version:
            self.lake.append(None, f"filler-{self.lake.now()}", base=self.lake.head.latest)
            self.lake.publish()

    def open(self, world: Any = None) -> None:
        """A sandbox that has cached nothing, on this world or another."""
        function("ingest").use_world(world or self.world)


@dataclass
class RejectedRows:
    """The table of rejected rows beside the table of a lake."""

    lake: RowLake

    @property
    def _row(self) -> dict[str, Any] | None:
        rows = self.lake.world.refs.rows.values()
        return next((row for row in rows if row.get("name") == "main.sales.orders_rejected"), None)

    @property
    def is_there(self) -> bool:
        """Whether the table is registered; a staging table is none."""
        return any(key.endswith(f"/table/{self.id}") for key in self.lake.world.refs.rows) if self._row else False

    @property
    def head(self) -> dict[str, Any]:
        """The row of its HEAD."""
        row = self._row
        assert row is not None, "there is no table of rejected rows"
        return row

    @property
    def id(self) -> str:
        return str(self.head["table_id"])

    def set(self, **members: Any) -> None:
        """Changes members of the HEAD."""
        self.head.update(members)  # the fake's own row

    def commit(self, content: bytes) -> Answer:
        """Commits ``content`` as the next version."""
        version = self.head["latest"] + 1
        return self.lake.lake.propose({"version": version, "inline": {"content": content.decode()}}, self.id)

    def schema_with(self, *fields: Mapping[str, Any]) -> str:
        """Its ``schemaString`` with further columns."""
        [metadata] = [one["metaData"] for one in self._actions() if "metaData" in one][-1:]
        schema = json.loads(metadata["schemaString"])
        return json.dumps({**schema, "fields": [*schema["fields"], *fields]})

    def rows(self) -> list[dict[str, Any]]:
        """All its rows, in order of versions; columns that a file lacks are null."""
        adds = [one["add"] for one in self._actions() if "add" in one]
        files = [self.lake.world.storages.files[f"{self.head['location']}/{add['path']}"][0] for add in adds]
        names = [field["name"] for field in json.loads(self.schema_with())["fields"]]
        rows = [row for file in files for row in pyarrow.parquet.read_table(io.BytesIO(file)).to_pylist()]
        return [{name: row.get(name) for name in names} for row in rows]

    def _actions(self) -> list[dict[str, Any]]:
        twin = copied(self.lake.world)
        Publisher(twin).publish(self.id)
        found = []
        for version in range(self.head["latest"] + 1):
            content, _ = twin.storages.files[f"{self.head['location']}/_delta_log/{version:020d}.json"]
            found += [json.loads(line) for line in content.splitlines()]
        return found


def row_lake(
    *fields: Mapping[str, Any], partitions: Sequence[str] = (), features: Sequence[str] = (), **configuration: str
) -> RowLake:
    """A lake whose table has these columns, by default ``id`` and ``name``."""
    fields = fields or (column("id", "long"), column("name", "string"))
    lake = make_lake()
    protocol = delta.protocol(*features)
    both = {"columnMapping", "deletionVectors", "timestampNtz", "variantType"} & set(features)
    protocol["protocol"]["readerFeatures"] = [*protocol["protocol"]["readerFeatures"], *both]
    metadata = delta.metadata(**configuration)
    metadata["metaData"] |= {
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partitions),
    }
    content = delta.lines(delta.info("zero", START, "CREATE TABLE"), protocol, metadata)
    store = MetadataStore(lake.world.objs, lake.world.space)
    etag = store.put("main", ORDERS, first_metadata(read_content(content, first_version=True)), START)
    lake.set(metadata=etag, **({"row_hwm": -1, "tail_hwm": -1} if "rowTracking" in features else {}))
    lake.world.storages.files[f"{LOCATION}/_delta_log/{0:020d}.json"] = (content, START)
    lake.forget_requests()
    app = function("ingest")
    app.use_world(lake.world)
    return RowLake(lake, Http(app.app))
