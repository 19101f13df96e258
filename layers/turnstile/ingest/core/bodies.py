"""The body of a request with rows: its formats, and rows in the columns of a table.

    application/json                   an array of objects; or objects, one after the other
    application/x-ndjson               objects, one a line
    text/csv                           a header with the names of columns, then rows; empty is null
    application/vnd.apache.arrow.stream
    application/vnd.apache.parquet

A body may be compressed (``gzip``, ``zstd``). All sizes are bounded before memory is used: bytes
after decompression, rows, and the objects and values that JSON has. Columns are found by their
names without regard to case; a missing one is null.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from pyarrow import types

from turnstile.ingest.core.arrays import expanded_bytes, require_plain_buffers
from turnstile.ingest.core.errors import InvalidRows, excerpt
from turnstile.ingest.core.values import column_of
from turnstile.store.core.errors import TooLarge
from turnstile_rows.conforming import Conformer
from turnstile_rows.definitions import Definition, columns_with_default
from turnstile_rows.errors import DataMismatch

BODY_BYTES: Final = 4 * 1024 * 1024
"""Of a body as it is sent: what a gateway hands on to a function, with room for base64."""
PLAIN_BYTES: Final = 16 * 1024 * 1024
"""Of a body after decompression."""
ROWS: Final = 100_000
"""Rows of one request."""
_VALUES: Final = 16_000_000
"""Values of the rows of one request, nulls included: each column of the table takes memory for each
row, whether the row has it or not."""

_BRACKETS: Final = 1_000_000
_COMMAS: Final = 4_000_000
"""Objects, arrays and values of a body of JSON: each takes memory, however few bytes it has."""

_FEWER: Final = "send fewer rows in one request"
_WHOLE: Final = (
    "send what Content-Encoding says, whole; the gateway of AWS hands JSON and CSV on as text, so compress"
    " application/x-ndjson there"
)

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"
PARQUET: Final = "application/vnd.apache.parquet"

FORMATS: Final[Mapping[str, str]] = {
    JSON: JSON, LINES: LINES, "application/jsonl": LINES, "application/x-jsonlines": LINES, "application/ndjson": LINES,
    CSV: CSV, ARROW: ARROW, PARQUET: PARQUET,
}  # fmt: skip
"""Media types, and the formats that they stand for."""

_ENCODINGS: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""The first bytes of compressed bodies."""

Row = dict[str, Any]
PlaceOf = Callable[[int], str]


def media_of(plain: bytes, named: str = "") -> str:
    """Returns the format of a body: the one that is ``named``, else by its first bytes."""
    if named:
        return named
    if plain.startswith(b"PAR1"):
        return PARQUET
    if plain.startswith(b"\xff\xff\xff\xff"):
        return ARROW
    return JSON if plain.lstrip()[:1] == b"[" else LINES


# -- compression -------------------------------------------------------------------------------------------------------


def encoding_of(raw: bytes) -> str:
    """Returns the compression of a body, by its first bytes: gzip, zstd, or an empty text."""
    return next((name for first, name in _ENCODINGS.items() if raw.startswith(first)), "")


def plain_body(raw: bytes, encoding: str) -> bytes:
    """Returns the body after decompression; ``encoding`` as in the header ``Content-Encoding``.
    Raises InvalidRows for an unknown encoding or damaged bytes, TooLarge beyond ``PLAIN_BYTES``."""
    match encoding.strip().lower():
        case "" | "identity":
            plain = raw
        case "gzip" | "x-gzip":
            plain = _gunzip(raw)
        case "zstd":
            plain = _unzstd(raw)
        case _:
            raise InvalidRows(
                f"the encoding {excerpt(encoding)} is not known", field="Content-Encoding", remedy="use gzip or zstd"
            )
    if len(plain) > PLAIN_BYTES:
        text = f"the body is over the limit of {PLAIN_BYTES} bytes after decompression"
        raise TooLarge(text, field="body", remedy=_FEWER, limit=PLAIN_BYTES)
    return plain


