"""Promotes a branch: its changes become changes of its catalog, all of them in one write (I28).

    1  names      the differences between the base and the branch
    2  tables     of each Delta table with a log of its own the net change of its commits, with the
                  paths of the catalog's table; compared with the change of that table since
                  the base
    3  refusals   of rights, for each table and name; of conflicts, all of them; nothing was changed
    4  one write  of the catalog's HEAD, with a commit for each changed table; the rights are asked
                  again in the tree that it replaces; the branch's tables
                  are handed over at the versions that were read, and the row of the branch is
                  erased while its HEAD is the one that was read. Many tables are prepared before
                  (``catalog.changes.transactions``)

A table that got a commit between 2 and 4 refuses the write, and everything is computed again. So
readers of the catalog see the whole promotion or nothing of it, and no commit of the branch is
lost. A crash before 4 leaves the branch as it was; after it the branch is gone.

Source: Delta's proposal of branches (delta-io/delta 7439): one commit a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import msgspec

from turnstile.branches.checks import Checked, Checker
from turnstile.branches.comparison import ComparedTable, Comparer, Comparison
from turnstile.branches.core.asked_names import AskedName, asked_names
from turnstile.branches.core.differences import Difference
from turnstile.branches.core.entities import access_of, with_access
from turnstile.branches.core.net_change import (
    PROMOTE,
    key_of,
    moved_change,
    rows_in,
)
from turnstile.branches.core.paths import Action, BranchPaths
from turnstile.branches.core.registry import PUBLISHED, BranchRef
from turnstile.branches.net_commits import NetCommits
from turnstile.branches.records import Record, Records, other_state
from turnstile.branches.refusals import CONFLICTS_MAX, busy, conflict, late_commit, require_rights
from turnstile.branches.unchanged import return_unchanged
from turnstile.branches.update import Updater
from turnstile.branches.writes import branch_change, commit_at_once
from turnstile.catalog.changes.composed import GroupChange
from turnstile.catalog.changes.transactions import Applied
from turnstile.catalog.changes.waiting import MAX_ROWS, Edit
from turnstile.catalog.clone.core import let_go_of
from turnstile.catalog.core.entities import ICEBERG_TABLE, TABLE, Entity, IcebergTable, IcebergView, Table
from turnstile.catalog.core.paths import Path, dotted_name, fold
from turnstile.catalog.core.rows import drop_branch
from turnstile.catalog.history.core import snapshot_path
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.writes.state import adopt_head, drop_published_head, rename_head
from turnstile.delta.proposals import CommitRequest, GroupRequest, HandOver
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.expectations.core.findings import Finding
from turnstile.rights.grants import Access
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.locations import normalise, split_location
from turnstile.store.core.writes import Change, Clause, Equals, Set, Write
from turnstile.store.ports import World


class PromotionAuthorizer(Protocol):
    """The rights of the principal of a request."""

    def __call__(self, view: View, names: Sequence[AskedName], *, updates: bool = False) -> list[str]:
        """Returns the reasons why the principal may not change these names in a tree of a catalog;
        nor, where the write ``updates`` the branch, see all of the catalog."""


_ATTEMPTS: Final = 10
CHECKS_MAX: Final = 1_000
"""Outcomes of expectations that an answer names."""


class ChangedTable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Delta table that the branch changes.

    Attributes:
        name: without the catalog.
        base, latest: versions of the branch's table: with which its log begins, and the latest.
        files_added, files_removed: of the net change; ``rows_added``, ``rows_removed`` in these
            files, None where statistics do not say.
        operations: of its commits.
        version: of the catalog's table with the promotion.
    """

    name: str
    table_id: str
    base: int
    latest: int
    files_added: int
    files_removed: int
    operations: list[str]
    rows_added: int | None
    rows_removed: int | None
    version: int | None = None


class ChangedName(msgspec.Struct, frozen=True, omit_defaults=True):
    """A name that the branch creates, changes or drops, and the kind of its entity. ``old_name`` of
    a table that it renames."""

    name: str
    kind: str
    change: str
    old_name: str | None = None


