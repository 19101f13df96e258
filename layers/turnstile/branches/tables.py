"""Gives a Delta table of a branch a HEAD and a log of its own, when it is used first (I28).

    1  version       of the catalog's table as of the branch's base; everything up to it is
                     published
    2  log           below the table's location, in ``BRANCHES_FOLDER``: a checkpoint of that
                     version, which names the files of the catalog's table relative to that folder,
                     then the commit of the version with its commitInfo alone; on demand both name
                     the branch in Delta's registry
    3  metadata      of the version, under the uuid of the branch's table
    4  one change    of the branch: the entity with the new uuid; the HEAD, which goes on after that
                     version; the owner of the location

The version keeps its number, so row ids and the versions in them stay valid. A crash before 4
leaves files and objs without a name. Two requests at once write two logs: the one under the uuid
that listings show, the other under a random one; one of them wins.

Sources: Delta protocol, "Checkpoints", "Add File and Remove File", "In-Commit Timestamps".
"""

from __future__ import annotations

import msgspec

from turnstile.branches.core.paths import Action
from turnstile.branches.core.registry import OPEN, BranchRef, registry_with
from turnstile.branches.relocated import RelocatedState
from turnstile.catalog.branches import base_of
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.clone.copies import PastVersions
from turnstile.catalog.clone.delta import DeltaCopier
from turnstile.catalog.core.branches import own_table_id
from turnstile.catalog.core.entities import BranchOrigin, Table
from turnstile.catalog.core.location_rows import owner_row
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.definition import BRANCHES_DOMAIN
from turnstile.delta.core.head import TableHead, new_head_row
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.core.pointer import WrittenCheckpoint
from turnstile.delta.log.files import read_commit
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.publish import Publisher
from turnstile.maintenance.checkpoint import CheckpointWriter, write_pointer
from turnstile.maintenance.core.upkeep import upkeep_of
from turnstile.maintenance.state import TableState, derive
from turnstile.store.core.errors import ErrorType, StateConflict, StorageFault
from turnstile.store.core.locations import branch_location
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Insert, Row, new_row
from turnstile.store.ports import World


class _Own(msgspec.Struct, frozen=True):
    """The HEAD that a table of a branch gets, without its name."""

    source: TableHead
    table_id: str
    location: str
    version: int
    ict: int
    row_hwm: int | None
    metadata: str


class OwnTables:
    """``core.branches.BranchTables`` of one sandbox. ``reader`` and ``committer`` are not a
    request's: the request was authorized before."""

    def __init__(
        self, world: World, reader: CatalogReader, committer: Committer, metadata: MetadataStore, publisher: Publisher
    ) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._metadata = metadata
        self._publisher = publisher

    def make_own(self, catalog: str, path: Path) -> Tree:
        """Returns the tree of a branch in which the table ``path`` has a HEAD of its own; a table
        without a HEAD stays as it is. Raises NotFound, and the errors of a clone."""
        tree, table = self._reader.find_inherited(catalog, path)
        if table is None:
            return tree
        entry = tree.table(path[:-1], path[-1])
        base = self._base(tree.catalog)
        own = self._write_log(tree, path, table, base)

        def change(view: View) -> Edit | None:
            present = view.tree.find(path)
            if present is None or present.obj != entry.obj:
                return None  # another request was first, or the name leads elsewhere now
            if self._base(tree.catalog).at // 1000 != base.at // 1000:
                problem = f"'{dotted_name(tree.catalog, *path)}' was loaded while its branch was updated"
                raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy="send it again", retry_after_ms=0)
            return self._edit(view, path, table, own)

        return self._committer.commit(catalog, change)

    def _edit(self, view: View, path: Path, table: Table, own: _Own) -> Edit:
        space = self._world.space
        full = dotted_name(view.tree.catalog, *view.written_levels(path[:-1]), table.name)
        now = self._world.clock.now_ms()
        head: Row = new_head_row(
            key=space.table(own.table_id),
            table_id=own.table_id,
            catalog=view.tree.catalog,
            name=full,
            location=own.location,
            metadata=own.metadata,
            version=own.version,
            ict=own.ict,
            row_hwm=own.row_hwm,
            created=now,
            managed=True,
        )
        entity = msgspec.structs.replace(
            table,
            table_id=own.table_id,
            location=own.location,
            managed=True,
            origin=BranchOrigin(table.table_id, own.version),
        )
        owner = owner_row(space, own.location, own.table_id, view.tree.catalog, now, first_life=True)
        writes = (Insert(head, (new_row("I2"),)), owner)
        return Edit(f"own log of {full} from version {own.version}", put={path: entity}, writes=writes)

    def _write_log(self, tree: Tree, path: Path, table: Table, base: NamedSnapshot) -> _Own:
        world = self._world
        name = dotted_name(tree.catalog, *path)
        copier = DeltaCopier(world, self._metadata, self._publisher)
        copier.prefetch([table])
        past = PastVersions(base.at // 1000)
        source, version, ict, metadata = copier.version_of(table.table_id, name, past)
        for table_id in (own_table_id(tree, table), world.ids.uuid()):
            location = branch_location(source.location, table_id)
            configuration = {**(metadata.metadata.get("configuration") or {}), UUID_PROPERTY: table_id}
            ref = BranchRef(table_id, base.name[1:], version, version, OPEN)
            registry = _registry_of(metadata, ref) if base.delta_registry else {}
            own = msgspec.structs.replace(
                metadata,
                metadata={**metadata.metadata, "configuration": configuration},
                domains=metadata.domains | {name: body["configuration"] for name, body in registry.items()},
            )
            if self._write_files(source, location, version, own, registry):
                id = self._metadata.put(tree.catalog, table_id, own, world.clock.now_ms())
                return _Own(source, table_id, location, version, ict, source.row_hwm, id)
        raise StorageFault(f"{location} has a checkpoint already", remedy="send the request again")

    def _write_files(
        self, source: TableHead, location: str, version: int, metadata: DeltaMetadata, registry: dict[str, Action]
    ) -> bool:
        """Writes the log. Returns False where another one is there: of a request that came at the
        same time or died, or of a table that became the catalog's again."""
        world = self._world
        storage = world.storages.open(location)
        now = world.clock.now_ms()

        def write(state: TableState) -> WrittenCheckpoint | None:
            moved = RelocatedState(state, metadata.metadata, registry)
            upkeep = upkeep_of(moved.protocol, moved.metadata)
            return CheckpointWriter(storage, moved, upkeep, world.ids).write(now)

        theirs = world.storages.open(source.location)
        written = derive(theirs, version, write)
        if written is None:
            return False
        actions: list[Action] = [{"commitInfo": read_commit(theirs, version).info}]
        actions += [{"domainMetadata": body} for body in registry.values()]
        lines = (msgspec.json.encode(action) + b"\n" for action in actions)
        storage.put_if_absent(published_path(version), b"".join(lines))
        write_pointer(storage, written)
        return True

    def _base(self, branch: str) -> NamedSnapshot:
        catalog, _, name = branch.partition("@")
        return base_of(self._reader.current(catalog), self._reader.store, name)


def _registry_of(metadata: DeltaMetadata, ref: BranchRef) -> dict[str, Action]:
    """The registry of branches with ``ref``, by its domain; empty where the table has none."""
    body = registry_with(metadata.domains.get(BRANCHES_DOMAIN), ref, metadata.protocol)
    return {} if body is None else {BRANCHES_DOMAIN: body}