def _gunzip(raw: bytes) -> bytes:
    """All members of a gzip stream, up to a byte more than the limit."""
    try:
        return gzip.GzipFile(fileobj=io.BytesIO(raw)).read(PLAIN_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _damage("gzip", error) from None


def _unzstd(raw: bytes) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), "zstd") as stream:
            return bytes(stream.read(PLAIN_BYTES + 1))
    except (OSError, pa.ArrowException) as error:
        raise _damage("zstd", error) from None


def _damage(encoding: str, why: object) -> InvalidRows:
    text = f"the body is no {encoding}: {why}"
    return InvalidRows(text, field="body", remedy=_WHOLE)


# -- rows --------------------------------------------------------------------------------------------------------------


def rows_of(plain: bytes, media: str, definition: Definition) -> list[pa.RecordBatch]:
    """Returns the rows of a body in the columns and types of a table. ``media``: one of
    ``FORMATS``. Raises InvalidRows, which names the row and the column, and TooLarge.
    """
    try:
        match FORMATS[media]:
            case "application/json" | "application/x-ndjson":
                found = _of_json(plain, media, definition)
            case "text/csv":
                found = _of_csv(plain, definition)
            case "application/vnd.apache.arrow.stream":
                found = _of_arrow(plain, definition)
            case _:
                found = _of_parquet(plain, definition)
    except DataMismatch as error:
        raise InvalidRows(str(error), field="body") from None
    batches = [batch for batch in found if batch.num_rows]
    if not batches:
        raise InvalidRows("the body has no rows", field="body", remedy="send one row or more")
    return batches


def _require_few(rows: int) -> None:
    if rows > ROWS:
        raise TooLarge(f"{rows} rows are over the limit of {ROWS}", field="body", remedy=_FEWER, limit=ROWS, size=rows)


def _require_fits(rows: int, definition: Definition) -> None:
    _require_few(rows)
    if rows * len(definition.schema) > _VALUES:
        text = f"{rows} rows of {len(definition.schema)} columns are over the limit of {_VALUES} values"
        raise TooLarge(text, field="body", remedy=_FEWER, limit=_VALUES, size=rows * len(definition.schema))


def _of_json(plain: bytes, media: str, definition: Definition) -> list[pa.RecordBatch]:
    hook = Decimal if any(types.is_decimal(leaf) for leaf in _leaves(definition.schema)) else None
    rows, place_of = json_rows(plain, media, hook)
    _require_fits(len(rows), definition)
    return [_batch(rows, place_of, definition)]


def json_rows(plain: bytes, media: str, hook: type[Decimal] | None = None) -> tuple[list[Row], PlaceOf]:
    """Returns the rows of a body of JSON, and the function that names the place of a row. ``hook``:
    the type of numbers with a fraction. Raises InvalidRows and TooLarge."""
    if plain.count(b"{") + plain.count(b"[") > _BRACKETS or plain.count(b",") > _COMMAS:
        text = f"the body has more than {_BRACKETS} objects and arrays, or {_COMMAS} values"
        raise TooLarge(text, field="body", remedy=_FEWER, limit=_COMMAS)
    is_array = FORMATS[media] == JSON and plain.lstrip()[:1] == b"["
    return _array_rows(plain, hook) if is_array else _line_rows(plain, hook)


def _leaves(fields: Iterable[pa.Field]) -> Iterable[pa.DataType]:
    """The types of all columns, and of all that is in them."""
    for field in fields:
        yield field.type
        if types.is_nested(field.type):
            yield from _leaves(field.type.field(at) for at in range(field.type.num_fields))


def _array_rows(plain: bytes, hook: type[Decimal] | None) -> tuple[list[Row], PlaceOf]:
    try:
        rows = msgspec.json.Decoder(list[dict[str, Any]], float_hook=hook).decode(plain)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ArithmeticError) as error:
        raise InvalidRows(f"the body is no JSON array of objects: {error}", field="body") from None
    return rows, lambda at: f"row {at + 1}"


