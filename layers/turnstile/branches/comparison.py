"""Compares a branch with its catalog: the names that differ, the net change of each table with a
log of its own, and the conflicts with changes of the catalog since the base (I28)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

from turnstile.branches.commits import Span, commits_of_tables
from turnstile.branches.core.differences import Difference, differences, with_renames
from turnstile.branches.core.entities import same_but_rights
from turnstile.branches.core.net_change import NetChange, conflict_of, moved_change
from turnstile.branches.core.paths import Action, BranchPaths
from turnstile.branches.refusals import late_commit
from turnstile.catalog.branches import base_of
from turnstile.catalog.core.branches import is_inherited
from turnstile.catalog.core.entities import NAMESPACE, TABLE, BranchOrigin, Table
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted_name, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import ACTIVE, DROPPED, LEAVING, TableHead
from turnstile.delta.log.lines import parse_line, where_of
from turnstile.store.core.errors import ErrorType, StateConflict, StorageFault, TooLarge
from turnstile.store.core.locations import split_location
from turnstile.store.core.writes import Row

COMMITS_MAX: Final = 5_000
"""Commits that a comparison reads, of all tables of the branch and of the catalog."""
FILES_MAX: Final = 200_000
"""Files in the net changes of a comparison, which are in memory at once."""


class ComparedTable(msgspec.Struct, frozen=True):
    """A table of the branch with a log of its own.

    Attributes:
        path: its name on the branch; ``base_path``: in the base, another one if it was renamed.
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
    base_path: Path

    @property
    def is_renamed(self) -> bool:
        """Whether the branch renamed it."""
        return self.base_path != self.path

    @property
    def origin(self) -> BranchOrigin:
        """The catalog's table, and the versions that the branch's is based on."""
        return _origin(self.entity)


class _OwnTable(NamedTuple):
    """A table of the branch with a log of its own, and its name in the base."""

    path: Path
    entity: Table
    base_path: Path


class Comparison(msgspec.Struct, frozen=True):
    """A branch and its catalog as of one read of both trees.

    Attributes:
        names: that lead to another entity on the branch, or to none; ``rights``: names of entities
            with other rights alone.
        conflicts: the reasons why the branch cannot be promoted.
        dropped: the HEADs of tables that the branch dropped or replaced, and the catalog still has.
    """

    base: NamedSnapshot
    base_tree: Tree
    branch: Tree
    catalog: Tree
    names: list[Difference]
    rights: list[Difference]
    tables: list[ComparedTable]
    conflicts: list[str]
    dropped: list[TableHead]


