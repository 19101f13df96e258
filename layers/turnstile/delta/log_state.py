"""What a Delta table's ``_delta_log`` says now: protocol, metadata, domains, timestamps. File actions are not looked at.

A state is built from the newest start that can be read, and the commits after it:

    checksum     ``<v>.crc``, if it names the same transaction as ``<v>.json`` (Delta protocol, "Version Checksum File")
    checkpoint   JSON, or Parquet where pyarrow can be imported
    nothing      version 0, if the log still goes back so far
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.paths import LOG, published_path
from turnstile.store.ports import LogStorage, Stat

_NAME: Final = re.compile(r"(\d{20})\.(json|crc|checkpoint\..+)")
_SKIPPED: Final = (b'{"add"', b'{"remove"', b'{"cdc"')
CHECKSUMS_TRIED: Final = 3


class Start(msgspec.Struct, frozen=True):
    """The state at some version, wherever it was read. ``domains`` maps names to configurations."""

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    domains: dict[str, str]
    source: str


class LogState(msgspec.Struct, frozen=True):
    """The state at the latest version.

    ``info`` the latest commit's commitInfo (empty if it has none); ``modified`` its file's modification time (ms);
    ``commits`` how many commit files the log holds; ``source`` what it was read from.
    """

    version: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    domains: dict[str, str]
    info: dict[str, Any]
    modified: int
    commits: int
    source: str

    @property
    def ict(self) -> int | None:
        """In-commit timestamp of the latest version, if it has one."""
        found = self.info.get("inCommitTimestamp")
        return found if type(found) is int else None


class Commit(msgspec.Struct):
    """The actions of one commit that concern the table as a whole."""

    info: dict[str, Any] = {}
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    domains: list[dict[str, Any]] = []


class LogFiles(msgspec.Struct):
    """The log's files by version."""

    commits: dict[int, Stat]
    checksums: dict[int, Stat]
    checkpoints: dict[int, list[Stat]]

    def upto(self, version: int) -> LogFiles:
        """Those of ``version`` and of what came before it."""
        return LogFiles(
            {at: file for at, file in self.commits.items() if at <= version},
            {at: file for at, file in self.checksums.items() if at <= version},
            {at: files for at, files in self.checkpoints.items() if at <= version},
        )


def listed(storage: LogStorage) -> LogFiles:
    """All files of the log; one listing."""
    found = LogFiles({}, {}, {})
    for stat in storage.list(LOG):
        match = _NAME.fullmatch(stat.path.removeprefix(LOG))
        if match is None:
            continue
        version = int(match[1])
        if match[2] == "json":
            found.commits[version] = stat
        elif match[2] == "crc":
            found.checksums[version] = stat
        else:
            found.checkpoints.setdefault(version, []).append(stat)
    return found


def read_commit(storage: LogStorage, version: int) -> Commit:
    """One commit of the log, however it was written.

    Raises:
        UnsupportedTable: the file is missing or no Delta commit.
    """
    found = storage.read(published_path(version))
    if found is None:
        raise broken(f"version {version} is missing")
    commit = Commit(domains=[])
    for name, body in actions(found[0], f"version {version}"):
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


def actions(raw: bytes, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Actions of newline-delimited JSON, without those about files."""
    for line in raw.splitlines():
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
        f"the table's log cannot be read: {what}",
        field="location",
        remedy="check with a Delta reader that the table can be read there",
    )