class BranchChanges(msgspec.Struct, frozen=True):
    """Everything that a promotion would do now; ``conflicts`` are the reasons why it would be
    refused, ``checks`` the outcomes of expectations. ``state`` identifies these changes: a
    promotion of this state promotes exactly them."""

    tables: list[ChangedTable]
    names: list[ChangedName]
    conflicts: list[str]
    checks: list[Checked]
    state: str


class BranchChecks(msgspec.Struct, frozen=True):
    """The outcomes of the expectations of a branch's changes, which ``state`` identifies."""

    checks: list[Checked]
    state: str


class Promoted(msgspec.Struct, frozen=True):
    """A promotion: the commit of the catalog that has it, and its changes. ``seq`` None: the branch
    had no changes, and stays."""

    branch: str
    seq: int | None
    tables: list[ChangedTable]
    names: list[ChangedName]


class Promoter:
    """Compares branches with their catalogs, and promotes them. One per request. The request's
    guard authorizes it to read both."""

    def __init__(
        self, catalog: CatalogServices, groups: GroupRatifier, authorize: PromotionAuthorizer, *, principal: str = ""
    ) -> None:
        self._services = catalog
        self._world: World = catalog.world
        self._store = catalog.reader.store
        self._comparer = Comparer(catalog)
        self._groups = groups
        self._authorize = authorize
        self._principal = principal
        self._commits = NetCommits(catalog, principal)

    def changes(self, catalog: str, name: str) -> BranchChanges:
        """Returns the changes of a branch. Costs the reads of the commits of its tables. Raises
        NotFound, TooLarge, UnsupportedTable, StorageFault."""
        plan = self._comparer.compare(catalog, name)
        tables = [_table_change(table) for table in plan.tables if not table.change.is_empty]
        checker = Checker(self._services, self._comparer)
        checks = checker.check(plan)
        asked = list(asked_names((table.path for table in _changed_tables(plan)), plan.names))
        missing = self._authorize(View(plan.catalog, self._store), asked)
        reasons = [*plan.conflicts, *_reasons(checks), *missing]
        return BranchChanges(tables, _names(plan), reasons[:CONFLICTS_MAX], checks[:CHECKS_MAX], checker.state)

    def record(self, catalog: str, name: str, state: str, findings: Sequence[Finding]) -> BranchChecks:
        """Writes a record of findings about the changes of ``state``, and returns the outcomes with
        it. Findings for expectations that the server decides itself are left out.

        Raises:
            NotFound: no such branch.
            PermissionDenied: the right to promote a table of the findings is missing.
            StateConflict: ``BranchConflict``: the branch has other changes than ``state``.
            InvalidRequest: a table that the branch did not change.
            TooLarge: too many changes, findings, or records of this state.
            UnsupportedTable, StorageFault: a log cannot be read.
        """
        plan = self._comparer.compare(catalog, name)
        asked = _names_of_findings(plan, findings)
        require_rights(plan.base.branch, self._authorize(View(plan.catalog, self._store), asked), change="checked")
        checker = Checker(self._services, self._comparer)
        record = Record(self._principal, self._world.clock.now_ms(), list(findings))
        checks = checker.check(plan, record)
        if state != checker.state:
            raise other_state(plan, "check again")
        if checker.used:
            Records(self._world, plan).add(state, msgspec.structs.replace(record, findings=checker.used))
        return BranchChecks(checks[:CHECKS_MAX], state)

    def promote(self, catalog: str, name: str, state: str = "", tables: Sequence[str] = ()) -> Promoted:
        """Promotes a branch and ends it. A branch without changes stays, and one of which some
        tables are promoted: it is updated by the same write.

        Args:
            state: of the changes that were looked at (``BranchChanges``): no others are promoted.
            tables: names of changed Delta tables, without the catalog; by default the whole branch.

        Raises:
            NotFound: no such branch.
            PermissionDenied: the right to promote a table or a name is missing.
            StateConflict: ``BranchConflict``: the catalog was changed in a way that cannot be put
                together with the branch, or the branch has other changes than ``state``;
                ``ConcurrentChange``: other writers were faster.
            InvalidRequest: it has more changes than one write can hold; ``tables`` names one that
                it did not change.
            TooLarge: it has more commits or changed files than a comparison reads.
            UnsupportedTable, StorageFault: a log cannot be read.
            OutcomeUnknown: it may have been promoted; if so, the branch is gone.
        """
        for _ in range(_ATTEMPTS):
            plan = self._comparer.compare(catalog, name)
            changed = _changed_tables(plan, tables)
            asked = list(asked_names((table.path for table in changed), () if tables else plan.names))
            authorize = partial(self._require_rights, plan, asked, updates=bool(tables))
            authorize(View(plan.catalog, self._store))
            if plan.conflicts:
                raise conflict(plan.base.branch, plan.conflicts)
            if return_unchanged(self._services, self._comparer, plan, ends=not tables):
                continue
            checker = Checker(self._services, self._comparer)
            checks = checker.check(plan)
            checks = [check for check in checks if not tables or _is_about(check, changed)]
            broken = _reasons(checks)
            if state and state != checker.state:
                raise other_state(plan, "look at its changes again, and promote their state")
            if broken:
                raise conflict(plan.base.branch, broken, remedy=_remedy_of(checks))
            if not plan.tables and not plan.names:
                return Promoted(plan.base.branch, None, [], [])
            self._groups.remember([table.theirs for table in changed])
            commits = {
                table.path: self._commit(plan, table, checker.passed.get(table.own.table_id, [])) for table in changed
            }
            if tables:
                updater = Updater(self._services, self._groups, principal=self._principal)
                applied = updater.write(plan, commits, checker.guard, authorize)
            else:
                versions = checker.created if state else checker.versions
                edit = checker.guard(partial(self._edit, plan, versions))
                applied = self._promote_all(plan, list(commits.values()), branch_change(edit, authorize))
            if applied is not None:
                done = [_table_change(table, commits[table.path].version) for table in changed]
                return Promoted(plan.base.branch, applied.seq, done, [] if tables else _names(plan))
        raise busy(name)

    def _promote_all(self, plan: Comparison, commits: Sequence[CommitRequest], change: GroupChange) -> Applied | None:
        """Writes the promotion of the whole branch; None where a table got a commit meanwhile."""
        own = tuple(HandOver(table.own.table_id, table.own.latest) for table in plan.tables)
        group = GroupRequest(self._world.ids.uuid(), tuple(commits), own)
        return commit_at_once(self._services, self._groups, plan, group, change)

    def _require_rights(self, plan: Comparison, asked: Sequence[AskedName], view: View, *, updates: bool) -> None:
        require_rights(plan.base.branch, self._authorize(view, asked, updates=updates))

    # -- writing ------------------------------------------------------------------------------------------------------

    def _commit(self, plan: Comparison, table: ComparedTable, passed: list[str]) -> CommitRequest:
        """Returns the commit of a table in the catalog; ``passed``: the names of expectations."""
        paths = BranchPaths(split_location(table.own.location)[1])
        moved = moved_change(table.change, paths.relocate)
        new_files = {key_of(paths.relocate(body)) for body in table.change.added.values() if paths.is_of_branch(body)}
        parameters = {
            "branch": plan.base.branch,
            "versions": table.change.versions or (0, 0),
            "operations": table.change.operations,
            "author": self._principal,
            "passed": passed,
        }
        if plan.base.delta_registry:
            version = table.theirs.latest + 1
            ref = BranchRef(
                table.own.table_id, plan.base.name[1:], table.origin.base_version, version, PUBLISHED, version
            )
            self._commits.register(moved, table.theirs, ref)
        name = self._full_name(plan, table.path) if table.is_renamed else ""
        return self._commits.request(table.theirs, PROMOTE, parameters, moved, new_files=new_files, name=name)

    def _edit(self, plan: Comparison, versions: Mapping[str, int], view: View) -> Edit:
        """Returns the change of the catalog, for one of its trees; ``versions`` of tables that the
        branch created were checked. Raises StateConflict."""
        reasons = self._comparer.name_conflicts(plan, view.tree)
        if reasons:
            raise conflict(plan.base.branch, reasons)
        now = self._world.clock.now_ms()
        catalog = view.tree.catalog
        put: dict[Path, Entity] = {}
        removed: list[Path] = [snapshot_path(plan.base.name)]
        writes: list[Write] = [drop_branch(self._services.reader.key(plan.base.branch), plan.branch.head)]
        for each in plan.names:
            if each.of == TABLE and each.kind in ("dropped", "replaced"):
                writes += self._drop_table(each, plan, now)
            if each.lost_path is not None:
                removed.append(each.lost_path)
            if each.after is None:
                continue
            entity = self._store.entity(plan.branch.catalog, each.after.obj)
            if each.source is not None:
                moved, rows = self._rename(each, entity, plan, view, now)
                put[_written_path(each.path, entity)] = moved
                writes += rows
                continue
            present = self._present(view, each.path)
            access = Access(access_of(entity).owner) if present is None else access_of(present)
            put[_written_path(each.path, entity)] = with_access(entity, access)
            if each.kind in ("created", "replaced"):
                writes += self._adopt_rows(catalog, each.path, entity, versions, now)
        if len(writes) >= MAX_ROWS:
            problem = f"the promotion creates and drops tables of {len(writes)} rows, and one write holds {MAX_ROWS}"
            raise InvalidRequest(problem, field="branch", remedy="make smaller branches: some new tables on each")
        message = f"promote branch {plan.base.branch}: {len(plan.tables)} tables, {len(plan.names)} names"
        return Edit(message, put=put, remove=tuple(removed), writes=tuple(writes))

    def _rename(
        self, each: Difference, entity: Entity, plan: Comparison, view: View, now: int
    ) -> tuple[Entity, list[Write]]:
        """Returns the catalog's table with the name that the branch gave it, and the write of its
        HEAD; none where its commit names it."""
        assert each.source is not None
        assert isinstance(entity, Table)
        present = self._present(view, each.source)
        assert isinstance(present, Table)  # name_conflicts
        moved = msgspec.structs.replace(present, name=entity.name)
        if any(table.path == each.path and not table.change.is_empty for table in plan.tables):
            return moved, []
        return moved, [rename_head(self._world.space.table(present.table_id), self._full_name(plan, each.path), now)]

    def _full_name(self, plan: Comparison, path: Path) -> str:
        """The name of a table of the branch in the catalog, as it is written."""
        view = View(plan.branch, self._store)
        table = view.table(path[:-1], path[-1])
        return dotted_name(plan.catalog.catalog, *view.written_levels(path[:-1]), table.name)

    def _present(self, view: View, path: Path) -> Entity | None:
        entry = view.tree.find(path)
        return None if entry is None else view.entity(entry.obj)

    def _adopt_rows(
        self, catalog: str, path: Path, entity: Entity, versions: Mapping[str, int], now: int
    ) -> Iterator[Write]:
        """The writes by which the rows of an entity of the branch become the catalog's."""
        space = self._world.space
        name = dotted_name(catalog, *path)
        match entity:
            case Table(external=None):
                latest = versions.get(entity.table_id)
                yield adopt_head(space.table(entity.table_id), catalog, name, now, latest)
            case Table():
                yield _of_catalog(space.external(entity.table_id), entity.table_id, catalog)
        match entity:
            case Table(clone=None) | IcebergTable() | IcebergView():
                yield _of_catalog(space.location(normalise(entity.location)), entity.table_id, catalog)

    def _drop_table(self, each: Difference, plan: Comparison, now: int) -> list[Write]:
        """The drop of a table that the branch dropped; refused if it got commits since the base. A
        clone releases the files of its source."""
        assert each.before is not None
        dropped = self._store.entity(plan.base_tree.catalog, each.before.obj)
        name = dotted_name(*each.path)
        head = self._comparer.publish(each.before.table_id, name)
        reason = late_commit(head, plan.base, name)
        if reason is not None:
            raise conflict(plan.base.branch, [reason])
        return [drop_published_head(head, now), *let_go_of(self._world.space, [dropped])]


