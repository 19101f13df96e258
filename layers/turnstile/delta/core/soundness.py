"""The rules of a sound ``_delta_log`` (I24). Pure; ``turnstile.delta.soundness.judge`` collects the
facts.

A log is sound if

    folder        it has a commit at all
    contiguous    every version from its first commit up to the newest published one is there
    begun         its first commit is version 0, or there is a checkpoint of its version, or a
                  clean-up
                  removed the versions before it; and a checkpoint at or after the first commit is
                  whole
    commits       each is of some bytes, each line is an action, and the first is a commitInfo with
                  an
                  in-commit timestamp if the protocol demands one (Delta protocol, "In-Commit
                  Timestamps", "Catalog-managed tables")
    ratified      a commit that the HEAD still has an entry of has the size that was ratified
    checkpoints   all parts and sidecars are there, with their sizes; every page can be read; the
                  count
                  of ``add`` is that of the version checksum, of ``_last_checkpoint`` and of the
                  checkpoint's own tag, as far as they are there; and the checkpoint that
                  ``_last_checkpoint`` names is there

A version can be derived from a sound start (version 0, or a checkpoint) and the sound commits after
it. Nothing is derived from anything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from turnstile.delta.core.pointer import POINTER, Pointed
from turnstile.delta.core.protocols import features
from turnstile.delta.core.segments import complete_checkpoints, parts_with
from turnstile.store.core.names import LOG, published_path

Kind = Literal["gone", "missing", "damaged", "begins late", "checkpoint"]

ENABLED: Final = "delta.enableInCommitTimestamps"
ENABLED_FROM: Final = "delta.inCommitTimestampEnablementVersion"
FAULTS_MAX: Final = 100
"""Versions with a fault that one look at a listing reports."""

BRING_BACK: Final = (
    "bring it back from a backup or an object version, then run 'turnstile verify', which names every file that is "
    "damaged"
)
LOST_CHECKPOINT: Final = (
    "nothing is lost while 'turnstile verify' finds the commits up to it: light work writes a newer one; otherwise "
    "bring it back from a backup or an object version"
)
BRING_FOLDER_BACK: Final = (
    "bring the table's folder back to this location (from a backup, object versions, or where it was moved to); if the "
    "table is lost, drop it"
)
REMOVE_CHECKPOINT: Final = (
    "if 'turnstile verify' finds the versions up to it whole without it, remove the file: an older checkpoint or the "
    "commits say the same; otherwise bring it back from a backup or an object version"
)


class Fault(msgspec.Struct, frozen=True):
    """A fault at a version of a log: the file, and the remedy."""

    version: int
    kind: Kind
    path: str
    message: str
    remedy: str


class Listing(msgspec.Struct, frozen=True):
    """A log as it was listed: sizes in bytes of its commits by version, and of the files of its
    checkpoints by version and name."""

    commits: Mapping[int, int]
    checkpoints: Mapping[int, Mapping[str, int]]


def missing_log(upto: int) -> Fault:
    """The fault of a log without any commit."""
    text = "the table's folder is gone: _delta_log has no commit"
    return Fault(upto, "gone", LOG, text, BRING_FOLDER_BACK)


def missing(version: int) -> Fault:
    """The fault of a published version without its commit."""
    path = published_path(version)
    return Fault(
        version, "missing", path, f"version {version} is missing: {path} was published, and is not there", BRING_BACK
    )


def damage_at(version: int, why: str) -> Fault:
    """The fault of an invalid commit."""
    path = published_path(version)
    return Fault(version, "damaged", path, f"{path} {why}", BRING_BACK)


def checkpoint_fault(version: int, path: str, why: str) -> Fault:
    """The fault of a checkpoint's file."""
    return Fault(version, "checkpoint", path, f"{path} {why}", REMOVE_CHECKPOINT)


def listing_faults(
    listing: Listing,
    upto: int,
    ratified: Mapping[int, int],
    *,
    expired_upto: int | None = None,
    pointed: Pointed | None = None,
) -> list[Fault]:
    """Returns the faults of a log by its listing, up to version ``upto``, which is published.

    Args:
        ratified: the ratified sizes in bytes of versions, as far as they are known.
        expired_upto: the version before which commits may be gone, because a clean-up let them
            expire; None: not known.
        pointed: the checkpoint that ``_last_checkpoint`` names.
    """
    commits = listing.commits
    if not commits:
        return [missing_log(upto)]
    oldest = min(commits)
    faults = list[Fault]()
    for version in range(min(oldest, upto), upto + 1):
        if version not in commits:
            faults.append(missing(version))
        elif fault := size_fault(version, commits[version], ratified.get(version)):
            faults.append(fault)
        if len(faults) == FAULTS_MAX:
            return faults
    if fault := late_fault(listing, upto, expired_upto):
        faults.append(fault)
    if fault := pointer_fault(listing, upto, pointed):
        faults.append(fault)
    for version, sizes in sorted(listing.checkpoints.items()):
        if version <= upto:
            faults += checkpoint_file_faults(version, sizes)
    return sorted(faults, key=lambda fault: fault.version)


