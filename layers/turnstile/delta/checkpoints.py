"""A table's state from a checkpoint, for logs whose old commits were cleaned up.

Parquet needs pyarrow, which the deployed layer does not carry: it is large, and checksums make it needless for tables
that Spark wrote. Where it cannot be imported, a Parquet checkpoint is no start.
Source: Delta protocol, "Checkpoints": protocol, metaData and domainMetadata are in the checkpoint's own files, never
in sidecars.
"""

from __future__ import annotations

import importlib
import io
import re
from typing import Any, Final

from turnstile.delta.log_state import Start, actions, apply_domains
from turnstile.store.ports import LogStorage, Stat

_PART: Final = re.compile(r".*\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_MAPS: Final = ("configuration", "options")
_WANTED: Final = ("protocol", "metaData", "domainMetadata")


def read_checkpoint(storage: LogStorage, version: int, files: list[Stat]) -> Start | None:
    """The state at ``version``, or None when none of its checkpoints is complete and readable here."""
    single = [stat.path for stat in files if not _PART.fullmatch(stat.path)]
    for path in sorted(single, key=lambda path: not path.endswith(".json")):
        start = _state(storage, version, [path])
        if start is not None:
            return start
    parts = [stat.path for stat in files if (match := _PART.fullmatch(stat.path)) and int(match[2]) > 0]
    if parts and len(parts) == int(_PART.fullmatch(parts[0])[2]):  # type: ignore[index]  # it matched above
        return _state(storage, version, sorted(parts))
    return None


def _state(storage: LogStorage, version: int, paths: list[str]) -> Start | None:
    found: list[tuple[str, dict[str, Any]]] = []
    for path in paths:
        file = storage.read(path)
        rows = None if file is None else _rows(file[0], path)
        if rows is None:
            return None
        found += rows
    protocol = next((body for name, body in found if name == "protocol"), None)
    metadata = next((body for name, body in found if name == "metaData"), None)
    if protocol is None or metadata is None:
        return None
    domains = apply_domains({}, [body for name, body in found if name == "domainMetadata"])
    return Start(version, protocol, metadata, domains, f"checkpoint of version {version}")


def _rows(raw: bytes, path: str) -> list[tuple[str, dict[str, Any]]] | None:
    if path.endswith(".json"):
        return [(name, body) for name, body in actions(raw, path) if name in _WANTED]
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        return None
    file = parquet.ParquetFile(io.BytesIO(raw))
    columns = [name for name in _WANTED if name in file.schema_arrow.names]
    rows = file.read(columns=columns).to_pylist()
    return [(name, _plain(row[name])) for row in rows for name in columns if row.get(name) is not None]


def _plain(value: Any) -> Any:
    """pyarrow's maps are lists of pairs, also empty ones; members that are null were not there."""
    if isinstance(value, dict):
        members = {name: _plain(member) for name, member in value.items() if member is not None}
        return {name: {} if name in _MAPS and not member else member for name, member in members.items()}
    if isinstance(value, list) and all(isinstance(one, tuple) and len(one) == 2 for one in value) and value:
        return {name: _plain(member) for name, member in value}
    return [_plain(one) for one in value] if isinstance(value, list) else value
