"""Creates, lists, renews and drops branches of catalogs (ADR 85, I28).

    create    1  the first commit of the branch: an obj, with the index of the base
              2  one change of the catalog: the base gets a name, ``@dev``, which keeps everything
                 that the branch shows from gc and vacuums, and the branch gets its row
    drop      1  one change of the catalog: from now on the branch can only be dropped
              2  the branch's own Delta tables are dropped, up to ``TABLES_PER_CHANGE`` a change
              3  one change of the catalog: the base loses its name, and the row is erased

A crash before the last step leaves an obj that gc collects, or a branch that is dropped again, by
gc after its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import MAX_ROWS, Edit
from turnstile.catalog.core.branches import full_branch_name, is_inherited
from turnstile.catalog.core.entities import ICEBERG_KINDS, TABLE, Table
from turnstile.catalog.core.paths import Path, dotted_name, path_of
from turnstile.catalog.core.rows import CatalogHead, drop_branch
from turnstile.catalog.core.tree import CatalogCommit, Tree, parents_after
from turnstile.catalog.describe import not_active
from turnstile.catalog.history.core import AsOf, NamedSnapshot, base_name, snapshot_path
from turnstile.catalog.history.log import KeptTree, named_snapshots_of
from turnstile.catalog.history.reader import AsOfReader
from turnstile.catalog.reader import CatalogReader, View
from turnstile.catalog.store import CatalogStore
from turnstile.delta.core.writes.state import drop_head
from turnstile.delta.undecided import is_settled
from turnstile.rights.grants import MANAGE_BRANCH, Access, GrantChange, apply_changes
from turnstile.store.core.errors import (
    AlreadyExists,
    ErrorType,
    InvalidRequest,
    NotFound,
    StateConflict,
    UnsupportedTable,
)
from turnstile.store.core.names import BRANCH_SIGN, branched_catalog, check_comment, is_branch
from turnstile.store.core.writes import Insert, Row, new_row
from turnstile.store.ports import World

DAY_MS: Final = 24 * 3_600_000
DEFAULT_DAYS: Final = 30
MAX_DAYS: Final = 366
TABLES_PER_CHANGE: Final = MAX_ROWS - 8


class Branch(msgspec.Struct, frozen=True):
    """A branch.

    Attributes:
        name: its name in its catalog; ``full_name`` the one under which clients use it.
        base, seq, at: the commit of the catalog that it was made from: id and number, and the
            moment as of which it shows Delta tables (microseconds).
        created, until: when it was created and when it ends (ms).
        owner: the principal that created it; empty for the operator.
        delta_registry: whether its commits name it in Delta's registry of branches (ADR 85).
    """

    name: str
    full_name: str
    base: str
    seq: int
    at: int
    created: int
    until: int
    owner: str = ""
    comment: str | None = None
    delta_registry: bool = False


class Branches:
    """The branches of catalogs. ``steps`` commits the changes of a request before its last one,
    which ``committer`` remembers under the key of the request."""

    def __init__(
        self, world: World, reader: CatalogReader, committer: Committer, as_of_reader: AsOfReader, steps: Committer
    ) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._steps = steps
        self._as_of_reader = as_of_reader

    def create(
        self,
        catalog: str,
        name: str,
        *,
        of: AsOf | None = None,
        days: int = DEFAULT_DAYS,
        comment: str | None = None,
        owner: str = "",
        delta_registry: bool = False,
    ) -> Branch:
        """Makes a branch of a catalog as it is now, or as of a moment. Two requests more than a
        change of the catalog, for any number of tables. Its rights are the catalog's of that
        moment; ``owner`` owns the branch. With ``delta_registry`` its commits name it in Delta's
        registry of branches.

        Raises InvalidRequest: the name, the number of days, a branch of a branch; NotFound: no
        such catalog or moment; AlreadyExists; TooLarge: the comment; OutcomeUnknown.
        """
        full = full_branch_name(catalog, name)
        check_comment(comment)
        _check_days(days)
        created: list[NamedSnapshot] = []

        def change(view: View) -> Edit:
            if view.tree.find(snapshot_path(base_name(name))) is not None:
                raise _name_taken(full)
            source = KeptTree(view.tree) if of is None else self._as_of_reader.kept_tree(view.tree, of)
            now = self._world.clock.now_ms()
            base = source.tree
            at = now * 1000 if of is None else _moment_us(base, of)
            written = full_branch_name(view.tree.catalog, name)
            head, commit = self._first_commit(base, written, now, owner)
            snapshot = NamedSnapshot(
                base_name(name),
                base.head,
                base.commit.seq,
                at,
                now,
                comment,
                branch=written,
                until=now + days * DAY_MS,
                owner=owner,
                delta_registry=delta_registry,
            )
            created[:] = [snapshot]
            key = self._reader.key(written)
            row = CatalogHead(
                key, written, head, commit.seq, (head,), created=now, changed_at=now, branch_of=view.tree.catalog
            )
            return Edit(
                f"create branch {written} at {base.head}",
                put={snapshot_path(snapshot.name): snapshot},
                writes=(Insert(row.to_row(), (new_row("I28"),)),),
                restores=True,
                replaced=source.replaced,
            )

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            if 0 in failed:
                raise _name_taken(full)

        self._committer.commit(catalog, change, on_rejected=on_rejected)
        return _branch(created[0])

    def list(self, catalog: str) -> list[Branch]:
        """Returns the branches of a catalog by name. Raises NotFound."""
        tree = self._reader.current(catalog)
        return [_branch(base) for base in named_snapshots_of(tree, self._reader.store) if base.branch]

    def get(self, catalog: str, name: str) -> Branch:
        """Returns a branch. Raises NotFound."""
        return branch_of(self._reader.current(catalog), self._reader.store, name)

    def renew(self, catalog: str, name: str, days: int) -> Branch:
        """Moves the end of a branch to so many days from now. Returns the branch. Raises NotFound,
        InvalidRequest."""
        _check_days(days)
        self._reader.current(self.get(catalog, name).full_name)  # authorizes the request
        until = self._world.clock.now_ms() + days * DAY_MS

        def change(view: View) -> Edit:
            base = msgspec.structs.replace(self._base(view.tree, name), until=until)
            return Edit(f"renew branch {base.branch}", put={snapshot_path(base.name): base})

        tree = self._committer.commit(catalog, change)
        return branch_of(tree, self._reader.store, name)

    def drop(self, catalog: str, name: str) -> None:
        """Drops a branch with everything that was changed on it. Raises NotFound; StateConflict:
        it has Iceberg tables or views of its own, or something was changed on it meanwhile."""
        full = self.get(catalog, name).full_name
        self._require_no_iceberg(self._reader.current(full))
        self._begin_drop(catalog, name)
        while self._drop_tables(full):
            pass

        def change(view: View) -> Edit:
            base = self._base(view.tree, name)
            own = self._reader.current(full)
            if next(_own_tables(own), None) is not None:
                raise _busy(full)
            gone = drop_branch(self._reader.key(full), own.head)
            return Edit(f"drop branch {base.branch}", remove=(snapshot_path(base.name),), writes=(gone,))

        self._committer.commit(catalog, change)

    def _begin_drop(self, catalog: str, name: str) -> None:
        def change(view: View) -> Edit | None:
            base = self._base(view.tree, name)
            ending = msgspec.structs.replace(base, dropping=True, until=min(base.until, self._world.clock.now_ms()))
            put = {snapshot_path(base.name): ending}
            return None if base.dropping else Edit(f"begin to drop branch {base.branch}", put=put, more=True)

        self._steps.commit(catalog, change)

    def _drop_tables(self, full: str) -> bool:
        """Drops some of the branch's own Delta tables; returns whether there may be more."""
        now = self._world.clock.now_ms()
        dropped: list[Path] = []

        def change(view: View) -> Edit | None:
            self._require_no_iceberg(view.tree)
            entries = [entry for entry, _ in zip(_own_tables(view.tree), range(TABLES_PER_CHANGE), strict=False)]
            entities = view.entities([obj for _, obj in entries])
            tables = [(path, entity) for path, obj in entries if isinstance(entity := entities[obj], Table)]
            dropped[:] = [path for path, _ in tables]
            if not dropped:
                return None
            heads = (table.table_id for _, table in tables if table.external is None)
            writes = tuple(drop_head(self._world.space.table(id), now) for id in heads)
            return Edit(f"drop {len(dropped)} tables of the branch", remove=tuple(dropped), writes=writes)

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            for position, row in failed.items():
                if not is_settled(self._world, row):
                    raise not_active(dotted_name(full, *dropped[position]), row)

        self._steps.commit(full, change, on_rejected=on_rejected)
        return bool(dropped)

    def _require_no_iceberg(self, tree: Tree) -> None:
        """Raises StateConflict for a branch with Iceberg tables or views that its catalog did not
        have: only Iceberg's API says whether their files go with them."""
        base = base_tree(self._reader, tree.catalog)
        for key, entry in tree.subtree(()):
            if entry.kind in ICEBERG_KINDS and base.find(path_of(key)) is None:
                problem = f"'{dotted_name(tree.catalog, *path_of(key))}' is an Iceberg table or view of the branch"
                raise StateConflict(
                    ErrorType.NAMESPACE_NOT_EMPTY,
                    problem,
                    field="branch",
                    remedy="drop it through the Iceberg API first",
                )

    def _base(self, tree: Tree, name: str) -> NamedSnapshot:
        return base_of(tree, self._reader.store, name)

    def _first_commit(self, base: Tree, full: str, now: int, owner: str) -> tuple[str, CatalogCommit]:
        """Writes the first commit of a branch, with the index of its base."""
        store = self._reader.store
        id = store.new_commit_id()
        before = base.commit
        commit = CatalogCommit(
            seq=before.seq + 1,
            parents=parents_after(before.seq, base.head, before.parents),
            message=f"create branch {full}",
            at=max(now * 1000, before.at + 1),
            embedded=before.embedded,
            segments=before.segments,
            access=_access_of_branch(before.access, owner),
            restored_by=base.head if before.restores else before.restored_by,
            incarnation=self._world.ids.uuid(),
        )
        store.write(full, id, commit, {})
        return id, commit


