"""New columns of a table, from rows that have them.

    JSON             true and false: boolean; whole numbers: long; other numbers: double; texts:
                     string; arrays and objects with these. Only nulls: refused
    CSV              string
    Arrow, Parquet   the column's type

Source: Delta protocol, "Schema Serialization Format", "Column Mapping".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

from turnstile.ingest.core.arrays import require_plain_buffers
from turnstile.ingest.core.bodies import ARROW, CSV, FORMATS, PARQUET, csv_header, json_rows
from turnstile.ingest.core.errors import InvalidRows
from turnstile.store.core.errors import TooLarge
from turnstile_rows.definitions import Definition
from turnstile_rows.errors import DataMismatch
from turnstile_rows.schemas import UNMAPPED, check_names, delta_schema, type_names

NEW_COLUMNS: Final = 100
"""The most columns that one request may add."""
COLUMNS: Final = 2_000
"""The most columns of a table to which requests add some."""

FIELDS: Final = 1_000
"""Fields of structs in the new columns of a request."""
NAME: Final = 255
"""Characters of a new name."""

_LONG: Final = 2**63
_EXACT: Final = 2**53
"""Whole numbers up to it are the same as a double."""
_MAPPING: Final = "delta.columnMapping.mode"
_LAST_ID: Final = "delta.columnMapping.maxColumnId"
_BY_HAND: Final = "leave the column out; or add it with the type that you want, and send the request again"
_RENAME: Final = "give the column another name"

Field = dict[str, Any]


def new_columns(plain: bytes, media: str, definition: Definition) -> list[Field]:
    """Returns the columns that the rows of a body have and the table lacks, as Delta's JSON has
    them. Raises InvalidRows for a column whose type does not follow from the rows, or that a table
    cannot have, and TooLarge for too many columns."""
    known = {name.lower() for name in definition.schema.names}
    match FORMATS[media]:
        case form if form == CSV:
            found = {name: "string" for name in csv_header(plain) if name.lower() not in known}
        case form if form in (ARROW, PARQUET):
            found = _typed_columns(plain, media, known)
        case _:
            found = _json_columns(plain, media, known)
    _check(found, definition)
    return [_field(name, type) for name, type in found.items()]


def _field(name: str, type: Any) -> Field:
    return {"name": name, "type": type, "nullable": True, "metadata": {}}


def _check_column_names(names: Iterable[str], what: str) -> None:
    """Raises InvalidRows for a name that no new column can have."""
    try:
        check_names(names, what)
    except DataMismatch as error:
        raise InvalidRows(str(error), field="body", remedy=_RENAME) from None
    for name in names:
        if len(name) > NAME or not name.isprintable():
            text = f"{what} {name[:40]!r}: a new name has printable characters, {NAME} at most"
            raise InvalidRows(text, field="body", remedy=_RENAME)


def _require_few(columns: int, limit: int) -> None:
    """Raises TooLarge for more columns than the limit."""
    if columns > limit:
        text = f"{columns} columns are over the limit of {limit}"
        raise TooLarge(text, field="body", remedy="add these columns with an engine first", limit=limit, size=columns)


def _check(found: Mapping[str, Any], definition: Definition) -> None:
    _check_column_names(found, "column")
    _require_few(len(found), NEW_COLUMNS)
    if found:
        _require_few(len(found) + len(definition.schema), COLUMNS)
    for name, type in found.items():
        if "timestamp_ntz" in type_names(type) and "timestampNtz" not in definition.writer_features:
            text = f"column {name!r} has times without a zone, and the table lacks the feature timestampNtz"
            raise InvalidRows(text, field=name, remedy="send times with a zone, or add the column with an engine")


def _typed_columns(plain: bytes, media: str, known: set[str]) -> dict[str, Any]:
    try:
        if FORMATS[media] == ARROW:
            require_plain_buffers(plain)
            with pa.ipc.open_stream(pa.BufferReader(plain)) as reader:
                schema = reader.schema
        else:
            with pyarrow.parquet.ParquetFile(pa.BufferReader(plain)) as file:
                schema = file.schema_arrow
        fresh = pa.schema([field for field in schema if field.name.lower() not in known])
        return {field["name"]: _nullable(field)["type"] for field in delta_schema(fresh)["fields"]}
    except DataMismatch as error:
        raise InvalidRows(str(error), field="body") from None
    except (pa.ArrowException, OSError, MemoryError, UnicodeError) as error:
        raise InvalidRows(f"the body cannot be read: {error}", field="body") from None


def _nullable(field: Field) -> Field:
    """The field, in which everything may be null: older rows have nothing else."""
    return _field(field["name"], _with_fields(field["type"], _nullable))


def _with_fields(type: Any, change: Callable[[Field], Field]) -> Any:
    """The type, in which each field of a struct is changed, and elements and values may be null."""
    match type:
        case {"type": "array"}:
            return {**type, "elementType": _with_fields(type["elementType"], change), "containsNull": True}
        case {"type": "map"}:
            inner = {member: _with_fields(type[member], change) for member in ("keyType", "valueType")}
            return {**type, **inner, "valueContainsNull": True}
        case {"type": "struct"}:
            return {**type, "fields": [change(field) for field in type["fields"]]}
        case _:
            return type


# -- types of JSON -----------------------------------------------------------------------------------------------------


class _NoType(Exception):
    """Values of JSON have no type of a column."""


class _Shape:
    """The type of all values that were added to it; ``fields`` counts the fields of the request."""

    def __init__(self, fields: Counter[str]) -> None:
        self._fields = fields
        self._kind = ""
        self._is_exact = True
        self._element: _Shape | None = None
        self._members: dict[str, _Shape] = {}

    def add(self, value: Any) -> None:
        """Adds a value. Raises _NoType where it has no type together with those before."""
        match value:
            case None:
                return
            case bool():
                self._be("boolean")
            case int():
                if not -_LONG <= value < _LONG:
                    raise _NoType("a whole number has more than 64 bits")
                self._is_exact &= abs(value) <= _EXACT
                self._be("double" if self._kind == "double" else "long")
            case float():
                self._kind = "double" if self._kind == "long" else self._kind
                self._be("double")
            case str():
                self._be("string")
            case list():
                self._be("array")
                self._element = self._element or _Shape(self._fields)
                for each in value:
                    self._element.add(each)
            case _:
                self._be("struct")
                for name, each in value.items():
                    self._member(name).add(each)

    def _be(self, kind: str) -> None:
        if self._kind not in ("", kind):
            raise _NoType(f"it is {self._kind} in one row and {kind} in another")
        self._kind = kind
        if kind == "double" and not self._is_exact:
            raise _NoType("some numbers have a fraction, and a whole one has more digits than a double holds")

    def _member(self, name: str) -> _Shape:
        found = self._members.get(name)
        if found is None:
            self._fields["fields"] += 1
            if self._fields["fields"] > FIELDS:
                raise _NoType(f"the new columns have more than {FIELDS} fields")
            found = self._members[name] = _Shape(self._fields)
        return found

    def type(self) -> Any:
        """The type as Delta's JSON has it. Raises _NoType where it does not follow."""
        match self._kind:
            case "":
                raise _NoType("it has only nulls, or empty arrays, from which no type follows")
            case "array":
                assert self._element is not None
                return {"type": "array", "elementType": self._element.type(), "containsNull": True}
            case "struct":
                _check_column_names(self._members, "field")
                if not self._members:
                    raise _NoType("it has objects without members")
                fields = [_field(name, shape.type()) for name, shape in self._members.items()]
                return {"type": "struct", "fields": fields}
            case kind:
                return kind


