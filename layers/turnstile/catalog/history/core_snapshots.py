"""Named snapshots of a catalog: a HEAD that keeps its tree for as long as it has a name (TreeCat, "snapshot").

They are entries of the tree itself, beside everything that users name: under a key that no name can have and that sorts
before all of them. So naming one is a change like every other, and a snapshot costs one small obj.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.catalog.core.paths import Path

SNAPSHOT: Final = "snapshot"
_ROOT: Final = "\x01snapshot"

PARENT: Final[Path] = (_ROOT,)
"""What they are the children of."""

ALL: Final = (_ROOT + "\x00", _ROOT + "\x01")
"""The range of their keys."""


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag=SNAPSHOT):
    """A name for a HEAD.

    Attributes:
        name: as it was written.
        head, seq, at: the commit it names: id, number, time (microseconds).
        created: when it was named (ms).
        versions: version of each Delta table by uuid when it was named; empty for a HEAD of the past, whose tables are to
            be read as of its time.
    """

    name: str
    head: str
    seq: int
    at: int
    created: int
    comment: str | None = None
    versions: dict[str, int] = {}


def snapshot_path(name: str) -> Path:
    """Where a snapshot is in the tree."""
    return (_ROOT, name)