class Comparer:
    """Compares branches with their catalogs. One per request."""

    def __init__(self, catalog: CatalogServices) -> None:
        self._world = catalog.world
        self._reader = catalog.reader
        self._store = catalog.reader.store
        self._publisher = catalog.publisher
        self._backlog_bytes = catalog.limits.backlog_bytes // 2
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
        own: list[_OwnTable] = []
        names: list[Difference] = []
        rights: list[Difference] = []
        conflicts: list[str] = []
        dropped: list[Difference] = []
        found = differences(base_tree, branch)
        own_tables = self._own_tables(branch, found)
        origins = {entry: table.origin.source for entry, table in own_tables.items() if table.origin is not None}
        self._fetch_entities(base_tree, branch, [each for each in found if each.after not in own_tables])
        for each in with_renames(found, origins):
            table = None if each.after is None else own_tables.get(each.after)
            if table is not None and table.origin is not None and each.source is not None:
                names.append(each)
                if _has(present, each.source, table.origin.source):
                    own.append(_OwnTable(each.path, table, each.source))
            elif table is None or table.origin is None:
                if each.of == TABLE and each.before is not None and each.kind in ("dropped", "replaced"):
                    dropped.append(each)
                if each.after is None and present.find(each.path) is None:
                    continue  # the catalog dropped it, too
                (names if self._is_changed(each, base_tree, branch) else rights).append(each)
            elif each.before is None or each.before.table_id != table.origin.source:
                problem = "was renamed on the branch, and another table has its old name, or had its new one"
                conflicts.append(f"'{dotted_name(*each.path)}' {problem}: give it its name again")
            elif not _has(present, each.path, table.origin.source):
                conflicts.append(_lost_name(each.path))
            else:
                own.append(_OwnTable(each.path, table, each.path))
        self._read_heads([each.entity for each in own], dropped)
        heads = dict(self._dropped_heads(dropped))
        conflicts += self._drop_conflicts(heads, base, present)
        still_there = [head for path, head in heads.items() if _has(present, path, head.table_id)]
        tables = self._tables(own)
        conflicts += [table.conflict for table in tables if table.conflict is not None]
        plan = Comparison(base, base_tree, branch, present, names, rights, tables, conflicts, still_there)
        plan.conflicts.extend(self.name_conflicts(plan, present))
        return plan

    def _read_heads(self, own: Iterable[Table], dropped: Iterable[Difference]) -> None:
        """Reads the HEADs of tables of the branch and of the catalog's tables, also of ``dropped``
        ones, a hundred a request."""
        ids = [id for table in own if table.origin is not None for id in (table.table_id, table.origin.source)]
        ids += [each.before.table_id for each in dropped if each.before is not None]
        self._heads = self._world.refs.read_many([self._world.space.table(id) for id in ids]) if ids else {}

    def _dropped_heads(self, dropped: Iterable[Difference]) -> Iterator[tuple[Path, TableHead]]:
        """The HEADs of the catalog's tables that the branch dropped, with their names."""
        for each in dropped:
            assert each.before is not None
            row = self._heads.pop(self._world.space.table(each.before.table_id), None)
            if row is not None:
                yield each.path, TableHead.from_row(row)

    def _drop_conflicts(self, heads: Mapping[Path, TableHead], base: NamedSnapshot, present: Tree) -> Iterator[str]:
        """The tables that the branch dropped, and the catalog wrote or renamed since the base."""
        for path, head in heads.items():
            name = dotted_name(*path)
            if _has(present, path, head.table_id):
                reason = late_commit(head, base, name)
                yield from [] if reason is None else [reason]
            elif present.find(path) is None and head.state not in (DROPPED, LEAVING):
                yield f"'{name}' was dropped on the branch and renamed in the catalog"

    def _own_tables(self, branch: Tree, found: Sequence[Difference]) -> dict[IndexEntry, Table]:
        """The Delta tables of the branch with a log of their own, a hundred a request."""
        entries = [
            entry
            for each in found
            if (entry := each.after) is not None and entry.kind == TABLE and not is_inherited(branch, entry)
        ]
        entities = self._store.entities(branch.catalog, [entry.obj for entry in entries])
        tables = {entry: entities[entry.obj] for entry in entries}
        return {entry: table for entry, table in tables.items() if isinstance(table, Table) and table.external is None}

    def _fetch_entities(self, base: Tree, branch: Tree, found: Sequence[Difference]) -> None:
        """Caches the entities that names lead to before and after, a hundred a request."""
        both = [
            (each.before.obj, each.after.obj) for each in found if each.before is not None and each.after is not None
        ]
        self._store.entities(base.catalog, [before for before, _ in both])
        self._store.entities(branch.catalog, [after for _, after in both])

    def _is_changed(self, each: Difference, base: Tree, branch: Tree) -> bool:
        """Whether the entity of a name differs: rights alone are no change, and not promoted."""
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
        if each.source is not None and each.before and not _has(present, each.source, each.before.table_id):
            return _lost_name(each.source)
        if each.before is None or each.source is not None:
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
            dropped = {one.lost_path for one in plan.names}
            if any(path_of(key) not in dropped for key, _ in present.subtree(each.path)):
                return f"namespace '{name}' was dropped on the branch, and has more in the catalog"
        if gone and each.of not in (TABLE, NAMESPACE):
            return f"'{name}' is an Iceberg table or view that the branch drops: drop it in the catalog instead"
        if gone and isinstance(before, Table) and before.external is not None:
            return f"'{name}' is an external table that the branch drops: drop it in the catalog instead"
        return None

    def _tables(self, tables: Sequence[_OwnTable]) -> list[ComparedTable]:
        """Reads the net changes of tables, and compares them with the catalog's."""
        origins = [_origin(each.entity) for each in tables]
        heads = [
            (self._head(each.entity.table_id, each.path), self._head(origin.source, each.base_path))
            for each, origin in zip(tables, origins, strict=True)
        ]
        changes = self._net_changes(
            [Span(own, origin.version, origin.updates) for (own, _), origin in zip(heads, origins, strict=True)]
        )
        catalog = [
            Span(theirs, theirs.latest if change.is_empty else origin.base_version)
            for (_, theirs), origin, change in zip(heads, origins, changes, strict=True)
        ]
        compared = zip(tables, heads, changes, self._net_changes(catalog), strict=True)
        return [self._table(*table) for table in compared]

    def _table(
        self, table: _OwnTable, heads: tuple[TableHead, TableHead], change: NetChange, since: NetChange
    ) -> ComparedTable:
        """Compares the net change of a table with the catalog's ``since`` the base; ``heads``: the
        branch's and the catalog's."""
        path, entity, base_path = table
        own, theirs = heads
        if change.is_empty:
            return ComparedTable(path, entity, own, theirs, change, None, since, base_path)
        name = dotted_name(*base_path)
        paths = BranchPaths(split_location(own.location)[1])
        conflict = conflict_of(moved_change(change, paths.relocate), since, name) if since.versions else None
        if theirs.state != ACTIVE:
            conflict = f"'{name}' is {theirs.state} in the catalog"
        return ComparedTable(path, entity, own, theirs, change, conflict, since, base_path)

    def changes_since(self, table: ComparedTable) -> NetChange:
        """Returns the net change of the catalog's table since the branch's base, for a table that
        the branch did not change."""
        return self._net_changes([Span(table.theirs, table.origin.base_version)])[0]

    def publish(self, table_id: str, name: str) -> TableHead:
        """Publishes everything ratified of a table. Returns its HEAD after that."""
        return self._publish(self._read_head(table_id, name), name)

    def _head(self, table_id: str, path: Path) -> TableHead:
        """Returns the HEAD of a table. Publishes its commits first if it takes no commits now, or
        has little room for one more."""
        name = dotted_name(*path)
        head = self._read_head(table_id, name)
        has_room = head.state == ACTIVE and head.bytes <= self._backlog_bytes
        return head if has_room else self._publish(head, name)

    def _read_head(self, table_id: str, name: str) -> TableHead:
        key = self._world.space.table(table_id)
        row = self._heads.pop(key, None) or self._world.refs.read(key)
        if row is None:
            raise StorageFault(f"the HEAD of '{name}' is gone", remedy="drop the table on the branch")
        return TableHead.from_row(row)

    def _publish(self, head: TableHead, name: str) -> TableHead:
        if head.floor == head.latest:
            return head
        result = self._publisher.publish(head.table_id)
        head = self._read_head(head.table_id, name)
        if head.floor < head.latest:
            what = result.problem.message if result.problem else "it is being written"
            raise StorageFault(f"'{name}' is not published yet: {what}", remedy="send the request again")
        return head

    def _net_changes(self, spans: Sequence[Span]) -> list[NetChange]:
        """Reads the net change of each table, in bounds for all of them."""
        for span in spans:
            if span.count > self._commits_left:
                problem = f"'{span.head.name}' has {span.count} commits since the base of the branch"
                raise _too_large(problem, "commits", COMMITS_MAX, span.count)
            self._commits_left -= span.count
        changes = [NetChange() for _ in spans]
        for at, commits in groupby(commits_of_tables(self._world, spans), lambda commit: commit[0]):
            change = changes[at]
            for _, version, lines in commits:
                actions = self._read_actions(lines, where_of(version), change, spans[at].head.name)
                change.take(version, actions)
            self._files_left -= change.files
        return changes

    def _read_actions(self, lines: Iterable[bytes], where: str, change: NetChange, name: str) -> Iterator[Action]:
        """The actions of a commit, as long as there is room for the files that they change."""
        for line in lines:
            yield parse_line(line, where)
            if change.files > self._files_left:
                problem = f"'{name}' has {change.files} changed files since the base of the branch, or more"
                raise _too_large(problem, "files", FILES_MAX, change.files)


def _origin(table: Table) -> BranchOrigin:
    assert table.origin is not None
    return table.origin


def _has(tree: Tree, path: Path, table_id: str) -> bool:
    """Whether a name leads to this table."""
    entry = tree.find(path)
    return entry is not None and entry.table_id == table_id


def _lost_name(path: Path) -> str:
    return f"'{dotted_name(*path)}' was dropped, renamed or replaced in the catalog"


def _too_large(problem: str, what: str, limit: int, size: int) -> TooLarge:
    problem = f"{problem}, and a comparison reads {limit} {what} of all tables together"
    remedy = "make a branch for fewer tables, and promote it sooner"
    return TooLarge(problem, field="branch", remedy=remedy, limit=limit, size=size)
