"""Makes indexes: anew from checkpoint and log, or from the index before and the changes of commits
(``planning.upkeep`` decides when).

Changes are written first into a *delta*, one small file. When deltas hold too much, the leaves with
the most changes are rewritten, a bounded number at a time, so that each change costs a bounded
number of rewritten rows at any size of the table. A file is never in two leaves: a row that
overrides another one goes to the leaf of that one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import compute

from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import interval_ms
from turnstile.delta.soundness.judge import ratified_sizes
from turnstile.maintenance.core.upkeep import upkeep_of
from turnstile.maintenance.state import TableState, derive
from turnstile.planning.changes import at_once, changes_of
from turnstile.planning.core.roots import (
    FOLDER,
    Bound,
    Earlier,
    IndexedColumn,
    Key,
    LeafRef,
    Root,
    Sizes,
    StoredRoot,
    cluster_of,
    columns_of_table,
    kept_roots,
    sort_key,
)
from turnstile.planning.judging import HAS_NAN, HAS_NULLS, HAS_VALUES
from turnstile.planning.leaves import DeadPaths, Leaf, LeafMaker, chunks, digest_of, path_lists, write_leaf
from turnstile.planning.totals import Totals
from turnstile.store.core.errors import StorageFault
from turnstile.store.faults import Faults
from turnstile.store.ports import LogStorage, World, in_batches
from turnstile_predicates.file_stats import TableSchema

ROW_BATCH: Final = 4_096
DEFAULT_RETENTION_MS: Final = 30 * 86_400_000
_NOT_KNOWN: Final[Bound] = (None, None, HAS_NULLS | HAS_VALUES | HAS_NAN)
_CLUSTERING: Final = "delta.clustering"


def read_leaf(storage: LogStorage, ref: LeafRef) -> Leaf:
    """Returns a leaf. Raises StorageFault if it is gone or differs from the root's digest."""
    file = storage.read(f"{FOLDER}{ref.name}", ref.size + 1)
    if file is None or digest_of(file[0]) != ref.digest:
        problem = f"the file {ref.name} of the table's index is {'gone' if file is None else 'not what was written'}"
        raise StorageFault(problem, remedy="try again: the index is built anew", path=f"{FOLDER}{ref.name}")
    return Leaf.of(file[0])


class Indexer:
    """Makes the next index of one table, and writes its leaves; the caller writes the root."""

    def __init__(self, world: World, head: TableHead, storage: LogStorage, sizes: Sizes, faults: Faults) -> None:
        self._world = world
        self._head = head
        self._storage = storage
        self.sizes = sizes
        self._faults = faults

    # -- from the log -------------------------------------------------------------------------------------------------

    def build_root(self, stamp: bytes, before: StoredRoot | None) -> Root:
        """An index of the state at the floor."""
        ratified = ratified_sizes(self._head)
        return derive(
            self._storage, self._head.floor, lambda state: self._build(state, stamp, before), ratified=ratified
        )

    def _build(self, state: TableState, stamp: bytes, before: StoredRoot | None) -> Root:
        upkeep_of(state.protocol, state.metadata)  # refuses features that are not known
        schema = TableSchema.of(state.metadata)
        columns = columns_of_table(schema)
        cluster = cluster_of(columns, _clustering(state))
        maker = LeafMaker(schema, columns)
        leaves = list[LeafRef]()
        totals = Totals()
        for rows in _runs(maker, state, self.sizes.run_rows):
            totals.add(Leaf(rows), compute.invert(rows["removed"]))
            leaves += self.leaves_of(rows, cluster, len(columns))
        leaves.sort(key=lambda ref: sort_key(ref.first))
        root = Root(state.version, stamp, 0, state.protocol, state.metadata, columns, cluster, tuple(leaves))
        root = msgspec.structs.replace(root, totals=totals.of_version(state.version))
        return self._root(root, before)

    # -- from the commits since ----------------------------------------------------------------------------------------

    def forward(self, stored: StoredRoot, stamp: bytes) -> Root:
        """The index ``stored``, with the changes since."""
        root = stored.root
        changes = changes_of(self._world, self._head, root.version + 1, self._head.floor, self.sizes.readers)
        metadata = changes.metadata or root.metadata
        protocol = changes.protocol or root.protocol
        upkeep_of(protocol, metadata)
        schema = TableSchema.of(metadata)
        columns = root.columns
        cluster = root.cluster
        if metadata != root.metadata:
            columns = columns_of_table(schema)
            clustering = [root.columns[at].physical for at in root.cluster if not root.columns[at].partition]
            cluster = cluster_of(columns, clustering)
        leaves = [_rebound(ref, root, columns, cluster) for ref in root.leaves]
        deltas = [_rebound(ref, root, columns, cluster) for ref in root.deltas]
        maker = LeafMaker(schema, columns)
        totals = root.totals
        if changes.files:
            rows = maker.table(changes.adds, changes.removes)
            pending = sum(ref.rows for ref in deltas) + len(rows)
            if len(deltas) >= self.sizes.deltas or pending > self.sizes.most_pending(sum(ref.rows for ref in leaves)):
                drain = _Drain(self, maker, columns, cluster)
                leaves, deltas = drain.run(leaves, deltas, rows)
                totals = drain.totals.of_version(self._head.floor)
            else:
                deltas.append(self.delta(rows, cluster, len(columns)))
        after = Root(self._head.floor, stamp, 0, protocol, metadata, columns, cluster, tuple(leaves), tuple(deltas))
        return self._root(msgspec.structs.replace(after, totals=totals), stored)

    def read(self, refs: Sequence[LeafRef]) -> list[Leaf]:
        """Leaves, read at once."""
        return at_once(lambda ref: read_leaf(self._storage, ref), refs, self.sizes.readers)

    def leaves_of(self, rows: pa.Table, cluster: Sequence[int], columns: int) -> list[LeafRef]:
        """Writes rows as leaves."""
        return self._write_leaves(chunks(rows, cluster, columns, self._name, self.sizes.leaf_rows))

    def delta(self, rows: pa.Table, cluster: Sequence[int], columns: int) -> LeafRef:
        """Writes rows as a delta."""
        (ref,) = self._write_leaves([write_leaf(rows, cluster, columns, self._name())])
        return ref

    def _write_leaves(self, leaves: Iterable[tuple[LeafRef, bytes]]) -> list[LeafRef]:
        refs = []
        for ref, content in leaves:
            self._storage.put_if_absent(f"{FOLDER}{ref.name}", content)
            self._faults("index.leaf")
            refs.append(ref)
        return refs

    def _name(self) -> str:
        return f"{self._world.ids.uuid()}.parquet"

    def _root(self, root: Root, before: StoredRoot | None) -> Root:
        """The root with its time, and with the earlier ones that are kept."""
        now_ms = self._world.clock.now_ms()
        earlier = tuple[Earlier, ...]()
        if before is not None:
            ended = Earlier(before.root.version, before.id, before.root.created_ms)
            earlier = kept_roots((*before.root.earlier, ended), now_ms, _retention_ms(root.metadata))
        return msgspec.structs.replace(root, created_ms=now_ms, earlier=earlier)


