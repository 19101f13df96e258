"""Adds batches of rows from a queue or a stream to their tables (docs/rows.md). The rows of a batch
for a table are a single commit, and a record that is delivered again is not added again.

The steps, for each table that the records of an event name, in their order:

    1  find        the table, and the right of the principal to change it
    2  append      the rows of its records, in a single commit (``ingest.appends``)
    3  set aside   the records whose rows the table can never take, as files of ``REFUSED`` with
                   the reason
    4  report      the records that may be added later, so that Lambda delivers them again

A crash after any step delivers the whole event again. Records that were added are found by their
identity (I26), and a record that was set aside has the same file. Lambda delivers a record of an
unknown table, or without a right, again until there is a table or a grant. A record that is older
than the memory of identities is set aside, since it may have been added before.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aws_lambda_powertools import Logger

from turnstile.api import settings
from turnstile.api.figures import count
from turnstile.api.services import Services
from turnstile.api.stream import remaining_ms
from turnstile.api.v1.paths import table_names
from turnstile.catalog.core.entities import without_head
from turnstile.catalog.load import RegisteredTable
from turnstile.delta.core.decide import Refused
from turnstile.ingest.core.deliveries import (
    TABLE,
    Delivery,
    deliveries_of,
    refused_file,
    refused_path,
)
from turnstile.ingest.core.errors import InvalidRows, VersionUnknown, require_time
from turnstile.rights.grants import Principal
from turnstile.rights.rules import modify_table
from turnstile.store.core.errors import ErrorType, InvalidRequest, TurnstileError

if TYPE_CHECKING:
    from turnstile.ingest.turns import Appended, RowsRequest

    Outcome: TypeAlias = Appended | Refused | TurnstileError

REFUSED: Final = "_turnstile_refused_rows"
"""The folder of the lake with the records that were set aside."""

SET_ASIDE: Final = frozenset(
    (
        ErrorType.INVALID_ROWS,
        ErrorType.EXPECTATION_BROKEN,
        ErrorType.TOO_LARGE,
        ErrorType.KEY_REUSED,
        ErrorType.INVALID_REQUEST,
    )
)
"""The errors of records that no other attempt adds."""

MARGIN_MS: Final = 10_000
"""Kept of the function's time for the commit that is being made when the time is up."""

_DAY_MS: Final = 86_400_000
_PART_BYTES: Final = 16 * 1024 * 1024
"""After so many bytes of rows, after decompression, no further record joins those in memory."""


