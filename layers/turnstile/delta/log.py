"""Reads protocol, metadata, domains and timestamps from a Delta table's ``_delta_log``. File
actions are not read.

A state is built from the newest start that can be read, and the commits after it:

    checksum     ``<v>.crc``, if it names the same transaction as ``<v>.json`` (Delta protocol,
                 "Version Checksum File")
    checkpoint   JSON, or Parquet where pyarrow can be imported (Delta protocol, "Checkpoints":
                 protocol, metaData and
                 domainMetadata are in the checkpoint's own files, never in sidecars)
    nothing      version 0, if the log still goes back so far

A start that is cut, empty or cannot be decoded is skipped, as Delta's readers do.
``turnstile.delta.core.soundness`` has the rules for commits.

The deployed layer does not carry pyarrow: it is large, and checksums make it needless for tables
that Spark wrote. Without it a Parquet checkpoint is no start.
"""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from turnstile.delta.commits import pieces_of
from turnstile.delta.core.actions import DomainMetadata, Metadata, Protocol, Txn
from turnstile.delta.core.protocols import as_features
from turnstile.delta.core.schemas import Unreadable, columns_of
from turnstile.delta.core.segments import complete_checkpoints
from turnstile.delta.core.soundness import (
    BRING_BACK,
    Fault,
    Listing,
    begins_with_info,
    damaged,
    first_gap,
    late,
    missing,
)
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import LOG, published_path
from turnstile.store.ports import PIECE_BYTES, LogStorage, Stat

_NAME: Final = re.compile(r"(\d{20})\.(json|crc|checkpoint\..+)")
_COMPACTED: Final = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")
_SKIPPED: Final = (b'{"add"', b'{"remove"', b'{"cdc"')
CHECKSUMS_TRIED: Final = 3
LINE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the longest line of a log, and of a checksum, that is held."""
_MAPS: Final = ("configuration", "options", "tags")
_WANTED: Final[dict[str, Any]] = {"protocol": Protocol, "metaData": Metadata, "domainMetadata": DomainMetadata}
_TYPES: Final[dict[str, Any]] = {**_WANTED, "txn": Txn}


UNDECODABLE: Final = (ValueError, OSError, ArithmeticError, LookupError, TypeError, MemoryError, NotImplementedError)
"""The exceptions of pyarrow for a file that is no Parquet file, or a damaged one: its own
exceptions are of these classes."""


class DamagedLog(UnsupportedTable):
    """A file of the log is invalid: ``fault`` names it, ``details`` has its ``path`` and ``version``."""

    def __init__(self, fault: Fault) -> None:
        message = f"the table's log cannot be read: {fault.message}"
        super().__init__(message, field="location", remedy=fault.remedy, path=fault.path, version=fault.version)
        self.fault = fault


class Start(msgspec.Struct, frozen=True):
    """The state at some version, wherever it was read. ``domains`` maps names to configurations."""

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    domains: dict[str, str]
    source: str


class LogState(msgspec.Struct, frozen=True):
    """The state at the latest version: ``info`` its commitInfo (empty if it has none);
    ``modified_ms`` its file's modification time; ``commits`` the number of commit files in the log;
    ``source`` the file that it was read from.
    """

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    domains: dict[str, str]
    info: dict[str, Any]
    modified_ms: int
    commits: int
    source: str

    @property
    def ict(self) -> int | None:
        """In-commit timestamp of the latest version, if it has one."""
        ict = self.info.get("inCommitTimestamp")
        return ict if type(ict) is int else None


class Commit(msgspec.Struct):
    """The actions of one commit that concern the table as a whole, unchecked: only actions in force
    are checked (``checked``). ``where`` names the commit in messages."""

    where: str
    info: dict[str, Any] = {}
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    domains: list[dict[str, Any]] = []


class LogFiles(msgspec.Struct):
    """The log's files by version; log compaction files by their first and last one."""

    commits: dict[int, Stat]
    checksums: dict[int, Stat]
    checkpoints: dict[int, list[Stat]]
    compactions: dict[tuple[int, int], Stat] = {}

    def upto(self, version: int) -> LogFiles:
        """The actions of ``version`` and of the versions before it."""
        return LogFiles(
            {at: file for at, file in self.commits.items() if at <= version},
            {at: file for at, file in self.checksums.items() if at <= version},
            {at: files for at, files in self.checkpoints.items() if at <= version},
            {span: file for span, file in self.compactions.items() if span[1] <= version},
        )


