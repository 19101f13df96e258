"""Judges a checkpoint of a log, which is read whole: all files, all columns, all pages,
``CHECKPOINT_BYTES`` at most (``soundness.judge``)."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from turnstile.delta.commits import pieces_of, transaction_of
from turnstile.delta.core.actions import NOT_JSON, Add, Remove
from turnstile.delta.core.pointer import POINTER, POINTER_BYTES, Pointed, pointed_checkpoint
from turnstile.delta.core.segments import Checkpoint, complete_checkpoints
from turnstile.delta.core.soundness import (
    Fault,
    checkpoint_fault,
    count_fault,
)
from turnstile.delta.log.files import LogFiles, sizes_of
from turnstile.delta.log.in_force import InForce, typed_action
from turnstile.delta.log.lines import LINE_BYTES, lines
from turnstile.delta.log.parquet import UNDECODABLE, Ranges, has_parquet, table_actions
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import LOG, published_path
from turnstile.store.ports import PIECE_BYTES, LogStorage

SIDECARS: Final = f"{LOG}_sidecars/"
CHECKPOINT_BYTES: Final = 256 * 1024 * 1024
"""Bytes of the largest checkpoint that is read whole to be judged."""
_BATCH_ROWS: Final = 4_096
_CHECKED: Final = ("protocol", "metaData", "domainMetadata", "txn")


class NotJudged(msgspec.Struct, frozen=True):
    """A file that was not judged, and why."""

    path: str
    reason: str


class Judgement(msgspec.Struct, frozen=True):
    """The faults, and the files that were not checked. Sound: both are empty."""

    faults: tuple[Fault, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()

    def __add__(self, other: Judgement) -> Judgement:
        return Judgement((*self.faults, *other.faults), (*self.not_judged, *other.not_judged))


def pointed_in(storage: LogStorage) -> Pointed | None:
    """The checkpoint that ``_last_checkpoint`` names; None if the file is missing, or cannot be
    read: it is a hint."""
    file = storage.read(POINTER, POINTER_BYTES)
    return pointed_checkpoint(file[0]) if file is not None else None


class _Line(msgspec.Struct, gc=False):
    add: Add | None = None
    remove: Remove | None = None


_LINE: Final = msgspec.json.Decoder(_Line)


def line_fault(line: bytes, force: InForce | None = None, where: str = "the line") -> str:
    """The fault of a line of a log; empty for none. With ``force`` an action about the table as a
    whole is not checked but applied to it: a later action may supersede it."""
    try:
        _LINE.decode(line)
        for name, body in msgspec.json.decode(line, type=dict[str, Any]).items():
            if name in _CHECKED:
                if force is None:
                    typed_action(name, body, where)
                else:
                    force.apply(name, body, where)
    except UnsupportedTable as error:
        return error.message
    except (*NOT_JSON, msgspec.ValidationError) as error:
        return str(error)
    return ""


def judge_checkpoint(
    storage: LogStorage, version: int, files: LogFiles, *, upto_bytes: int = CHECKPOINT_BYTES
) -> Judgement:
    """Judges the checkpoints of a version, which are read whole: all columns and pages of every
    complete one. Raises StorageFault."""
    found = Judgement()
    sizes = sizes_of(files).checkpoints.get(version, {})
    expected = expected_adds(storage, version, files)
    for checkpoint in complete_checkpoints(sizes):
        found += _judge(storage, checkpoint, sizes, expected, upto_bytes)
    return found


def expected_adds(storage: LogStorage, version: int, files: LogFiles) -> dict[str, int]:
    """The number of files in the state of a version, by its source: its version checksum, and
    ``_last_checkpoint``. A source that cannot be read is left out: both are hints."""
    expected: dict[str, int] = {}
    if version in files.checksums and version in files.commits:
        path = files.checksums[version].path
        count = _files_by_checksum(storage, path, version)
        if count is not None:
            expected[path] = count
    pointed = pointed_in(storage)
    if pointed is not None and pointed.version == version and pointed.adds is not None:
        expected[POINTER] = pointed.adds
    return expected


def _files_by_checksum(storage: LogStorage, path: str, version: int) -> int | None:
    """How many files a version has by its checksum; None where it does not say, or is of a commit
    that lost: it names another transaction."""
    file = storage.read(path, LINE_BYTES)
    commit = storage.read(published_path(version), PIECE_BYTES)
    if file is None or commit is None:
        return None
    try:
        members = msgspec.json.decode(file[0], type=dict[str, Any])
    except NOT_JSON:
        return None
    txn = members.get("txnId")
    count = members.get("numFiles")
    return count if txn and txn == transaction_of(commit[0]) and type(count) is int else None


def _judge(
    storage: LogStorage, checkpoint: Checkpoint, sizes: Mapping[str, int], expected: Mapping[str, int], upto_bytes: int
) -> Judgement:
    """One complete checkpoint, with its sidecars."""
    version = checkpoint.version
    adds = 0
    first = f"{LOG}{checkpoint.names[0]}"
    left = upto_bytes - sum(sizes[name] for name in checkpoint.names)
    if left < 0:
        return Judgement((), (NotJudged(first, f"it has more than {upto_bytes} bytes"),))
    if not has_parquet() and any(name.endswith(".parquet") for name in checkpoint.names):
        return Judgement((), (NotJudged(first, "Parquet cannot be read here"),))
    rows: list[tuple[str, dict[str, Any]]] = []
    for name in checkpoint.names:
        path = f"{LOG}{name}"
        try:
            adds += _count(storage, path)
            rows += table_actions(storage, path, (*_CHECKED, "sidecar", "checkpointMetadata")) or ()
            for action, body in rows:
                if action in _CHECKED:
                    typed_action(action, body, f"the checkpoint of version {version}")
        except UnsupportedTable as error:
            return Judgement((checkpoint_fault(version, path, f"cannot be read: {error.message}"),))
        except UNDECODABLE as error:
            return Judgement((checkpoint_fault(version, path, f"cannot be read: {_short(error)}"),))
    if not {"protocol", "metaData"} <= {name for name, _ in rows}:
        return Judgement((checkpoint_fault(version, first, "has no protocol or no metadata"),))
    sidecars = [body for name, body in rows if name == "sidecar"]
    for body in sidecars:
        path = f"{SIDECARS}{sidecar_name(body)}"
        size = body.get("sizeInBytes")
        fault = sidecar_fault(storage, version, path, size)
        if fault is not None:
            return Judgement((fault,))
        if not has_parquet():
            return Judgement((), (NotJudged(path, "Parquet cannot be read here"),))
        left -= size if isinstance(size, int) else 0
        if left < 0:
            return Judgement((), (NotJudged(path, f"the checkpoint has more than {upto_bytes} bytes"),))
        try:
            adds += _count(storage, path)
        except (UnsupportedTable, *UNDECODABLE) as error:
            return Judgement((checkpoint_fault(version, path, f"cannot be read: {_short(error)}"),))
    said = {f"{first} itself": count for count in tagged_adds(rows)}
    fault = count_fault(version, first, adds, {**expected, **said})
    return Judgement((fault,) if fault is not None else ())


def sidecar_name(body: Mapping[str, Any]) -> str:
    """The name of a sidecar in the table's own folder: sidecars are nowhere else."""
    return unquote(str(body.get("path") or "")).rpartition("/")[2] or "missing"


