"""The one judge of a table's ``_delta_log`` (I24): collects what ``turnstile.delta.core.soundness`` decides by.

    judge(storage, floor)            what the newest state is derived from: the listing, the newest start, the commits after it
    judge_commit(storage, version)   one commit, whole
    judge_checkpoint(...)            one checkpoint, whole: all files, all columns, all pages
    folder_fault(storage)            whether there is a log at all

Costs. ``judge``: one listing; a pass over the commits after the newest checkpoint, ``COMMIT_BYTES`` at most; and a pass over that checkpoint,
``CHECKPOINT_BYTES`` at most. Beyond these, and for Parquet where pyarrow cannot be imported, it says what it did not judge. One piece of a file, or one
batch of a checkpoint, is held. ``folder_fault``: the first entry of a listing. No commit of a table asks the judge: it is for all that derive
something from a log (plans, details, checkpoints, indexes, clean-up) and all that answer for one (verify, repair, imports, recovery).
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from turnstile.delta.commits import pieces_of, transaction_of
from turnstile.delta.core.actions import NOT_JSON, Add, Remove
from turnstile.delta.core.head import TableHead, positioned
from turnstile.delta.core.pointer import POINTER, POINTER_BYTES, Pointed, pointed_checkpoint
from turnstile.delta.core.segments import Checkpoint, complete_checkpoints, starts
from turnstile.delta.core.soundness import (
    Fault,
    begins_with_info,
    checkpoint_fault,
    count_fault,
    damaged,
    demanded_from,
    gone,
    listing_faults,
    missing,
)
from turnstile.delta.log import (
    LINE_BYTES,
    NO_INFO,
    UNDECODABLE,
    DamagedLog,
    LogFiles,
    Ranges,
    checked,
    commit_lines,
    has_parquet,
    lines,
    listed,
    sizes_of,
    table_actions,
)
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import LOG, published_path
from turnstile.store.ports import PIECE_BYTES, LogStorage, World

SIDECARS: Final = f"{LOG}_sidecars/"
CHECKPOINT_BYTES: Final = 256 * 1024 * 1024
"""Bytes of the largest checkpoint that is read whole to be judged."""
COMMIT_BYTES: Final = 1024 * 1024 * 1024
"""Bytes of the commits after a start that are read to be judged."""
READABLE_FROM: Final = "readable_from"
"""Member of a location's row: the version from which on a clean-up leaves the log (``catalog.core.location_rows.Location``)."""
_BATCH_ROWS: Final = 4_096
_CHECKED: Final = ("protocol", "metaData", "domainMetadata", "txn")


class NotJudged(msgspec.Struct, frozen=True):
    """A file that was not judged, and why."""

    path: str
    reason: str


class Judgement(msgspec.Struct, frozen=True):
    """What was found wrong, and what was not looked at. Sound: nothing of both."""

    faults: tuple[Fault, ...] = ()
    not_judged: tuple[NotJudged, ...] = ()

    def __add__(self, other: Judgement) -> Judgement:
        return Judgement((*self.faults, *other.faults), (*self.not_judged, *other.not_judged))


def folder_fault(storage: LogStorage, upto: int = 0) -> Fault | None:
    """The fault of a table whose folder, or log, is gone: no published commit is there; None for none. Reads a listing as far as its
    first commit. Raises StorageFault."""
    there = any(
        stat.path.endswith(".json") and stat.path[len(LOG) : len(LOG) + 20].isdigit() for stat in storage.list(LOG)
    )
    return None if there else gone(upto)


def ratified_sizes(head: TableHead) -> dict[int, int]:
    """The bytes that published versions were ratified with, as far as the HEAD knows; of a ticket it does not know them."""
    return {
        place.version: place.entry.size
        for place in positioned(head)
        if place.version <= head.floor and not place.entry.ticket and place.entry.size
    }


def expired_upto(world: World, head: TableHead) -> int:
    """The version before which commits may be gone from the log of ``head``: a clean-up was announced, or the table was imported, and its log
    was let expire before. Two reads at most."""
    space, first = world.space, head.first
    if head.source:
        row = world.refs.read(space.table(head.source))
        first = TableHead.from_row(row).first if row is not None else head.latest
    owner = world.refs.read(space.location(head.location))
    return max(first, int(owner.get(READABLE_FROM) or 0) if owner is not None else head.latest)