def read_state(storage: LogStorage, location: str, upto: int | None = None) -> LogState:
    """The state of the table at ``location``: the latest, or that of version ``upto``. Raises UnsupportedTable for no Delta
    table, a gap in its log, or only Parquet checkpoints that cannot be read here."""
    files = listed(storage) if upto is None else listed(storage).upto(upto)
    if not files.commits:
        problem = f"there is no Delta table at {location}"
        raise UnsupportedTable(problem, field="location", remedy="give the folder that holds _delta_log")
    latest = max(files.commits)
    commits: dict[int, Commit] = {latest: read_commit(storage, latest)}
    for start in _starts(storage, files, commits[latest], latest):
        after = range(start.version + 1 if start else 0, latest + 1)
        if any(version not in files.commits for version in after):
            continue
        state = _replayed(storage, start, after, commits)
        if state is not None:
            info, modified_ms, count = commits[latest].info, files.commits[latest].modified_ms, len(files.commits)
            protocol, metadata, domains = state.protocol, state.metadata, state.domains
            return LogState(latest, protocol, metadata, domains, info, modified_ms, count, state.source)
    raise _no_start(files, latest)


def sizes_of(files: LogFiles) -> Listing:
    """The sizes of the files of a log that was listed."""
    checkpoints = {
        version: {stat.path.removeprefix(LOG): stat.size for stat in stats}
        for version, stats in files.checkpoints.items()
    }
    return Listing({version: stat.size for version, stat in files.commits.items()}, checkpoints)


def _starts(storage: LogStorage, files: LogFiles, newest: Commit, latest: int) -> Iterator[Start | None]:
    """Starts to try, the one with the least to read after it first; None is the empty table before version 0."""
    for version in sorted(files.checksums, reverse=True)[:CHECKSUMS_TRIED]:
        if version <= latest and version in files.commits:
            commit = newest if version == latest else read_commit(storage, version)
            start = _checksum(storage, version, commit)
            if start is not None:
                yield start
    for version in sorted(files.checkpoints, reverse=True):
        start = read_checkpoint(storage, version, files.checkpoints[version]) if version <= latest else None
        if start is not None:
            yield start
    if 0 in files.commits:
        yield None


def _checksum(storage: LogStorage, version: int, commit: Commit) -> Start | None:
    """The state in ``<version>.crc``. One left behind by a commit that lost would name another transaction."""
    file = storage.read(f"{LOG}{version:020d}.crc", LINE_BYTES)
    try:
        checksum = msgspec.json.decode(file[0], type=dict[str, Any]) if file else {}
    except (msgspec.DecodeError, UnicodeError):
        return None
    if not checksum.get("txnId") or checksum["txnId"] != commit.info.get("txnId"):
        return None
    source, domains = f"checksum of version {version}", checksum.get("domainMetadata")
    try:
        protocol = checked("protocol", checksum.get("protocol"), source)
        metadata = checked("metaData", checksum.get("metadata"), source)
        columns_of(str(metadata.get("schemaString")))
        if not isinstance(domains, list):
            if "domainMetadata" in as_features(protocol)[1]:
                return None
            domains = []
        domains = [checked("domainMetadata", domain, source) for domain in domains]
    except (UnsupportedTable, Unreadable):
        return None
    return Start(version, protocol, metadata, apply_domains({}, domains), source)


def _replayed(storage: LogStorage, start: Start | None, after: range, commits: dict[int, Commit]) -> Start | None:
    """``start`` with the commits ``after`` it applied; None when protocol or metadata never appeared."""
    force = InForce(start)
    for version in after:
        commit = commits.get(version) or read_commit(storage, version)
        for name, body in (("protocol", commit.protocol), ("metaData", commit.metadata)):
            if body is not None:
                force.apply(name, body, commit.where)
        for body in commit.domains:
            force.apply("domainMetadata", body, commit.where)
    force.check()
    if not {"protocol", "metaData"} <= force.actions.keys():
        return None
    domains = apply_domains(start.domains if start else {}, force.of_kind("domainMetadata"))
    source = start.source if start else "commits since version 0"
    return Start(after.stop - 1, force.actions["protocol"], force.actions["metaData"], domains, source)


def _no_start(files: LogFiles, latest: int) -> UnsupportedTable:
    """Why no state of ``latest`` can be read: the versions that it needs are not there, or its checkpoint cannot be read."""
    listing = sizes_of(files)
    gap, first = first_gap(listing, latest), min(files.commits)
    if gap is not None:
        return DamagedLog(missing(gap) if gap > first else late(first))
    if not files.checkpoints:
        return broken("it has no protocol or no metadata")
    if has_parquet():
        newest = max(files.checkpoints)
        names = ", ".join(sorted(listing.checkpoints[newest]))
        return broken(f"no checkpoint can be read; the newest is of version {newest} ({names})")
    return UnsupportedTable(
        "the table's protocol and metadata are only in a Parquet checkpoint, which cannot be read here",
        field="location",
        remedy="let Spark commit to the table once (it writes a version checksum, which can be read), or run the "
        "import where pyarrow is installed",
    )


