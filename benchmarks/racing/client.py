"""One proposal, sent until its answer is final."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import httpx

SEND_AGAIN = {
    *("CommitStateUnknown", "InternalError", "NoAnswer"),  # it may have been ratified
    *("Throttled", "BacklogFull", "ConcurrentChange", "StorageFault"),  # it was not, and still may be
}


class Proposer:
    """Sends proposals for one table.

    ``told`` counts what was answered, by error type; ``ms`` has the time of every answered request.
    """

    def __init__(self, http: httpx.Client, table_id: str) -> None:
        self._http, self._route = http, f"/v1/tables/{table_id}/commits"
        self.told: Counter[str] = Counter()
        self.ms: list[float] = []

    def propose(self, body: dict[str, Any], *, deadline: float = 120) -> dict[str, Any]:
        """The final answer to ``body``: a 200's JSON, or an ``error``. Unknown outcomes and throttles are answered by
        sending exactly the same again (I3)."""
        until = time.monotonic() + deadline
        while True:
            answer = self._once(body)
            kind = answer.get("error", {}).get("type", "ok")
            self.told[kind] += 1
            if kind not in SEND_AGAIN:
                return answer
            if time.monotonic() > until:
                raise TimeoutError(f"no final answer in {deadline:.0f} s, the last was {answer}")
            time.sleep(random.uniform(0, answer["error"].get("retry_after_ms", 200) / 1000))

    def _once(self, body: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        try:
            answer = self._http.post(self._route, json=body)
            self.ms.append((time.perf_counter() - started) * 1000)
            told = answer.json()
            if answer.is_error and "type" not in told.get("error", {}):
                return {"error": {"type": "NoAnswer", "message": f"the gateway: {answer.text[:200]}"}}
            return told
        except (httpx.HTTPError, ValueError) as fault:
            return {"error": {"type": "NoAnswer", "message": str(fault)}}