def pointed_in(storage: LogStorage) -> Pointed | None:
    """What ``_last_checkpoint`` leads to; None where it is not there, or cannot be read: it is a hint."""
    file = storage.read(POINTER, POINTER_BYTES)
    return pointed_checkpoint(file[0]) if file is not None else None


def judge(
    storage: LogStorage,
    floor: int,
    ratified: Mapping[int, int] | None = None,
    *,
    expired_upto: Callable[[], int] | None = None,
) -> Judgement:
    """Judges what the state of version ``floor``, which is published, is derived from, and all that the listing shows. ``ratified`` as
    ``ratified_sizes``, ``expired_upto`` as that function says, and asked only where the log does not begin at version 0. Raises StorageFault."""
    files = listed(storage).upto(floor)
    pointed, expired = pointed_in(storage), None
    if expired_upto is not None and min(files.commits, default=0) > 0:
        expired = expired_upto()
    faults = listing_faults(sizes_of(files), floor, ratified or {}, expired_upto=expired, pointed=pointed)
    found = Judgement(tuple(faults))
    if floor not in files.commits:
        return found
    begun, start = _start(storage, files, floor)
    found += begun
    if start is None:
        return found
    left, seen = COMMIT_BYTES, list[CommitFacts]()
    described = _described(storage, files, start)
    for version in range(start + 1, floor + 1):
        left -= files.commits[version].size
        if left < 0:
            why = f"the commits after version {start} have more than {COMMIT_BYTES} bytes"
            found += Judgement((), (NotJudged(published_path(version), why),))
            break
        facts = read_facts(storage, version)
        seen.append(facts)
        described |= facts.described
    configuration = described.get("metaData", {}).get("configuration") or {}
    demanded = demanded_from(described.get("protocol", {}), configuration)
    known = {fault.path for fault in found.faults}
    faults = [
        fault for facts in seen if (fault := fault_of(facts, info=demanded is not None and facts.version >= demanded))
    ]
    return found + Judgement(tuple(fault for fault in faults if fault.path not in known))


def _start(storage: LogStorage, files: LogFiles, floor: int) -> tuple[Judgement, int | None]:
    """The newest start that is sound, or was not judged, with what was found of it and of newer ones; None for none. -1: version 0."""
    found = Judgement()
    for at in starts(files.checkpoints, files.commits, floor):
        if at < 0:
            return found, at
        judgement = judge_checkpoint(storage, at, files)
        known = {fault.path for fault in found.faults}
        found += Judgement(tuple(each for each in judgement.faults if each.path not in known), judgement.not_judged)
        if not judgement.faults:
            return found, at
    return found, None


def _described(storage: LogStorage, files: LogFiles, start: int) -> dict[str, dict[str, Any]]:
    """Protocol and metadata as the checkpoint of version ``start`` has them; none where it cannot be read."""
    for checkpoint in complete_checkpoints(sizes_of(files).checkpoints.get(start, {})):
        try:
            actions = [
                table_actions(storage, f"{LOG}{name}", ("protocol", "metaData")) or () for name in checkpoint.names
            ]
        except (UnsupportedTable, *UNDECODABLE):
            continue
        return {name: body for some in actions for name, body in some}
    return {}


# -- one commit -----------------------------------------------------------------------------------------------------------


class CommitFacts(msgspec.Struct, frozen=True):
    """What a commit's file says of itself: its ``fault`` if it has one, whether its first line is a commitInfo with an in-commit timestamp, and
    the protocol and metadata that it sets."""

    version: int
    fault: Fault | None = None
    has_info: bool = False
    described: dict[str, dict[str, Any]] = {}


class _Line(msgspec.Struct, gc=False):
    add: Add | None = None
    remove: Remove | None = None


_LINE: Final = msgspec.json.Decoder(_Line)


def judge_commit(storage: LogStorage, version: int, *, info: bool) -> Fault | None:
    """The fault of a published commit, of which every line is read; None for none. ``info``: it must begin with a commitInfo that has an in-commit
    timestamp. Raises StorageFault."""
    return fault_of(read_facts(storage, version), info=info)


