"""Rows by HTTP: the server writes the files, so that the sender needs no access to storage.

Source: docs/rows.md.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from turnstile_client.errors import ApiError, DataMismatch, OutcomeUnknown
from turnstile_client.files import stream_of
from turnstile_http.api import Api

_LINES: Final = "application/x-ndjson"
_ARROW: Final = "application/vnd.apache.arrow.stream"
#: When a producer sends its buffer, unless it is given other bounds.
BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 1_000_000

Row = Mapping[str, Any]


@dataclass(frozen=True)
class RejectedRows:
    """Rows of a request that do not fit the table, and are in the table of rejected rows beside it.

    Attributes:
        rows: how many.
        table: the name of the table that has them, with the column at fault and the problem.
        problems: of the first ones: ``place`` in the request, ``column``, ``problem``. Empty where
            an earlier request had put them there.
    """

    rows: int
    table: str
    problems: tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class RowsAnswer:
    """The version that has the rows of a request, and those that do not fit, if there are some."""

    version: int
    rejected: RejectedRows | None = None


OnRejected = Callable[[RejectedRows], object]


class RowAppends:
    """Appends to a table whose files the server writes."""

    name: str

    def __init__(self, api: Api, deadline: float) -> None:
        self._api = api
        self._deadline = deadline

    def append_rows(
        self,
        rows: Any,
        *,
        id: str | None = None,
        wait_published: bool = False,
        evolve: bool = False,
        on_rejected: OnRejected | None = None,
    ) -> int:
        """Adds rows in one request and one commit; needs no access to storage. For more than a few
        megabytes: :meth:`producer`, or :meth:`append`.

        Args:
            rows: a list of dictionaries, or data as :meth:`append` takes it.
            id: a uuid that identifies the rows. Of all requests with one id at most one adds its
                rows, for as long as the server remembers it (30 days); the answer is the same.
            wait_published: wait until the version is in the table's folder, for readers without the
                catalog.
            evolve: add the columns to the table that the rows have and it lacks.
            on_rejected: called with a :class:`RejectedRows` where rows do not fit. They are added
                to the table ``<name>_rejected`` beside this one, in the same commit; by default a
                row that does not fit has all refused. An error that it raises comes after the
                commit: all rows are added.

        Returns:
            The version that has the rows.

        Raises:
            ApiError: the server refused: ``InvalidRows`` names the row and the column.
            DataMismatch: the rows cannot be sent.
            OutcomeUnknown: it is unknown whether the rows were added; send them again with the same
                id.
        """
        content, media = _encode(rows)
        headers = {"Idempotency-Key": id or str(uuid.uuid4()), "Content-Type": media}
        answer = self.send_rows(
            content, headers, wait_published=wait_published, evolve=evolve, quarantine=on_rejected is not None
        )
        if on_rejected is not None and answer.rejected is not None:
            on_rejected(answer.rejected)
        return answer.version

    def producer(
        self,
        name: str | None = None,
        *,
        sequence: int | None = None,
        rows: int = BATCH_ROWS,
        size: int = BATCH_BYTES,
        evolve: bool = False,
        on_rejected: OnRejected | None = None,
    ) -> Producer:
        """Returns a producer, which gathers rows and sends them in order, each exactly once.

        Args:
            name: of the producer, used by one process at a time; a random one by default.
            sequence: number of its first request. It has to be after the numbers that were used
                under this name; by default it follows from the clock.
            rows, size: rows and bytes of a batch, after which it is sent.
            evolve, on_rejected: as for :meth:`append_rows`.
        """
        first = time.time_ns() // 1_000 if sequence is None else sequence
        named = name or f"producer-{uuid.uuid4()}"
        return Producer(self, named, first, rows, size, evolve=evolve, on_rejected=on_rejected)

    def send_rows(
        self,
        content: bytes,
        headers: Mapping[str, str],
        *,
        wait_published: bool = False,
        evolve: bool = False,
        quarantine: bool = False,
    ) -> RowsAnswer:
        """Sends a request with rows until there is an answer. Its identity is in ``headers``, so
        that it may be sent again. Raises as :meth:`append_rows`."""
        until = time.monotonic() + self._deadline
        is_open = False

        def attempt() -> dict[str, Any]:
            nonlocal is_open
            try:
                return self._api.append_rows(
                    self.name,
                    content,
                    dict(headers),
                    wait_published=wait_published,
                    evolves=evolve,
                    quarantines=quarantine,
                )
            except ApiError as e:
                is_open = is_open or e.ambiguous
                raise

        try:
            answer = self._api.http.retrying(until)(attempt)
        except ApiError as e:
            if not is_open or e.type in ("InvalidRows", "KeyReused"):
                raise
            id = headers.get("Idempotency-Key") or f"{headers['Turnstile-Producer']}, {headers['Turnstile-Sequence']}"
            text = f"{self.name}: it is unknown whether the rows of {id} were added: {e}"
            raise OutcomeUnknown(text, self.name, id) from e
        rejected = answer.get("rejected")
        if rejected is None:
            return RowsAnswer(int(answer["version"]))
        problems = tuple(rejected.get("problems", ()))
        beside = RejectedRows(int(rejected["rows"]), f"{self.name}_rejected", problems)
        return RowsAnswer(int(answer["version"]), beside)


class Producer:
    """Gathers rows for a table and sends them in batches. Not for several threads at once.

    A batch whose outcome is unknown, or that could not be sent, stays. It is sent again, the same,
    before anything else. A batch that the server refuses is dropped, none of its rows was added.
    ``sequence``: the number of the next batch; ``version``: of the table with the last batch, None
    before the first.
    """

    def __init__(
        self,
        table: RowAppends,
        name: str,
        sequence: int,
        rows: int,
        size: int,
        *,
        evolve: bool = False,
        on_rejected: OnRejected | None = None,
    ) -> None:
        self._table = table
        self._evolve = evolve
        self._on_rejected = on_rejected
        self._rows = rows
        self._most = size
        self._lines = list[bytes]()
        self._size = 0
        self._unsent: list[bytes] = []
        self.name = name
        self.sequence = sequence
        self.version: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self.flush()

    def add(self, *rows: Row) -> None:
        """Adds rows to the batch, and sends it where it is full. Raises as :meth:`flush`, and
        :class:`DataMismatch` for a row that is no JSON object."""
        for row in rows:
            line = _line(row)
            self._lines.append(line)
            self._size += len(line) + 1
            if len(self._lines) >= self._rows or self._size >= self._most:
                self.flush()

    def flush(self) -> int | None:
        """Sends what was gathered; returns the version that has it, None where there was nothing
        yet.

        Raises:
            ApiError: the server refused the batch, and it is dropped; or, where ``transient``, took
                nothing for as long as a call may last: flush again.
            OutcomeUnknown: it is unknown whether the batch was added; flush again.
        """
        for batch in (self._unsent, self._lines):
            if batch:
                self._send(batch)
        return self.version

    def _send(self, batch: list[bytes]) -> None:
        if batch is self._lines:
            self._lines = []
            self._size = 0
            self._unsent = batch
        identity = {"Turnstile-Producer": self.name, "Turnstile-Sequence": str(self.sequence)}
        try:
            headers = {**identity, "Content-Type": _LINES}
            content = b"\n".join(batch)
            answer = self._table.send_rows(
                content, headers, evolve=self._evolve, quarantine=self._on_rejected is not None
            )
        except ApiError as e:
            if not e.transient:
                self._end_batch()
            raise
        self.version = answer.version
        self._end_batch()
        if self._on_rejected is not None and answer.rejected is not None:
            self._on_rejected(answer.rejected)

    def _end_batch(self) -> None:
        self._unsent = []
        self.sequence += 1


def _encode(rows: Any) -> tuple[bytes, str]:
    """The body of a request, and its media type."""
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        return b"\n".join(map(_line, rows)), _LINES
    reader = stream_of(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes(), _ARROW


def _line(row: Row) -> bytes:
    if not isinstance(row, Mapping):
        raise DataMismatch(f"{type(row).__name__} is no row: give a dictionary with the values of columns")
    try:
        return json.dumps(dict(row), separators=(",", ":"), ensure_ascii=False, default=_plain).encode()
    except (TypeError, ValueError) as e:
        raise DataMismatch(f"a row cannot be written as JSON: {e}") from None


def _plain(value: Any) -> Any:
    """A value that JSON has not, as the server takes it."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no value of a column")
