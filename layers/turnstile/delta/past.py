"""The version that a table had at a moment of the past, by in-commit timestamps (Delta protocol,
"In-Commit Timestamps").

They grow with the versions, so the version is searched by halves: in the tail of the HEAD without a
request, and below it among the published commits, with one read for each half, of a commit's first
action.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.delta.commits import pieces_of
from turnstile.delta.core.head import TableHead, tail_by_version
from turnstile.delta.log.lines import actions, lines
from turnstile.store.core.errors import NotFound, UnsupportedTable
from turnstile.store.core.names import published_path
from turnstile.store.ports import LogStorage, World

FIRST_BYTES: Final = 4096
"""Bytes that are read of a commit at first: its commitInfo is in them, unless it is a long one."""


class AtMoment(msgspec.Struct, frozen=True):
    """The latest ``version`` at a moment, and its in-commit ``timestamp`` (ms)."""

    version: int
    timestamp: int


def version_at(world: World, head: TableHead, at_ms: int) -> AtMoment:
    """Returns the latest version of a table with an in-commit timestamp of ``at_ms`` or less. About
    log2 of its versions in sequential reads of storage; none for a version in the tail of the HEAD.

    A later commit may still get such a timestamp while the table's latest has one: an engine
    proposes it by its own clock.

    Raises:
        NotFound: the table is younger than that, or its log does not go back so far.
        UnsupportedTable: at that moment it had no in-commit timestamps yet, or the log cannot be
            read.
    """
    if head.last_ict <= at_ms:
        return AtMoment(head.latest, head.last_ict)
    for place in reversed(tail_by_version(head)):
        if place.ict <= at_ms:
            return AtMoment(place.version, place.ict)
    return _published_at(world.storages.open(head.location), head, at_ms)


def _published_at(storage: LogStorage, head: TableHead, at_ms: int) -> AtMoment:
    """As ``version_at``, among the versions before the tail. Cleaned-up versions are the oldest
    ones, and versions without a timestamp come before all others: both are before the range of the
    search.
    """
    # versions from high on are later than the moment; those before low are not
    low = 0
    high = head.tail_from
    latest: AtMoment | None = None  # what version low - 1 says
    while low < high:
        middle = (low + high) // 2
        _, timestamp = _timestamp(storage, middle)
        if timestamp is not None and timestamp > at_ms:
            high = middle
        else:
            low = middle + 1
            latest = None if timestamp is None else AtMoment(middle, timestamp)
    if latest is not None:
        return latest
    if low > 0 and _timestamp(storage, low - 1)[0]:
        problem = f"at {at_ms} (ms), at version {low - 1}, {head.name} had no in-commit timestamps yet"
        raise UnsupportedTable(problem, field="at_ms", remedy="name a later moment, or read it by version")
    remedy = "name a later moment: the table is younger, or its log is not kept so long"
    raise NotFound("commit", f"{head.name} at {at_ms} (ms)", field="at_ms", remedy=remedy)


def _timestamp(storage: LogStorage, version: int) -> tuple[bool, int | None]:
    """Whether the file of a published commit is there, and its in-commit timestamp, if its first
    action has one."""
    path = published_path(version)
    file = storage.read(path, FIRST_BYTES)
    if file is None:
        return False, None
    where = f"version {version}"
    first = next(lines(pieces_of(storage, path, *file), where), b"")
    for name, body in actions([first], where):
        timestamp = body.get("inCommitTimestamp") if name == "commitInfo" else None
        return True, timestamp if type(timestamp) is int else None
    return True, None
