"""Access control (I12): a request's rights, checked on every tree that it works with.

Rights are part of the tree that a catalog's HEAD names. So authorizing costs no request where the
tree and the entities on the way to the table are cached, and a change is authorized by exactly the
rights that its swap of the HEAD replaces. A route declares its ``Need``s; the catalog's reader
shows their ``Guard`` every tree before anything is answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from turnstile.catalog.core.entities import ICEBERG_KINDS, NAMESPACE, TABLE, Catalog, Entity, is_same
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted_name, fold
from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.core.tree import REALM_TREE, Tree
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.catalog.reader import CatalogReader, View
from turnstile.rights.grants import NO_ACCESS, Access, Principal
from turnstile.rights.rules import (
    TABLE_RULES,
    Chain,
    Rule,
    admin_only,
    create_catalog,
    is_permitted,
    may_go_on,
    padded_chain,
    see_schema,
    see_table,
)
from turnstile.store.core.errors import PermissionDenied
from turnstile.store.ports import BATCH_GET_MAX, World


class Target(msgspec.Struct, frozen=True):
    """The subject of an operation: a full name as the request wrote it. The metastore is the
    catalog ``.``."""

    catalog: str
    namespace: Path = ()
    table: str = ""

    @property
    def path(self) -> Path:
        return (*self.namespace, self.table) if self.table else self.namespace

    def __str__(self) -> str:
        return "the metastore" if self.catalog == REALM_TREE else dotted_name(self.catalog, *self.path)


METASTORE: Final = Target(REALM_TREE)

TABLES: Final = (TABLE, *ICEBERG_KINDS)
"""Kinds of entries that the rules of tables are for: Iceberg's tables and views as well."""


class Need(msgspec.Struct, frozen=True):
    """A rule that has to hold on a target."""

    rule: Rule
    target: Target


class Authorizer:
    """Reads the rights along a name, and makes guards. One per sandbox, sharing the caches of
    ``reader``, which must have no authorizer of its own."""

    def __init__(self, world: World, reader: CatalogReader) -> None:
        self._refs = world.refs
        self._reader = reader

    def guard(self, principal: Principal, needs: Sequence[Need], *, inside: bool = False) -> Guard:
        return Guard(self, principal, needs, inside=inside)

    def chain(self, tree: Tree, target: Target) -> Chain:
        """Returns the rights along ``target``: no request where its entities are cached, else
        one."""
        return _chain(View(tree, self._reader.store), target)

    def catalog_rights(self, catalogs: Sequence[Catalog]) -> list[Access]:
        """Returns the rights of these catalogs, ``NO_ACCESS`` where one is gone. One request per
        hundred catalogs, and one for each HEAD that is not cached."""
        rights: list[Access] = []
        for start in range(0, len(catalogs), BATCH_GET_MAX):
            keys = {catalog.name: self._reader.key(catalog.name) for catalog in catalogs[start : start + BATCH_GET_MAX]}
            rows = self._refs.read_many(list(keys.values()))
            for name, key in keys.items():
                rights.append(self._reader.at(name, rows[key]).commit.access if key in rows else NO_ACCESS)
        return rights

    def entities(self, tree: Tree, objs: Sequence[str]) -> dict[str, Entity]:
        return self._reader.store.entities(tree.catalog, objs)

    def metastore(self) -> Chain:
        """Returns the realm's own rights; ``NO_ACCESS`` before the first catalog was created."""
        tree = self.current(REALM_TREE)
        return padded_chain([] if tree is None else [tree.commit.access], 0, table=False)

    def current(self, catalog: str) -> Tree | None:
        """Returns the tree at the catalog's HEAD: one request warm; None when there is no such
        catalog."""
        row = self._refs.read(self._reader.key(catalog))
        return None if row is None else self._reader.at(catalog, row)

    def current_since(self, catalog: str) -> tuple[Tree, int] | None:
        """Returns the same, with when the catalog was created (server clock, ms)."""
        row = self._refs.read(self._reader.key(catalog))
        return None if row is None else (self._reader.at(catalog, row), CatalogHead.from_row(row).created)