def has_parquet() -> bool:
    """Whether Parquet files can be read here."""
    try:
        importlib.import_module("pyarrow.parquet")
    except ImportError:
        return False
    return True


def listed(storage: LogStorage, *, first: int = 0) -> LogFiles:
    """All files of the log, or those of versions from ``first`` on; one listing."""
    files, after = LogFiles({}, {}, {}), f"{LOG}{first - 1:020d}~" if first else ""
    for stat in storage.list(LOG, after):
        name = stat.path.removeprefix(LOG)
        match = _NAME.fullmatch(name)
        if match is None:
            if compaction := _COMPACTED.fullmatch(name):
                files.compactions[int(compaction[1]), int(compaction[2])] = stat
            continue
        version = int(match[1])
        if match[2] == "json":
            files.commits[version] = stat
        elif match[2] == "crc":
            files.checksums[version] = stat
        else:
            files.checkpoints.setdefault(version, []).append(stat)
    return files


def read_commit(storage: LogStorage, version: int) -> Commit:
    """One commit of the log, however it was written. Raises UnsupportedTable if its file is missing or no Delta commit."""
    path = published_path(version)
    file = storage.read(path, PIECE_BYTES)
    if file is None:
        raise DamagedLog(missing(version))
    commit = Commit(f"version {version} ({path})", domains=[])
    for name, body in actions_of_lines(commit_lines(pieces_of(storage, path, *file), version), where_of(version)):
        match name:
            case "commitInfo":
                commit.info = body
            case "protocol":
                commit.protocol = body
            case "metaData":
                commit.metadata = body
            case "domainMetadata":
                commit.domains.append(body)
    return commit


class InForce:
    """The actions about the table as a whole that are in force: of each kind, domain or application
    the newest one. Superseded ones are not checked, as in Delta: some writers begin a table with
    invalid metadata.
    """

    def __init__(self, start: Start | None = None) -> None:
        self.actions = dict[str, dict[str, Any]]()
        self._wheres = dict[str, tuple[str, str]]()
        if start is not None:
            self.actions |= {"protocol": start.protocol, "metaData": start.metadata}

    def apply(self, name: str, body: Any, where: str) -> None:
        """Takes the next action; ``where`` says in messages where it is."""
        by = {"domainMetadata": "domain", "txn": "appId"}.get(name)
        key = name if by is None else f"{name}/{body.get(by) if isinstance(body, dict) else body}"
        self.actions[key], self._wheres[key] = body, (name, where)

    def of_kind(self, name: str) -> list[dict[str, Any]]:
        """The newest action of each domain (``domainMetadata``) or application (``txn``)."""
        return [body for key, body in self.actions.items() if key.startswith(f"{name}/")]

    def check(self) -> None:
        """Checks the actions in force, and brings them into one form. Raises UnsupportedTable as
        ``checked``."""
        for key, (name, where) in self._wheres.items():
            self.actions[key] = checked(name, self.actions[key], where)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yields where something is in force that ``check`` refuses, and why."""
        for key, (name, where) in self._wheres.items():
            try:
                checked(name, self.actions[key], where)
            except UnsupportedTable as error:
                yield where, error.message


def checked(name: str, body: Any, where: str) -> dict[str, Any]:
    """``body`` with the members of its action in their types, and accepted variants in one form: a
    property that is null was not set, a domain exists unless it says that it is removed. Raises
    UnsupportedTable for other members.
    """
    try:
        members = msgspec.convert(body, dict[str, Any])
        properties = members.get("configuration")
        if name == "metaData" and isinstance(properties, dict) and None in properties.values():
            members["configuration"] = {key: value for key, value in properties.items() if value is not None}
        if name == "domainMetadata" and members.get("removed") is None:
            members["removed"] = False
        msgspec.convert({member: value for member, value in members.items() if value is not None}, _TYPES[name])
    except msgspec.ValidationError as error:
        raise broken(f"{name} of {where}: {error}") from None
    return members


def actions(pieces: Iterable[bytes], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Actions of newline-delimited JSON, without those about files; a few pieces are in memory at
    once."""
    yield from actions_of_lines(lines(pieces, where), where)


