"""Files with rows, in parts that one request takes. A file always has the same parts, so that a
command that is run again sends the same requests."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final

from turnstile_cli.errors import CliError, Exit, usage

PART_BYTES: Final = 2_000_000


class RowFormat(StrEnum):
    """The values of ``--format``."""

    JSON = "json"
    CSV = "csv"
    ARROW = "arrow"
    PARQUET = "parquet"


MEDIA: Final = {
    RowFormat.JSON: "application/json",
    RowFormat.CSV: "text/csv",
    RowFormat.ARROW: "application/vnd.apache.arrow.stream",
    RowFormat.PARQUET: "application/vnd.apache.arrow.stream",
}
_SUFFIXES: Final = {
    ".json": RowFormat.JSON, ".jsonl": RowFormat.JSON, ".ndjson": RowFormat.JSON, ".csv": RowFormat.CSV,
    ".arrow": RowFormat.ARROW, ".arrows": RowFormat.ARROW, ".parquet": RowFormat.PARQUET,
}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """The body of one request, with the number of its rows."""

    content: bytes
    rows: int


def format_of(path: Path | None) -> RowFormat:
    """The format by the name of a file; of standard input JSON. Raises a usage error."""
    if path is None:
        return RowFormat.JSON
    known = _SUFFIXES.get(path.suffix.lower())
    if known is None:
        raise usage(f"the format of {path} is not clear from its name", "say it with --format")
    return known


def parts_of(stream: BinaryIO, format: RowFormat, rows: int) -> Iterator[Part]:
    """Yields the parts of a file, each of at most ``rows`` rows. Raises CliError for a file that
    cannot be read."""
    match format:
        case RowFormat.JSON:
            return _of_lines(stream, rows)
        case RowFormat.CSV:
            return _of_csv(stream, rows)
        case _:
            return _of_arrow(stream, format, rows)


def _of_lines(stream: BinaryIO, rows: int) -> Iterator[Part]:
    """Objects, one a line; or one array, which is one part."""
    first = stream.readline()
    while first and not first.strip():
        first = stream.readline()
    if first.lstrip()[:1] == b"[":
        content = first + stream.read()
        yield Part(content, _length(content))
        return
    yield from _gather((line for line in _with_first(first, stream) if line.strip()), rows)


def _length(content: bytes) -> int:
    """The number of items of an array; 0 where it is none, which the server says."""
    try:
        found = json.loads(content)
    except ValueError:
        return 0
    return len(found) if isinstance(found, list) else 0


def _of_csv(stream: BinaryIO, rows: int) -> Iterator[Part]:
    """Records, each part under the header. A record goes over several lines where a text in
    quotation marks does."""
    records = _records(stream)
    header = next(records, b"")
    for part in _gather(records, rows):
        yield Part(header + part.content, part.rows)


def _records(stream: Iterable[bytes]) -> Iterator[bytes]:
    record = b""
    quotes = 0
    for line in stream:
        record += line
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            if record.strip():
                yield record if record.endswith(b"\n") else record + b"\n"
            record = b""
            quotes = 0
    if record:
        yield record


def _of_arrow(stream: BinaryIO, format: RowFormat, rows: int) -> Iterator[Part]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        message = f"files in {format} are read by pyarrow, which is not installed"
        raise CliError(Exit.USAGE, message, remedy="pip install pyarrow") from None
    try:
        batches: Iterable[pa.RecordBatch]
        if format is RowFormat.PARQUET:
            batches = parquet.ParquetFile(io.BytesIO(stream.read())).iter_batches(batch_size=rows)
        else:
            batches = pa.ipc.open_stream(stream)
        for batch in batches:
            for start in range(0, batch.num_rows, rows):
                part = batch.slice(start, rows)
                sink = io.BytesIO()
                with pa.ipc.new_stream(sink, part.schema) as writer:
                    writer.write_batch(part)
                yield Part(sink.getvalue(), part.num_rows)
    except pa.ArrowException as error:
        raise _unreadable(error) from None


def _gather(records: Iterable[bytes], rows: int) -> Iterator[Part]:
    gathered: list[bytes] = []
    size = 0
    for record in records:
        gathered.append(record)
        size += len(record)
        if len(gathered) >= rows or size >= PART_BYTES:
            yield Part(b"".join(gathered), len(gathered))
            gathered = []
            size = 0
    if gathered:
        yield Part(b"".join(gathered), len(gathered))


def _with_first(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    if first:
        yield first if first.endswith(b"\n") else first + b"\n"
    yield from rest


def _unreadable(error: Exception) -> CliError:
    return CliError(Exit.USAGE, f"the file cannot be read: {error}", remedy="check it, and --format", type="BadFile")
