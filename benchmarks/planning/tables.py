"""Equal tables of so many files over 2,191 days, as Delta and as Iceberg have them. The data files
do not exist: planning reads only what is said of them.

Five columns: ``day``, by which the tables are partitioned, ``id``, which ascends with the files,
``amount``, ``city`` and ``at``. Each file has 1,000 rows, and least and greatest values and null
counts of four columns. Delta's table is one checkpoint, as its writer would write it; Iceberg's is
one snapshot whose manifests have ``MANIFEST`` entries, in the order of the days, as after
``rewrite_manifests``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from tests.support.delta_table import Table
from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.maintenance.columns import METADATA, PROTOCOL, other_array

DAYS: Final = 2_191
START: Final = date(2020, 11, 1)
ROWS: Final = 1_000
MANIFEST: Final = 10_000
EPOCH: Final = date(1970, 1, 1)


def day_of(number: int, files: int) -> date:
    """The day of a file."""
    return START + timedelta(days=number * DAYS // files)


def path_of(number: int, files: int) -> str:
    """The path of a file, below its table."""
    return (
        f"day={day_of(number, files)}/part-{number:08d}-9c1b6e2a-{number * 2654435761 % 2**32:08x}-c000.snappy.parquet"
    )


def questions(files: int) -> dict[str, tuple[str, int, int]]:
    """By name: the day that is asked for (empty: all of them), and the least and greatest id (both
    0: all of them)."""
    low = files * ROWS // 3
    return {
        "one day": (str(START + timedelta(days=1_000)), 0, 0),
        "ids, not the partition": ("", low, low + 5_000),
        "all files": ("", 0, 0),
    }


# -- Delta ------------------------------------------------------------------------------------------------------------


def metadata() -> dict[str, Any]:
    """The action that defines the table."""
    columns = [("day", "date"), ("id", "long"), ("amount", "double"), ("city", "string"), ("at", "timestamp")]
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns]
    action = delta.metadata()["metaData"]
    return {
        "metaData": {
            **action,
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": ["day"],
        }
    }


def add(number: int, files: int) -> dict[str, Any]:
    """The members of a file's ``add``."""
    day = day_of(number, files)
    low = number * ROWS
    stats = {
        "numRecords": ROWS,
        "minValues": {"id": low, "amount": 0.5, "city": "Aachen", "at": f"{day}T00:00:00.000Z"},
        "maxValues": {"id": low + 999, "amount": 999.5, "city": "Zwolle", "at": f"{day}T23:59:59.999Z"},
        "nullCount": {"id": 0, "amount": 3, "city": 0, "at": 0},
    }
    size = 16_000_000 + number
    return delta.add(path_of(number, files), stats=json.dumps(stats), partitionValues={"day": str(day)}, size=size)[
        "add"
    ]


