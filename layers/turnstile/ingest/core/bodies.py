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
import io
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
from turnstile.ingest.core.compression import FEWER, PLAIN_BYTES
from turnstile.ingest.core.errors import InvalidRows, excerpt
from turnstile.ingest.core.rejects import ROWS_MAX, Misfits, Reject, Rejects, set_apart, text_of, too_many
from turnstile.ingest.core.values import OnMisfit, column_of, refuse
from turnstile.store.core.errors import TooLarge
from turnstile_rows.conforming import Conformer
from turnstile_rows.definitions import Definition, columns_with_default
from turnstile_rows.errors import DataMismatch
from turnstile_rows.partitions import partition_misfits

BODY_BYTES: Final = 4 * 1024 * 1024
"""Of a body as it is sent: what a gateway hands on to a function, with room for base64."""
ROWS: Final = 100_000
"""Rows of one request."""
_VALUES: Final = 16_000_000
"""Values of the rows of one request, nulls included: each column of the table takes memory for each
row, whether the row has it or not."""

_SPELLINGS: Final = 8
"""Spellings of one column in a body of JSON: each is looked for in each row."""

_BRACKETS: Final = 1_000_000
_COMMAS: Final = 4_000_000
"""Objects, arrays and values of a body of JSON: each takes memory, however few bytes it has."""


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


# -- rows --------------------------------------------------------------------------------------------------------------


def rows_of(plain: bytes, media: str, definition: Definition) -> list[pa.RecordBatch]:
    """Returns the rows of a body in the columns and types of a table. ``media``: one of
    ``FORMATS``. Raises InvalidRows, which names the row and the column, and TooLarge.
    """
    return _with_rows(_parse(plain, media, definition, None))


def split_rows(plain: bytes, media: str, definition: Definition) -> tuple[list[pa.RecordBatch], list[Reject]]:
    """Returns the rows of a body that fit a table, as ``rows_of``, and the others. Raises
    InvalidRows for a body without rows, or with columns of Arrow or Parquet that fit no row; and
    TooLarge.
    """
    rejects = Rejects(len(plain))
    batches = _parse(plain, media, definition, rejects)
    return (batches if rejects.rows else _with_rows(batches)), rejects.rows


def _parse(plain: bytes, media: str, definition: Definition, rejects: Rejects | None) -> list[pa.RecordBatch]:
    """The rows that fit. The others are added to ``rejects``; without it they are refused."""
    try:
        match FORMATS[media]:
            case "application/json" | "application/x-ndjson":
                return _of_json(plain, media, definition, rejects)
            case "text/csv":
                return _of_csv(plain, definition, rejects)
            case "application/vnd.apache.arrow.stream":
                return _of_arrow(plain, definition, rejects)
            case _:
                return _of_parquet(plain, definition, rejects)
    except DataMismatch as error:
        raise InvalidRows(str(error), field="body") from None