def actions_of_lines(lines: Iterable[bytes], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Actions of some lines, without those about files."""
    for line in lines:
        stripped = line.strip()
        if not stripped or stripped.startswith(_SKIPPED):
            continue
        try:
            parsed = msgspec.json.decode(stripped, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise broken(f"{where} is not readable: {error}") from None
        for name, body in parsed.items():
            if isinstance(body, dict):
                yield name, body


def lines(pieces: Iterable[bytes], where: str) -> Iterator[bytes]:
    """Lines of a log's file, one after the other; raises UnsupportedTable for one that is too long to hold."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield from line.splitlines()
        if len(rest) > LINE_BYTES:
            raise broken(f"{where} has a line of more than {LINE_BYTES} bytes")
    yield from rest.splitlines()


def where_of(version: int) -> str:
    """How messages name a version: by its number and its file."""
    return f"{published_path(version)}: version {version}"


def commit_lines(pieces: Iterable[bytes], version: int, *, info: bool = False) -> Iterator[bytes]:
    """Yields the lines of a commit, without blank ones. Raises DamagedLog for a commit without any,
    and with ``info`` for one whose first line is no commitInfo with an in-commit timestamp."""
    count = 0
    for line in lines(pieces, where_of(version)):
        if not line.strip():
            continue
        if count == 0 and info and not begins_with_info(line):
            raise DamagedLog(damaged(version, NO_INFO))
        count += 1
        yield line
    if count == 0:
        raise DamagedLog(damaged(version, "is empty"))


NO_INFO: Final = "does not begin with a commitInfo that has an in-commit timestamp"


def apply_domains(domains: Mapping[str, str], changes: list[dict[str, Any]]) -> dict[str, str]:
    """Domains after the domainMetadata actions ``changes``."""
    after = dict(domains)
    for change in changes:
        if change.get("removed"):
            after.pop(str(change.get("domain")), None)
        else:
            after[str(change.get("domain"))] = str(change.get("configuration") or "")
    return after


def broken(what: str) -> UnsupportedTable:
    """The refusal of a log that cannot be read."""
    return UnsupportedTable(
        f"the table's log cannot be read: {what}", field="location", remedy=f"if a file is damaged, {BRING_BACK}"
    )


def read_checkpoint(storage: LogStorage, version: int, files: list[Stat]) -> Start | None:
    """The state at ``version``, or None when none of its checkpoints is complete and readable here."""
    for checkpoint in complete_checkpoints({stat.path.removeprefix(LOG): stat.size for stat in files}):
        try:
            start = _state(storage, version, [f"{LOG}{name}" for name in checkpoint.names])
        except (UnsupportedTable, *UNDECODABLE):  # a reader takes another one
            continue
        if start is not None:
            return start
    return None


def _state(storage: LogStorage, version: int, paths: list[str]) -> Start | None:
    actions: list[tuple[str, dict[str, Any]]] = []
    for path in paths:
        rows = table_actions(storage, path)
        if rows is None:
            return None
        actions += [(name, checked(name, body, f"the checkpoint of version {version}")) for name, body in rows]
    protocol = next((body for name, body in actions if name == "protocol"), None)
    metadata = next((body for name, body in actions if name == "metaData"), None)
    if protocol is None or metadata is None:
        return None
    domains = apply_domains({}, [body for name, body in actions if name == "domainMetadata"])
    return Start(version, protocol, metadata, domains, f"checkpoint of version {version}")


def table_actions(
    storage: LogStorage, path: str, names: Iterable[str] = tuple(_WANTED)
) -> list[tuple[str, dict[str, Any]]] | None:
    """The actions of these ``names`` in a checkpoint's file, none of them about files; None if it is gone, or cannot be read
    here."""
    if path.endswith(".json"):
        file = storage.read(path, PIECE_BYTES)
        if file is None:
            return None
        return [(name, body) for name, body in actions(pieces_of(storage, path, *file), path) if name in names]
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        return None
    stat = storage.stat(path)
    if stat is None:
        return None
    source = io.BufferedReader(Ranges(storage, stat))
    with parquet.ParquetFile(source, page_checksum_verification=True) as rows:
        columns = [name for name in names if name in rows.schema_arrow.names]
        return [
            (name, plain(body))
            for batch in rows.iter_batches(columns=columns, use_threads=False)
            for name in columns
            for body in batch.column(name).drop_null().to_pylist()
        ]


class Ranges(io.RawIOBase):
    """A file of a storage that is read where it is asked to be: Parquet's readers skip the columns that they do not need."""

    def __init__(self, storage: LogStorage, stat: Stat) -> None:
        self._storage, self._stat, self._at = storage, stat, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._stat.size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), PIECE_BYTES)
        file = self._storage.read(self._stat.path, size, self._at) if size else None
        if size and (file is None or file[1] != self._stat):
            raise broken(f"{self._stat.path} changed while it was read")
        content = file[0] if file is not None else b""
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def plain(value: Any) -> Any:
    """pyarrow's maps are lists of pairs, also empty ones; members that are null were not there."""
    if isinstance(value, dict):
        members = {name: plain(member) for name, member in value.items() if member is not None}
        return {name: {} if name in _MAPS and not member else member for name, member in members.items()}
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value) and value:
        return {name: plain(member) for name, member in value}
    return [plain(member) for member in value] if isinstance(value, list) else value
