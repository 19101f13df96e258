"""Updates a branch: it takes over all changes of its catalog since the base (I28).

    1  compare      as for a promotion (``comparison``); conflicts are named, and change no row
    2  unchanged    tables with a log of their own and no changes become the catalog's again
    3  tables       each changed Delta table gets one commit, ``UPDATE BRANCH``, with the net change of
                    the catalog's table since the base, by the paths of the branch's log. Where both
                    added rows with row ids, the branch's get other ids: they are new ones at the
                    promotion anyway
    4  tree         the catalog's present names, with the changes of the branch
    5  one write    of the catalog's HEAD, in which the base moves to its present tree; of the branch's
                    row, with the tree of 4; the commits of 3, and a check that the catalog's tables
                    are at the versions that were compared

A table that got a commit between 1 and 5 refuses the write, and everything is computed again. The
commits of 3 are no changes of the branch: the entity of the table names their versions, and a
comparison leaves them out. A crash before 5 leaves the branch as it was, with objs for gc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

import msgspec

from turnstile.branches.checks import ChangeOfView
from turnstile.branches.comparison import ComparedTable, Comparer, Comparison
from turnstile.branches.core.entities import updated_access, updated_entity
from turnstile.branches.core.net_change import UPDATE, NetChange, files_with_same_ids, moved_change
from turnstile.branches.core.paths import below_branch
from turnstile.branches.core.registry import OPEN, BranchRef
from turnstile.branches.net_commits import NetCommits
from turnstile.branches.refusals import busy, conflict
from turnstile.branches.unchanged import return_unchanged
from turnstile.branches.writes import branch_change, commit_at_once
from turnstile.catalog.branches import Branch, base_of, branch_of
from turnstile.catalog.changes.attempts import DraftCommit, draft_commit
from turnstile.catalog.changes.transactions import Applied
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted_name, key_of
from turnstile.catalog.core.rows import CatalogHead, swap_head
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import snapshot_path
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.delta.proposals import CommitRequest, GroupRequest, HandOver, ReadVersion
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.store.core.errors import StateConflict, TooLarge
from turnstile.store.ports import World

UPDATES_MAX: Final = 1_000
"""Updates of a table with changes of both sides: its entity names the commit of each."""
_ATTEMPTS: Final = 10
_REMEDY: Final = "undo on the branch what is in conflict, or make a new branch"


class UpdatedTable(msgspec.Struct, frozen=True):
    """A table of the branch that took over changes: ``base``, the version of the catalog's table
    that it has now, and ``version``, its own latest."""

    name: str
    table_id: str
    base: int
    version: int


class Updated(msgspec.Struct, frozen=True):
    """An update: the branch with its new base, and the Delta tables with changes of both sides."""

    branch: Branch
    tables: list[UpdatedTable]


class _TableUpdate(msgspec.Struct, frozen=True):
    """A table of the branch, and the change of the catalog's table that it takes over."""

    table: ComparedTable
    since: NetChange

    @property
    def has_commit(self) -> bool:
        return not self.since.is_empty


