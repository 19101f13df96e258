"""From the log's files to the table's state, with as few reads as the log allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from turnstile.delta.checkpoints import read_checkpoint
from turnstile.delta.core.protocols import as_features
from turnstile.delta.log_state import (
    CHECKSUMS_TRIED,
    Commit,
    LogFiles,
    LogState,
    Start,
    apply_domains,
    broken,
    listed,
    read_commit,
)
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.ports import LogStorage


def read_state(storage: LogStorage, location: str, upto: int | None = None) -> LogState:
    """The state of the table at ``location``: the latest, or that of version ``upto``.

    Raises:
        UnsupportedTable: no Delta table, a gap in its log, or only Parquet checkpoints that cannot be read here.
    """
    files = listed(storage) if upto is None else listed(storage).upto(upto)
    if not files.commits:
        raise UnsupportedTable(
            f"there is no Delta table at {location}", field="location", remedy="give the folder that holds _delta_log"
        )
    latest = max(files.commits)
    commits: dict[int, Commit] = {latest: read_commit(storage, latest)}
    for start in _starts(storage, files, commits[latest], latest):
        after = range(start.version + 1 if start else 0, latest + 1)
        if any(version not in files.commits for version in after):
            continue
        state = _replayed(storage, start, after, commits)
        if state is not None:
            return LogState(
                version=latest,
                protocol=state.protocol,
                metadata=state.metadata,
                domains=state.domains,
                info=commits[latest].info,
                modified=files.commits[latest].modified,
                commits=len(files.commits),
                source=state.source,
            )
    raise _no_start(files, latest)


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
    found = storage.read(f"_delta_log/{version:020d}.crc")
    try:
        said = msgspec.json.decode(found[0], type=dict[str, Any]) if found else {}
    except (msgspec.DecodeError, UnicodeError):
        return None
    protocol, metadata = said.get("protocol"), said.get("metadata")
    if not isinstance(protocol, dict) or not isinstance(metadata, dict):
        return None
    if not said.get("txnId") or said["txnId"] != commit.info.get("txnId"):
        return None
    domains = said.get("domainMetadata")
    if not isinstance(domains, list):
        if "domainMetadata" in as_features(protocol)[1]:
            return None
        domains = []
    return Start(version, protocol, metadata, apply_domains({}, domains), f"checksum of version {version}")


def _replayed(storage: LogStorage, start: Start | None, after: range, commits: dict[int, Commit]) -> Start | None:
    """``start`` with the commits ``after`` it applied; None when protocol or metadata never appeared."""
    protocol = start.protocol if start else None
    metadata = start.metadata if start else None
    domains = start.domains if start else {}
    for version in after:
        commit = commits.get(version) or read_commit(storage, version)
        protocol, metadata = commit.protocol or protocol, commit.metadata or metadata
        domains = apply_domains(domains, commit.domains)
    if protocol is None or metadata is None:
        return None
    return Start(after.stop - 1, protocol, metadata, domains, start.source if start else "commits since version 0")


def _no_start(files: LogFiles, latest: int) -> UnsupportedTable:
    missing = next((version for version in range(latest, -1, -1) if version not in files.commits), None)
    if missing is None or not files.checkpoints:
        return broken(f"version {missing} is missing" if missing is not None else "it has no protocol or no metadata")
    return UnsupportedTable(
        "the table's protocol and metadata are only in a Parquet checkpoint, which cannot be read here",
        field="location",
        remedy="let Spark commit to the table once (it writes a version checksum, which can be read), or run the "
        "import where pyarrow is installed",
    )
