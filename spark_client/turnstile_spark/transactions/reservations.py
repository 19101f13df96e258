"""Reservations of a transaction: requested before it begins, renewed while it lasts, released when
it is over.

While it has its tables no other writer's commit of a version is ratified on them, so its reads of
them stay the latest (docs/transactions.md, "Long transactions"). It waits in line for them; of
transactions that wait for each other the server picks one that loses its place, which is a conflict
here: begin again.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any

from turnstile_http.api import Api
from turnstile_http.errors import ApiError
from turnstile_spark.errors import CONFLICT, as_turnstile_error, turnstile_error

log = logging.getLogger("turnstile_spark")
LEASE_MS = 30_000
#: Seconds that a transaction waits for its tables.
PATIENCE_S = 120.0


class Reservation:
    """One reservation. ``tables``: uuids. Not to be begun twice."""

    def __init__(
        self, api: Api, tables: Sequence[str], *, lease_ms: int = LEASE_MS, patience_s: float = PATIENCE_S
    ) -> None:
        self.id = str(uuid.uuid4())
        self.requests = 0
        self._api = api
        self._tables = list(tables)
        self._lease_ms = lease_ms
        self._patience_s = patience_s
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Returns when it has all tables. Raises :class:`turnstile_spark.TurnstileError` when that
        takes too long, or when it loses its place; :class:`ApiError` as every call."""
        until = time.monotonic() + self._patience_s
        while True:
            state = self._ask()
            if state["state"] == "held":
                break
            if state["state"] == "victim" or time.monotonic() >= until:
                self.end()
                why = (
                    "transactions waited for each other"
                    if state["state"] == "victim"
                    else f"not after {self._patience_s:.0f} s"
                )
                raise turnstile_error(
                    CONFLICT, f"its tables could not be reserved: {why}. Run it again (lake.retry does)"
                )
            time.sleep(state.get("retry_after_ms", 200) / 1000)
        self._thread = threading.Thread(target=self._keep, name="turnstile-reservation", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Releases it; if the server cannot be reached, the lease ends it. Idempotent."""
        if self._over.is_set():
            return
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self.requests += 1
            self._api.release(self.id)
        except ApiError as e:
            log.info("turnstile_spark: reservation %s stays until its lease is over: %s", self.id, e)

    def _ask(self) -> dict[str, Any]:
        self.requests += 1
        return self._api.reserve(self.id, self._tables, self._lease_ms)

    def _keep(self) -> None:
        """Renews the lease until it is given up, or lost. A renewal that fails costs the turn, and
        nothing else."""
        while not self._over.wait(self._lease_ms / 3000):
            try:
                if self._ask()["state"] != "held":
                    log.info(
                        "turnstile_spark: reservation %s is lost: its lease was over before it was renewed", self.id
                    )
                    return
            except ApiError as e:
                log.info("turnstile_spark: reservation %s was not renewed: %s", self.id, e)


def reserve_tables(api: Api, names: Sequence[str]) -> Reservation | None:
    """Waits for these tables (``namespace.table``), and returns the reservation; None for none."""
    if not names:
        return None
    try:
        reservation = Reservation(api, [entry.table_id for entry in api.cut(list(names))])
        reservation.requests += 1
        reservation.begin()
    except ApiError as e:
        raise as_turnstile_error(e) from None
    return reservation