def fault_of(facts: CommitFacts, *, info: bool) -> Fault | None:
    """The fault that a commit's facts show; None for none."""
    if facts.fault is None and info and not facts.has_info:
        return damaged(facts.version, NO_INFO)
    return facts.fault


def read_facts(storage: LogStorage, version: int) -> CommitFacts:
    """Reads a commit whole. Raises StorageFault."""
    path, has_info, described = published_path(version), None, dict[str, dict[str, Any]]()
    file = storage.read(path, PIECE_BYTES)
    if file is None:
        return CommitFacts(version, missing(version))
    try:
        for line in commit_lines(pieces_of(storage, path, *file), version):
            has_info = begins_with_info(line) if has_info is None else has_info
            if problem := line_fault(line):
                return CommitFacts(version, damaged(version, f"is not readable: {problem}"))
            if b'"metaData"' in line or b'"protocol"' in line:
                members = msgspec.json.decode(line, type=dict[str, Any])
                described |= {name: members[name] for name in ("protocol", "metaData") if name in members}
    except DamagedLog as error:
        return CommitFacts(version, error.fault)
    except UnsupportedTable as error:
        return CommitFacts(version, damaged(version, f"is not readable: {error.message}"))
    return CommitFacts(version, None, bool(has_info), described)


def line_fault(line: bytes) -> str:
    """What is wrong with a line of a log; empty for nothing."""
    try:
        _LINE.decode(line)
        for name, body in msgspec.json.decode(line, type=dict[str, Any]).items():
            if name in _CHECKED:
                checked(name, body, "the line")
    except UnsupportedTable as error:
        return error.message
    except (*NOT_JSON, msgspec.ValidationError) as error:
        return str(error)
    return ""


# -- one checkpoint -------------------------------------------------------------------------------------------------------


def judge_checkpoint(
    storage: LogStorage, version: int, files: LogFiles, *, upto_bytes: int = CHECKPOINT_BYTES
) -> Judgement:
    """Judges the checkpoints of a version, which are read whole: all columns and pages of every complete one. Raises StorageFault."""
    found = Judgement()
    sizes = sizes_of(files).checkpoints.get(version, {})
    expected = expected_adds(storage, version, files)
    for checkpoint in complete_checkpoints(sizes):
        found += _judged(storage, checkpoint, sizes, expected, upto_bytes)
    return found


def expected_adds(storage: LogStorage, version: int, files: LogFiles) -> dict[str, int]:
    """How many files the state of a version has, by what says so: its version checksum, and ``_last_checkpoint``. One that cannot be read says
    nothing: both are hints."""
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
    """How many files a version has by its checksum; None where it does not say, or is of a commit that lost: it names another transaction."""
    file, commit = storage.read(path, LINE_BYTES), storage.read(published_path(version), PIECE_BYTES)
    if file is None or commit is None:
        return None
    try:
        members = msgspec.json.decode(file[0], type=dict[str, Any])
    except NOT_JSON:
        return None
    txn, count = members.get("txnId"), members.get("numFiles")
    return count if txn and txn == transaction_of(commit[0]) and type(count) is int else None


def _judged(
    storage: LogStorage, checkpoint: Checkpoint, sizes: Mapping[str, int], expected: Mapping[str, int], upto_bytes: int
) -> Judgement:
    """One complete checkpoint, with its sidecars."""
    version, adds = checkpoint.version, 0
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
                    checked(action, body, f"the checkpoint of version {version}")
        except UnsupportedTable as error:
            return Judgement((checkpoint_fault(version, path, f"cannot be read: {error.message}"),))
        except UNDECODABLE as error:
            return Judgement((checkpoint_fault(version, path, f"cannot be read: {_short(error)}"),))
    if not {"protocol", "metaData"} <= {name for name, _ in rows}:
        return Judgement((checkpoint_fault(version, first, "has no protocol or no metadata"),))
    sidecars = [body for name, body in rows if name == "sidecar"]
    for body in sidecars:
        path, size = f"{SIDECARS}{sidecar_name(body)}", body.get("sizeInBytes")
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
    """The fault of a sidecar that is gone, or has another size than its checkpoint says. Raises StorageFault."""
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
    """How many ``add`` a checkpoint's file has; all of it is read. Raises UnsupportedTable, and what pyarrow raises."""
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
