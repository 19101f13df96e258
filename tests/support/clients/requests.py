"""The requests of clients to a server, counted by the server's figures."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.support.clients.engine import B
from tests.support.stack import eventually

if TYPE_CHECKING:
    from turnstile_server import Server

SETTLED_SECONDS = 0.5
"""After this long without another request a client has done all that it does in the background."""

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
    """Answered requests since the last look, by operation; refused ones have their status with
    them."""

    def __init__(self, server: Server) -> None:
        self._api = server.client()
        self._before = self._settled()

    def seen(self, least: int = 0) -> Counter[str]:
        """Waits for so many requests, and then until nothing new arrives."""
        eventually(lambda: self._counted().total() - self._before.total() >= least, what=f"{least} requests")
        now = self._settled()
        before = self._before
        self._before = now
        return now - before

    def _settled(self) -> Counter[str]:
        counted = None
        while counted != (now := self._counted()):
            counted = now
            time.sleep(SETTLED_SECONDS)
        return now

    def _counted(self) -> Counter[str]:
        """All requests since the server's start."""
        answer = self._api.get("/metrics")
        assert answer.status_code == 200, answer.text
        counted: Counter[str] = Counter()
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                if sample.name == "turnstile_requests_total":
                    counted[_name(sample.labels["operation"], int(sample.labels["status"]))] += int(sample.value)
        return counted


def _name(operation: str, status: int) -> str:
    operation = operation.replace(B, "", 1)
    name = SHORT.get(operation, operation)
    return name if status < 300 else f"{name} {status}"
