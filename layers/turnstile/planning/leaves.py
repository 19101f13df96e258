"""Leaves of the file index: a row for each data file, in Arrow's columns, stored as Parquet beside
the table's log.

    rows = LeafMaker(metadata, columns).table(adds, removes)        # rows of actions
    for ref, content in chunks(rows, ...): ...                      # files, clustered
    leaf = Leaf.of(content)                                         # read again
    leaf.bounds_of(schema)(("day",)), leaf.planned(rows, stats=True)

A leaf is written once under a name of its own and never changed. The file describes its columns:
physical name and type; bounds of a column whose type has changed since are not used
(``IndexedColumn.serves``).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import compute, parquet

from turnstile.delta.core.actions import Add, DeletionVector
from turnstile.delta.core.segments import vector_id
from turnstile.maintenance.core.parsed import decimal_of, type_of
from turnstile.planning.core.files import FILE_FIELDS, file_field
from turnstile.planning.core.plans import PlannedFile
from turnstile.planning.core.predicates import Column
from turnstile.planning.core.roots import Bound, IndexedColumn, Key, LeafRef, Root
from turnstile.planning.judging import HAS_NAN, HAS_NULLS, HAS_VALUES, Bounds, range_row, storage_type
from turnstile.store.core.errors import UnsupportedTable
from turnstile_predicates.file_stats import TableSchema, kind_of
from turnstile_predicates.predicates import ANYTHING, Range

_META: Final = b"turnstile.index"
_ALL: Final = HAS_NULLS | HAS_VALUES | HAS_NAN
_BASE: Final = (
    ("removed", pa.bool_()),
    ("path", pa.string()),
    ("vector", pa.string()),
    ("size", pa.int64()),
    ("modification_ms", pa.int64()),
    ("records", pa.int64()),
    ("base_row_id", pa.int64()),
    ("row_commit_version", pa.int64()),
    ("partition", pa.list_(pa.string())),
    ("stats", pa.string()),
)
_FACTS: Final = ("path", "vector", "size", "modification_ms", "records", "base_row_id", "row_commit_version")
"""The columns of ``_BASE`` that a planned file takes as they are."""
DeadPaths = tuple[dict[str, set[str]], pa.Array]
"""Logical files that are overridden: unique ids of deletion vectors by path, and the paths as an
array."""


class _Meta(msgspec.Struct, frozen=True):
    columns: tuple[IndexedColumn, ...]
    partitions: tuple[str, ...]


class _Records(msgspec.Struct):
    numRecords: int | None = None


_RECORDS: Final = msgspec.json.Decoder(_Records)
_VECTOR: Final = msgspec.json.Decoder(DeletionVector)


def scale_of(type: str) -> int:
    """The scale of a decimal type; 0 for others."""
    return decimal_of(type)[1] if type_of(type) == "decimal" else 0


class LeafMaker:
    """Makes rows of a table's actions. ``partitions``: physical names of its partition columns."""

    def __init__(self, schema: TableSchema, columns: Sequence[IndexedColumn]) -> None:
        self._schema = schema
        self._columns = tuple(columns)
        by_physical = {field.physical: name for name, field in schema.fields.items()}
        self._names = [by_physical.get(column.physical) for column in columns]
        self._kinds = [kind_of(column.type) for column in columns]
        self._scales = [scale_of(column.type) for column in columns]
        self._partitions = tuple(
            field.physical[-1]
            for name, field in schema.fields.items()
            if len(name) == 1 and name[0] in schema.partitions
        )
        meta = msgspec.json.encode(_Meta(self._columns, self._partitions))
        self.schema = leaf_schema(self._columns).with_metadata({_META: meta})

    def table(self, adds: Sequence[Add], removes: Sequence[Key] = ()) -> pa.Table:
        """Returns the rows of files that are in the table, and of files that are not any more."""
        nothing = [None] * len(removes)
        values: dict[str, Any] = {
            "removed": [False] * len(adds) + [True] * len(removes),
            "path": [*(add.path for add in adds), *(path for path, _ in removes)],
            "vector": [*map(_vector_text, adds), *(vector or None for _, vector in removes)],
            "size": [*(add.size for add in adds), *nothing],
            "modification_ms": [*(add.modificationTime for add in adds), *nothing],
            "records": [*(_records(add.stats) for add in adds), *nothing],
            "base_row_id": [*(add.baseRowId for add in adds), *nothing],
            "row_commit_version": [*(add.defaultRowCommitVersion for add in adds), *nothing],
            "partition": [*([add.partitionValues.get(name) for name in self._partitions] for add in adds), *nothing],
            "stats": [*(add.stats for add in adds), *nothing],
        }
        ranges = [self._schema.ranges_of(msgspec.structs.asdict(add)) for add in adds]
        for at, (name, kind, scale) in enumerate(zip(self._names, self._kinds, self._scales, strict=True)):
            bounds = [_stored_bound(range_of, name, kind, scale) for range_of in ranges] + [(None, None, 0)] * len(
                removes
            )
            for part, member in enumerate("lhf"):
                values[f"{member}{at}"] = [bound[part] for bound in bounds]
        try:
            arrays = [pa.array(values[field.name], field.type) for field in self.schema]
        except (pa.ArrowInvalid, UnicodeError, OverflowError) as error:
            raise UnsupportedTable(f"a file's action cannot be indexed: {error}", field="add") from None
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def align_leaf(self, leaf: Leaf) -> pa.Table:
        """Returns the rows of a leaf, which may be of an earlier schema of the table, in this
        schema."""
        return leaf.align(self.schema, self._columns, self._partitions)