class _Drain:
    """Puts the changes that deltas hold into leaves: first where there are most of them. It looks
    at all leaves, so it knows the table's ``totals``."""

    def __init__(
        self, work: Indexer, maker: LeafMaker, columns: Sequence[IndexedColumn], cluster: Sequence[int]
    ) -> None:
        self._work = work
        self._maker = maker
        self._columns = columns
        self._cluster = cluster
        self.totals = Totals()

    def run(
        self, leaves: list[LeafRef], deltas: list[LeafRef], newest: pa.Table
    ) -> tuple[list[LeafRef], list[LeafRef]]:
        """Returns leaves and deltas after it: of ``deltas`` and the ``newest`` changes. Rounds of
        ``Sizes.rewrites`` leaves, until half of the allowed pending changes is left."""
        rows, overridden = self._merge(deltas, newest)
        self.totals.add(Leaf(rows), compute.invert(rows["removed"]))
        if not leaves:
            return (self._work.leaves_of(rows, self._cluster, len(self._columns)) if len(rows) else []), []
        half = self._work.sizes.most_pending(sum(ref.rows for ref in leaves)) // 2
        dead = path_lists(overridden)
        held = self._overridden_rows(leaves, dead)
        places = self._places(leaves, rows, held)
        weights = {at: len(places.get(at, ())) + len(held.get(at, ())) for at in {*places, *held}}
        left = sum(weights.values())
        drained = set[int]()
        for batch in in_batches(sorted(weights, key=lambda at: (-weights[at], at)), self._work.sizes.rewrites):
            if drained and left <= half:
                break
            drained.update(batch)
            left -= sum(weights[at] for at in batch)
        kept = [ref for at, ref in enumerate(leaves) if at not in drained]
        for batch in in_batches(sorted(drained), self._work.sizes.rewrites):
            kept += self._rewritten([leaves[at] for at in batch], rows, [places.get(at, []) for at in batch], dead)
        kept.sort(key=lambda ref: sort_key(ref.first))
        waiting = sorted(row for at, of_leaf in places.items() if at not in drained for row in of_leaf)
        gone = {key for at, keys in held.items() if at not in drained for key in keys}
        return kept, self._waiting(rows.take(pa.array(waiting, pa.int64())), gone)

    def _merge(self, deltas: list[LeafRef], newest: pa.Table) -> tuple[pa.Table, list[Key]]:
        """The files that were added and are still there, and the keys of all that leaves must not
        show any more."""
        parts = [Leaf(newest), *reversed(self._work.read(deltas))]
        seen: dict[Key, None] = {}
        tables = []
        for part in parts:
            keys = part.files()
            fresh = pa.array([key not in seen for key in keys], pa.bool_())
            rows = self._maker.align_leaf(part)
            tables.append(rows.filter(compute.and_(fresh, compute.invert(rows["removed"].combine_chunks()))))
            seen.update(dict.fromkeys(keys))
        return pa.concat_tables(tables).combine_chunks(), list(seen)

    def _overridden_rows(self, leaves: list[LeafRef], dead: DeadPaths) -> dict[int, set[Key]]:
        """By leaf which of its rows are overridden. All leaves are looked at, a few at a time."""
        held: dict[int, set[Key]] = {}
        for batch in in_batches(range(len(leaves)), self._work.sizes.readers):
            for at, leaf in zip(batch, self._work.read([leaves[at] for at in batch]), strict=True):
                alive = leaf.alive(*dead)
                self.totals.add(leaf, alive)
                rows = Leaf(leaf.table.filter(compute.invert(alive)))
                if len(rows):
                    held[at] = set(rows.files())
        return held

    def _places(self, leaves: list[LeafRef], rows: pa.Table, held: dict[int, set[Key]]) -> dict[int, list[int]]:
        """By leaf the added rows that go there: where the row is that they override, else by their
        cluster. So a file is never in two leaves, whichever of them are rewritten."""
        firsts = [sort_key(ref.first) for ref in leaves]
        at_leaf = {key: at for at, keys in held.items() for key in keys}
        clusters = [rows[f"l{at}"].to_pylist() for at in self._cluster]
        places: dict[int, list[int]] = {}
        for row, key in enumerate(Leaf(rows).files()):
            by_cluster = bisect_right(firsts, sort_key(column[row] for column in clusters)) - 1
            places.setdefault(at_leaf.get(key, max(0, by_cluster)), []).append(row)
        return places

    def _rewritten(
        self, refs: list[LeafRef], rows: pa.Table, places: list[list[int]], dead: DeadPaths
    ) -> list[LeafRef]:
        """Leaves in place of some others: without overridden rows, and with the rows at
        ``places``."""
        tables = [rows.take(pa.array([row for of_leaf in places for row in of_leaf], pa.int64()))]
        tables += [self._maker.align_leaf(leaf).filter(leaf.alive(*dead)) for leaf in self._work.read(refs)]
        merged = pa.concat_tables(tables)
        return self._work.leaves_of(merged, self._cluster, len(self._columns)) if len(merged) else []

    def _waiting(self, rows: pa.Table, gone: set[Key]) -> list[LeafRef]:
        """The delta of the pending changes: added rows, and rows of leaves that were not
        rewritten."""
        removes = sorted(gone - set(Leaf(rows).files()))
        if removes:
            rows = pa.concat_tables([rows, self._maker.table([], removes)])
        return [self._work.delta(rows, self._cluster, len(self._columns))] if len(rows) else []