def _access_of_branch(access: Access, owner: str) -> Access:
    """The rights on a branch of a catalog: the creator owns it, and the catalog's owner manages
    it."""
    if not owner or owner == access.owner:
        return access
    changes = [GrantChange(access.owner, MANAGE_BRANCH)] if access.owner else []
    return apply_changes(access, changes, owner)


def _check_days(days: int) -> None:
    if not 1 <= days <= MAX_DAYS:
        raise InvalidRequest(f"days is {days}", field="days", remedy=f"give 1 to {MAX_DAYS}")


def base_of(tree: Tree, store: CatalogStore, name: str) -> NamedSnapshot:
    """Returns the base of the branch ``name``, by a tree of its catalog. Raises NotFound."""
    entry = tree.find(snapshot_path(base_name(name)))
    base = None if entry is None else store.entity(tree.catalog, entry.obj)
    if not isinstance(base, NamedSnapshot) or not base.branch:
        remedy = f"list them: turnstile branch list {tree.catalog}; it may be promoted, dropped or over"
        raise NotFound("branch", f"{tree.catalog}@{name}", field="branch", remedy=remedy)
    return base


def base_tree(reader: CatalogReader, full: str) -> Tree:
    """Returns the tree of the catalog that a branch was made from. Raises NotFound."""
    catalog, _, name = full.partition(BRANCH_SIGN)
    present = reader.without_authorizer().current(catalog)
    return reader.store.tree(present.catalog, base_of(present, reader.store, name).head)


