"""The state of a table at a version: protocol, metadata, domains and timestamps. File actions are
not read.

A state is built from the newest start that can be read, and the commits after it:

    checksum     ``<v>.crc``, if it names the same transaction as ``<v>.json`` (Delta protocol,
                 "Version Checksum File")
    checkpoint   JSON, or Parquet where pyarrow can be imported (Delta protocol, "Checkpoints":
                 protocol, metaData and domainMetadata are in the checkpoint's own files, never in
                 sidecars)
    nothing      version 0, if the log still goes back so far

A start that is cut, empty or cannot be decoded is skipped, as Delta's readers do.
``turnstile.delta.core.soundness`` has the rules for commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from turnstile.delta.core.protocols import as_features
from turnstile.delta.core.schemas import Unreadable, columns_of
from turnstile.delta.core.segments import complete_checkpoints
from turnstile.delta.core.soundness import first_gap, late, missing
from turnstile.delta.log.files import Commit, LogFiles, list_log, read_commit, sizes_of
from turnstile.delta.log.in_force import InForce, Start, apply_domains, typed_action
from turnstile.delta.log.lines import LINE_BYTES, DamagedLog, broken
from turnstile.delta.log.parquet import UNDECODABLE, has_parquet, table_actions
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import LOG
from turnstile.store.ports import LogStorage, Stat

CHECKSUMS_TRIED: Final = 3


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


def read_state(storage: LogStorage, location: str, upto: int | None = None) -> LogState:
    """Returns the state of the table at ``location``: the latest, or that of version ``upto``.
    Raises UnsupportedTable for no Delta table, a gap in its log, or only Parquet checkpoints that
    cannot be read here; DamagedLog where the commit ``upto`` is not in the log: the one before it
    may have another definition.
    """
    files = list_log(storage) if upto is None else list_log(storage).upto(upto)
    if not files.commits:
        problem = f"there is no Delta table at {location}"
        raise UnsupportedTable(problem, field="location", remedy="give the folder that holds _delta_log")
    latest = max(files.commits)
    if upto is not None and latest < upto:
        raise DamagedLog(missing(upto))
    commits: dict[int, Commit] = {latest: read_commit(storage, latest)}
    for start in _starts(storage, files, commits[latest], latest):
        after = range(start.version + 1 if start else 0, latest + 1)
        if any(version not in files.commits for version in after):
            continue
        state = _replay(storage, start, after, commits)
        if state is not None:
            info = commits[latest].info
            modified_ms = files.commits[latest].modified_ms
            count = len(files.commits)
            protocol = state.protocol
            metadata = state.metadata
            domains = state.domains
            return LogState(latest, protocol, metadata, domains, info, modified_ms, count, state.source)
    raise _no_start(files, latest)


def _starts(storage: LogStorage, files: LogFiles, newest: Commit, latest: int) -> Iterator[Start | None]:
    """Starts to try, the one with the least to read after it first; None is the empty table before
    version 0."""
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
    """The state in ``<version>.crc``. One left behind by a commit that lost would name another
    transaction."""
    file = storage.read(f"{LOG}{version:020d}.crc", LINE_BYTES)
    try:
        checksum = msgspec.json.decode(file[0], type=dict[str, Any]) if file else {}
    except (msgspec.DecodeError, UnicodeError):
        return None
    if not checksum.get("txnId") or checksum["txnId"] != commit.info.get("txnId"):
        return None
    source = f"checksum of version {version}"
    domains = checksum.get("domainMetadata")
    try:
        protocol = typed_action("protocol", checksum.get("protocol"), source)
        metadata = typed_action("metaData", checksum.get("metadata"), source)
        columns_of(str(metadata.get("schemaString")))
        if not isinstance(domains, list):
            if "domainMetadata" in as_features(protocol)[1]:
                return None
            domains = []
        domains = [typed_action("domainMetadata", domain, source) for domain in domains]
    except (UnsupportedTable, Unreadable):
        return None
    return Start(version, protocol, metadata, apply_domains({}, domains), source)


def _replay(storage: LogStorage, start: Start | None, after: range, commits: dict[int, Commit]) -> Start | None:
    """``start`` with the commits ``after`` it applied; None when protocol or metadata never
    appeared."""
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
    """Why no state of ``latest`` can be read: the versions that it needs are not there, or its
    checkpoint cannot be read."""
    listing = sizes_of(files)
    gap = first_gap(listing, latest)
    first = min(files.commits)
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


def read_checkpoint(storage: LogStorage, version: int, files: list[Stat]) -> Start | None:
    """The state at ``version``, or None when none of its checkpoints is complete and readable
    here."""
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
        actions += [(name, typed_action(name, body, f"the checkpoint of version {version}")) for name, body in rows]
    protocol = next((body for name, body in actions if name == "protocol"), None)
    metadata = next((body for name, body in actions if name == "metaData"), None)
    if protocol is None or metadata is None:
        return None
    domains = apply_domains({}, [body for name, body in actions if name == "domainMetadata"])
    return Start(version, protocol, metadata, domains, f"checkpoint of version {version}")
