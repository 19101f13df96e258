"""Lines and actions of a log's files, and the errors of a file that is invalid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from turnstile.delta.core.soundness import BRING_BACK, Fault, begins_with_info, damage_at
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import published_path

LINE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the longest line of a log, and of a checksum, that is held."""

NO_INFO: Final = "does not begin with a commitInfo that has an in-commit timestamp"

_SKIPPED: Final = (b'{"add"', b'{"remove"', b'{"cdc"')


class DamagedLog(UnsupportedTable):
    """A file of the log is invalid: ``fault`` names it, ``details`` has its ``path`` and
    ``version``."""

    def __init__(self, fault: Fault) -> None:
        message = f"the table's log cannot be read: {fault.message}"
        super().__init__(message, field="location", remedy=fault.remedy, path=fault.path, version=fault.version)
        self.fault = fault


def broken(what: str) -> UnsupportedTable:
    """The refusal of a log that cannot be read."""
    return UnsupportedTable(
        f"the table's log cannot be read: {what}", field="location", remedy=f"if a file is damaged, {BRING_BACK}"
    )


def where_of(version: int) -> str:
    """How messages name a version: by its number and its file."""
    return f"{published_path(version)}: version {version}"


def lines(pieces: Iterable[bytes], where: str) -> Iterator[bytes]:
    """Lines of a log's file, one after the other; raises UnsupportedTable for one that is too long
    to hold."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield from line.splitlines()
        if len(rest) > LINE_BYTES:
            raise broken(f"{where} has a line of more than {LINE_BYTES} bytes")
    yield from rest.splitlines()


def commit_lines(pieces: Iterable[bytes], version: int, *, info: bool = False) -> Iterator[bytes]:
    """Yields the lines of a commit, without blank ones. Raises DamagedLog for a commit without any,
    and with ``info`` for one that does not begin with a commitInfo with an in-commit timestamp."""
    count = 0
    for line in lines(pieces, where_of(version)):
        if not line.strip():
            continue
        if count == 0 and info and not begins_with_info(line):
            raise DamagedLog(damage_at(version, NO_INFO))
        count += 1
        yield line
    if count == 0:
        raise DamagedLog(damage_at(version, "is empty"))


def actions(pieces: Iterable[bytes], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Actions of newline-delimited JSON, without actions about files; a few pieces are in memory at
    once."""
    yield from actions_of_lines(lines(pieces, where), where)


def actions_of_lines(lines: Iterable[bytes], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Actions of some lines, without actions about files."""
    for line in lines:
        stripped = line.strip()
        if not stripped or stripped.startswith(_SKIPPED):
            continue
        yield from parse_line(stripped, where).items()


def parse_line(line: bytes, where: str) -> dict[str, dict[str, Any]]:
    """The actions of a line by their names, without null ones. Raises UnsupportedTable."""
    try:
        parsed = msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise broken(f"{where} is not readable: {error}") from None
    return {name: body for name, body in parsed.items() if isinstance(body, dict)}