def _of_catalog(key: str, table_id: str, catalog: str) -> Change:
    own = Clause("own", "I28", "the row is this table's", Equals(("table_id",), table_id))
    return Change(key, (own,), (Set(("catalog",), catalog),))


def _written_path(path: Path, entity: Entity) -> Path:
    return (*path[:-1], entity.name)


def _table_change(table: ComparedTable, version: int | None = None) -> ChangedTable:
    change = table.change
    return ChangedTable(
        dotted_name(*table.path),
        table.theirs.table_id,
        table.origin.version,
        table.own.latest,
        len(change.added),
        len(change.removed),
        change.operations,
        _rows_of(change.added.values()),
        _rows_of(change.removed.values()),
        version,
    )


def _rows_of(files: Iterable[Action]) -> int | None:
    """The rows of files that are not deleted; None where the actions do not say."""
    total = 0
    for file in files:
        rows = rows_in(file)
        if rows is None:
            return None
        total += rows
    return total


def _reasons(checks: Iterable[Checked]) -> list[str]:
    return [checked.reason for checked in checks if checked.refuses]


def _remedy_of(checks: Iterable[Checked]) -> str:
    remedy = "mend the rows on the branch, or its expectations"
    is_asked = any(check.outcome == "unchecked" and check.question is not None for check in checks)
    return f"check it in Spark, which reads more: lake.branches.check; or {remedy}" if is_asked else remedy