def require_not_of_catalog(reader: CatalogReader, catalog: str, path: Path) -> None:
    """Raises UnsupportedTable for the drop of an Iceberg table or view on a branch if the catalog
    has it: its files belong to the catalog."""
    if is_branch(catalog) and base_tree(reader, catalog).find(path) is not None:
        problem = f"'{dotted_name(catalog, *path)}' is a table or view of the catalog, and a branch does not drop these"
        raise UnsupportedTable(problem, field="table", remedy=f"drop it in catalog '{branched_catalog(catalog)}'")


def branch_of(tree: Tree, store: CatalogStore, name: str) -> Branch:
    """Returns the branch ``name``, by a tree of its catalog. Raises NotFound."""
    return _branch(base_of(tree, store, name))


def _own_tables(tree: Tree) -> Iterator[tuple[Path, str]]:
    """The names of the branch's own Delta and external tables, with the ids of their objs."""
    for key, entry in tree.subtree(()):
        if entry.kind == TABLE and not is_inherited(tree, entry):
            yield path_of(key), entry.obj


def _moment_us(base: Tree, of: AsOf) -> int:
    return base.commit.at if of.time is None else max(base.commit.at, of.time * 1000)


def _branch(base: NamedSnapshot) -> Branch:
    return Branch(
        base.name[1:], base.branch, base.head, base.seq, base.at, base.created, base.until, base.owner, base.comment,
        base.delta_registry,
    )  # fmt: skip


def _name_taken(full: str) -> AlreadyExists:
    return AlreadyExists(f"branch '{full}' exists", field="name", remedy="use it, or choose another name")


def _busy(full: str) -> StateConflict:
    problem = f"branch '{full}' was changed while it was dropped"
    return StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy="send the request again", retry_after_ms=0)