def checkpoint(files: int, protocol: dict[str, Any], definition: dict[str, Any]) -> bytes:
    """A checkpoint with the files of the table."""
    sink = pa.BufferOutputStream()
    add_type = pa.struct([
        ("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string())), ("size", pa.int64()),
        ("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("stats", pa.string()),
    ])  # fmt: skip
    schema = pa.schema([("protocol", PROTOCOL), ("metaData", METADATA), ("add", add_type)])
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for name, body in (("protocol", protocol), ("metaData", definition)):
            arrays = [other_array(name, [body]) if f.name == name else pa.nulls(1, f.type) for f in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        for start in range(0, files, 20_000):
            rows = [add(number, files) for number in range(start, min(files, start + 20_000))]
            rows = [{**row, "partitionValues": list(row["partitionValues"].items())} for row in rows]
            arrays = [pa.array(rows, f.type) if f.name == "add" else pa.nulls(len(rows), f.type) for f in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    return sink.getvalue().to_pybytes()


def catalog_table(files: int) -> Table:
    """A table of the catalog, in memory, whose version 1 is a checkpoint."""
    table = Table(fake_world())
    version = table.head.latest + 1
    content = delta.lines(delta.info(f"c-{version}", table.head.last_ict + 1), metadata())
    table.ratifier.commit(CommitRequest(table.id, version, content=content))
    Publisher(table.world).publish(table.id)
    zero = [json.loads(line) for line in table.ratified[0].splitlines()]
    protocol = next(action["protocol"] for action in zero if "protocol" in action)
    table.put(f"_delta_log/{version:020d}.checkpoint.parquet", checkpoint(files, protocol, metadata()["metaData"]))
    return table


def commit(table: Table, files: int, count: int = 5) -> None:
    """Adds ``count`` files and removes one."""
    version = table.head.latest + 1
    gone = delta.remove(add(version * 977 % files, files)["path"])
    fresh = [{**add(version * 131 % files, files), "path": f"day=x/new-{version}-{n}"} for n in range(count)]
    actions = [gone, *({"add": body} for body in fresh)]
    content = delta.lines(delta.info(f"c-{version}", table.head.last_ict + 1), *actions)
    table.ratifier.commit(CommitRequest(table.id, version, content=content))


def delta_folder(files: int, folder: Path) -> Path:
    """A path-based Delta table: version 0, and the checkpoint of version 1."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    definition = {**metadata()["metaData"], "configuration": {}}
    lines = [{"protocol": protocol}, {"metaData": definition}]
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (log / f"{1:020d}.json").write_text(
        json.dumps({"commitInfo": {"timestamp": 1_770_000_000_000, "operation": "WRITE"}}) + "\n"
    )
    content = checkpoint(files, protocol, definition)
    (log / f"{1:020d}.checkpoint.parquet").write_bytes(content)
    last = {"version": 1, "size": files + 2, "sizeInBytes": len(content), "numOfAddFiles": files}
    (log / "_last_checkpoint").write_text(json.dumps(last))
    return folder


# -- Iceberg ----------------------------------------------------------------------------------------------------------


def iceberg_folder(files: int, folder: Path) -> Path:
    """An Iceberg table in a folder as its Hadoop catalog has it, with one snapshot; returns the
    path of its metadata."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import write_manifest, write_manifest_list
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import new_table_metadata
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType, TimestamptzType

    types = (
        ("day", DateType()),
        ("id", LongType()),
        ("amount", DoubleType()),
        ("city", StringType()),
        ("at", TimestamptzType()),
    )
    schema = Schema(*(NestedField(at, name, type, required=False) for at, (name, type) in enumerate(types, 1)))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"), spec_id=0)
    (folder / "metadata").mkdir(parents=True)
    io = PyArrowFileIO()
    written = []
    snapshot = 1
    for start in range(0, files, MANIFEST):
        output = io.new_output(f"{folder}/metadata/m{start}.avro")
        with write_manifest(2, spec, schema, output, snapshot, "deflate") as writer:
            for entry in _entries(start, min(files, start + MANIFEST), files, folder, snapshot):
                writer.add(entry)
        written.append(writer.to_manifest_file())
    listed = f"{folder}/metadata/snap-{snapshot}.avro"
    with write_manifest_list(2, io.new_output(listed), snapshot, None, 1, "deflate") as writer:
        writer.add_manifests(written)
    fresh = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, str(folder))
    summary = Summary(Operation.APPEND, **{"total-data-files": str(files), "total-records": str(files * ROWS)})
    one = Snapshot(
        snapshot_id=snapshot,
        sequence_number=1,
        timestamp_ms=fresh.last_updated_ms,
        manifest_list=listed,
        summary=summary,
        schema_id=0,
    )
    whole = fresh.model_copy(update={"snapshots": [one], "current_snapshot_id": snapshot, "last_sequence_number": 1})
    path = folder / "metadata" / "v1.metadata.json"
    path.write_text(whole.model_dump_json())
    (folder / "metadata" / "version-hint.text").write_text("1")
    return path


def _entries(start: int, stop: int, files: int, folder: Path, snapshot: int) -> Iterator[Any]:
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
    from pyiceberg.typedef import Record

    for number in range(start, stop):
        day = day_of(number, files)
        low = number * ROWS
        first = int(datetime.combine(day, time(), UTC).timestamp()) * 1_000_000
        texts = struct.pack("<d", 0.5), b"Aachen", struct.pack("<d", 999.5), b"Zwolle"
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{folder}/data/{path_of(number, files)}",
            file_format=FileFormat.PARQUET,
            partition=Record((day - EPOCH).days),
            record_count=ROWS,
            file_size_in_bytes=16_000_000 + number,
            value_counts={2: ROWS, 3: ROWS, 4: ROWS, 5: ROWS},
            null_value_counts={2: 0, 3: 3, 4: 0, 5: 0},
            lower_bounds={2: struct.pack("<q", low), 3: texts[0], 4: texts[1], 5: struct.pack("<q", first)},
            upper_bounds={
                2: struct.pack("<q", low + 999),
                3: texts[2],
                4: texts[3],
                5: struct.pack("<q", first + 86_399_999_000),
            },
            spec_id=0,
        )
        yield ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=snapshot, data_file=file)
