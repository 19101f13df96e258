"""Compares a branch with its catalog: the names that differ, the net change of each table with a
log of its own, and the conflicts with what the catalog got since the base (I28)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import msgspec

from turnstile.branches.core.differences import Difference, differences
from turnstile.branches.core.entities import same_but_rights
from turnstile.branches.core.net_change import NetChange, conflict_of, moved_change
from turnstile.branches.core.paths import Action, BranchPaths
from turnstile.catalog.branches import base_of
from turnstile.catalog.core.branches import is_inherited
from turnstile.catalog.core.entities import NAMESPACE, TABLE, Table
from turnstile.catalog.core.paths import Path, dotted_name, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.catalog.services import CatalogServices
from turnstile.delta.commits import pieces_of
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.delta.log.lines import commit_lines as lines_of_commit
from turnstile.delta.log.lines import parse_line, where_of
from turnstile.store.core.errors import ErrorType, StateConflict, StorageFault, TooLarge
from turnstile.store.core.locations import branch_folder
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Row
from turnstile.store.ports import PIECE_BYTES

COMMITS_MAX: Final = 5_000
"""Commits that a comparison reads, of all tables of the branch and of the catalog."""
FILES_MAX: Final = 200_000
"""Files in the net changes of a comparison, which are in memory at once."""


class ComparedTable(msgspec.Struct, frozen=True):
    """A table of the branch with a log of its own.

    Attributes:
        change: the net change of its commits, with the paths of its log; ``since`` that of the
            catalog's table since the branch's base, not read where ``change`` is empty.
        conflict: the reason why the two cannot be put together.
    """

    path: Path
    entity: Table
    own: TableHead
    theirs: TableHead
    change: NetChange
    conflict: str | None
    since: NetChange


class Comparison(msgspec.Struct, frozen=True):
    """A branch and its catalog as of one read of both trees.

    Attributes:
        names: that lead to something else on the branch; ``rights`` of entities whose rights alone
            differ.
        conflicts: the reasons why the branch cannot be promoted.
    """

    base: NamedSnapshot
    base_tree: Tree
    branch: Tree
    catalog: Tree
    names: list[Difference]
    rights: list[Difference]
    tables: list[ComparedTable]
    conflicts: list[str]


class Comparer:
    """Compares branches with their catalogs. One per request."""

    def __init__(self, catalog: CatalogServices) -> None:
        self._world = catalog.world
        self._reader = catalog.reader
        self._store = catalog.reader.store
        self._publisher = catalog.publisher
        self._heads: dict[str, Row] = {}
        self._commits_left = COMMITS_MAX
        self._files_left = FILES_MAX

    def compare(self, catalog: str, name: str) -> Comparison:
        """Returns the comparison. Costs the reads of the commits of the branch's tables. Raises
        NotFound, StateConflict, TooLarge, UnsupportedTable, StorageFault."""
        self._commits_left = COMMITS_MAX
        self._files_left = FILES_MAX
        reader = self._reader
        present = reader.current(catalog)
        base = base_of(present, self._store, name)
        branch = reader.current(base.branch)
        if base.dropping:
            problem = f"a drop of branch '{base.branch}' has begun"
            raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy="drop it again", retry_after_ms=0)
        base_tree = self._store.tree(present.catalog, base.head)
        own: list[tuple[Path, Table]] = []
        names: list[Difference] = []
        rights: list[Difference] = []
        conflicts: list[str] = []
        for each in differences(base_tree, branch):
            table = self._own_table(branch, each)
            if table is None or table.origin is None:
                if each.after is None and present.find(each.path) is None:
                    continue  # the catalog dropped it, too
                (names if self._is_changed(each, base_tree, branch) else rights).append(each)
            elif each.before is None or each.before.table_id != table.origin.source:
                conflicts.append(f"'{dotted_name(*each.path)}' was renamed on the branch: give it its name again")
            elif (now := present.find(each.path)) is None or now.table_id != table.origin.source:
                conflicts.append(f"'{dotted_name(*each.path)}' was dropped, renamed or replaced in the catalog")
            else:
                own.append((each.path, table))
        self._read_heads([table for _, table in own])
        tables = [self._table(path, table) for path, table in own]
        conflicts += [table.conflict for table in tables if table.conflict is not None]
        plan = Comparison(base, base_tree, branch, present, names, rights, tables, conflicts)
        plan.conflicts.extend(self.name_conflicts(plan, present))
        return plan

    def _read_heads(self, own: list[Table]) -> None:
        """Reads the HEADs of tables of the branch and of the catalog's tables, a hundred a
        request."""
        ids = [id for table in own if table.origin is not None for id in (table.table_id, table.origin.source)]
        self._heads = self._world.refs.read_many([self._world.space.table(id) for id in ids]) if ids else {}

    def _own_table(self, branch: Tree, difference: Difference) -> Table | None:
        entry = difference.after
        if entry is None or entry.kind != TABLE or is_inherited(branch, entry):
            return None
        entity = self._store.entity(branch.catalog, entry.obj)
        return entity if isinstance(entity, Table) and entity.external is None else None

    def _is_changed(self, each: Difference, base: Tree, branch: Tree) -> bool:
        """Whether a name leads to something else: rights alone are no change, and not promoted."""
        if each.before is None or each.after is None:
            return True
        before = self._store.entity(base.catalog, each.before.obj)
        return not same_but_rights(before, self._store.entity(branch.catalog, each.after.obj))

    def name_conflicts(self, plan: Comparison, present: Tree) -> list[str]:
        """The names that cannot be changed in a tree of the catalog as the branch did."""
        created = {each.path for each in plan.names if each.before is None}
        reasons = (self._name_conflict(each, plan, present, created) for each in plan.names)
        return [reason for reason in reasons if reason is not None]

    def _name_conflict(self, each: Difference, plan: Comparison, present: Tree, created: set[Path]) -> str | None:
        now = present.find(each.path)
        name = dotted_name(*each.path)
        if each.before is None:
            parent = each.path[:-1]
            if parent and parent not in created and present.find(parent) is None:
                return f"namespace '{dotted_name(*parent)}' of '{name}' was dropped in the catalog"
            return None if now is None else f"'{name}' was created in the catalog, too"
        if now is None:
            return f"'{name}' was dropped in the catalog"
        before = self._store.entity(present.catalog, each.before.obj)
        if now.obj != each.before.obj and not same_but_rights(self._store.entity(present.catalog, now.obj), before):
            return f"'{name}' was changed in the catalog, too"
        gone = each.kind in ("dropped", "replaced")
        if each.after is None and each.of == NAMESPACE:
            dropped = {one.path for one in plan.names if one.after is None}
            if any(path_of(key) not in dropped for key, _ in present.subtree(each.path)):
                return f"namespace '{name}' was dropped on the branch, and has more in the catalog"
        if gone and each.of not in (TABLE, NAMESPACE):
            return f"'{name}' is an Iceberg table or view that the branch drops: drop it in the catalog instead"
        if gone and isinstance(before, Table) and before.external is not None:
            return f"'{name}' is an external table that the branch drops: drop it in the catalog instead"
        return None

    def _table(self, path: Path, entity: Table) -> ComparedTable:
        """Reads the net change of a table, and compares it with the catalog's."""
        assert entity.origin is not None
        name = dotted_name(*path)
        own = self.publish(entity.table_id, name)
        change = self._net_change(own, entity.origin.version, entity.origin.updates)
        theirs = self.publish(entity.origin.source, name)
        if change.is_empty:
            return ComparedTable(path, entity, own, theirs, change, None, NetChange())
        since = self._net_change(theirs, entity.origin.base_version)
        paths = BranchPaths(branch_folder(own.table_id))
        conflict = conflict_of(moved_change(change, paths.relocate), since, name)
        if theirs.state != ACTIVE:
            conflict = f"'{name}' is {theirs.state} in the catalog"
        return ComparedTable(path, entity, own, theirs, change, conflict, since)

    def changes_since(self, table: ComparedTable) -> NetChange:
        """Returns the net change of the catalog's table since the branch's base, for a table that
        the branch did not change."""
        assert table.entity.origin is not None
        return self._net_change(table.theirs, table.entity.origin.base_version)

    def publish(self, table_id: str, name: str) -> TableHead:
        """Publishes everything ratified of a table. Returns its HEAD after that."""
        key = self._world.space.table(table_id)
        row = self._heads.pop(key, None) or self._world.refs.read(key)
        head = TableHead.from_row(row) if row is not None else None
        if head is not None and head.floor < head.latest:
            result = self._publisher.publish(table_id)
            row = self._world.refs.read(head.key)
            head = TableHead.from_row(row) if row is not None else None
            if head is None or head.floor < head.latest:
                what = result.problem.message if result.problem else "it is being written"
                raise StorageFault(f"'{name}' is not published yet: {what}", remedy="send the request again")
        if head is None:
            raise StorageFault(f"the HEAD of '{name}' is gone", remedy="drop the table on the branch")
        return head

    def _net_change(self, head: TableHead, base: int, updates: Collection[int] = ()) -> NetChange:
        """The net change of the commits after ``base``, without ``updates``."""
        storage = self._world.storages.open(head.location)
        change = NetChange()
        commits = head.latest - base
        if commits > self._commits_left:
            problem = f"'{head.name}' has {commits} commits since the base of the branch"
            raise _too_large(problem, "commits", COMMITS_MAX, commits)
        self._commits_left -= commits
        for version in range(base + 1, head.latest + 1):
            if version in updates:
                continue
            path = published_path(version)
            file = storage.read(path, PIECE_BYTES)
            if file is None:
                problem = f"version {version} of '{head.name}' is not in its log any more"
                raise StateConflict(ErrorType.VERSIONS_GONE, problem, remedy="make a new branch, and change it again")
            lines = lines_of_commit(pieces_of(storage, path, *file), version)
            change.take(version, self._read_actions(lines, where_of(version), change, head.name))
        self._files_left -= change.files
        return change

    def _read_actions(self, lines: Iterable[bytes], where: str, change: NetChange, name: str) -> Iterator[Action]:
        """The actions of a commit, as long as there is room for the files that they change."""
        for line in lines:
            yield parse_line(line, where)
            if change.files > self._files_left:
                problem = f"'{name}' has {change.files} changed files since the base of the branch, or more"
                raise _too_large(problem, "files", FILES_MAX, change.files)


def _too_large(problem: str, what: str, limit: int, size: int) -> TooLarge:
    problem = f"{problem}, and a comparison reads {limit} {what} of all tables together"
    remedy = "make a branch for fewer tables, and promote it sooner"
    return TooLarge(problem, field="branch", remedy=remedy, limit=limit, size=size)