def _with_rows(found: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    batches = [batch for batch in found if batch.num_rows]
    if not batches:
        raise InvalidRows("the body has no rows", field="body", remedy="send one row or more")
    return batches


def _require_few(rows: int) -> None:
    if rows > ROWS:
        raise TooLarge(f"{rows} rows are over the limit of {ROWS}", field="body", remedy=FEWER, limit=ROWS, size=rows)


def _require_fits(rows: int, definition: Definition) -> None:
    _require_few(rows)
    if rows * len(definition.schema) > _VALUES:
        text = f"{rows} rows of {len(definition.schema)} columns are over the limit of {_VALUES} values"
        raise TooLarge(text, field="body", remedy=FEWER, limit=_VALUES, size=rows * len(definition.schema))


def _of_json(plain: bytes, media: str, definition: Definition, rejects: Rejects | None) -> list[pa.RecordBatch]:
    hook = Decimal if any(types.is_decimal(leaf) for leaf in _leaves(definition.schema)) else None
    misfits = Misfits()
    on_misfit = refuse if rejects is None else misfits.add
    rows, place_of = json_rows(plain, media, hook, on_misfit)
    _require_fits(len(rows), definition)
    batch = _batch(rows, place_of, definition, on_misfit)
    if rejects is None or not misfits.found:
        return [batch]
    texts = _texts(plain, media, len(rows))
    return [set_apart(batch, misfits, rejects, place_of, texts.__getitem__)]


def json_rows(
    plain: bytes, media: str, hook: type[Decimal] | None = None, on_misfit: OnMisfit = refuse
) -> tuple[list[Row], PlaceOf]:
    """Returns the rows of a body of JSON, and the function that names the place of a row. ``hook``:
    the type of numbers with a fraction; ``on_misfit``: is called for lines and elements that are no
    objects. Raises InvalidRows and TooLarge."""
    if plain.count(b"{") + plain.count(b"[") > _BRACKETS or plain.count(b",") > _COMMAS:
        text = f"the body has more than {_BRACKETS} objects and arrays, or {_COMMAS} values"
        raise TooLarge(text, field="body", remedy=FEWER, limit=_COMMAS)
    if _is_array(plain, media):
        return _array_rows(plain, hook, on_misfit)
    return _line_rows(plain, hook, on_misfit)


def _is_array(plain: bytes, media: str) -> bool:
    return FORMATS[media] == JSON and plain.lstrip()[:1] == b"["


def _texts(plain: bytes, media: str, rows: int) -> list[str]:
    """The rows of a body as they were sent. Bytes that are no text are shown by their numbers."""
    if _is_array(plain, media):
        raw = [bytes(one) for one in msgspec.json.decode(plain, type=list[msgspec.Raw])]
    else:
        raw = [line for line in plain.split(b"\n") if line.strip()]
    if len(raw) != rows:
        raw = [plain]  # one object of many lines
    return [one.strip().decode(errors="backslashreplace") for one in raw]


def _leaves(fields: Iterable[pa.Field]) -> Iterable[pa.DataType]:
    """The types of all columns, and of all that is in them."""
    for field in fields:
        yield field.type
        if types.is_nested(field.type):
            yield from _leaves(field.type.field(at) for at in range(field.type.num_fields))


def _array_rows(plain: bytes, hook: type[Decimal] | None, on_misfit: OnMisfit) -> tuple[list[Row], PlaceOf]:
    def place_of(at: int) -> str:
        return f"row {at + 1}"

    elements: Any = list[dict[str, Any]] if on_misfit is refuse else list[Any]
    try:
        found: list[Any] = msgspec.json.Decoder(elements, float_hook=hook).decode(plain)
    except (msgspec.MsgspecError, RecursionError, UnicodeError, ArithmeticError) as error:
        raise InvalidRows(f"the body is no JSON array of objects: {error}", field="body") from None
    for at, row in enumerate(found):
        if not isinstance(row, dict):
            on_misfit(at, InvalidRows(f"{place_of(at)}: it is no JSON object", field="body"))
            found[at] = {}
    return found, place_of


def _line_rows(plain: bytes, hook: type[Decimal] | None, on_misfit: OnMisfit) -> tuple[list[Row], PlaceOf]:
    decoder = msgspec.json.Decoder(dict[str, Any], float_hook=hook)
    with suppress(msgspec.MsgspecError, RecursionError, UnicodeError, ArithmeticError):
        return [decoder.decode(plain)], lambda _: "row 1"  # one object, which may have many lines
    rows: list[Row] = []
    numbers = []
    for number, line in enumerate(plain.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
        except (msgspec.MsgspecError, RecursionError, UnicodeError, ArithmeticError) as error:
            on_misfit(len(rows), InvalidRows(f"line {number} is no JSON object: {error}", field="body"))
            rows.append({})
        numbers.append(number)
        _require_few(len(rows))
    return rows, lambda at: f"line {numbers[at]}"


def _batch(rows: Sequence[Row], place_of: PlaceOf, definition: Definition, on_misfit: OnMisfit) -> pa.RecordBatch:
    """Rows with values by name in the columns of the table. A row that does not fit has nulls."""
    columns = {column.name.lower(): column for column in definition.schema}
    spelled: dict[str, list[str]] = {}
    unknown = set[str]()
    for name in sorted(set[str]().union(*rows)):
        if name.lower() in columns:
            spelled.setdefault(name.lower(), []).append(name)
        else:
            unknown.add(name)
    for at, row in enumerate(rows if unknown else ()):
        if names_of_row := unknown.intersection(row):
            on_misfit(at, _unknown(min(names_of_row), place_of(at), definition))
    for name, names in spelled.items():
        if len(names) > _SPELLINGS:
            raise InvalidRows(f"column {name!r} is spelled in more than {_SPELLINGS} ways", field=name)
    defaulted = columns_with_default(definition)
    arrays = []
    for name, column in columns.items():
        names = spelled.get(name, [])
        for at, row in enumerate(rows if name in defaulted else ()):
            if not any(one in row for one in names):
                on_misfit(at, _without_default(f"{place_of(at)}: ", column.name))
        is_plain = len(names) == 1
        values = [row.get(names[0]) for row in rows] if is_plain else _values(rows, names, place_of, on_misfit)
        arrays.append(column_of(values, column, place_of, on_misfit))
    batch = pa.RecordBatch.from_arrays(arrays, schema=definition.schema)
    _check_partitions(batch, place_of, definition, on_misfit)
    return batch


def _check_partitions(batch: pa.RecordBatch, place_of: PlaceOf, definition: Definition, on_misfit: OnMisfit) -> None:
    """Calls ``on_misfit`` for values that no partition can have."""
    for name in definition.partitions:
        for at, problem in partition_misfits(batch.column(name), name):
            on_misfit(at, InvalidRows(f"{place_of(at)}: {problem}", field=name))


def _without_default(place: str, name: str) -> InvalidRows:
    return InvalidRows(
        f"{place}column {name!r} has a default value, which is not computed here",
        field=name,
        remedy="give each row a value for it",
    )


def _values(rows: Sequence[Row], names: Sequence[str], place_of: PlaceOf, on_misfit: OnMisfit) -> list[Any]:
    """The values of a column that no row has, or that rows have under several spellings."""
    values = []
    for at, row in enumerate(rows):
        there = [name for name in names if name in row]
        if len(there) > 1:
            on_misfit(at, InvalidRows(f"{place_of(at)}: {there[0]!r} and {there[1]!r} are the same column"))
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


def _of_csv(plain: bytes, definition: Definition, rejects: Rejects | None) -> list[pa.RecordBatch]:
    """Rows of texts: Arrow's reader splits them, and every text is converted as one of JSON. The
    header is a row like the others to the reader, so that it guesses no type."""
    columns = len(csv_header(plain))
    if columns > len(definition.schema) + 1_000:
        raise InvalidRows(f"the header has {columns} columns, and the table {len(definition.schema)}", field="body")
    torn: dict[int, tuple[InvalidRows, str]] = {}
    """Rows with too many or too few values, by number."""

    def note(row: Any) -> str:
        text = f"row {row.number - 1}: {row.actual_columns} values, and the header has {row.expected_columns}"
        torn[row.number - 1] = InvalidRows(text, field="body"), row.text
        return "error" if rejects is None or len(torn) > ROWS_MAX else "skip"

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
        if len(torn) > ROWS_MAX:
            raise too_many(torn.popitem()[1][0]) from None
        raise (torn.popitem()[1][0] if torn else InvalidRows(f"the body is no CSV: {error}", field="body")) from None
    _require_fits(table.num_rows - 1, definition)
    numbers = [number for number in range(1, table.num_rows + len(torn)) if number not in torn]
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
    misfits = Misfits()
    on_misfit = refuse if rejects is None else misfits.add
    for name, column in known.items():
        if name not in given and name in defaulted:
            raise _without_default("", column.name)
        if types.is_nested(column.type) and name in given:
            raise InvalidRows(f"column {column.name!r} is {column.type}, which CSV does not hold", remedy="send JSON")
        values = given.get(name, [None] * table.num_rows)
        arrays.append(column_of(values, column, lambda at: f"row {numbers[at]}", on_misfit))
    batch = pa.RecordBatch.from_arrays(arrays, schema=definition.schema)
    _check_partitions(batch, lambda at: f"row {numbers[at]}", definition, on_misfit)
    if rejects is None or not (misfits.found or torn):
        return [batch]
    positions = {numbers[at]: at for at in misfits.found}
    for number in sorted({*torn, *positions}):
        if number in torn:
            rejects.add(f"row {number}", *torn[number])
        else:
            at = positions[number]
            row = {name: given[name.lower()][at] for name in names}
            rejects.add(f"row {number}", misfits.found[at], text_of(row))
    return [misfits.leave_out(batch)]


def csv_header(plain: bytes) -> list[str]:
    """The names of the columns. Raises InvalidRows for a body that is cut within a value."""
    if plain.count(b'"') % 2:
        raise InvalidRows("the body is no CSV: a quotation mark has no partner", field="body", remedy="send it whole")
    try:
        return next(csv.reader(io.StringIO(plain.decode(), newline="")), [])
    except (csv.Error, UnicodeError) as error:
        raise InvalidRows(f"the body is no CSV: {error}", field="body") from None


def _of_arrow(plain: bytes, definition: Definition, rejects: Rejects | None) -> list[pa.RecordBatch]:
    try:
        require_plain_buffers(plain)
        with pa.ipc.open_stream(pa.BufferReader(plain)) as reader:
            return _conform(reader.schema, reader, definition, rejects)
    except (pa.ArrowException, OSError, MemoryError, UnicodeError) as error:
        raise InvalidRows(f"the body is no Arrow stream: {error}", field="body") from None


def _of_parquet(plain: bytes, definition: Definition, rejects: Rejects | None) -> list[pa.RecordBatch]:
    try:
        with pyarrow.parquet.ParquetFile(pa.BufferReader(plain)) as file:
            texts = _checked_texts(file)
        with pyarrow.parquet.ParquetFile(pa.BufferReader(plain), read_dictionary=texts) as file:
            batches = file.iter_batches(batch_size=8_192, use_threads=False)
            return _conform(file.schema_arrow, batches, definition, rejects)
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
        raise TooLarge(f"the rows take more than {4 * PLAIN_BYTES} bytes", field="body", remedy=FEWER)


def _conform(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], definition: Definition, rejects: Rejects | None
) -> list[pa.RecordBatch]:
    conformer = Conformer(schema, definition.schema, columns_with_default(definition))
    found: list[pa.RecordBatch] = []
    rows = 0
    size = 0
    for batch in batches:
        first = rows + 1
        rows += batch.num_rows
        _require_fits(rows, definition)
        batch.validate(full=True)
        size += _expanded_bytes(batch)
        _require_small(size)
        fitting = batch if rejects is None else _leave_out_misfits(batch, first, conformer, definition, rejects)
        found += conformer.conform(fitting)
    return found


def _leave_out_misfits(
    batch: pa.RecordBatch, first: int, conformer: Conformer, definition: Definition, rejects: Rejects
) -> pa.RecordBatch:
    """The rows that fit; the others are added to ``rejects``. ``first``: the number of the first
    row."""
    misfits = Misfits()
    for at, column, problem in conformer.misfits(batch):
        misfits.add(at, InvalidRows(problem, field=column))
    places = {column.lower(): column for column in batch.schema.names}
    for name in definition.partitions:
        if name.lower() in places:
            for at, problem in partition_misfits(batch.column(places[name.lower()]), name):
                misfits.add(at, InvalidRows(problem, field=name))

    def text_at(at: int) -> str:
        row = batch.slice(at, 1)
        rejects.require(_expanded_bytes(row), misfits.found[at])
        return _text_of_row(row)

    return set_apart(batch, misfits, rejects, lambda at: f"row {first + at}", text_at)


def _expanded_bytes(batch: pa.RecordBatch) -> int:
    return sum(expanded_bytes(values) for values in batch.columns if not types.is_null(values.type))


def _text_of_row(row: pa.RecordBatch) -> str:
    try:
        return text_of(row.to_pylist()[0])
    except (ValueError, OverflowError):  # times that Python has not
        return text_of({name: row.column(name).to_string(skip_new_lines=True) for name in row.schema.names})