def size_fault(version: int, size: int, ratified: int | None) -> Fault | None:
    """The fault of a commit that its size shows; None for none."""
    if size == 0:
        return damage_at(version, "is empty")
    if ratified is not None and size != ratified:
        return damage_at(version, f"has {size} bytes, and was ratified with {ratified}")
    return None


def begins_late(listing: Listing, upto: int) -> bool:
    """Whether no version of the log can be derived as far as the listing shows: it does not begin
    at 0, and has no complete checkpoint at or after its first commit."""
    complete = [version for version, sizes in listing.checkpoints.items() if complete_checkpoints(sizes)]
    first = min(listing.commits, default=0)
    return first > 0 and not any(first <= version <= upto for version in complete)


def late_fault(listing: Listing, upto: int, expired_upto: int | None) -> Fault | None:
    """The fault of a log that begins late; None for none. ``expired_upto`` as for
    ``listing_faults``."""
    if begins_late(listing, upto):
        return late(min(listing.commits))
    oldest = min(listing.commits, default=0)
    if oldest == 0 or expired_upto is None or oldest <= expired_upto:
        return None
    return None if complete_checkpoints(listing.checkpoints.get(oldest, {})) else missing(oldest - 1)


def pointer_fault(listing: Listing, upto: int, pointed: Pointed | None) -> Fault | None:
    """The fault of a log with a ``_last_checkpoint`` that names a missing checkpoint; None for
    none."""
    oldest = min(listing.commits, default=0)
    if pointed is None or not oldest <= pointed.version <= upto or listing.checkpoints.get(pointed.version):
        return None
    path = f"{LOG}{pointed.name or f'{pointed.version:020d}.checkpoint.parquet'}"
    text = f"{POINTER} leads to the checkpoint of version {pointed.version}, and {path} is not there"
    return Fault(pointed.version, "checkpoint", path, text, LOST_CHECKPOINT)


def late(first: int) -> Fault:
    """The fault of a log that begins after version 0 without a checkpoint."""
    path = published_path(first - 1)
    text = (
        f"the log begins at version {first}, and no checkpoint there is complete: {path} and what was before it is "
        f"missing"
    )
    return Fault(first, "begins late", path, text, BRING_BACK)


def checkpoint_file_faults(version: int, sizes: Mapping[str, int]) -> list[Fault]:
    """Returns the faults of a version's checkpoints that names and sizes show: empty files, and
    parts without the other ones."""
    used = {name for checkpoint in complete_checkpoints(sizes) for name in checkpoint.names}
    faults = list[Fault]()
    for name, size in sorted(sizes.items()):
        if size == 0:
            faults.append(checkpoint_fault(version, f"{LOG}{name}", "is empty"))
        elif name not in used:
            missing_parts = [part for part in parts_with(name) if part not in sizes]
            faults += [
                Fault(
                    version,
                    "checkpoint",
                    f"{LOG}{part}",
                    f"{LOG}{part} is missing, and {name} is there",
                    LOST_CHECKPOINT,
                )
                for part in missing_parts[:1]
            ]
    return faults


def first_gap(listing: Listing, upto: int) -> int | None:
    """Returns the newest version up to ``upto`` that is missing although a state of ``upto`` needs
    it, whichever start is taken; None if no version is missing after the newest complete
    checkpoint.
    """
    complete = [version for version, sizes in listing.checkpoints.items() if complete_checkpoints(sizes)]
    newest = max((version for version in complete if version <= upto), default=-1)
    return next((version for version in range(upto, newest, -1) if version not in listing.commits), None)


# -- one commit --------------------------------------------------------------------------------------------------------


class _Info(msgspec.Struct):
    inCommitTimestamp: int


class _First(msgspec.Struct):
    commitInfo: _Info


_FIRST: Final = msgspec.json.Decoder(_First)


def demanded_from(protocol: Mapping[str, Any], configuration: Mapping[str, Any]) -> int | None:
    """Returns the version from which on each commit must begin with a commitInfo that has an
    in-commit timestamp, by the protocol and the properties of a table; None if none must: it is not
    catalog-managed, and some writers of others put theirs last.
    """
    if (
        "catalogManaged" not in features(dict(protocol), "writerFeatures")
        or str(configuration.get(ENABLED)).lower() != "true"
    ):
        return None
    text = str(configuration.get(ENABLED_FROM, "0"))
    return int(text) if text.isascii() and text.isdigit() else 0


def begins_with_info(line: bytes) -> bool:
    """Whether the first line of a commit is a commitInfo with an in-commit timestamp."""
    try:
        _FIRST.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


# -- one checkpoint ----------------------------------------------------------------------------------------------------


def count_fault(version: int, path: str, adds: int, expected: Mapping[str, int]) -> Fault | None:
    """The fault of a checkpoint with ``adds`` files, if another source has another number:
    ``expected`` has numbers by their source."""
    for source, count in sorted(expected.items()):
        if count != adds:
            return checkpoint_fault(version, path, f"has {adds} files, and {source} says {count}")
    return None
