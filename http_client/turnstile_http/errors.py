"""Refusals of the server, and missing answers: one exception for both."""

from __future__ import annotations

from typing import Any

_NOT_APPLIED = ("StorageFault", "StoreUnavailable", "ServerClosed", "NewerFormat")
"""Types of errors with a status of 5xx that say that nothing was applied."""


class ApiError(Exception):
    """An error answer of the HTTP API, or no answer (``status`` 0).

    ``status``: HTTP status; ``type``: the server's error type (``Unreachable`` when there was no
    answer); ``body``: the whole ``error`` object; ``ambiguous``: the request may have been carried
    out although it failed.
    """

    def __init__(self, status: int, type: str, message: str, body: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.message = message
        self.body = body or {}

    @property
    def ambiguous(self) -> bool:
        """True when the request may have been carried out: a 5xx, or a connection lost after
        sending."""
        return self.type == "NoAnswer" or (self.status >= 500 and self.type not in _NOT_APPLIED)

    @property
    def transient(self) -> bool:
        """True when the same request may succeed a little later."""
        return (
            self.ambiguous
            or self.type in ("Unreachable", "StorageFault", "NewerFormat")
            or self.status == 429
            or self.retry_after > 0
        )

    @property
    def retry_after(self) -> float:
        """Seconds the server asks to wait; 0 when it does not say. Of a group that several members
        refuse, all of them have to say so."""
        answers = [self.body, *(self.body.get("members") or ())]
        waits = [float(answer.get("retry_after_ms") or 0) / 1000 for answer in answers[1:] or answers]
        return max(waits) if all(waits) else 0.0

    def __str__(self) -> str:
        remedy = self.body.get("remedy")
        return f"{self.type}: {self.message}" + (f" ({remedy})" if remedy else "")

    @property
    def condition(self) -> str:
        """The ``TURNSTILE_...`` name of this error."""
        if self.type == "OutcomeUnknown" and not self.status:
            return "TURNSTILE_OUTCOME_UNKNOWN"
        if self.type == "Closed" and not self.status:
            return "TURNSTILE_DETACHED"
        if self.status in (401, 403):
            return "TURNSTILE_NOT_PERMITTED"
        return "TURNSTILE_UNREACHABLE" if self.transient else "TURNSTILE_REFUSED"
