"""File actions of a log: decoded from JSON lines of commits and checkpoints, and from Parquet
columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from turnstile.delta.commits import pieces_of
from turnstile.delta.core.actions import NOT_JSON, Add, DeletionVector, Remove
from turnstile.delta.core.segments import file_key, vector_id
from turnstile.delta.core.soundness import missing
from turnstile.delta.log.lines import DamagedLog, broken, commit_lines, lines, where_of
from turnstile.delta.log.parquet import Ranges
from turnstile.store.core.names import published_path
from turnstile.store.ports import PIECE_BYTES, LogStorage

if TYPE_CHECKING:
    import pyarrow as pa

ROWS: Final = 2048
"""Actions that are held at once."""

READ_BYTES: Final = 2 * 1024 * 1024
"""Bytes of one request to the storage: a file that Turnstile writes has several row groups in
them."""

BUFFER_BYTES: Final = 1024 * 1024
"""Read ahead of each column of a Parquet file."""

_ADD: Final = (
    "path", "partitionValues", "size", "modificationTime", "dataChange", "tags", "deletionVector", "baseRowId",
    "defaultRowCommitVersion", "clusteringProvider",
)  # fmt: skip

_REMOVE: Final = (
    "path", "deletionTimestamp", "dataChange", "extendedFileMetadata", "partitionValues", "size", "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
)  # fmt: skip


class Rows(msgspec.Struct, frozen=True):
    """File actions that were read from JSON."""

    adds: list[Add]
    removes: list[Remove]


class Columns(msgspec.Struct, frozen=True):
    """File actions that were read from Parquet: arrays of structs without nulls; None for none. The
    structs have the members that the file has: ``stats``, ``stats_parsed`` where there is no
    ``stats``, or none.
    """

    adds: pa.StructArray | None
    removes: pa.StructArray | None


class _Line(msgspec.Struct, gc=False):
    add: Add | None = None
    remove: Remove | None = None


_LINE: Final = msgspec.json.Decoder(_Line)


class Tally:
    """Counts the ``add`` actions of a checkpoint, including overridden ones."""

    adds = 0


def actions_of_commit(storage: LogStorage, version: int) -> Iterator[tuple[Add | None, Remove | None]]:
    """The ``add`` and ``remove`` actions of a commit; some may be neither."""
    path = published_path(version)
    file = storage.read(path, PIECE_BYTES)
    if file is None:
        raise DamagedLog(missing(version))
    where = where_of(version)
    for line in commit_lines(pieces_of(storage, path, *file), version):
        yield actions_of_line(line, where)


def actions_of_file(storage: LogStorage, path: str, where: str) -> Iterator[tuple[Add | None, Remove | None]]:
    """The ``add`` and ``remove`` actions of newline-delimited JSON; some may be neither."""
    file = storage.read(path, PIECE_BYTES)
    if file is None:
        raise broken(f"{where} is missing")
    for line in lines(pieces_of(storage, path, *file), where):
        if line.strip():
            yield actions_of_line(line, where)


def actions_of_line(line: bytes, where: str) -> tuple[Add | None, Remove | None]:
    """The ``add`` or ``remove`` action of a line of a log; neither if it has another one. Raises
    UnsupportedTable."""
    try:
        action = _LINE.decode(line)
    except (*NOT_JSON, msgspec.ValidationError) as error:
        raise broken(f"{where} is not readable: {error}") from None
    return action.add, action.remove


def columns_of(storage: LogStorage, path: str, seen: dict[bytes, int], tally: Tally) -> Iterator[Columns]:
    """The file actions of a Parquet file with keys that are not in ``seen``."""
    from pyarrow import parquet

    stat = storage.stat(path)
    if stat is None:
        raise broken(f"{path} is missing")
    source = io.BufferedReader(Ranges(storage, stat), READ_BYTES)
    read = {
        "buffer_size": BUFFER_BYTES,
        "pre_buffer": False,
        "coerce_int96_timestamp_unit": "us",
        "page_checksum_verification": True,
    }
    with parquet.ParquetFile(source, **read) as file:
        for batch in file.iter_batches(ROWS, columns=_wanted_members(file.schema_arrow), use_threads=False):
            batch.validate(full=True)
            if "add" in batch.schema.names:
                tally.adds += len(batch) - batch.column("add").null_count
            adds, removes = (
                _unseen(batch.column(name), seen) if name in batch.schema.names else None for name in ("add", "remove")
            )
            if adds is not None or removes is not None:
                yield Columns(adds, removes)


def _wanted_members(schema: pa.Schema) -> list[str]:
    """The members of ``add`` and ``remove`` that a state needs and the file has."""
    there = {
        f"{name}.{field.name}"
        for name in ("add", "remove")
        if name in schema.names
        for field in schema.field(name).type
    }
    members = [f"add.{member}" for member in _ADD] + [f"remove.{member}" for member in _REMOVE]
    stats = [form for form in ("add.stats", "add.stats_parsed") if form in there]
    return [member for member in members if member in there] + stats[:1]


def _unseen(column: pa.StructArray, seen: dict[bytes, int]) -> pa.StructArray | None:
    """The structs of ``column`` that are there and have a key that is not in ``seen``."""
    import pyarrow as pa

    structs = column.drop_null()
    if structs.field("path").null_count:
        raise ValueError("an action has no path")
    if seen:
        paths = structs.field("path").to_pylist()
        vectors = [vector_id(vector) for vector in vectors_of(structs)]
        kept = [file_key(path, vector) not in seen for path, vector in zip(paths, vectors, strict=True)]
        if not all(kept):
            structs = structs.filter(pa.array(kept, pa.bool_()))
    return structs if len(structs) else None


def vectors_of(structs: pa.StructArray) -> list[DeletionVector | None]:
    """The deletion vector of each file action of an array."""
    if structs.type.get_field_index("deletionVector") == -1:
        return [None] * len(structs)
    column = structs.field("deletionVector")
    return [None if vector is None else msgspec.convert(vector, DeletionVector) for vector in column.to_pylist()]


def adds_of(structs: pa.StructArray | None) -> Iterator[Add]:
    """The ``add`` actions of an array."""
    from turnstile.maintenance.stats import stats_as_json

    if structs is None:
        return
    there = {field.name for field in structs.type}
    columns = {name: structs.field(name).to_pylist() for name in _ADD if name in there}
    columns["deletionVector"] = vectors_of(structs)
    columns["stats"] = stats_as_json(structs).to_pylist()
    for index in range(len(structs)):
        members = {name: column[index] for name, column in columns.items() if column[index] is not None}
        members["partitionValues"] = dict(members.get("partitionValues") or ())
        members["dataChange"] = bool(members.get("dataChange"))
        if "tags" in members:
            members["tags"] = dict(members["tags"])
        yield Add(**members)