def leaf_schema(columns: Sequence[IndexedColumn]) -> pa.Schema:
    """The columns of a leaf: of ``columns`` least and greatest values and flags, as ``l0``, ``h0``,
    ``f0`` and so on."""
    fields = [*_BASE]
    for at, column in enumerate(columns):
        kept = storage_type(kind_of(column.type))
        fields += [(f"l{at}", kept), (f"h{at}", kept), (f"f{at}", pa.uint8())]
    return pa.schema(fields)


def _stored_bound(range_of: Callable[[Column], Range] | None, name: Column | None, kind: Any, scale: int) -> Bound:
    if range_of is None:
        return None, None, 0  # it has no rows
    return range_row(ANYTHING if name is None else range_of(name), kind, scale)


def _vector_text(add: Add) -> str | None:
    return None if add.deletionVector is None else msgspec.json.encode(add.deletionVector).decode()


def _records(stats: str | None) -> int | None:
    try:
        return _RECORDS.decode(stats).numRecords if stats else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


# -- files ------------------------------------------------------------------------------------------------------------


def chunks(
    rows: pa.Table, cluster: Sequence[int], columns: int, name: Callable[[], str], most: int
) -> Iterator[tuple[LeafRef, bytes]]:
    """Yields clustered rows as leaves of about equal size, with the reference to each."""
    keys = [(f"l{at}", "ascending") for at in cluster]
    rows = rows.take(compute.sort_indices(rows, sort_keys=[*keys, ("path", "ascending")]))
    count = -(-len(rows) // most)
    for part in range(count):
        start = part * len(rows) // count
        stop = (part + 1) * len(rows) // count
        yield write_leaf(rows.slice(start, stop - start), cluster, columns, name())


def write_leaf(rows: pa.Table, cluster: Sequence[int], columns: int, name: str) -> tuple[LeafRef, bytes]:
    """Returns rows as the content of one leaf, and the reference to it."""
    sink = io.BytesIO()
    parquet.write_table(
        rows.combine_chunks(),
        sink,
        compression="zstd",
        write_statistics=False,
        row_group_size=1 << 20,
        store_schema=True,
    )
    content = sink.getvalue()
    first = tuple(rows[f"l{at}"][0].as_py() for at in cluster)
    bounds = tuple(_summary(rows, at) for at in range(columns))
    return LeafRef(name, len(content), digest_of(content), len(rows), first, bounds), content


def digest_of(content: bytes) -> bytes:
    """Returns the digest of a leaf's file, which the root keeps."""
    return hashlib.blake2b(content, digest_size=16).digest()


def _summary(rows: pa.Table, at: int) -> Bound:
    """The bounds of all rows of a leaf."""
    flags = 0
    for value in compute.unique(rows[f"f{at}"]).to_pylist():
        flags |= value
    has_values = compute.not_equal(
        compute.bit_wise_and(rows[f"f{at}"], pa.scalar(HAS_VALUES, pa.uint8())), pa.scalar(0, pa.uint8())
    )
    low = rows[f"l{at}"].filter(has_values)
    high = rows[f"h{at}"].filter(has_values)
    return (
        None if low.null_count or not len(low) else compute.min(low).as_py(),
        None if high.null_count or not len(high) else compute.max(high).as_py(),
        flags,
    )


class Leaf:
    """A leaf that was read, or rows that are none yet. ``nbytes``: its size in memory."""

    def __init__(self, table: pa.Table, content: bytes | None = None) -> None:
        self.table = table
        self._content = content
        meta = msgspec.json.decode(table.schema.metadata[_META], type=_Meta)
        self._columns = meta.columns
        self._partitions = meta.partitions
        self.nbytes = table.nbytes + len(content or b"")

    @classmethod
    def of(cls, content: bytes) -> Leaf:
        """Reads a leaf; its statistics are decoded when they are asked for. Raises ValueError for
        something else."""
        file = parquet.ParquetFile(io.BytesIO(content))
        table = file.read([name for name in file.schema_arrow.names if name != "stats"], use_threads=False)
        if _META not in (table.schema.metadata or {}):
            raise ValueError("it is no leaf of an index")
        return cls(table.combine_chunks(), content)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def partitions(self) -> tuple[str, ...]:
        """Physical names of the partition columns that its rows have values of."""
        return self._partitions

    def position(self, schema: TableSchema, column: Column) -> int | None:
        """Where the bounds of a column are that are still good for it; None for nowhere."""
        field = schema.fields.get(column)
        if field is None:
            return None
        is_partition = len(column) == 1 and column[0] in schema.partitions
        for at, kept in enumerate(self._columns):
            if kept.serves(field.physical, field.type, partition=is_partition):
                return at
        return None

    def files(self) -> list[Key]:
        """The logical files of its rows, added and removed."""
        vectors = self.table["vector"].to_pylist()
        removed = self.table["removed"].to_pylist()
        return [
            (path, (vector or "") if gone else vector_id(_VECTOR.decode(vector) if vector else None))
            for path, vector, gone in zip(self.table["path"].to_pylist(), vectors, removed, strict=True)
        ]

    def alive(self, overridden: dict[str, set[str]], paths: pa.Array) -> pa.BooleanArray:
        """Which rows are files of the table: not removed, and not among ``overridden``, unique ids
        of deletion vectors by path; ``paths`` are its keys."""
        alive = compute.invert(self.table["removed"])
        if not len(paths):
            return alive.combine_chunks()
        named = compute.is_in(self.table["path"], value_set=paths)
        mask = alive.to_pylist()
        vectors = self.table["vector"]
        for at in compute.indices_nonzero(named).to_pylist():
            vector = vectors[at].as_py()
            if (
                mask[at]
                and vector_id(_VECTOR.decode(vector) if vector else None) in overridden[self.table["path"][at].as_py()]
            ):
                mask[at] = False
        return pa.array(mask, pa.bool_())

    def planned_files(self, rows: pa.Array, *, stats: bool) -> list[PlannedFile]:
        """Returns the files at these positions, in their order. Files with equal partition values
        share one dict: callers must not change it."""
        if not len(rows):
            return []
        facts = {name: _python_values(self.table[name].take(rows)) for name in _FACTS}
        vectors = [_VECTOR.decode(text) if text else None for text in facts["vector"]]
        texts = _python_values(self._stats().take(rows)) if stats else [None] * len(rows)
        return list(
            map(
                PlannedFile,
                facts["path"],
                facts["size"],
                self._partition_values(rows),
                facts["modification_ms"],
                facts["records"],
                texts,
                vectors,
                facts["base_row_id"],
                facts["row_commit_version"],
            )
        )

    def _partition_values(self, rows: pa.Array) -> list[dict[str, str | None]]:
        """Returns the partition values of these rows by physical name."""
        if not self._partitions:
            return [{}] * len(rows)
        shared = dict[tuple[str | None, ...], dict[str, str | None]]()
        found = list[dict[str, str | None]]()
        for values in _tuples(self.table["partition"].take(rows), len(self._partitions)):
            by_name = shared.get(values)
            if by_name is None:
                by_name = shared[values] = dict(zip(self._partitions, values, strict=True))
            found.append(by_name)
        return found

    def align(self, schema: pa.Schema, columns: Sequence[IndexedColumn], partitions: Sequence[str]) -> pa.Table:
        """Its rows with these columns; columns that it does not have are unknown."""
        arrays = [self._member(name) for name, _ in _BASE]
        if tuple(partitions) != self._partitions:
            position = {name: at for at, name in enumerate(self._partitions)}
            given = self.table["partition"].to_pylist()
            arrays[8] = pa.array(
                [
                    None
                    if values is None
                    else [values[position[name]] if name in position else None for name in partitions]
                    for values in given
                ],
                pa.list_(pa.string()),
            )
        for column in columns:
            kept = storage_type(kind_of(column.type))
            at = next(
                (
                    at
                    for at, own in enumerate(self._columns)
                    if own.serves(column.physical, column.type, partition=column.partition)
                ),
                None,
            )
            if at is None:
                everything = pa.repeat(pa.scalar(_ALL, pa.uint8()), len(self))
                arrays += [pa.nulls(len(self), kept), pa.nulls(len(self), kept), everything]
            else:
                arrays += [self.table[f"{member}{at}"] for member in "lhf"]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _member(self, name: str) -> Any:
        return self._stats() if name == "stats" else self.table[name]

    def _stats(self) -> Any:
        if "stats" in self.table.column_names:
            return self.table["stats"]
        assert self._content is not None
        return parquet.ParquetFile(io.BytesIO(self._content)).read(["stats"], use_threads=False)["stats"]


def bounds_of(leaves: Sequence[Leaf], schema: TableSchema) -> Callable[[Column], Bounds | None]:
    """Returns where the bounds of a column are, in all rows of the leaves one after the other."""

    def of_column(column: Column) -> Bounds | None:
        member = file_field(column)
        if member is not None:
            return _values_of(leaves, member)
        positions = [leaf.position(schema, column) for leaf in leaves]
        field = schema.fields.get(column)
        if field is None or all(at is None for at in positions):
            return None
        kept = storage_type(kind_of(field.type))
        parts: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        for leaf, at in zip(leaves, positions, strict=True):
            if at is None:
                unknown = pa.nulls(len(leaf), kept)
                columns = [unknown, unknown, pa.repeat(pa.scalar(_ALL, pa.uint8()), len(leaf))]
            else:
                columns = [leaf.table[f"{member}{at}"].combine_chunks() for member in "lhf"]
            for part, values in zip(parts, columns, strict=True):
                part.append(values)
        low, high, flags = (pa.chunked_array(part) for part in parts)
        return Bounds(field.kind, scale_of(field.type), low, high, flags)

    return of_column


def summaries_of(root: Root, schema: TableSchema) -> Callable[[tuple[str, ...]], Bounds | None]:
    """Returns where the bounds of a column are, in a root's leaves."""

    def of_column(name: tuple[str, ...]) -> Bounds | None:
        field = schema.fields.get(name)
        if field is None:
            return None
        is_partition = len(name) == 1 and name[0] in schema.partitions
        for at, column in enumerate(root.columns):
            if column.serves(field.physical, field.type, partition=is_partition):
                low, high, flags = zip(*(ref.bounds[at] for ref in root.leaves), strict=True)
                kept = storage_type(kind_of(field.type))
                arrays = (pa.array(low, kept), pa.array(high, kept), pa.array(flags, pa.uint8()))
                return Bounds(field.kind, scale_of(field.type), *arrays)
        return None

    return of_column


_MEMBERS: Final = {"size": "size", "records": "records", "modified": "modification_ms", "path": "path"}
"""The column of a leaf with a fact of the file (``core.files``)."""


def _values_of(leaves: Sequence[Leaf], member: str) -> Bounds:
    """The facts of each file, as bounds that are equal."""
    values = pa.chunked_array([leaf.table[_MEMBERS[member]].combine_chunks() for leaf in leaves])
    flags = compute.if_else(
        compute.is_valid(values), pa.scalar(HAS_VALUES, pa.uint8()), pa.scalar(HAS_NULLS, pa.uint8())
    )
    return Bounds(kind_of(FILE_FIELDS[member]), 0, values, values, flags)


def path_lists(keys: Iterable[Key]) -> DeadPaths:
    """Returns logical files as ``Leaf.alive`` takes them."""
    by_path: dict[str, set[str]] = {}
    for path, vector in keys:
        by_path.setdefault(path, set()).add(vector)
    return by_path, pa.array(list(by_path), pa.string())


def _python_values(values: Any) -> list[Any]:
    """Returns the values of a column. Texts and 64-bit integers without a null are decoded at once,
    in a fifth of the time of ``to_pylist``, and without NumPy, which the functions do not have.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if values.null_count == len(values):
        return [None] * len(values)
    if values.null_count:
        return list(values.to_pylist())
    _, first, *content = values.buffers()
    if values.type == pa.int64():
        return memoryview(first).cast("q")[values.offset : values.offset + len(values)].tolist()
    if values.type != pa.string():
        return list(values.to_pylist())
    ends = memoryview(first).cast("i")[values.offset : values.offset + len(values) + 1].tolist()
    octets = bytes(memoryview(content[0])[ends[0] : ends[-1]]) if content[0] is not None else b""
    if octets.isascii():
        text = octets.decode("ascii")
        return [text[start - ends[0] : stop - ends[0]] for start, stop in pairwise(ends)]
    return [octets[start - ends[0] : stop - ends[0]].decode() for start, stop in pairwise(ends)]


def _tuples(lists: Any, size: int) -> Iterable[tuple[str | None, ...]]:
    """Returns lists of ``size`` texts as tuples."""
    lists = lists.combine_chunks()
    texts = lists.flatten()
    if lists.null_count or len(texts) != size * len(lists):
        return (tuple(values or ()) for values in lists.to_pylist())
    columns = (texts.take(pa.array(range(at, len(texts), size), pa.int64())) for at in range(size))
    return zip(*(_python_values(column) for column in columns), strict=True)