class Updater:
    """Updates branches. One per request."""

    def __init__(self, catalog: CatalogServices, groups: GroupRatifier, *, principal: str = "") -> None:
        self._services = catalog
        self._world: World = catalog.world
        self._store = catalog.reader.store
        self._comparer = Comparer(catalog)
        self._groups = groups
        self._commits = NetCommits(catalog, principal)

    def update(self, catalog: str, name: str) -> Updated:
        """Moves the base of a branch to the present tree of its catalog.

        Raises:
            NotFound: no such branch.
            StateConflict: ``BranchConflict``: both changed the same; ``ConcurrentChange``: other
                writers were faster.
            InvalidRequest: it has more changed tables than one write can hold.
            TooLarge: it has more commits or changed files than a comparison reads.
            UnsupportedTable, StorageFault: a log cannot be read.
            OutcomeUnknown: it may be updated; an update may be repeated.
        """
        for _ in range(_ATTEMPTS):
            plan = self._comparer.compare(catalog, name)
            if plan.conflicts:
                raise _conflict(plan, plan.conflicts)
            if return_unchanged(self._services, self._comparer, plan, ends=False):
                continue
            if self.write(plan) is not None:
                tree = self._services.reader.current(plan.catalog.catalog)
                both = [table for table in plan.tables if not table.since.is_empty]
                return Updated(branch_of(tree, self._store, plan.base.name[1:]), [_answer_of(table) for table in both])
        raise busy(name)

    def write(
        self,
        plan: Comparison,
        promoted: Mapping[Path, CommitRequest] = MappingProxyType({}),
        guard: Callable[[ChangeOfView], ChangeOfView] = lambda change: change,
        authorize: Callable[[View], None] = lambda _view: None,
    ) -> Applied | None:
        """Carries out steps 3 to 5. Tables with a commit in ``promoted`` get it in the catalog, by
        the same write, and are the catalog's again on the branch. ``guard`` is put around the
        change; ``authorize`` raises PermissionDenied. Returns None where a table got a commit
        meanwhile."""
        tables = [self._table_update(table) for table in plan.tables if table.path not in promoted]
        ended = [table for table in plan.tables if table.path in promoted]
        row = self._world.refs.read(self._services.reader.key(plan.base.branch))
        if row is None or row["head"] != plan.branch.head:
            return None
        self._groups.remember([each.table.own for each in tables if each.has_commit])
        own = [self._commit(plan, each) for each in tables if each.has_commit]
        compared = [*(each.table.theirs for each in tables), *plan.dropped]
        reads: list[ReadVersion] = [ReadVersion(head.table_id, head.latest) for head in compared]
        reads += [HandOver(table.own.table_id, table.own.latest) for table in ended]
        latest_ict = max([head.last_ict for head in compared] + [table.theirs.last_ict + 1 for table in ended] + [0])
        group = GroupRequest(self._world.ids.uuid(), (*own, *promoted.values()), tuple(reads))
        edit = guard(partial(self._edit, plan, tables, CatalogHead.from_row(row), latest_ict))
        return commit_at_once(self._services, self._groups, plan, group, branch_change(edit, authorize))

    def _table_update(self, table: ComparedTable) -> _TableUpdate:
        since = self._comparer.changes_since(table) if table.change.is_empty else table.since
        return _TableUpdate(table, since)

    def _commit(self, plan: Comparison, each: _TableUpdate) -> CommitRequest:
        moved = moved_change(each.since, below_branch)
        own = each.table.own
        marks = [mark for mark in (own.row_hwm, each.table.theirs.row_hwm) if mark is not None]
        head = msgspec.structs.replace(own, row_hwm=max(marks)) if marks else own
        parameters = {
            "catalog": plan.catalog.catalog,
            "versions": each.since.versions,
            "operations": each.since.operations,
        }
        if plan.base.delta_registry:
            created = each.table.origin.version
            ref = BranchRef(own.table_id, plan.base.name[1:], each.table.theirs.latest, created, OPEN)
            self._commits.register(moved, each.table.theirs, ref)
        renumbered = files_with_same_ids(each.table.change, each.since) if marks else []
        return self._commits.request(head, UPDATE, parameters, moved, renumbered=renumbered)

    # -- the write ----------------------------------------------------------------------------------------------------

    def _edit(
        self, plan: Comparison, tables: list[_TableUpdate], row: CatalogHead, latest_ict: int, view: View
    ) -> Edit:
        """Returns the change of the catalog, for one of its trees. Writes the objs of the branch's
        commit. ``latest_ict`` (ms) of the tables that were compared: all of it belongs to the new
        base. Raises StateConflict."""
        base = base_of(view.tree, self._store, plan.base.name[1:])
        if (base.head, base.dropping) != (plan.base.head, False):
            raise busy(base.branch)
        reasons = self._comparer.name_conflicts(plan, view.tree)
        if reasons:
            raise _conflict(plan, reasons)
        now = self._world.clock.now_ms()
        draft = self._branch_commit(plan, tables, view.tree, now)
        self._store.write(draft.tree.catalog, draft.tree.head, draft.tree.commit, draft.entities, draft.segments)
        moved = msgspec.structs.replace(
            base,
            head=view.tree.head,
            seq=view.tree.commit.seq,
            at=max(now, latest_ict) * 1000,
        )
        swap = swap_head(row, draft.tree.head, now, draft.tree.commit.segments)
        return Edit(f"update branch {base.branch}", put={snapshot_path(base.name): moved}, writes=(swap,))

    def _branch_commit(self, plan: Comparison, tables: list[_TableUpdate], present: Tree, now: int) -> DraftCommit:
        """The branch's next commit: the catalog's present names, and the branch's."""
        branch = plan.branch
        put: dict[Path, Entity] = {}
        entries: dict[str, IndexEntry] = {}
        removed = [snapshot_path(plan.base.name)]
        found = [tree.find(each.table.base_path) for tree in (plan.base_tree, present) for each in tables]
        self._store.entities(present.catalog, [entry.obj for entry in found if entry is not None])  # cached by it
        for each in tables:
            put[(*each.table.path[:-1], each.table.entity.name)] = self._updated_table(plan, each, present)
        for name in (*plan.names, *plan.rights):
            if name.lost_path is not None:
                removed.append(name.lost_path)
            if name.after is None or name.source is not None:
                continue
            after = self._store.entity(branch.catalog, name.after.obj)
            before = self._entity(plan.base_tree, name.before)
            entity = updated_entity(before, after, self._entity(present, present.find(name.path)))
            if entity == after:
                entries[key_of(name.path)] = name.after
            elif entity is not None:
                put[(*name.path[:-1], entity.name)] = entity
        edit = Edit(f"update from {present.head}", put=put, remove=tuple(removed), entries=entries, restores=True)
        commit = msgspec.structs.replace(branch.commit, incarnation=self._world.ids.uuid())
        return draft_commit(self._store, now, Tree(branch.catalog, branch.head, commit, present.index), edit)

    def _updated_table(self, plan: Comparison, each: _TableUpdate, present: Tree) -> Entity:
        """The entity of a table that has all commits of the catalog's table."""
        table = each.table
        origin = table.origin
        updates = (*origin.updates, table.own.latest + 1) if each.has_commit else origin.updates
        if len(updates) > UPDATES_MAX:
            problem = f"'{dotted_name(*table.path)}' was updated {UPDATES_MAX} times on the branch"
            raise TooLarge(problem, field="branch", remedy="promote it", limit=UPDATES_MAX, size=len(updates))
        before, now = (self._entity(tree, tree.find(table.base_path)) for tree in (plan.base_tree, present))
        moved = msgspec.structs.replace(origin, base=table.theirs.latest, updates=updates)
        access = updated_access(before, table.entity, now)
        return msgspec.structs.replace(table.entity, origin=moved, access=access)

    def _entity(self, tree: Tree, entry: IndexEntry | None) -> Entity | None:
        return None if entry is None else self._store.entity(tree.catalog, entry.obj)


def _answer_of(table: ComparedTable) -> UpdatedTable:
    return UpdatedTable(dotted_name(*table.path), table.own.table_id, table.theirs.latest, table.own.latest + 1)


def _conflict(plan: Comparison, reasons: list[str]) -> StateConflict:
    return conflict(plan.base.branch, reasons, remedy=_REMEDY, change="updated")