def _json_columns(plain: bytes, media: str, known: set[str]) -> dict[str, Any]:
    rows, place_of = json_rows(plain, media)
    shapes: dict[str, _Shape] = {}
    fields = Counter[str]()
    place = ""
    name = ""
    try:
        for at, row in enumerate(rows):
            for name, value in row.items():
                if name.lower() not in known:
                    place = f"{place_of(at)}: "
                    shapes.setdefault(name, _Shape(fields)).add(value)
            _require_few(len(shapes), NEW_COLUMNS)
        place = ""
        found = {}
        for name, shape in shapes.items():
            found[name] = shape.type()
    except _NoType as error:
        text = f"{place}column {name[:200]!r}: {error}"
        raise InvalidRows(text, field=name[:200], remedy=_BY_HAND) from None
    return found


# -- the metadata ------------------------------------------------------------------------------------------------------


def with_columns(
    metadata: Mapping[str, Any], columns: Sequence[Field], physical_name: Callable[[], str]
) -> dict[str, Any]:
    """Returns the ``metaData`` action with further columns, which get ids and the names of
    ``physical_name`` where the table maps its columns."""
    configuration = dict(metadata.get("configuration") or {})
    schema = json.loads(metadata["schemaString"])
    added: Sequence[Any] = columns
    if configuration.get(_MAPPING, UNMAPPED).lower() != UNMAPPED:
        ids = _Ids(int(configuration.get(_LAST_ID, 0)), physical_name)
        added = [ids.give(column) for column in columns]
        configuration[_LAST_ID] = str(ids.last)
    schema["fields"] = [*schema["fields"], *added]
    return {**metadata, "schemaString": json.dumps(schema, separators=(",", ":")), "configuration": configuration}


class _Ids:
    """Gives columns, and fields of structs in them, their ids and physical names."""

    def __init__(self, last: int, physical_name: Callable[[], str]) -> None:
        self.last = last
        self._physical_name = physical_name

    def give(self, field: Field) -> Field:
        self.last += 1
        mapping = {
            "delta.columnMapping.id": self.last,
            "delta.columnMapping.physicalName": self._physical_name(),
        }
        return {**field, "metadata": {**field["metadata"], **mapping}, "type": _with_fields(field["type"], self.give)}
