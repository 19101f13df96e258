"""The content of commits, action by action. Source: Delta protocol, "Actions", "Commit Provenance
Information", "In-Commit Timestamps"."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnstile_release import version
from turnstile_rows.definitions import Definition

ENGINE: Final = "turnstile-client"
_UNMARKED: Final = '{"rowIdHighWaterMark":-1}'
"""Of row tracking's domain in a commit whose row ids the server assigns."""
#: Members of a removed file that its ``remove`` keeps.
_KEPT: Final = ("partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion")


@dataclass(frozen=True)
class DataFile:
    """A file that was written. ``path``: relative to the table; ``stats``: JSON; ``modified_ms``:
    since the epoch."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modified_ms: int
    stats: str
    rows: int

    def add(self, *, changes_data: bool = True) -> dict[str, Any]:
        """Its ``add`` action."""
        added = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "modificationTime": self.modified_ms,
            "dataChange": changes_data,
            "stats": self.stats,
        }
        return {"add": added}


def append(
    id: str,
    now_ms: int,
    base: int,
    *,
    files: Sequence[DataFile],
    definition: Definition,
    engine: str = ENGINE,
    apps: Mapping[str, int] = {},
) -> str:
    """The content of a commit that adds files to version ``base``, or any later one. The server
    assigns the row ids of a table that tracks rows. ``apps``: how far applications have come
    (``txn`` actions)."""
    parameters = {"mode": "Append", "partitionBy": _json(list(definition.partitions))}
    metrics = {
        "numFiles": str(len(files)),
        "numOutputRows": str(sum(file.rows for file in files)),
        "numOutputBytes": str(sum(file.size for file in files)),
    }
    info = _info(id, now_ms, "WRITE", parameters, engine)
    info |= {"readVersion": base, "isBlindAppend": True, "operationMetrics": metrics}
    actions: list[Mapping[str, Any]] = [{"commitInfo": info}]
    for app, number in sorted(apps.items()):
        actions.append({"txn": {"appId": app, "version": number, "lastUpdated": now_ms}})
    if definition.is_row_tracked:
        actions.append(
            {"domainMetadata": {"domain": "delta.rowTracking", "configuration": _UNMARKED, "removed": False}}
        )
    return _lines([*actions, *(file.add() for file in files)])


def overwrite(
    id: str,
    now_ms: int,
    base: int,
    *,
    files: Iterable[DataFile],
    removed: Iterable[Mapping[str, Any]],
    partitions: Iterable[str],
    where: str | None,
) -> str:
    """The content of a commit that replaces files of version ``base``. ``removed``: as a plan lists
    them; ``where``: the filter that chose them, for people."""
    parameters = {"mode": "Overwrite", "partitionBy": _json(list(partitions))} | (
        {} if where is None else {"predicate": where}
    )
    return _replacing(id, now_ms, base, "WRITE", parameters, files=files, removed=removed)


def delete(
    id: str, now_ms: int, base: int, *, files: Iterable[DataFile], removed: Iterable[Mapping[str, Any]], where: str
) -> str:
    """The content of a commit that removes rows of version ``base``: ``files`` have the rows of the
    files ``removed`` that stay. ``where``: the filter, for people."""
    return _replacing(id, now_ms, base, "DELETE", {"predicate": _json([where])}, files=files, removed=removed)


def add_columns(
    id: str,
    now_ms: int,
    base: int,
    *,
    metadata: Mapping[str, Any],
    columns: Sequence[Mapping[str, Any]],
    engine: str = ENGINE,
) -> str:
    """The content of a commit after version ``base`` with the table's new ``metaData`` action,
    which has ``columns`` in addition."""
    parameters = {"columns": _json([{"column": dict(column)} for column in columns])}
    info = _info(id, now_ms, "ADD COLUMNS", parameters, engine) | {"readVersion": base, "isBlindAppend": False}
    return _lines([{"commitInfo": info}, {"metaData": dict(metadata)}])


def rewrite(
    id: str,
    now_ms: int,
    base: int,
    *,
    files: Sequence[DataFile],
    removed: Sequence[Mapping[str, Any]],
    purges: bool,
    high_water: int | None = None,
) -> str:
    """The content of a commit that has the rows of the files ``removed`` of version ``base`` in
    other files, and changes no row. ``purges``: because of deletion vectors. ``high_water``: the
    highest row id that is assigned, of a table whose files have row ids."""
    operation = "REORG" if purges else "OPTIMIZE"
    parameters = {"predicate": "[]", "auto": "false"} | (
        {"applyPurge": "true"} if purges else {"zOrderBy": "[]", "clusterBy": "[]"}
    )
    metrics = {
        "numAddedFiles": str(len(files)),
        "numAddedBytes": str(sum(file.size for file in files)),
        "numRemovedFiles": str(len(removed)),
        "numRemovedBytes": str(sum(int(file["size"]) for file in removed)),
    }
    info = _info(id, now_ms, operation, parameters)
    info |= {"readVersion": base, "isBlindAppend": False, "operationMetrics": metrics}
    actions: list[dict[str, Any]] = [_remove(file, now_ms, changes_data=False) for file in removed]
    adds = [file.add(changes_data=False) for file in files]
    if high_water is not None:
        info["tags"] = {"delta.rowTracking.preserved": "true"}
        for file, add in zip(files, adds, strict=True):
            add["add"] |= {"baseRowId": high_water + 1, "defaultRowCommitVersion": base + 1}
            high_water += file.rows
        mark = _json({"rowIdHighWaterMark": high_water})
        actions.append({"domainMetadata": {"domain": "delta.rowTracking", "configuration": mark, "removed": False}})
    return _lines([{"commitInfo": info}, *actions, *adds])


def _replacing(
    id: str,
    now_ms: int,
    base: int,
    operation: str,
    parameters: dict[str, str],
    *,
    files: Iterable[DataFile],
    removed: Iterable[Mapping[str, Any]],
) -> str:
    info = _info(id, now_ms, operation, parameters) | {"readVersion": base, "isBlindAppend": False}
    return _lines([{"commitInfo": info}, *(_remove(file, now_ms) for file in removed), *(file.add() for file in files)])


def _remove(file: Mapping[str, Any], now_ms: int, *, changes_data: bool = True) -> dict[str, Any]:
    kept = {name: file[name] for name in _KEPT if file.get(name) is not None}
    return {
        "remove": {
            "path": file["path"],
            "deletionTimestamp": now_ms,
            "dataChange": changes_data,
            "extendedFileMetadata": True,
            **kept,
        }
    }


def version_zero(id: str, now_ms: int, metadata_id: str, definition: Definition, comment: str | None) -> str:
    """The content of a new table's first commit."""
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted(definition.reader_features),
        "writerFeatures": sorted(definition.writer_features),
    }
    metadata = {
        "id": metadata_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _json({"type": "struct", "fields": list(definition.fields)}),
        "partitionColumns": list(definition.partitions),
        "configuration": dict(definition.properties),
        "createdTime": now_ms,
    } | ({} if comment is None else {"description": comment})
    parameters = {"partitionBy": _json(list(definition.partitions)), "isManaged": "true"}
    info = _info(id, now_ms, "CREATE TABLE", parameters) | {"isBlindAppend": True}
    return _lines([{"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}])


def actions_of(content: str) -> list[dict[str, Any]]:
    """The actions of a commit."""
    return [json.loads(line) for line in content.split("\n") if line.strip()]


def adds(content: str) -> frozenset[str]:
    """The paths of the files that a commit adds."""
    return frozenset(action["add"]["path"] for action in actions_of(content) if "add" in action)


def _info(id: str, now_ms: int, operation: str, parameters: Mapping[str, str], engine: str = ENGINE) -> dict[str, Any]:
    return {
        "inCommitTimestamp": now_ms,
        "timestamp": now_ms,
        "operation": operation,
        "operationParameters": dict(parameters),
        "engineInfo": f"{engine}/{version()}",
        "txnId": id,
    }


def _lines(actions: Iterable[Mapping[str, Any]]) -> str:
    return "".join(_json(action) + "\n" for action in actions)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
