"""The root of a table's file index, as a value: its leaves, their limits, and the earlier roots
that are kept.

A root is of one published version. It names *leaves*, immutable files of up to ``Sizes.leaf_rows``
data files each, clustered by partition and one more column, and *deltas*: small files of the
changes since, in their order. A delta's rows, added or removed, override rows of the same logical
file in everything before it. Sources: TreeCat, section 4 (leaves and roots); Delta's proposal of an
adaptive metadata tree.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from turnstile.store.core.names import LOG
from turnstile.store.core.rows import FILE_INDEX
from turnstile_predicates.file_stats import TableSchema

FORMAT: Final = 1
FOLDER: Final = f"{LOG}_turnstile_index/"
"""The folder of leaves, below the table's location; its name begins with an underscore, so it is
none of Delta's."""
MAX_BEHIND: Final = 500
"""Versions that an index is brought forward by; one that is further behind is built anew."""
MAX_COLUMNS: Final = 64
"""The number of columns with indexed bounds: as many as have statistics by default, and more."""
HOUR_MS: Final = 3_600_000


Key = tuple[str, str]
"""A logical file: path, and unique id of its deletion vector."""


class Sizes(msgspec.Struct, frozen=True):
    """The sizes of the parts of an index. Tests take smaller ones.

    Attributes:
        every: published versions from one root to the next.
        leaf_rows: data files of one leaf.
        run_rows: data files that are sorted at once when an index is built: a worker's memory.
            Leaves of different runs may overlap.
        deltas: deltas of one root.
        pending: changes that deltas may hold in a small table; in a large one a share of its files.
        rewrites: leaves that one round rewrites: the leaves with the most changes.
        readers: files that are read at once.
    """

    every: int = 10
    leaf_rows: int = 4_096
    run_rows: int = 32 * 4_096
    deltas: int = 8
    pending: int = 2_048
    rewrites: int = 16
    readers: int = 16

    def most_pending(self, files: int) -> int:
        """Returns how many changes may wait in deltas: with a share of the files, each change
        rewrites a bounded number of rows."""
        return max(self.pending, files // 32)


class IndexedColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column with bounds in a leaf: physical name, type in Delta's words, and whether it is a
    partition column."""

    physical: tuple[str, ...]
    type: str
    partition: bool

    def serves(self, physical: tuple[str, ...], type: str, *, partition: bool) -> bool:
        """Whether bounds kept as this column are bounds of that one: the same, or both of integers,
        which compare alike."""
        if self.physical != physical or self.partition != partition:
            return False
        return self.type == type or (self.type in _INTEGERS and type in _INTEGERS)


_INTEGERS: Final = frozenset(("byte", "short", "integer", "long"))

Bound = tuple[Any, Any, int]
"""Least value, greatest value (None: not known) and flags (``turnstile.planning.judging``)."""


class LeafRef(msgspec.Struct, frozen=True, array_like=True):
    """A leaf or a delta: its file, the digest and size of its bytes, and its rows.

    Attributes:
        first: the cluster key of its first row.
        bounds: of all its rows, for each of the root's columns.
    """

    name: str
    size: int
    digest: bytes
    rows: int
    first: tuple[Any, ...] = ()
    bounds: tuple[Bound, ...] = ()


class Earlier(msgspec.Struct, frozen=True, array_like=True):
    """An earlier root that is kept, for questions about its time."""

    version: int
    id: str
    created_ms: int


class TableTotals(msgspec.Struct, frozen=True):
    """The totals of a version's files, as ``turnstile.planning.totals`` counts them."""

    version: int
    files: int
    bytes: int
    records: int
    files_without_records: int
    deleted_rows: int
    partitions: int | None


class Root(msgspec.Struct, frozen=True):
    """The index at ``version``.

    Attributes:
        stamp: a digest of the version's commit, as it was published.
        columns: the columns of ``LeafRef.bounds``.
        cluster: positions among the columns; leaves are sorted by the least values of these
            columns.
        totals: of the last version at which all leaves were read; None in a root of an earlier
            release.
    """

    version: int
    stamp: bytes
    created_ms: int
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    columns: tuple[IndexedColumn, ...]
    cluster: tuple[int, ...]
    leaves: tuple[LeafRef, ...]
    deltas: tuple[LeafRef, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    format: int = FORMAT
    totals: TableTotals | None = None

    @property
    def names(self) -> frozenset[str]:
        """The files that it is made of."""
        return frozenset(ref.name for ref in (*self.leaves, *self.deltas))


class StoredRoot(msgspec.Struct, frozen=True):
    """A root and the id of its obj."""

    id: str
    root: Root


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Root)


def pack_root(root: Root) -> bytes:
    """Returns a root as the payload of an obj."""
    return zlib.compress(_ENCODER.encode(root), 6)


def unpack_root(payload: bytes) -> Root | None:
    """Returns the root in a payload; None for one of another format, or that is damaged: it then
    counts as missing."""
    try:
        root = _DECODER.decode(zlib.decompress(payload))
    except (zlib.error, msgspec.DecodeError, UnicodeError):
        return None
    return root if root.format == FORMAT else None


def root_id(table_id: str, version: int, payload: bytes) -> str:
    """Returns the id of a root: in order of versions, unique by content."""
    return FILE_INDEX.id(f"{table_id}/{version:020d}.{hashlib.sha256(payload).hexdigest()[:24]}")


def version_of(id: str) -> int:
    """The version in the id of a root."""
    return int(id.rpartition("/")[2].partition(".")[0])


def columns_of_table(schema: TableSchema) -> tuple[IndexedColumn, ...]:
    """Returns the columns that are indexed: partition columns, then columns with ordered values, in
    the schema's order."""
    partitions = list[IndexedColumn]()
    others = list[IndexedColumn]()
    for name, field in schema.fields.items():
        if field.kind is not None or (len(name) == 1 and name[0] in schema.partitions):
            is_partition = len(name) == 1 and name[0] in schema.partitions
            (partitions if is_partition else others).append(IndexedColumn(field.physical, field.type, is_partition))
    return tuple([*partitions, *others][:MAX_COLUMNS])


def cluster_of(columns: Sequence[IndexedColumn], clustering: Sequence[tuple[str, ...]] = ()) -> tuple[int, ...]:
    """Returns the positions of the columns that leaves are sorted by: the partition columns, then
    the first of the table's own clustering columns, or else its first column that is neither text
    nor boolean.
    """
    keys = [at for at, column in enumerate(columns) if column.partition]
    others = [at for at, column in enumerate(columns) if not column.partition]
    own = [at for at in others if columns[at].physical in set(clustering)]
    ordered = own or [at for at in others if not columns[at].type.startswith(("string", "boolean"))]
    return (*keys, *ordered[:1])


def sort_key(values: Iterable[Any]) -> tuple[tuple[bool, Any], ...]:
    """Returns a key by which clusters compare, values that are not known last."""
    return tuple((value is None, 0 if value is None else value) for value in values)


def kept_roots(earlier: Sequence[Earlier], now_ms: int, retention_ms: int) -> tuple[Earlier, ...]:
    """Returns the earlier roots that stay: all of the last hour, one of each hour of the last day,
    and one of each day of the retention, at most a hundred. ``earlier`` is ascending."""
    kept = list[Earlier]()
    periods = set[tuple[str, int]]()
    for root in reversed(earlier):
        age_ms = now_ms - root.created_ms
        if age_ms > retention_ms:
            continue
        if age_ms > HOUR_MS:
            length, name = (HOUR_MS, "hour") if age_ms <= 24 * HOUR_MS else (24 * HOUR_MS, "day")
            period = (name, root.created_ms // length)
            if period in periods:
                continue
            periods.add(period)
        kept.append(root)
    return tuple(reversed(kept[:100]))
