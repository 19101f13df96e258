"""Which files of a table's log have expired: commits, checkpoints, checksums and log compaction
files before a version that becomes the oldest one, and sidecars that no checkpoint names (I15).
Pure.

The oldest version that stays, the *boundary*, has a complete checkpoint, and every commit from it
up to the floor is there. So each version from the boundary on can be read from the files that stay,
and no version before it is pinned (``maintenance.core.pins.lowest``).

Sources: Delta protocol, "Metadata Cleanup", "Checkpoints", "Sidecar Files", "Checkpoint
Protection"; defaults of properties as Delta's ``DeltaConfigs`` has them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from turnstile.delta.core.protocols import as_features
from turnstile.maintenance.core.retention import METADATA_CLEANUP, POLICY

CLEANUP: Final = "delta.enableExpiredLogCleanup"
PROTECTION: Final = "checkpointProtection"
PROTECTED: Final = "delta.requireCheckpointProtectionBeforeVersion"

ORPHAN_MS: Final = 7 * 24 * 3600 * 1000
"""Age from which on a sidecar that no checkpoint names is of a writer that died: none works on a
checkpoint for so long. Delta grants a day."""

_RANKS: Final = {"checkpoint": 0, "checksum": 1, "compaction": 2, "commit": 3}


class LogFile(msgspec.Struct, frozen=True):
    """A file of a log: its ``path``, of which ``kind`` it is, and the ``last`` of the versions that
    it is about."""

    path: str
    kind: str
    last: int


def cleans(properties: Mapping[str, str]) -> bool:
    """Whether a table's log is to be cleaned up, by its properties: unless they say no."""
    policy = properties.get(POLICY)
    allowed = policy is None or METADATA_CLEANUP in (name.strip().upper() for name in policy.split(","))
    return allowed and properties.get(CLEANUP, "true").strip().lower() == "true"


def protected_before(protocol: dict[str, Any], properties: Mapping[str, str]) -> int | None:
    """The version that the boundary has to reach if anything is removed: with the feature
    ``checkpointProtection`` all history before it goes together, or stays. 0 without the feature;
    None where the property cannot be read: nothing may be removed.
    """
    if PROTECTION not in as_features(protocol)[1]:
        return 0
    text = properties.get(PROTECTED, "0").strip()
    return int(text) if text.isascii() and text.isdigit() else None


def boundaries(
    checkpoints: Iterable[int], commits: Collection[int], *, floor: int, upto: int, protected: int
) -> Iterator[int]:
    """Yields the versions that may become the oldest one, the newest first. One of them may once
    its checkpoint has been found complete.

    Args:
        checkpoints: versions with files of checkpoints.
        commits: versions with a commit in the log.
        floor: newest published version.
        upto: the highest version that may be the oldest, by pins and by the versions that readers
            start from.
        protected: the lowest version that may be (``protected_before``).
    """
    first = floor + 1
    while first - 1 in commits:
        first -= 1
    oldest = min(commits, default=floor)
    least = max(first, oldest + 1, protected)
    yield from sorted((at for at in checkpoints if least <= at <= min(upto, floor)), reverse=True)


def expired_files(files: Iterable[LogFile], boundary: int) -> list[LogFile]:
    """Returns the files that no version from the boundary on needs, in the order in which they are
    removed: the oldest version first, its commit last. Wherever the removal stops, the rest begins
    with a commit and has no gap.
    """
    gone = (file for file in files if file.last < boundary)
    return sorted(gone, key=lambda file: (file.last, _RANKS[file.kind], file.path))


def orphans(sidecars: Mapping[str, int], named: Collection[str], now_ms: int) -> list[str]:
    """Returns the names of sidecars that are not ``named`` by a checkpoint, and too old to be named
    yet. ``sidecars`` maps names to modification times (ms)."""
    return sorted(name for name, at_ms in sidecars.items() if name not in named and at_ms <= now_ms - ORPHAN_MS)