def sidecar_fault(storage: LogStorage, version: int, path: str, size: object) -> Fault | None:
    """The fault of a sidecar that is gone, or has another size than its checkpoint says. Raises
    StorageFault."""
    stat = storage.stat(path)
    if stat is None:
        return checkpoint_fault(version, path, "is missing, and the checkpoint names it")
    if type(size) is int and stat.size != size:
        return checkpoint_fault(version, path, f"has {stat.size} bytes, and the checkpoint says {size}")
    return None


def tagged_adds(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> list[int]:
    """How many files a checkpoint of the V2 spec says that it has, if it does."""
    texts = [str((body.get("tags") or {}).get("numOfAddFiles")) for name, body in rows if name == "checkpointMetadata"]
    return [int(text) for text in texts if text.isascii() and text.isdigit()]


def _count(storage: LogStorage, path: str) -> int:
    """The number of ``add`` in a checkpoint's file; all of it is read. Raises UnsupportedTable, and
    the errors of pyarrow."""
    if path.endswith(".json"):
        file = storage.read(path, PIECE_BYTES)
        if file is None:
            raise UnsupportedTable("it is gone")
        adds = 0
        for line in lines(pieces_of(storage, path, *file), path):
            if not line.strip():
                continue
            if problem := line_fault(line):
                raise UnsupportedTable(problem)
            adds += _LINE.decode(line).add is not None
        return adds
    stat = storage.stat(path)
    if stat is None:
        raise UnsupportedTable("it is gone")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    adds = 0
    source = io.BufferedReader(Ranges(storage, stat), 2 * 1024 * 1024)
    with parquet.ParquetFile(source, page_checksum_verification=True, coerce_int96_timestamp_unit="us") as rows:
        for batch in rows.iter_batches(_BATCH_ROWS, use_threads=False):
            batch.validate(full=True)
            for name in ("add", "remove"):
                if name not in batch.schema.names:
                    continue
                structs = batch.column(name).drop_null()
                if structs.field("path").null_count:
                    raise ValueError(f"an action {name} has no path")
                adds += len(structs) if name == "add" else 0
    return adds


def _short(error: BaseException) -> str:
    return str(error).partition("\n")[0][:300]
