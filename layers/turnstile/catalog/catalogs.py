"""Creates, lists, describes and drops catalogs. Each has a tree and a HEAD of its own; the realm's
tree lists them (Polaris, "System Managed Entities"). It is a catalog named ``.``, which no user can
name. So listing catalogs costs as little as listing namespaces, where a scan would read every
table's HEAD.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import CATALOG, NAMESPACE, Catalog
from turnstile.catalog.core.index import Index, pack
from turnstile.catalog.core.paths import path_of
from turnstile.catalog.core.rows import drop_catalog, new_catalog
from turnstile.catalog.core.tree import REALM_TREE, CatalogCommit, Tree
from turnstile.catalog.drop import NamespaceDropper
from turnstile.catalog.history.log import named_snapshots_of
from turnstile.catalog.namespaces import check_expectations, check_properties
from turnstile.catalog.reader import CatalogReader, View
from turnstile.rights.grants import NO_ACCESS, Access
from turnstile.store.core.errors import AlreadyExists, ErrorType, InvalidRequest, NotFound, StateConflict
from turnstile.store.core.names import branched_catalog, check_identifier, is_branch
from turnstile.store.core.writes import Check, Clause, Equals, Insert, Row, Write
from turnstile.store.ports import Rejected, World


class Catalogs:
    """The catalogs of a realm; ``dropper`` empties one that is dropped with everything in it."""

    def __init__(
        self, world: World, reader: CatalogReader, committer: Committer, dropper: NamespaceDropper | None = None
    ) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._dropper = dropper

    def create(
        self,
        name: str,
        *,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        owner: str = "",
    ) -> Catalog:
        """Creates an empty catalog of ``owner``. Raises InvalidRequest; AlreadyExists, perhaps in
        another case."""
        check_identifier(name, "name")
        if is_branch(name):
            problem = f"'{name}' is the name of a branch of catalog '{branched_catalog(name)}'"
            raise InvalidRequest(problem, field="name", remedy="leave out '@', or create the branch")
        check_expectations(_refuse_expectations, properties or {})
        world = self._world
        catalog = check_properties(
            Catalog(name, world.clock.now_ms(), world.ids.uuid(), comment, dict(properties or {}))
        )
        row = self.realm_row()
        if self._reader.at(REALM_TREE, row).find((name,)) is not None:
            raise _name_taken(name)  # before an obj is written in vain
        insert = self._first_commit(name, catalog.created, Access(owner))

        def change(_: View) -> Edit:
            return Edit(f"create catalog {name}", put={(name,): catalog}, writes=(insert,))

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            if 0 in failed:
                raise _name_taken(name)

        self._committer.commit(REALM_TREE, change, row=row, on_rejected=on_rejected)
        return catalog

    def list(self) -> list[Catalog]:
        try:
            tree = self._reader.current(REALM_TREE)
        except NotFound:
            return []
        ids = [entry.obj for _, entry in tree.children((), CATALOG)]
        entities = self._reader.store.entities(REALM_TREE, ids)
        return [entity for entity in (entities[id] for id in ids) if isinstance(entity, Catalog)]

    def get(self, name: str) -> Catalog:
        """Returns a catalog; for a branch the catalog that it belongs to, under the branch's name.
        Raises NotFound."""
        of = branched_catalog(name)
        catalog = _entity(View(self._realm(of), self._reader.store), of)
        return msgspec.structs.replace(catalog, name=self._reader.current(name).catalog) if is_branch(name) else catalog

    def update(
        self,
        name: str,
        *,
        comment: str | msgspec.UnsetType | None = msgspec.UNSET,
        properties: Mapping[str, str] | None = None,
        set: Mapping[str, str] | None = None,
        unset: Collection[str] = (),
    ) -> Catalog:
        """Changes the comment (UNSET: kept) and the properties (None: kept; otherwise replaced),
        then sets and unsets some. Raises NotFound, TooLarge, InvalidRequest."""
        self._realm(name)

        def change(view: View) -> Edit | None:
            old = _entity(view, name)
            text = old.comment if comment is msgspec.UNSET else comment
            props = dict(old.properties if properties is None else properties) | dict(set or {})
            kept = {property: value for property, value in props.items() if property not in unset}
            check_expectations(_refuse_expectations, kept, old.properties)
            new = check_properties(msgspec.structs.replace(old, comment=text, properties=kept), old)
            if new == old:
                return None
            new = msgspec.structs.replace(new, updated=self._world.clock.now_ms())
            return Edit(f"update catalog {old.name}", put={(old.name,): new}, writes=self._same_rights(name))

        tree = self._committer.commit(REALM_TREE, change)
        return _entity(View(tree, self._reader.store), name)

    def _same_rights(self, name: str) -> tuple[Write, ...]:
        """The catalog's rights must still equal the rights that authorized the request: they are in
        its own tree, while this change is one of the realm's (I12)."""
        if self._reader.authorizer is None:
            return ()
        head = self._reader.current(name).head
        same = Clause("same rights", "I12", "the request was authorized by this tree", Equals(("head",), head))
        return (Check(self._reader.key(name), (same,)),)

    def drop(self, name: str, *, force: bool = False) -> None:
        """Drops its name in the realm's tree and its HEAD, in one transaction. With ``force``
        everything in it is dropped first. Raises NotFound, StateConflict ``NamespaceNotEmpty``;
        after that it may be smaller.
        """
        self._realm(name)

        def change(view: View) -> Edit:
            _entity(view, name)
            tree = self._reader.current(name)
            branches = [base.branch for base in named_snapshots_of(tree, self._reader.store) if base.branch]
            if branches:
                problem = f"catalog '{name}' has branches: {', '.join(branches[:10])}"
                raise StateConflict(ErrorType.HAS_BRANCH, problem, field="catalog", remedy="drop them first")
            if not tree.empty:
                problem = f"catalog '{name}' is not empty"
                raise StateConflict(
                    ErrorType.NAMESPACE_NOT_EMPTY, problem, field="catalog", remedy="drop it with force"
                )
            gone = self._world.space.dropped_catalog(name)
            writes = drop_catalog(self._reader.key(name), gone, tree.catalog, tree.head, self._world.clock.now_ms())
            return Edit(f"drop catalog {name}", remove=((name,),), writes=writes)

        while force and self._dropper is not None:
            tree = self._reader.current(name)
            first = next(tree.children((), NAMESPACE), None)
            if first is None:
                break
            self._dropper.drop(name, path_of(first[0]), cascade=True)
        self._committer.commit(REALM_TREE, change)

    def _realm(self, name: str) -> Tree:
        """Returns the realm's tree. Raises NotFound if it does not have the catalog; InvalidRequest
        for a branch."""
        if is_branch(name):
            remedy = f"send it to /v1/catalogs/{branched_catalog(name)}/branches, or name the catalog"
            raise InvalidRequest(
                f"'{name}' is a branch, which has no members of its own", field="catalog", remedy=remedy
            )
        row = self._world.refs.read(self._reader.key(REALM_TREE))
        tree = self._reader.at(REALM_TREE, row) if row is not None else None
        if tree is None or tree.find((name,)) is None:
            raise _missing(name)
        return tree

    def _first_commit(self, name: str, now: int, access: Access = NO_ACCESS) -> Insert:
        """The commit obj of an empty catalog is durable before any row names it (I9)."""
        store = self._reader.store
        id = store.new_commit_id()
        empty = CatalogCommit(0, (), f"create catalog {name}", now * 1000, embedded=pack(Index()), access=access)
        store.write(name, id, empty, {})
        return new_catalog(self._reader.key(name), name, id, now)

    def realm_row(self) -> Row | None:
        """Returns the row of the realm's tree. The first caller creates it; callers that lose the
        race use the winner's."""
        key = self._reader.key(REALM_TREE)
        row = self._world.refs.read(key)
        if row is not None:
            return row
        answer = self._world.refs.write(self._first_commit(REALM_TREE, self._world.clock.now_ms()))
        return answer.row if isinstance(answer, Rejected) else self._world.refs.read(key)


def _entity(view: View, name: str) -> Catalog:
    entry = view.tree.find((name,))
    entity = view.entity(entry.obj) if entry is not None else None
    if not isinstance(entity, Catalog):
        raise _missing(name)
    return entity


def _missing(name: str) -> NotFound:
    return NotFound("catalog", name, field="catalog", remedy="create it first, or check the name")


def _name_taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"catalog '{name}' exists", field="name", remedy="use it, or choose another name")


def _refuse_expectations(properties: Mapping[str, str]) -> None:
    problem = f"property {next(iter(properties))[:100]!r}: a catalog has no expectations"
    raise InvalidRequest(problem, field="properties", remedy="set it on its namespaces, or on tables")