def _line_rows(plain: bytes, hook: type[Decimal] | None) -> tuple[list[Row], PlaceOf]:
    decoder = msgspec.json.Decoder(dict[str, Any], float_hook=hook)
    with suppress(msgspec.MsgspecError, RecursionError, UnicodeError, ArithmeticError):
        return [decoder.decode(plain)], lambda _: "row 1"  # one object, which may have many lines
    rows = []
    numbers = []
    for number, line in enumerate(plain.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
        except (msgspec.MsgspecError, RecursionError, UnicodeError, ArithmeticError) as error:
            raise InvalidRows(f"line {number} is no JSON object: {error}", field="body") from None
        numbers.append(number)
        _require_few(len(rows))
    return rows, lambda at: f"line {numbers[at]}"


def _batch(rows: Sequence[Row], place_of: PlaceOf, definition: Definition) -> pa.RecordBatch:
    """Rows with values by name in the columns of the table."""
    columns = {column.name.lower(): column for column in definition.schema}
    spelled: dict[str, list[str]] = {}
    for name in sorted(set[str]().union(*rows)):
        if name.lower() not in columns:
            at = next(at for at, row in enumerate(rows) if name in row)
            raise _unknown(name, place_of(at), definition)
        spelled.setdefault(name.lower(), []).append(name)
    defaulted = columns_with_default(definition)
    arrays = []
    for name, column in columns.items():
        names = spelled.get(name, [])
        if name in defaulted and (bare := _first_without(rows, names)) is not None:
            raise InvalidRows(
                f"{place_of(bare)}: column {column.name!r} has a default value, which is not computed here",
                field=column.name,
                remedy="give each row a value for it",
            )
        values = [row.get(names[0]) for row in rows] if len(names) == 1 else _values(rows, names, place_of)
        arrays.append(column_of(values, column, place_of))
    return pa.RecordBatch.from_arrays(arrays, schema=definition.schema)


def _first_without(rows: Sequence[Row], names: Sequence[str]) -> int | None:
    """The position of the first row that has none of the names."""
    return next((at for at, row in enumerate(rows) if not any(name in row for name in names)), None)


def _values(rows: Sequence[Row], names: Sequence[str], place_of: PlaceOf) -> list[Any]:
    """The values of a column that no row has, or that rows have under several spellings."""
    values = []
    for at, row in enumerate(rows):
        there = [name for name in names if name in row]
        if len(there) > 1:
            raise InvalidRows(f"{place_of(at)}: {there[0]!r} and {there[1]!r} are the same column")
        values.append(row[there[0]] if there else None)
    return values


def _unknown(name: str, place: str, definition: Definition) -> InvalidRows:
    names = ", ".join(definition.schema.names[:20])
    more = f" and {len(definition.schema) - 20} more" if len(definition.schema) > 20 else ""
    return InvalidRows(
        f"{place}: the table has no column {excerpt(name)}; it has {names}{more}",
        field=name[:200],
        remedy="leave it out, or add the column to the table",
    )


def _of_csv(plain: bytes, definition: Definition) -> list[pa.RecordBatch]:
    """Rows of texts: Arrow's reader splits them, and every text is converted as one of JSON. The
    header is a row like the others to the reader, so that it guesses no type."""
    columns = len(csv_header(plain))
    if columns > len(definition.schema) + 1_000:
        raise InvalidRows(f"the header has {columns} columns, and the table {len(definition.schema)}", field="body")
    bad: list[str] = []

    def note(row: Any) -> str:
        bad.append(f"row {row.number - 1}: {row.actual_columns} values, and the header has {row.expected_columns}")
        return "error"

    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(plain),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=max(1, len(plain)), autogenerate_column_names=True
            ),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=note),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={f"f{at}": pa.string() for at in range(columns)},
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
    except (pa.ArrowException, UnicodeError) as error:
        raise InvalidRows(bad[0] if bad else f"the body is no CSV: {error}", field="body") from None
    _require_fits(table.num_rows - 1, definition)
    names = [column[0].as_py() or "" for column in table.columns]
    table = table.slice(1)
    if len({name.lower() for name in names}) < len(names):
        raise InvalidRows("the header has a column twice", field="body", remedy="give each column once")
    known = {column.name.lower(): column for column in definition.schema}
    for name in names:
        if name.lower() not in known:
            raise _unknown(name, "header", definition)
    defaulted = columns_with_default(definition)
    given = {name.lower(): table.column(at).to_pylist() for at, name in enumerate(names)}
    arrays = []
    for name, column in known.items():
        if name not in given and name in defaulted:
            raise InvalidRows(f"column {column.name!r} has a default value, which is not computed here")
        if types.is_nested(column.type) and name in given:
            raise InvalidRows(f"column {column.name!r} is {column.type}, which CSV does not hold", remedy="send JSON")
        arrays.append(column_of(given.get(name, [None] * table.num_rows), column, lambda at: f"row {at + 1}"))
    return [pa.RecordBatch.from_arrays(arrays, schema=definition.schema)]


