"""Due light work on a table: checkpoints, log compaction files, and the version of the next look.
Decided by versions, by no clock."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from turnstile.store.core.limits import growing_pause_ms

STEP_BYTES: Final = 256 * 1024 * 1024
"""Bytes of the commits between two checkpoints that one is made from: a worker's memory grows with
the file actions in them. A commit that is larger is on its own."""

COMPACTED: Final = 10
"""Versions that one log compaction file stands for. The first is a multiple of it."""

FIRST_PAUSE_MS: Final = 60_000
LONGEST_PAUSE_MS: Final = 24 * 3600 * 1000


class Due(msgspec.Struct, frozen=True):
    """The files to write.

    Attributes:
        checkpoints: their versions, ascending; all but the last are steps of a log that is too long
            for one.
        compactions: first and last version of each log compaction file.
        next: floor from which on something is due again.
    """

    checkpoints: tuple[int, ...]
    compactions: tuple[tuple[int, int], ...]
    next: int


def due(
    floor: int, newest: int, interval: int, sizes: Mapping[int, int], compacted: Collection[tuple[int, int]] = ()
) -> Due:
    """Returns the due files of a table.

    Args:
        floor: newest published version.
        newest: version of the newest complete checkpoint at or below it; -1 for none.
        interval: versions from one checkpoint to the next.
        sizes: bytes of the published commits, by version.
        compacted: existing log compaction files.
    """
    checkpoints: tuple[int, ...] = ()
    if floor - max(newest, 0) >= interval:
        checkpoints = _steps(newest, floor, sizes)
        newest = floor
    following = max(newest, 0) + interval
    if interval <= COMPACTED:
        return Due(checkpoints, (), following)
    first = -(-(newest + 1) // COMPACTED) * COMPACTED
    windows = [(start, start + COMPACTED - 1) for start in range(first, floor - COMPACTED + 2, COMPACTED)]
    small = [window for window in windows if _bytes(window, sizes) <= STEP_BYTES]
    following = min(following, first + len(windows) * COMPACTED + COMPACTED - 1)
    return Due(checkpoints, tuple(window for window in small if window not in compacted), following)


def _steps(newest: int, floor: int, sizes: Mapping[int, int]) -> tuple[int, ...]:
    """Versions of checkpoints up to the floor, so that the commits from one to the next are of
    ``STEP_BYTES`` or less."""
    steps = list[int]()
    held = 0
    for version in range(newest + 1, floor + 1):
        size = sizes.get(version, 0)
        if held and held + size > STEP_BYTES:
            steps.append(version - 1)
            held = 0
        held += size
    return (*steps, floor)


def _bytes(window: tuple[int, int], sizes: Mapping[int, int]) -> int:
    return sum(sizes.get(version, 0) for version in range(window[0], window[1] + 1))


def pause_ms(failures: int) -> int:
    """Returns how long a table is left alone after its ``failures``-th failure in a row."""
    return growing_pause_ms(failures, FIRST_PAUSE_MS, LONGEST_PAUSE_MS)
