"""Compares a table's published log with the ratified commits. Reads only, a stretch of versions at
a time.

For operators, after an incident or a restore, and for audits: ``turnstile verify``. The
comparisons:

    every version from the log's first one up to the floor    its commit is there (I4, I5), can be
                                                              read, and has a
                                                              later in-commit timestamp than the one
                                                              before (I7)
    a transaction id                                          once in the log, and of no other
                                                              version by the
                                                              identity index, which has 30 days (I2,
                                                              I3)
    a version whose entry the HEAD still has                  transaction id, in-commit timestamp,
                                                              size and digest are
                                                              the ratified ones, as far as the entry
                                                              has them; above
                                                              the floor, all bytes (I2, I4)
    versions published after ``latest``                       none: they were never ratified (I6)
    the log itself                                            it can be read: by
                                                              ``delta.soundness.judge`` (I24): it
                                                              is there, begins at version 0 or at a
                                                              checkpoint that is
                                                              whole, each commit is read to its end,
                                                              and each
                                                              checkpoint, all of its pages

Files that were not checked are named: a checkpoint of more than ``judge.CHECKPOINT_BYTES``, and
Parquet where it cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from turnstile.delta.commits import ContentChanged, ContentMissing, read_head, unpack
from turnstile.delta.core.head import PINNED, PlacedCommit, TableHead, digest_of, final_bytes, tail_by_version
from turnstile.delta.core.soundness import Fault, checkpoint_file_faults, late_fault, pointer_fault, size_fault
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.log.files import LogFiles, list_log, sizes_of
from turnstile.delta.log.in_force import InForce
from turnstile.delta.sides import Commit, published_as, ratified_from
from turnstile.delta.soundness.checkpoints import NotJudged, judge_checkpoint, pointed_in
from turnstile.delta.soundness.judge import expired_upto, folder_fault, ratified_sizes, read_facts
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import published_path
from turnstile.store.ports import World

Kind = Literal[
    "missing", "unreadable", "timestamp", "transaction", "bytes", "not ratified", "gone", "begins late", "checkpoint"
]
_KINDS: Final[dict[str, Kind]] = {
    "gone": "gone",
    "missing": "missing",
    "damaged": "unreadable",
    "begins late": "begins late",
    "checkpoint": "checkpoint",
}

VERSIONS_MAX: Final = 1_000
"""Versions that one call looks at: a request for each, and more for a commit of more than a
piece."""


class Deviation(msgspec.Struct, frozen=True):
    """A fault of a version of the log; ``message`` says the expected and the found state,
    ``remedy`` the advice (None: ask for a diagnosis)."""

    version: int
    kind: Kind
    path: str
    message: str
    remedy: str | None = None


class Verification(msgspec.Struct, frozen=True):
    """The findings from ``first`` to ``last`` (None: there was nothing to check). ``next_version``
    is the start of the next call, None at the end. ``last_timestamp`` is the in-commit timestamp of
    ``last``, for the next call. ``not_judged``: files that were not read whole; a log with some is
    not known to be sound.
    """

    table_id: str
    floor: int
    latest: int
    first: int | None
    last: int | None
    deviations: list[Deviation]
    next_version: int | None
    last_timestamp: int | None
    not_judged: list[NotJudged] = []


class Verifier:
    """Verifies tables; changes nothing."""

    def __init__(self, world: World, limits: Limits | None = None) -> None:
        self._world = world
        days = (limits or Limits()).identity_days
        self._identities = IdentityIndex(world.objs, world.space, world.clock, days)

    def verify(
        self, table_id: str, from_version: int = 0, after_timestamp: int | None = None, *, until_ms: int | None = None
    ) -> Verification:
        """Checks up to ``VERSIONS_MAX`` versions from ``from_version`` on, fewer if ``until_ms``
        comes first.

        ``from_version`` and ``after_timestamp`` are ``next_version`` and ``last_timestamp`` of the
        call before, or nothing. Versions that a table commits, publishes and lets expire meanwhile
        are no deviation. Raises NotFound and StorageFault.
        """
        before = read_head(self._world, table_id)
        files = list_log(self._world.storages.open(before.location), first=from_version)
        there = files.commits
        head = read_head(self._world, table_id)  # what was listed had been ratified by then
        oldest = min(there, default=before.floor)  # clean-up leaves the newest
        begin = from_version if after_timestamp is not None else max(from_version, oldest)
        end = before.floor if head.state == PINNED else max(before.floor, *there, -1)
        stretch = _Stretch(self._world, head, before.floor, files, after_timestamp)
        if after_timestamp is None:
            stretch.look_at_listing(all=from_version == 0)
        for version in range(begin, min(end, begin + VERSIONS_MAX - 1) + 1):
            if version > begin and until_ms is not None and self._world.clock.now_ms() >= until_ms:
                break
            stretch.look(version)
            stretch.look_at_checkpoint(version)
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
            not_judged=stretch.not_judged,
        )


class _Stretch:
    """The versions that one call looks at. ``there`` are the commits that were listed; ``floor`` is
    that of before the listing."""

    def __init__(self, world: World, head: TableHead, floor: int, files: LogFiles, timestamp: int | None) -> None:
        self._world = world
        self._storage = world.storages.open(head.location)
        self._head = head
        self._floor = floor
        self._files = files
        self._there = files.commits
        self._ratified = ratified_sizes(head)
        self._places = {place.version: place for place in tail_by_version(head)}
        self.timestamp = timestamp
        self.last: int | None = None
        self._oldest: int | None = None
        self._is_gone = False
        self.transactions: dict[str, int] = {}
        self.deviations: list[Deviation] = []
        self.not_judged: list[NotJudged] = []

    def look_at_listing(self, *, all: bool) -> None:
        """Looks for a log that is gone, or begins late; with ``all`` the listing has the whole log.
        Raises StorageFault."""
        fault = folder_fault(self._storage, self._floor)
        if fault is not None:
            self._is_gone = True
            self._add_fault(fault)
        elif all:
            sizes = sizes_of(self._files)
            expired = expired_upto(self._world, self._head) if min(sizes.commits, default=0) > 0 else None
            found = (
                late_fault(sizes, self._floor, expired),
                pointer_fault(sizes, self._floor, pointed_in(self._storage)),
            )
            for fault in found:
                if fault is not None:
                    self._add_fault(fault)

    def look_at_checkpoint(self, version: int) -> None:
        """Looks at the checkpoints of a version. Raises StorageFault."""
        if version > self._floor or version not in self._files.checkpoints:
            return
        sizes = sizes_of(self._files).checkpoints[version]
        judgement = judge_checkpoint(self._storage, version, self._files)
        for fault in (*checkpoint_file_faults(version, sizes), *judgement.faults):
            if self._storage.stat(fault.path) is not None or not self._has_expired(version):
                self._add_fault(fault)
        self.not_judged += judgement.not_judged

    def look(self, version: int) -> None:
        """Looks at one version. Raises StorageFault."""
        self.last = version
        if self._is_gone:
            return
        if version not in self._there:
            if version <= self._floor and not self._has_expired(version):
                self._add(version, "missing", "it was published, and is not in the log")
            return
        ahead = version > self._floor
        place = self._places.get(version)
        known = 0 if place is None else _digest_of(place)
        commit = published_as(self._storage, version, digest=ahead or known > 0)
        if commit.path is None:
            if not self._has_expired(version):
                self._add(version, "missing", "it was in the log, and is gone")
            return
        if version > self._head.latest:
            self._add(version, "not ratified", f"the table's latest version is {self._head.latest}")
            return
        ratified = version > self._head.first
        if place is not None:
            (self._compare_bytes if ahead else self._compare_entry)(place, commit)
        # What others wrote before the catalog decided may be superseded: it is judged where it is
        # in force.
        facts = read_facts(self._storage, version, None if version >= self._head.first else InForce())
        fault = size_fault(version, commit.size or 0, self._ratified.get(version)) or facts.fault
        known = bool(self.deviations) and self.deviations[-1].version == version
        if fault is not None and not known:
            self._add_fault(fault)
        self._compare_before(commit, ratified=ratified and fault is None)

    def compare(self, versions: Mapping[str, int]) -> None:
        """Compares the transactions with the ``versions`` that the identity index has of them."""
        for txn, version in self.transactions.items():
            if versions.get(txn, version) != version:
                self._add(version, "transaction", f"its transaction {txn} was ratified as version {versions[txn]}")

    def _compare_before(self, commit: Commit, *, ratified: bool) -> None:
        """Compares a commit with the commits before it; some commits that were not ratified here
        have no timestamp or transaction id."""
        version = commit.version
        timestamp = commit.in_commit_timestamp
        txn = commit.txn_id
        if ratified and (timestamp is None or txn is None):
            self._add(version, "unreadable", "its first line is no commitInfo with txnId and inCommitTimestamp")
        if timestamp is not None:
            if self.timestamp is not None and timestamp <= self.timestamp:
                before = f"that of the version before it, {self.timestamp}"
                self._add(version, "timestamp", f"its in-commit timestamp {timestamp} is not later than {before}")
            self.timestamp = timestamp
        if txn is not None and self.transactions.setdefault(txn, version) != version:
            self._add(version, "transaction", f"its transaction {txn} is version {self.transactions[txn]} already")

    def _compare_entry(self, place: PlacedCommit, commit: Commit) -> None:
        ratified = (place.entry.txn, place.ict)
        if (commit.txn_id, commit.in_commit_timestamp) != ratified:
            there = f"{commit.txn_id} at {commit.in_commit_timestamp}"
            text = (
                f"ratified was the transaction {ratified[0]} with the in-commit timestamp {ratified[1]}, the log has "
                f"{there}"
            )
            self._add(place.version, "bytes", text)
        elif commit.digest is not None and int(commit.digest, 16) != _digest_of(place):
            text = (
                f"ratified were bytes with digest {_digest_of(place):016x}, the log has {commit.size} with "
                f"{commit.digest}"
            )
            self._add(place.version, "bytes", text)

    def _compare_bytes(self, place: PlacedCommit, commit: Commit) -> None:
        try:
            ratified = ratified_from(self._world, self._head, place)
        except (ContentMissing, ContentChanged) as fault:
            self._add(place.version, "bytes", f"it cannot be compared with the ratified commits: {fault.message}")
            return
        if (ratified.size, ratified.digest) != (commit.size, commit.digest):
            text = (
                f"ratified were {ratified.size} bytes with digest {ratified.digest}, the log has {commit.size} with "
                f"{commit.digest}"
            )
            self._add(place.version, "bytes", text)

    def _has_expired(self, version: int) -> bool:
        """Whether the log let a version expire meanwhile: no commit before it is there either."""
        if self._oldest is None:
            self._oldest = min(list_log(self._storage).commits, default=version)
        return self._oldest > version

    def _add_fault(self, fault: Fault) -> None:
        self.deviations.append(Deviation(fault.version, _KINDS[fault.kind], fault.path, fault.message, fault.remedy))

    def _add(self, version: int, kind: Kind, message: str) -> None:
        self.deviations.append(Deviation(version, kind, published_path(version), message))


def _digest_of(place: PlacedCommit) -> int:
    """The digest of the ratified bytes of a version, by its entry; 0 if the entry has neither them
    nor a digest."""
    if place.entry.data:
        return digest_of(final_bytes(place, unpack(place.entry.data)))
    return place.entry.digest