class RowBatchHandler:
    """Handles batches of records. Services are opened from the environment unless they are set
    before."""

    def __init__(self) -> None:
        self._logger = Logger(service="rows")
        self._principal = Principal(os.environ.get("TURNSTILE_ROWS_PRINCIPAL") or "rows")
        self._table = os.environ.get("TURNSTILE_ROWS_TABLE", "")

    @cached_property
    def services(self) -> Services:
        services = Services.open(settings.rows())
        services.prepare("ratifier", "authorizers", "open_loader")
        return services

    def on_batch(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Adds the rows of an event. Returns the records that have to be delivered again."""
        from turnstile.ingest.turns import Appended  # with pyarrow, which takes long to import

        until_ms = self.services.world.clock.now_ms() + remaining_ms(context) - MARGIN_MS
        deliveries = deliveries_of(event)
        again = set[str]()
        figures = Counter[str](requests=len(deliveries), rows=0, replayed=0, refused=0, failures=0)
        for name, named in _by_table(deliveries, self._table).items():
            for delivery, outcome in self._outcomes(name, named, until_ms):
                if isinstance(outcome, Appended):
                    figures["rows"] += outcome.rows or 0
                    figures["replayed"] += outcome.replayed
                elif isinstance(outcome, VersionUnknown):  # no answer has the version
                    figures["replayed"] += 1
                elif self._set_aside(name, delivery, outcome, until_ms):
                    figures["refused"] += 1
                else:
                    again.add(delivery.item)
        figures["failures"] = len(again)
        self._logger.info("batch", extra=dict(figures))
        count("rows", figures)
        return {"batchItemFailures": [{"itemIdentifier": one.item} for one in deliveries if one.item in again]}

    def _outcomes(self, name: str, deliveries: list[Delivery], until_ms: int) -> Iterator[tuple[Delivery, Outcome]]:
        """Steps 1 and 2 for the records of one table. After a failure no later record is added, so
        that their order stays."""
        try:
            self._require_time(until_ms)
            catalog, table_id = self._find(name)
        except TurnstileError as error:
            yield from ((delivery, error) for delivery in deliveries)
            return
        left = deque(deliveries)
        while left:
            part: list[tuple[Delivery, RowsRequest]] = []
            size = 0
            while left and size < _PART_BYTES:
                delivery = left.popleft()
                try:
                    self._require_time(until_ms)
                    request = self._request(table_id, delivery)
                except TurnstileError as error:
                    yield delivery, error
                else:
                    size += len(request.plain)
                    part.append((delivery, request))
            outcomes = self._append(catalog, [request for _, request in part], until_ms)
            yield from zip((delivery for delivery, _ in part), outcomes, strict=True)
            failure = next((outcome for outcome in outcomes if is_failure(outcome)), None)
            if failure is not None:
                yield from ((delivery, failure) for delivery in left)
                return

    def _append(self, catalog: str, requests: list[RowsRequest], until_ms: int) -> list[Outcome]:
        """The outcomes of requests. An unexpected error stops the request that causes it, and those
        after it."""
        try:
            return [*self.services.row_appender.append_many(catalog, requests, until_ms)]
        except Exception as fault:
            if len(requests) == 1:
                self._logger.exception("a record cannot be added")
                return [TurnstileError(f"an internal error occurred: {type(fault).__name__}")]
        half = len(requests) // 2
        outcomes = self._append(catalog, requests[:half], until_ms)
        failure = next((outcome for outcome in outcomes if is_failure(outcome)), None)
        if failure is not None:
            return outcomes + [failure] * (len(requests) - half)
        return outcomes + self._append(catalog, requests[half:], until_ms)

    def _require_time(self, until_ms: int) -> None:
        require_time(self.services.world.clock.now_ms(), until_ms)

    def _find(self, name: str) -> tuple[str, str]:
        """The catalog and the id of a table, which the principal may change. Raises InvalidRequest,
        NotFound, PermissionDenied; UnsupportedTable for one without a HEAD."""
        catalog, _, rest = name.partition(".")
        namespace, _, table = rest.rpartition(".")
        if not namespace:
            remedy = f"name it catalog.namespace.table, in the attribute {TABLE} or the parameter RowsTable"
            raise InvalidRequest(f"{name[:300]!r} names no table", field=TABLE, remedy=remedy)
        here = self.services
        found = here.open_loader.find(*table_names(catalog, namespace, table))
        if isinstance(found, RegisteredTable):
            raise without_head(found.table, "write it where its commits are made, or import it")
        here.ratifier.heads.remember(found)
        here.authorizers.tables.authorize(self._principal, (modify_table,), found.table_id)
        return found.catalog, found.table_id

    def _request(self, table_id: str, delivery: Delivery) -> RowsRequest:
        """The request of a record. Raises InvalidRows or TooLarge."""
        from turnstile.ingest.core.bodies import FORMATS, media_of
        from turnstile.ingest.core.compression import encoding_of, plain_body
        from turnstile.ingest.core.identity import Identity
        from turnstile.ingest.turns import RowsRequest  # with pyarrow, which takes long to import

        if delivery.fault:
            raise InvalidRows(delivery.fault)
        days = self.services.limits.identity_days - 1
        if delivery.sent_ms < self.services.world.clock.now_ms() - days * _DAY_MS:
            raise InvalidRows(f"the record is older than {days} days: it may have been added before")
        plain = plain_body(delivery.raw, encoding_of(delivery.raw))
        media = media_of(plain, delivery.media)
        if media not in FORMATS:
            raise InvalidRows(f"the format {media[:60]!r} is not known", remedy=f"use one of {', '.join(FORMATS)}")
        return RowsRequest(table_id, plain, media, Identity(self._principal.name, key=delivery.identity))

    def _set_aside(self, name: str, delivery: Delivery, error: Refused | TurnstileError, until_ms: int) -> bool:
        """Step 3, for an error that no other attempt mends. Returns whether the record is done."""
        reason = f"{delivery.place} for {name[:300]}: {error.message}"
        if is_failure(error) or isinstance(error, Refused):
            self._logger.warning("rows are not added yet", extra={"reason": reason})
            return False
        folder = f"{self.services.settings.lake_root}/{REFUSED}"
        path = refused_path(delivery)
        try:
            self._require_time(until_ms)
            self.services.world.storages.open(folder).put_if_absent(path, refused_file(delivery, name, error))
        except TurnstileError as fault:
            self._logger.warning("refused rows are not set aside: %s", fault.message, extra={"reason": reason})
            return False
        self._logger.warning("rows are refused", extra={"reason": reason, "file": path})
        return True


def is_failure(outcome: Outcome) -> bool:
    """Whether a later attempt may add the rows."""
    if isinstance(outcome, TurnstileError):
        return outcome.type not in SET_ASIDE and not isinstance(outcome, VersionUnknown)
    return isinstance(outcome, Refused)


def _by_table(deliveries: Iterable[Delivery], default: str) -> dict[str, list[Delivery]]:
    """The records of each table, by its name; ``default``: the table of records without a name."""
    tables = dict[str, list[Delivery]]()
    for delivery in deliveries:
        tables.setdefault(delivery.table or default, []).append(delivery)
    return tables
