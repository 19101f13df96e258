"""Which maintenance clients may run on a table: a policy per table, its property ``turnstile.allowed-maintenance``.

By default everything: OPTIMIZE is a commit like another one, VACUUM and log cleanup delete what no retained version
needs, and nothing here reads published files below the floor again once identities have left for the index. An empty
value allows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OPERATIONS: Final = ("DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP")
POLICY: Final = "turnstile.allowed-maintenance"


def allowed(properties: Mapping[str, str]) -> list[str]:
    """The operations, in the API's order."""
    said = properties.get(POLICY)
    if said is None:
        return list(OPERATIONS)
    names = {one.strip().upper() for one in said.split(",")}
    return [operation for operation in OPERATIONS if operation in names]
