"""What clients asked of a stack, counted where it was answered: in the functions' log."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING

from tests.support.clients.engine import B

if TYPE_CHECKING:
    from turnstile_local import Stack

SETTLED_SECONDS = 0.5
"""After this long without a new line the log is whole: the gateway writes it in the background."""

_TABLE = "/delta/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"
SHORT = {
    f"GET {_TABLE}": "load",
    f"POST {_TABLE}": "update",
    f"GET {_TABLE}/credentials": "credentials",
    f"POST {_TABLE}/metrics": "metrics",
    "GET /v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}": "v1 load",
    "POST /v1/tables/{table_id}/commits": "v1 commit",
    "GET /v1/tables/{table_id}/commits": "v1 commits",
}


class Requests:
    """Answered requests since the last look, by operation; refused ones have their status with them."""

    def __init__(self, stack: Stack) -> None:
        self._log = stack.log.parent / "functions.log"
        self._at = self._settled()

    def _settled(self) -> int:
        """Size of the log once nothing new arrives: what was asked before may still be on its way there."""
        size = -1
        while size != (now := self._log.stat().st_size):
            size = now
            time.sleep(SETTLED_SECONDS)
        return size

    def seen(self) -> Counter[str]:
        """Waits until nothing new arrives."""
        size = self._settled()
        with self._log.open("rb") as log:
            log.seek(self._at)
            new = log.read(size - self._at)
        self._at = size
        return Counter(filter(None, map(_operation, new.decode().splitlines())))


def _operation(line: str) -> str | None:
    function, _, told = line.partition(" ")
    if function not in ("CommitFunction", "CatalogFunction") or not told.startswith("{"):
        return None
    entry = json.loads(told)
    if "status" not in entry or "operation" not in entry:
        return None
    operation = str(entry["operation"]).replace(B, "", 1)
    name = SHORT.get(operation, operation)
    return name if entry["status"] < 300 else f"{name} {entry['status']}"
