"""The tables that a branch changes or creates, as their expectations are checked: Delta tables with
their HEADs, Iceberg tables with their metadata files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from turnstile.branches.comparison import Comparer, Comparison
from turnstile.branches.core.differences import Difference
from turnstile.catalog.core.entities import ICEBERG_TABLE, TABLE, Entity, IcebergTable
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import TableHead
from turnstile.expectations.core.conditions import PREFIX
from turnstile.expectations.delta_source import DeltaSource
from turnstile.expectations.sources import CheckedFile, TableSource
from turnstile.iceberg.core.files.file_ranges import current_columns
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.expectations.source import IcebergSource, Reads
from turnstile.iceberg.files import MetadataFiles
from turnstile.planning.core.predicates import TableColumns
from turnstile.planning.read_budget import ReadBudget
from turnstile.store.core.errors import StorageFault, TooLarge
from turnstile.store.ports import in_batches

READ_BYTES: Final = 64 * 1024 * 1024
"""Of the data files that one comparison reads, and of the manifests."""
ICEBERG_TABLES: Final = 1_000
"""Changed Iceberg tables whose metadata files a comparison reads."""
LOOKED_DELTA: Final = 1_000
LOOKED_ICEBERG: Final = 100
"""Tables of a namespace that are looked at for the columns of an expectation."""
_BATCH: Final = 100

Properties = dict[str, str]


class CheckedTable(msgspec.Struct, frozen=True):
    """A table that a promotion changes or creates.

    Attributes:
        path: its name without the catalog.
        version: of the branch's table; of an Iceberg table its sequence number.
        properties: the expectations among the properties of the catalog's table, and of the
            branch's.
        added: yields the files that the branch added; None: all, since it created the table.
    """

    path: Path
    table_id: str
    version: int
    properties: list[Properties]
    source: TableSource
    added: Callable[[], Iterable[CheckedFile]] | None


class CheckedTables:
    """The tables of one comparison. It counts the bytes that are read of them.

    Attributes:
        created: the latest versions of the Delta tables that the branch created, by uuid.
        versions: of these the ones with expectations, with the version that was checked.
    """

    def __init__(self, catalog: CatalogServices, comparer: Comparer, plan: Comparison) -> None:
        self._world = catalog.world
        self._store = catalog.reader.store
        self._metadata = catalog.metadata
        self._comparer = comparer
        self._plan = plan
        rows = ReadBudget(READ_BYTES, small_files=True)
        self._reads = Reads(catalog.world.storages, rows, ReadBudget(READ_BYTES))
        self._files = MetadataFiles(catalog.world.storages, catalog.world.ids)
        self.created: dict[str, int] = {}
        self.versions: dict[str, int] = {}

    def all(self, expects: Callable[[Path], bool]) -> Iterator[CheckedTable]:
        """Yields the tables with expectations, and the tables with a path for which ``expects`` is
        true. Costs two requests for every hundred Delta tables, and two for each Iceberg table.
        Raises TooLarge, StorageFault."""
        yield from self._changed_tables(expects)
        yield from self._created_tables(expects)
        yield from self._iceberg_tables(expects)

    def _changed_tables(self, expects: Callable[[Path], bool]) -> Iterator[CheckedTable]:
        """The Delta tables with commits on the branch."""
        tables = [table for table in self._plan.tables if not table.change.is_empty]
        known = self._properties([head for table in tables for head in (table.theirs, table.own)])
        for table in tables:
            properties = [known[table.theirs.table_id], known[table.own.table_id]]
            if any(properties) or expects(table.path):
                if table.own.floor < table.own.latest:  # a condition of the whole table reads its log
                    self._comparer.publish(table.own.table_id, dotted_name(*table.path))
                yield self._delta(table.path, table.own, properties, list(table.change.added.values()))

    def _created_tables(self, expects: Callable[[Path], bool]) -> Iterator[CheckedTable]:
        """The Delta tables that the branch created, perhaps in the place of others."""
        made = [
            (each, after.table_id)
            for each in self._plan.names
            if (after := each.after) is not None and each.of == TABLE and each.kind in ("created", "replaced")
        ]
        replaced = [each.before.table_id for each, _ in made if each.before is not None]
        heads = self._heads([*(id for _, id in made), *replaced])
        known = self._properties(list(heads.values()))
        self.created = {id: heads[id].latest for _, id in made if id in heads}
        for each, id in made:
            before = {} if each.before is None else known.get(each.before.table_id, {})
            if id in heads and (before or known[id] or expects(each.path)):
                head = self._comparer.publish(id, dotted_name(*each.path))
                self.created[id] = self.versions[id] = head.latest
                yield self._delta(each.path, head, [before, self._properties([head])[id]], None)

    def _delta(
        self, path: Path, head: TableHead, properties: list[Properties], added: Sequence[Properties] | None
    ) -> CheckedTable:
        metadata = self._metadata.get(head.catalog, head.metadata)
        source = DeltaSource(self._reads.storages, self._reads.rows, head.location, metadata, latest=head.latest)
        files = None if added is None else partial(map, source.file, added)
        return CheckedTable(path, head.table_id, head.latest, properties, source, files)

    def _iceberg_tables(self, expects: Callable[[Path], bool]) -> Iterator[CheckedTable]:
        """The Iceberg tables that the branch changed or created."""
        plan = self._plan
        changed = [each for each in plan.names if each.of == ICEBERG_TABLE and each.after is not None]
        if len(changed) > ICEBERG_TABLES:
            problem = f"the branch changes {len(changed)} Iceberg tables"
            remedy = "make a branch for fewer tables, and promote it sooner"
            raise TooLarge(problem, field="branch", remedy=remedy, limit=ICEBERG_TABLES, size=len(changed))
        before = self._entities(plan.base_tree, [each.before for each in changed])
        after = self._entities(plan.branch, [each.after for each in changed])
        dropped = self._dropped_properties(changed)
        for each in changed:
            own = self._iceberg_metadata(after, each.after)
            theirs = self._iceberg_metadata(before, each.before)
            if own is None:
                continue
            properties = [
                dropped.get(each.path, {}) if theirs is None else _expectations(theirs.properties),
                _expectations(own.properties),
            ]
            if any(properties) or expects(each.path):
                base = theirs if each.kind == "changed" else None
                source = IcebergSource(self._reads, own.location, own, base)
                snapshot = own.snapshot(own.current_snapshot_id)
                version = 0 if snapshot is None else snapshot.sequence_number
                added = None if base is None else source.added_files
                yield CheckedTable(each.path, own.table_uuid, version, properties, source, added)

    def _dropped_properties(self, created: Sequence[Difference]) -> dict[Path, Properties]:
        """The expectations of Delta tables that the branch replaced by Iceberg tables."""
        paths = {each.path for each in created if each.before is None}
        ids = {
            each.path: each.before.table_id
            for each in self._plan.names
            if each.of == TABLE and each.kind == "dropped" and each.before is not None and each.path in paths
        }
        known = self._properties(list(self._heads(list(ids.values())).values()))
        return {path: known.get(id, {}) for path, id in ids.items()}

    def columns_below(self, path: Path) -> Iterator[TableColumns]:
        """Yields the columns of tables of the branch below a namespace, up to a bound. Costs two
        requests for every hundred Delta tables, and one for each Iceberg table."""
        tree = self._plan.branch
        delta = (entry.table_id for _, entry in tree.subtree(path) if entry.kind == TABLE)
        for ids in in_batches(list(islice(delta, LOOKED_DELTA)), _BATCH):
            heads = list(self._heads(ids).values())
            known = self._metadata.get_many(tree.catalog, {head.metadata for head in heads})
            yield from (TableColumns(each.metadata) for each in known.values())
        others = (entry for _, entry in tree.subtree(path) if entry.kind == ICEBERG_TABLE)
        entries = list(islice(others, LOOKED_ICEBERG))
        entities = self._entities(tree, entries)
        for entry in entries:
            with suppress(StorageFault):  # another table that cannot be read says nothing
                metadata = self._iceberg_metadata(entities, entry)
                if metadata is not None:
                    yield current_columns(metadata).table

    def _entities(self, tree: Tree, entries: Iterable[IndexEntry | None]) -> Mapping[str, Entity]:
        return self._store.entities(tree.catalog, [entry.obj for entry in entries if entry is not None])

    def _iceberg_metadata(self, entities: Mapping[str, Entity], entry: IndexEntry | None) -> TableMetadata | None:
        entity = None if entry is None else entities[entry.obj]
        return self._files.table(entity) if isinstance(entity, IcebergTable) else None

    def _heads(self, ids: Sequence[str]) -> dict[str, TableHead]:
        """The HEADs of tables; an external one has none."""
        keys = {self._world.space.table(id): id for id in ids}
        rows = self._world.refs.read_many(list(keys)) if keys else {}
        return {keys[key]: TableHead.from_row(row) for key, row in rows.items()}

    def _properties(self, heads: Sequence[TableHead]) -> dict[str, Properties]:
        """The properties with expectations, by the tables' uuids. The catalog and its branch share
        their objs."""
        wanted = {head.metadata for head in heads}
        known = self._metadata.get_many(heads[0].catalog, wanted) if heads else {}
        found = {}
        for head in heads:
            metadata = known.get(head.metadata) or self._metadata.get(head.catalog, head.metadata)
            found[head.table_id] = _expectations(metadata.metadata.get("configuration") or {})
        return found


def _expectations(properties: Mapping[str, str]) -> Properties:
    return {key: value for key, value in properties.items() if key.startswith(PREFIX)}
