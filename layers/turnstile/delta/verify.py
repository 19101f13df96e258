"""Holds a table's published log against what was ratified. Reads only, a stretch of versions at a time.

For operators, after an incident or a restore, and for audits: ``turnstile verify``. What is compared with what:

    every version from the first that the log still has up to the floor   its commit is there (I4, I5), can be read, and has a
                                                                          later in-commit timestamp than the one before (I7)
    a transaction id                                                      once in the log, and of no other version by the
                                                                          identity index, which keeps 30 days (I2, I3)
    a version whose entry the HEAD still has                              transaction id and in-commit timestamp are the
                                                                          ratified ones; above the floor, all bytes (I2, I4)
    what is published after ``latest``                                    nothing: nobody ratified it (I6)
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final, Literal

import msgspec

from turnstile.delta.commits import ContentChanged, ContentMissing, read_head
from turnstile.delta.core.head import PINNED, Positioned, TableHead, positioned
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.log import listed
from turnstile.delta.sides import Commit, published_as, ratified_from
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import published_path
from turnstile.store.ports import World

Kind = Literal["missing", "unreadable", "timestamp", "transaction", "bytes", "not ratified"]

VERSIONS_MAX: Final = 1_000
"""Versions that one call looks at: a request for each."""


class Deviation(msgspec.Struct, frozen=True):
    """What is wrong with a version of the log; ``message`` says what was expected and what is there."""

    version: int
    kind: Kind
    path: str
    message: str


class Verification(msgspec.Struct, frozen=True):
    """What was found from ``first`` to ``last`` (None: there was nothing to look at). ``next_version`` goes on from here, None at
    the end. ``last_timestamp`` is the in-commit timestamp of ``last``, for the call that goes on."""

    table_id: str
    floor: int
    latest: int
    first: int | None
    last: int | None
    deviations: list[Deviation]
    next_version: int | None
    last_timestamp: int | None


class Verifier:
    """Verifies tables; changes nothing."""

    def __init__(self, world: World, limits: Limits | None = None) -> None:
        self._world = world
        days = (limits or Limits()).identity_days
        self._identities = IdentityIndex(world.objs, world.space, world.clock, days)

    def verify(
        self, table_id: str, from_version: int = 0, after_timestamp: int | None = None, *, until_ms: int | None = None
    ) -> Verification:
        """Looks at up to ``VERSIONS_MAX`` versions from ``from_version`` on, fewer where ``until_ms`` comes first.

        ``from_version`` and ``after_timestamp`` are ``next_version`` and ``last_timestamp`` of the call before, or nothing. What a
        table commits, publishes and lets expire meanwhile is no deviation. Raises NotFound and StorageFault.
        """
        before = read_head(self._world, table_id)
        there = listed(self._world.storages.open(before.location), first=from_version).commits
        head = read_head(self._world, table_id)  # what was listed had been ratified by then
        oldest = min(there, default=before.floor)  # clean-up leaves the newest
        begin = from_version if after_timestamp is not None else max(from_version, oldest)
        end = before.floor if head.state == PINNED else max(before.floor, *there, -1)
        stretch = _Stretch(self._world, head, before.floor, there, after_timestamp)
        for version in range(begin, min(end, begin + VERSIONS_MAX - 1) + 1):
            if version > begin and until_ms is not None and self._world.clock.now_ms() >= until_ms:
                break
            stretch.look(version)
        stretch.compare(self._identities.versions_of(head.catalog, table_id, stretch.transactions))
        last = stretch.last
        return Verification(
            table_id=table_id,
            floor=before.floor,
            latest=head.latest,
            first=None if last is None else begin,
            last=last,
            deviations=sorted(stretch.deviations, key=lambda deviation: deviation.version),
            next_version=last + 1 if last is not None and last < end else None,
            last_timestamp=stretch.timestamp,
        )


class _Stretch:
    """The versions that one call looks at. ``there`` are the commits that were listed; ``floor`` is that of before the listing."""

    def __init__(self, world: World, head: TableHead, floor: int, there: Container[int], timestamp: int | None) -> None:
        self._world, self._storage = world, world.storages.open(head.location)
        self._head, self._floor, self._there = head, floor, there
        self._places = {place.version: place for place in positioned(head)}
        self.timestamp = timestamp
        self.last: int | None = None
        self._oldest: int | None = None
        self.transactions: dict[str, int] = {}
        self.deviations: list[Deviation] = []

    def look(self, version: int) -> None:
        """Looks at one version. Raises StorageFault."""
        self.last = version
        if version not in self._there:
            if version <= self._floor and not self._expired(version):
                self._add(version, "missing", "it was published, and is not in the log")
            return
        ahead, place = version > self._floor, self._places.get(version)
        commit = published_as(self._storage, version, digest=ahead)
        if commit.path is None:
            if not self._expired(version):
                self._add(version, "missing", "it was in the log, and is gone")
            return
        if version > self._head.latest:
            self._add(version, "not ratified", f"the table's latest version is {self._head.latest}")
            return
        if place is not None:
            (self._compare_bytes if ahead else self._compare_entry)(place, commit)
        self._compare_before(commit, ratified=version > self._head.first)

    def compare(self, versions: Mapping[str, int]) -> None:
        """Compares the transactions with the ``versions`` that the identity index has of them."""
        for txn, version in self.transactions.items():
            if versions.get(txn, version) != version:
                self._add(version, "transaction", f"its transaction {txn} was ratified as version {versions[txn]}")

    def _compare_before(self, commit: Commit, *, ratified: bool) -> None:
        """Compares a commit with those before it; of those that were not ratified here, some have no timestamp or transaction id."""
        version, timestamp, txn = commit.version, commit.in_commit_timestamp, commit.txn_id
        if ratified and (timestamp is None or txn is None):
            self._add(version, "unreadable", "its first line is no commitInfo with txnId and inCommitTimestamp")
        if timestamp is not None:
            if self.timestamp is not None and timestamp <= self.timestamp:
                before = f"that of the version before it, {self.timestamp}"
                self._add(version, "timestamp", f"its in-commit timestamp {timestamp} is not later than {before}")
            self.timestamp = timestamp
        if txn is not None and self.transactions.setdefault(txn, version) != version:
            self._add(version, "transaction", f"its transaction {txn} is version {self.transactions[txn]} already")

    def _compare_entry(self, place: Positioned, commit: Commit) -> None:
        ratified = (place.entry.txn, place.ict)
        if (commit.txn_id, commit.in_commit_timestamp) != ratified:
            there = f"{commit.txn_id} at {commit.in_commit_timestamp}"
            text = f"ratified was the transaction {ratified[0]} with the in-commit timestamp {ratified[1]}, the log has {there}"
            self._add(place.version, "bytes", text)

    def _compare_bytes(self, place: Positioned, commit: Commit) -> None:
        try:
            ratified = ratified_from(self._world, self._head, place)
        except (ContentMissing, ContentChanged) as fault:
            self._add(place.version, "bytes", f"it cannot be compared with what was ratified: {fault.message}")
            return
        if (ratified.size, ratified.digest) != (commit.size, commit.digest):
            text = f"ratified were {ratified.size} bytes with digest {ratified.digest}, the log has {commit.size} with {commit.digest}"
            self._add(place.version, "bytes", text)

    def _expired(self, version: int) -> bool:
        """Whether the log let a version expire meanwhile: no commit before it is there either."""
        if self._oldest is None:
            self._oldest = min(listed(self._storage).commits, default=version)
        return self._oldest > version

    def _add(self, version: int, kind: Kind, message: str) -> None:
        self.deviations.append(Deviation(version, kind, published_path(version), message))