def _runs(maker: LeafMaker, state: TableState, most: int) -> Iterator[pa.Table]:
    """The files of a state, as many as are sorted at once."""
    tables = list[pa.Table]()
    held = 0
    for batch in in_batches(state.files(), min(ROW_BATCH, most)):
        tables.append(maker.table(batch))
        held += len(batch)
        if held >= most:
            yield pa.concat_tables(tables).combine_chunks()
            tables = []
            held = 0
    if tables:
        yield pa.concat_tables(tables).combine_chunks()


def _clustering(state: TableState) -> list[tuple[str, ...]]:
    """Physical names of the table's own clustering columns. Source: Delta protocol, "Clustered
    Table"."""
    domain = state.domains.get(_CLUSTERING, {})
    try:
        return [tuple(name) for name in msgspec.json.decode(domain.get("configuration", "{}"))["clusteringColumns"]]
    except (msgspec.DecodeError, KeyError, TypeError):
        return []


def _retention_ms(metadata: dict[str, Any]) -> int:
    """For how long commits are kept, so that earlier versions may be asked for."""
    text = str((metadata.get("configuration") or {}).get("delta.logRetentionDuration", "interval 30 days"))
    kept_ms = interval_ms(text)
    return DEFAULT_RETENTION_MS if kept_ms is None else kept_ms


def _rebound(ref: LeafRef, root: Root, columns: Sequence[IndexedColumn], cluster: Sequence[int]) -> LeafRef:
    """A reference whose bounds are of ``columns``; bounds of columns that the leaf does not have
    are unknown."""
    if tuple(columns) == root.columns:
        return ref
    bounds = tuple(
        next(
            (
                bound
                for own, bound in zip(root.columns, ref.bounds, strict=True)
                if own.serves(column.physical, column.type, partition=column.partition)
            ),
            _NOT_KNOWN,
        )
        for column in columns
    )
    return msgspec.structs.replace(ref, bounds=bounds, first=tuple(bounds[at][0] for at in cluster))