def csv_header(plain: bytes) -> list[str]:
    """The names of the columns. Raises InvalidRows for a body that is cut within a value."""
    if plain.count(b'"') % 2:
        raise InvalidRows("the body is no CSV: a quotation mark has no partner", field="body", remedy="send it whole")
    try:
        return next(csv.reader(io.StringIO(plain.decode(), newline="")), [])
    except (csv.Error, UnicodeError) as error:
        raise InvalidRows(f"the body is no CSV: {error}", field="body") from None


def _of_arrow(plain: bytes, definition: Definition) -> list[pa.RecordBatch]:
    try:
        require_plain_buffers(plain)
        with pa.ipc.open_stream(pa.BufferReader(plain)) as reader:
            return _conform(reader.schema, reader, definition)
    except (pa.ArrowException, OSError, MemoryError, UnicodeError) as error:
        raise InvalidRows(f"the body is no Arrow stream: {error}", field="body") from None


def _of_parquet(plain: bytes, definition: Definition) -> list[pa.RecordBatch]:
    try:
        with pyarrow.parquet.ParquetFile(pa.BufferReader(plain)) as file:
            texts = _checked_texts(file)
        with pyarrow.parquet.ParquetFile(pa.BufferReader(plain), read_dictionary=texts) as file:
            batches = file.iter_batches(batch_size=8_192, use_threads=False)
            return _conform(file.schema_arrow, batches, definition)
    except (pa.ArrowException, OSError, MemoryError, UnicodeError) as error:
        raise InvalidRows(f"the body is no Parquet file: {error}", field="body") from None


def _checked_texts(file: pyarrow.parquet.ParquetFile) -> list[str]:
    """The columns of texts and bytes, which are read as dictionaries: a page may name a long value
    again and again. Raises TooLarge by the sizes that the file says it has. Not by its column
    chunks: pyarrow ends the process where their metadata are damaged."""
    metadata = file.metadata
    _require_few(metadata.num_rows)
    columns = [file.schema.column(at) for at in range(len(file.schema))]
    _require_small(sum(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups)))
    _require_small(metadata.num_rows * sum(max(0, column.length) for column in columns))
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY" and _is_text(column)]


def _is_text(column: pyarrow.parquet.ColumnSchema) -> bool:
    return column.logical_type.type in ("STRING", "NONE", "JSON", "ENUM")


def _require_small(size: int) -> None:
    if size > 4 * PLAIN_BYTES:
        raise TooLarge(f"the rows take more than {4 * PLAIN_BYTES} bytes", field="body", remedy=_FEWER)


def _conform(schema: pa.Schema, batches: Iterable[pa.RecordBatch], definition: Definition) -> list[pa.RecordBatch]:
    conformer = Conformer(schema, definition.schema, columns_with_default(definition))
    found: list[pa.RecordBatch] = []
    rows = 0
    size = 0
    for batch in batches:
        rows += batch.num_rows
        _require_fits(rows, definition)
        batch.validate(full=True)
        size += sum(expanded_bytes(values) for values in batch.columns if not types.is_null(values.type))
        _require_small(size)
        found += conformer.conform(batch)
    return found
