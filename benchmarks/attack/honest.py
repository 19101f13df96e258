"""A client with rights, beside an attacker."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from typing import Any

import httpx

from benchmarks.racing.table import append

OPERATOR = "an operator's token"
CLIENTS = 8
PAUSE_S = 0.05


def run_client(url: str, table_id: str, seconds: float, start: Any, out: Any) -> None:
    """Sends requests for ``seconds``; puts their milliseconds, and the statuses other than success,
    into ``out``."""
    ms: list[float] = []
    other: Counter[int] = Counter()
    base = 0
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {OPERATOR}"}, trust_env=False) as api:
        api.get("/healthz")
        start.wait()
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end:
            number += 1
            began = time.perf_counter()
            if number % 3 == 0:
                content = append(uuid.uuid4().hex, int(time.time() * 1000), base, row_tracking=False)
                body = {"version": None, "base": base, "inline": {"content": content}}
                answer = api.post(f"/v1/tables/{table_id}/commits", json=body)
                base = answer.json()["commit"]["version"] if answer.is_success else base
            elif number % 3 == 1:
                answer = api.get(f"/v1/tables/{table_id}/head")
            else:
                answer = api.get("/v1/catalogs/main/namespaces/default/tables", params={"max_results": 10})
            ms.append((time.perf_counter() - began) * 1000)
            if not answer.is_success:
                other[answer.status_code] += 1
            time.sleep(PAUSE_S)
    out.put((ms, other))
