"""Delta tables as other engines leave them, each with the behaviour of Delta 4.4 at its path and
the expected behaviour of an import.

``takes``: Delta's Spark reads it (tests/journeys asks it). ``refusal``: the text of the import's
refusal; empty where the table is imported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

Action = dict[str, Any]
FILE = "part-0.parquet"
"""The data file of each table, with the rows ``IDS``."""
IDS = [1, 2]
STATS = '{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":0}}'
INFO: Action = {"commitInfo": {"timestamp": 1, "operation": "WRITE"}}


class Foreign(msgspec.Struct, frozen=True):
    """A table: its commits, without the file of the first one."""

    name: str
    commits: tuple[tuple[Action, ...], ...]
    takes: bool = True
    refusal: str = ""

    def write(self, folder: Path) -> None:
        """Writes the table into a folder."""
        log = folder / "_delta_log"
        log.mkdir(parents=True)
        columns = {"id": pa.array(IDS, pa.int64())}
        pq.write_table(pa.table(columns), folder / FILE)
        for version, lines in enumerate(self.lines((folder / FILE).stat().st_size)):
            (log / f"{version:020d}.json").write_bytes(lines)

    def lines(self, size: int = 100) -> list[bytes]:
        """The bytes of each commit; ``size`` is that of the file."""
        add = {
            "path": FILE,
            "partitionValues": {},
            "size": size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": STATS,
        }
        first, *others = self.commits
        return [
            b"".join(json.dumps(action).encode() + b"\n" for action in commit)
            for commit in ((*first, {"add": add}), *others)
        ]


def field(name: str, type: Any = "long", **metadata: Any) -> Action:
    return {"name": name, "type": type, "nullable": True, "metadata": metadata}


def metadata(*fields: Action, without: str = "", **configuration: Any) -> Action:
    """A ``metaData`` action; properties without their ``delta.``."""
    schema = {"type": "struct", "fields": list(fields or (field("id"),))}
    members: Action = {
        "id": "5ad9d1c1-4b0f-4f1e-9a52-0c3f0a3b7f12",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {f"delta.{name}": value for name, value in configuration.items()},
    }
    return {"metaData": {name: value for name, value in members.items() if name != without}}


def protocol(
    reader: int = 1, writer: int = 2, readers: list[str] | None = None, writers: list[str] | None = None
) -> Action:
    members: Action = {"minReaderVersion": reader, "minWriterVersion": writer}
    if readers is not None:
        members["readerFeatures"] = readers
    if writers is not None:
        members["writerFeatures"] = writers
    return {"protocol": members}


LEGACY = protocol()
LISTED = protocol(3, 7, [], [])
MAPPED = field("id", **{"delta.columnMapping.id": 7, "delta.columnMapping.physicalName": "id"})
INVARIANT = json.dumps({"expression": {"expression": "id > 0"}})
IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True}
GENERATED = (field("id"), field("g", **{"delta.generationExpression": "id + 1"}))

USES: dict[str, tuple[Action, str]] = {
    "generated column": (metadata(*GENERATED), "generatedColumns"),
    "identity column": (metadata(field("id", **IDENTITY)), "identityColumns"),
    "invariant": (metadata(field("id", **{"delta.invariants": INVARIANT})), "invariants"),
    "constraint": (metadata(**{"constraints.c": "id > 0"}), "checkConstraints"),
    "timestamp without a zone": (metadata(field("id"), field("t", "timestamp_ntz")), "timestampNtz"),
    "append-only": (metadata(appendOnly="true"), "appendOnly"),
    "change feed": (metadata(enableChangeDataFeed="true"), "changeDataFeed"),
    "deletion vectors": (metadata(enableDeletionVectors="true"), "deletionVectors"),
    "widening": (metadata(enableTypeWidening="true"), "typeWidening"),
    "V2 checkpoints": (metadata(checkpointPolicy="v2"), "v2Checkpoint"),
    "columns by name": (
        metadata(MAPPED, **{"columnMapping.mode": "name", "columnMapping.maxColumnId": "7"}),
        "columnMapping",
    ),
}
"""Parts of metadata, and the feature that each needs."""
PASSED_OVER: dict[str, tuple[Action, str]] = {
    "default": (metadata(field("id", CURRENT_DEFAULT="1", EXISTS_DEFAULT="1")), "allowColumnDefaults"),
    "changed type": (
        metadata(field("id", **{"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]})), "typeWidening",
    ),
}  # fmt: skip
"""Parts that need none: Delta opens the table also if its protocol lists features."""
UNKNOWN = (
    "catalogOwned",
    "collations",
    "liquid",
    "geospatial",
    "adaptiveMetadata",
    "redirectReaderWriter-preview",
    "unheardOf",
)
"""Features that are not known here; Delta knows only the fourth one."""
FOR_WRITERS = ("materializePartitionColumns", "checkpointProtection", "allowColumnDefaults", "clustering")
"""Features of which nothing follows for readers, and for an import neither."""


def all_foreign() -> list[Foreign]:
    """Every table."""
    superseded = metadata(without="schemaString")
    tables = [
        Foreign("plain", ((INFO, LEGACY, metadata()),)),
        Foreign("commitInfo last", ((LEGACY, metadata(), INFO),)),
        Foreign("superseded metadata", ((INFO, LEGACY, superseded), (INFO, metadata()))),
        Foreign("metadata superseded in its commit", ((INFO, LEGACY, superseded, metadata()),)),
        Foreign("superseded feature", ((INFO, protocol(3, 7, ["liquid"], ["liquid"]), metadata()), (INFO, LEGACY))),
        Foreign("superseded protocol", ((INFO, protocol(9, 9), metadata()), (INFO, LEGACY)), takes=False),
        Foreign("odd commitInfo",
                ((INFO, LEGACY, metadata()), ({"commitInfo": {"inCommitTimestamp": "x", "txnId": 7}},), (INFO,)),
                takes=False),
        Foreign("property that is null", ((INFO, LEGACY, metadata(note=None)),)),
        Foreign("domain without removed", ((INFO, protocol(1, 7, None, ["domainMetadata"]), metadata()),
                                           (INFO, {"domainMetadata": {"domain": "x", "configuration": "{}"}}))),
        Foreign("mapped without the greatest id",
                ((INFO, protocol(2, 5), metadata(MAPPED, **{"columnMapping.mode": "name"})),)),
        Foreign("mapped above the greatest id",
                ((INFO, protocol(2, 5),
                  metadata(MAPPED, **{"columnMapping.mode": "name", "columnMapping.maxColumnId": "1"})),)),
        Foreign("listed for readers only", ((INFO, protocol(3, 7, ["deletionVectors"], []), metadata()),)),
        Foreign("no schema", ((INFO, LEGACY, superseded),), takes=False,
                refusal="missing required field `schemaString`"),
        Foreign("no lists", ((INFO, protocol(3, 7), metadata()),), takes=False, refusal="lists no readerFeatures"),
        Foreign("lists in an old protocol", ((INFO, protocol(1, 2, [], ["appendOnly"]), metadata()),), takes=False,
                refusal="lists writerFeatures"),
        Foreign("reader 3 and writer 5", ((INFO, protocol(3, 5, []), metadata()),), takes=False,
                refusal="3 for readers and 5"),
        Foreign("type that nothing knows", ((INFO, LEGACY, metadata(field("id", "fancy"))),), takes=False,
                refusal="no type that Delta knows"),
        Foreign("row tracking under an old protocol", ((INFO, LEGACY, metadata(enableRowTracking="true")),),
                takes=False, refusal="rowTracking"),
    ]  # fmt: skip
    for name, (action, feature) in USES.items():
        tables.append(Foreign(f"{name} under an old protocol", ((INFO, LEGACY, action),)))
        tables.append(Foreign(f"{name} that is not listed", ((INFO, LISTED, action),), takes=False, refusal=feature))
    for name, (action, _) in PASSED_OVER.items():
        tables.append(Foreign(f"{name} under an old protocol", ((INFO, LEGACY, action),)))
        tables.append(Foreign(f"{name} that is not listed", ((INFO, LISTED, action),)))
    for feature in UNKNOWN:
        told = f"the feature {feature}, which is not known here"
        read = feature == "geospatial"
        tables.append(
            Foreign(
                f"{feature} for all",
                ((INFO, protocol(3, 7, [feature], [feature]), metadata()),),
                takes=read,
                refusal=told,
            )
        )
        tables.append(
            Foreign(f"{feature} for writers", ((INFO, protocol(1, 7, None, [feature]), metadata()),), refusal=told)
        )
    for feature in FOR_WRITERS:
        tables.append(
            Foreign(f"{feature} listed", ((INFO, protocol(1, 7, None, [feature, "domainMetadata"]), metadata()),))
        )
    return tables