class Guard:
    """The needs of one request, and which of them are authorized. Safe for the threads of the
    request. Admins may do all.

    Args:
        inside: the view itself authorizes the request, and calls ``mark_authorized``.

    Attributes:
        chain: the rights by which the first need was authorized.
    """

    def __init__(
        self, source: Authorizer, principal: Principal, needs: Sequence[Need], *, inside: bool = False
    ) -> None:
        self._source = source
        self.principal = principal
        self._needs = tuple(needs)
        self._open = set(range(len(self._needs))) if not principal.admin else set[int]()
        self._inside = inside and not principal.admin
        self.chain: Chain | None = None

    @property
    def is_authorized(self) -> bool:
        """Whether every need was checked and held. A request is not answered before."""
        return not self._open and not self._inside

    def mark_authorized(self) -> None:
        self._inside = False

    def mark_replayed(self) -> None:
        """The request was answered before, to this very principal, and only its answer is
        repeated."""
        self._open.clear()
        self._inside = False

    def may(self, rule: Rule) -> bool:
        """Whether an authorized request also passes ``rule`` on the subject of its first need."""
        return self.principal.admin or (self.chain is not None and is_permitted(rule, self.principal, self.chain))

    def authorize(self, tree: Tree) -> None:
        """Check every need that is about this catalog, by the rights in ``tree``. Raises
        PermissionDenied, also when none is about this catalog. (The realm's tree needs none: to
        every request it says that the catalog exists.)
        """
        if self.principal.admin:
            return
        needs = [(position, need) for position, need in enumerate(self._needs) if _is_about(need, tree.catalog)]
        if not needs and tree.catalog != REALM_TREE:
            raise _undeclared_refusal(tree.catalog)
        for position, need in needs:
            self._check(position, need, self._source.chain(tree, need.target))

    def authorize_missing(self, catalog: str) -> None:
        """Checks a request for a catalog that does not exist. Raises PermissionDenied for
        principals that may not create it."""
        if self.principal.admin or is_permitted(create_catalog, self.principal, self._source.metastore()):
            return
        needs = [need for need in self._needs if _is_about(need, catalog)]
        raise denial(self.principal, needs[0]) if needs else _undeclared_refusal(catalog)

    def authorize_now(self) -> None:
        """Check at once every need that was not checked yet, by the present rights, for operations
        that do not read the tree: one read a catalog. Raises PermissionDenied."""
        for position in sorted(self._open):
            need = self._needs[position]
            if need.target == METASTORE:
                self._check(position, need, self._source.metastore())
            elif (tree := self._source.current(need.target.catalog)) is None:
                self.authorize_missing(need.target.catalog)
                self._open.discard(position)  # the operation itself answers that there is no such catalog
            else:
                self._check(position, need, self._source.chain(tree, need.target))

    def visible(self, now: Tree, parent: Path, entities: Sequence[Entity]) -> list[bool]:
        """Returns which of these children of ``parent`` may be listed, by their rights in ``now``,
        the present tree. Entities that are gone, or whose name now belongs to another entity, are
        not listed.
        """
        if self.principal.admin:
            return [True] * len(entities)
        above = self._source.chain(now, Target(now.catalog, parent))
        entries = [now.find((*parent, entity.name)) for entity in entities]
        present = self._source.entities(now, [entry.obj for entry in entries if entry is not None])
        return [
            entry is not None
            and is_same(entity, present[entry.obj])
            and self._sees(above, entry, access_of(present[entry.obj]))
            for entity, entry in zip(entities, entries, strict=True)
        ]

    def _sees(self, above: Chain, entry: IndexEntry, own: Access) -> bool:
        if entry.kind in TABLES:
            return is_permitted(see_table, self.principal, Chain(above.catalog, above.schemas, own))
        return is_permitted(see_schema, self.principal, Chain(above.catalog, (*above.schemas, own)))

    def _check(self, position: int, need: Need, chain: Chain) -> None:
        if not may_go_on(need.rule, self.principal, chain):
            raise denial(self.principal, need)
        self._open.discard(position)
        if position == 0:
            self.chain = chain


def authorize_in(view: View, principal: Principal, needs: Sequence[Need]) -> None:
    """Checks needs in a future tree, as the changes before them leave it. Raises PermissionDenied,
    also if none is about its catalog."""
    if principal.admin:
        return
    if not any(_is_about(need, view.tree.catalog) for need in needs):
        raise _undeclared_refusal(view.tree.catalog)
    for need in needs:
        if _is_about(need, view.tree.catalog) and not may_go_on(need.rule, principal, _chain(view, need.target)):
            raise denial(principal, need)


def denial(principal: Principal, need: Need) -> PermissionDenied:
    """Returns the refusal, the same whether or not the target exists."""
    if need.rule is admin_only:
        refusal = f"'{principal.name}' is no admin, and this is for admins"
        return PermissionDenied(refusal, remedy="ask an admin to do it")
    refusal = f"'{principal.name}' may not {need.rule.__name__.replace('_', ' ')}"
    if need.target == METASTORE:
        return PermissionDenied(refusal, remedy="ask an admin for the grant on the metastore")
    kind = "table" if need.rule in TABLE_RULES else "securable"
    remedy = "ask the owner of it, its namespace or catalog for a grant, if it exists; an owner may grant it to itself"
    return PermissionDenied(f"{refusal}: {kind} '{need.target}'", remedy=remedy)


def access_of(entity: Entity) -> Access:
    """Returns the rights that an entity carries. A catalog's are in its own tree, so its entity has
    none."""
    return NO_ACCESS if isinstance(entity, Catalog | NamedSnapshot) else entity.access


def _is_about(need: Need, catalog: str) -> bool:
    return fold(need.target.catalog) == fold(catalog)


def _undeclared_refusal(catalog: str) -> PermissionDenied:
    return PermissionDenied(f"the request declares nothing that it needs in catalog '{catalog}'")


def _chain(view: View, target: Target) -> Chain:
    return chains_in(view, [target])[0]


def chains_in(view: View, targets: Sequence[Target]) -> list[Chain]:
    """Returns the rights along each of ``targets``. One request for a hundred entities that are not
    cached."""
    entries = [_entries(view.tree, target) for target in targets]
    entities = view.entities(list({entry.obj: None for along in entries for entry in along}))
    chains: list[Chain] = []
    for target, along in zip(targets, entries, strict=True):
        levels = [view.tree.commit.access, *(access_of(entities[entry.obj]) for entry in along)]
        chains.append(padded_chain(levels, len(target.namespace), table=bool(target.table)))
    return chains


def _entries(tree: Tree, target: Target) -> list[IndexEntry]:
    """The entries along ``target`` up to the first that is missing or of the wrong kind."""
    entries: list[IndexEntry] = []
    for depth in range(1, len(target.path) + 1):
        entry = tree.find(target.path[:depth])
        kinds = (NAMESPACE,) if depth <= len(target.namespace) else TABLES
        if entry is None or entry.kind not in kinds:
            break
        entries.append(entry)
    return entries
