"""Limits of the service, in one place."""

from __future__ import annotations

from typing import Final

import msgspec

ROW_BUDGET: Final = 30_000
"""Bytes the tail of a table's HEAD may carry: 32 kB for the row less what its other attributes and a floor update need. A
deployment may ask for less; with more, a hundred HEADs would not fit one transaction."""


class SpillLimits(msgspec.Struct, frozen=True):
    """When a catalog's index spills, in bytes as packed.

    ``embedded`` size of the embedded layer from which it spills (more, where the directory itself is larger);
    ``segment`` size of one segment. Every change writes the one; rewrites of the other are shared by the changes that
    wait for them.
    """

    embedded: int = 8 * 1024
    segment: int = 128 * 1024


class Limits(msgspec.Struct, frozen=True):
    """Sizes in bytes, times in ms.

    ``inline_bytes`` largest inline commit; ``staged_bytes`` largest staged commit whose content is read whole;
    ``prefix_bytes`` how much of a larger one is read; ``clock_skew_ms`` how far ahead of the server's clock an
    in-commit timestamp may be; ``identity_days`` how long replays of published commits are recognised;
    ``backlog_bytes`` how much a table's row may carry that is not published yet, before commits are refused;
    ``winners_bytes`` inline content a conflict answer carries at most; ``attempts`` how often a proposal is decided anew;
    ``spill`` when a catalog's index spills; ``history_ms`` for how long gc leaves a catalog's past (``Grace.history``),
    so that one may go back to it.
    """

    inline_bytes: int = 256 * 1024
    staged_bytes: int = 64 * 1024 * 1024
    prefix_bytes: int = 1024 * 1024
    clock_skew_ms: int = 5 * 60 * 1000
    identity_days: int = 30
    backlog_bytes: int = ROW_BUDGET
    winners_bytes: int = 1024 * 1024
    attempts: int = 8
    spill: SpillLimits = SpillLimits()
    history_ms: int = 168 * 3_600_000
