"""How long a table keeps its history, by its properties, and which upkeep its clients may do. Pure.

OPTIMIZE is a commit like others, which an active table takes. VACUUM and the clean-up of the log
remove files for good. So they are withheld if a pin needs files that they may remove
(``maintenance.pins``), and if the table keeps its own history for a shorter time than the catalog
keeps its past. An engine does not ask for pins: it may do them only if its own rule removes nothing
that is pinned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from turnstile.delta.core.metadata import interval_ms

REORGANIZATION: Final = "DATA_REORGANIZATION"
DATA_CLEANUP: Final = "DATA_CLEANUP"
METADATA_CLEANUP: Final = "METADATA_CLEANUP"
OPERATIONS: Final = (REORGANIZATION, DATA_CLEANUP, METADATA_CLEANUP)

POLICY: Final = "turnstile.allowed-maintenance"


class Retention(NamedTuple):
    """A property that says how long something is kept, and Delta's default."""

    property: str
    usual: str


FILES: Final = Retention("delta.deletedFileRetentionDuration", "interval 1 week")
LOG: Final = Retention("delta.logRetentionDuration", "interval 30 days")

_KEPT: Final = ((DATA_CLEANUP, FILES), (METADATA_CLEANUP, LOG))


def allowed_maintenance(
    properties: Mapping[str, str], *, active: bool, files_needed: bool, history_ms: int
) -> list[str]:
    """Returns the operations that clients may run on a table with these properties; its property
    ``POLICY`` names fewer.

    Args:
        active: whether it takes commits.
        files_needed: whether a pin holds a version of it (``pins.holders_of``).
        history_ms: for how long every version can be read through the catalog's past.
    """
    withheld = set[str]() if active else {*OPERATIONS}
    if files_needed:
        withheld |= {DATA_CLEANUP, METADATA_CLEANUP}
    withheld |= {name for name, kept in _KEPT if (retention_ms(properties, kept) or 0) < history_ms}
    policy = properties.get(POLICY)
    if policy is not None:
        withheld |= {*OPERATIONS} - {name.strip().upper() for name in policy.split(",")}
    return [operation for operation in OPERATIONS if operation not in withheld]


def retention_ms(properties: Mapping[str, str], kept: Retention) -> int | None:
    """Returns for how long a table with these properties keeps that; None where its text cannot be
    read."""
    return interval_ms(properties.get(kept.property, kept.usual))
