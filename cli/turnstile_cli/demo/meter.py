"""What a session proposes and what becomes of it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple


class Attempt(NamedTuple):
    """One answered proposal: ``won`` or lost to another commit; ``ms`` is the time of the request."""

    table_id: str
    kind: str
    won: bool
    ms: float


def watch(lake: Any) -> list[Attempt]:
    """The proposals that an attached lake makes from now on; the list grows as they are answered."""
    from turnstile_spark.errors import ApiError

    attempts: list[Attempt] = []
    propose = lake.api.propose

    def watched(table_id: str, proposal: dict[str, Any]) -> Any:
        kind = "inline" if "inline" in proposal else "staged"
        started = time.perf_counter()
        try:
            answer = propose(table_id, proposal)
        except ApiError as refused:
            if refused.type == "CommitVersionConflict":
                attempts.append(Attempt(table_id, kind, won=False, ms=(time.perf_counter() - started) * 1000))
            raise
        attempts.append(Attempt(table_id, kind, won=True, ms=(time.perf_counter() - started) * 1000))
        return answer

    lake.api.propose = watched
    return attempts


def quantile(values: list[float], share: float) -> float:
    """The smallest value that ``share`` of all are not above; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