def _is_about(check: Checked, tables: Sequence[ComparedTable]) -> bool:
    """Whether a check is one of these tables, or of a namespace above one of them."""
    return any(f"{dotted_name(*table.path)}.".startswith(f"{check.table}.") for table in tables)


def _changed_tables(plan: Comparison, names: Sequence[str] = ()) -> list[ComparedTable]:
    """The Delta tables that the branch changed; with ``names`` only the tables of these names.
    Raises InvalidRequest for the name of a table that it did not change."""
    changed = {fold(dotted_name(*table.path)): table for table in plan.tables if not table.change.is_empty}
    for name in names:
        if fold(name) not in changed or changed[fold(name)].is_renamed:
            done = "changed" if fold(name) not in changed else "changed under the name of the catalog"
            problem = f"'{name[:300]}' is no Delta table that branch '{plan.base.branch}' {done}"
            remedy = "name tables as 'turnstile branch diff' does: sales.orders; new names go with the whole branch"
            raise InvalidRequest(problem, field="tables", remedy=remedy)
    return [changed[name] for name in dict.fromkeys(map(fold, names) if names else changed)]


def _names_of_findings(plan: Comparison, findings: Sequence[Finding]) -> list[AskedName]:
    """The changed tables that findings are about. Raises InvalidRequest for another name."""
    names = asked_names((table.path for table in _changed_tables(plan)), plan.names)
    known = {dotted_name(*name.path): name for name in names if name.of in (TABLE, ICEBERG_TABLE)}
    for finding in findings:
        if finding.table not in known:
            problem = f"'{finding.table[:300]}' is no table that branch '{plan.base.branch}' changed"
            raise InvalidRequest(problem, field="findings", remedy="name tables as the branch's checks do")
    return [known[name] for name in dict.fromkeys(finding.table for finding in findings)]


def _names(plan: Comparison) -> list[ChangedName]:
    return [
        ChangedName(
            dotted_name(*each.path), each.of, each.kind, None if each.source is None else dotted_name(*each.source)
        )
        for each in plan.names
    ]
