"""The files of a log: its listing, and one commit."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from turnstile.delta.commits import pieces_of
from turnstile.delta.core.soundness import Listing, missing
from turnstile.delta.log.lines import DamagedLog, actions_of_lines, commit_lines, where_of
from turnstile.store.core.names import LOG, published_path
from turnstile.store.ports import PIECE_BYTES, LogStorage, Stat

_NAME: Final = re.compile(r"(\d{20})\.(json|crc|checkpoint\..+)")

_COMPACTED: Final = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")


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


class Commit(msgspec.Struct):
    """The actions of one commit that concern the table as a whole, unchecked: only actions in force
    are checked (``typed_action``). ``where`` names the commit in messages."""

    where: str
    info: dict[str, Any] = {}
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    domains: list[dict[str, Any]] = []


def list_log(storage: LogStorage, *, first: int = 0) -> LogFiles:
    """All files of the log, or only files of versions from ``first`` on; one listing."""
    files = LogFiles({}, {}, {})
    after = f"{LOG}{first - 1:020d}~" if first else ""
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


def sizes_of(files: LogFiles) -> Listing:
    """The sizes of the files of a log that was listed."""
    checkpoints = {
        version: {stat.path.removeprefix(LOG): stat.size for stat in stats}
        for version, stats in files.checkpoints.items()
    }
    return Listing({version: stat.size for version, stat in files.commits.items()}, checkpoints)


def read_commit(storage: LogStorage, version: int) -> Commit:
    """One commit of the log, however it was written. Raises UnsupportedTable if its file is missing
    or no Delta commit."""
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
