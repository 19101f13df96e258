"""Access control (I12): a request's rights, judged on every tree that it works with.

Rights are part of the tree that a catalog's HEAD names, so judging costs no request where the tree and the entities on
the way to the table are cached, and a change is judged by exactly the rights that its swap of the HEAD replaces. Admins
are let through without looking.

    rule and target    what an operation needs, on what: declared with its route
    guard              one request's needs; the catalog's reader shows it every tree before anything is answered
    settled            judged at once, for operations that do not come by the tree: one more read
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from turnstile.access.core.grants import NO_ACCESS, Access, Principal
from turnstile.access.core.rules import (
    METASTORE_RULES,
    TABLE_RULES,
    Chain,
    Rule,
    admin_only,
    create_catalog,
    create_schema,
    may_know_missing,
    padded,
    permitted,
    see_schema,
    see_table,
)
from turnstile.catalog.catalogs import REALM_TREE
from turnstile.catalog.core.entities import KINDS, NAMESPACE, TABLE, Catalog, Entity, id_of
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.core.paths import Path, dotted, fold
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import PermissionDenied
from turnstile.store.ports import BATCH_GET_MAX, World


class Target(msgspec.Struct, frozen=True):
    """What an operation is about: a full name as asked for. The metastore is the catalog ``.``."""

    catalog: str
    namespace: Path = ()
    table: str = ""

    @property
    def path(self) -> Path:
        """The full name without the catalog."""
        return (*self.namespace, self.table) if self.table else self.namespace

    def __str__(self) -> str:
        return "the metastore" if self.catalog == REALM_TREE else dotted(self.catalog, *self.path)


METASTORE: Final = Target(REALM_TREE)

TABLES: Final = (TABLE, *KINDS)
"""Kinds of entries that are judged as tables: Iceberg's tables and views as well."""


class Need(msgspec.Struct, frozen=True):
    """A rule that has to hold on a target."""

    rule: Rule
    target: Target


class Authorizer:
    """Finds the rights along a name, and makes guards. One per sandbox, sharing the reader's caches."""

    def __init__(self, world: World, reader: CatalogReader) -> None:
        self._refs, self._reader = world.refs, reader

    def guard(self, principal: Principal, needs: Sequence[Need], *, inside: bool = False) -> Guard:
        """The guard of one request."""
        return Guard(self, principal, needs, inside=inside)

    def chain(self, tree: Tree, target: Target) -> Chain:
        """The rights along ``target``: no request where its entities are cached, else one."""
        entries = _entries(tree, target)
        found = self.rights(tree, [entry.obj for entry in entries])
        levels = [tree.commit.access, *(found[entry.obj] for entry in entries)]
        return padded(levels, len(target.namespace), table=bool(target.table))

    def catalogs(self, listed: Sequence[Catalog]) -> list[Access]:
        """The rights of these catalogs, nobody's where one is gone: one request per hundred, and one for each HEAD that
        was not seen before."""
        found: list[Access] = []
        for at in range(0, len(listed), BATCH_GET_MAX):
            some = listed[at : at + BATCH_GET_MAX]
            rows = self._refs.read_many([self._reader.key(one.name) for one in some])
            for one in some:
                row = rows.get(self._reader.key(one.name))
                found.append(NO_ACCESS if row is None else self._reader.at(one.name, row).commit.access)
        return found

    def rights(self, tree: Tree, objs: Sequence[str]) -> dict[str, Access]:
        """The rights that these entities carry."""
        return {obj: access_of(one) for obj, one in self.entities(tree, objs).items()}

    def entities(self, tree: Tree, objs: Sequence[str]) -> dict[str, Entity]:
        """These entities: no request for those that are cached."""
        return self._reader.store.entities(tree.catalog, objs)

    def metastore(self) -> Chain:
        """The realm's own rights; those of nobody before the first catalog was created."""
        row = self._refs.read(self._reader.key(REALM_TREE))
        return padded([] if row is None else [self._reader.at(REALM_TREE, row).commit.access], 0, table=False)

    def current(self, catalog: str) -> Tree | None:
        """The tree at the catalog's HEAD: one request warm; None when there is no such catalog."""
        row = self._refs.read(self._reader.key(catalog))
        return None if row is None else self._reader.at(catalog, row)


class Guard:
    """What one request needs, and whether it was judged. Used by one request, perhaps by several of its threads.

    Args:
        inside: the view itself judges, and says so with ``passed``.

    Attributes:
        chain: the rights by which the first need was judged.
    """

    def __init__(
        self, access: Authorizer, principal: Principal, needs: Sequence[Need], *, inside: bool = False
    ) -> None:
        self._access, self.principal, self._needs = access, principal, tuple(needs)
        self._open = set(range(len(self._needs))) if not principal.admin else set[int]()
        self._inside = inside and not principal.admin
        self.chain: Chain | None = None

    @property
    def judged(self) -> bool:
        """Whether every need was judged and held. A request is not answered before."""
        return not self._open and not self._inside

    def passed(self) -> None:
        """The view has judged what no need can say."""
        self._inside = False

    def told_before(self) -> None:
        """The request was answered before, to this very principal, and is only answered again."""
        self._open.clear()
        self._inside = False

    def may(self, rule: Rule) -> bool:
        """Whether a request that was let pass may also do what ``rule`` says, with what its first need is about."""
        return self.principal.admin or (self.chain is not None and permitted(rule, self.principal, self.chain))

    def authorize(self, tree: Tree) -> None:
        """Judge every need that is about this catalog, by the rights in ``tree``.

        Raises:
            PermissionDenied: one does not hold, or none is about this catalog. That there is such a catalog, the
                realm's tree says to every request that works with it.
        """
        if self.principal.admin:
            return
        about = [one for one in enumerate(self._needs) if fold(one[1].target.catalog) == fold(tree.catalog)]
        if not about and tree.catalog != REALM_TREE:
            raise _undeclared(tree.catalog)
        for position, need in about:
            self._settle(position, self._access.chain(tree, need.target))

    def authorize_missing(self, catalog: str) -> None:
        """Judge a request for a catalog that does not exist: those who may create it are told.

        Raises:
            PermissionDenied: everybody else.
        """
        if self.principal.admin or permitted(create_catalog, self.principal, self._access.metastore()):
            return
        about = [need for need in self._needs if fold(need.target.catalog) == fold(catalog)]
        raise denied(self.principal, about[0]) if about else _undeclared(catalog)

    def settle(self) -> None:
        """Judge at once what was not judged yet, by the present rights: one read a catalog.

        Raises:
            PermissionDenied: a need does not hold.
        """
        for position in sorted(self._open):
            need = self._needs[position]
            if need.target == METASTORE:
                self._settle(position, self._access.metastore())
                continue
            tree = self._access.current(need.target.catalog)
            if tree is None:
                self.authorize_missing(need.target.catalog)
                self._open.discard(position)  # the operation says itself that there is no such catalog
            else:
                self._settle(position, self._access.chain(tree, need.target))

    def visible(self, now: Tree, parent: Path, entities: Sequence[Entity]) -> list[bool]:
        """Which of these children of ``parent`` may be listed; by their rights in ``now``, the present tree.

        What is no longer there is not listed, nor is what only its name is left of: rights on a table are none on
        another one that had its name before.
        """
        if self.principal.admin:
            return [True] * len(entities)
        above = self._access.chain(now, Target(now.catalog, parent))
        there = [now.find((*parent, entity.name)) for entity in entities]
        present = self._access.entities(now, [entry.obj for entry in there if entry is not None])
        return [
            entry is not None
            and id_of(entity) == id_of(present[entry.obj])
            and self._sees(above, entry, access_of(present[entry.obj]))
            for entity, entry in zip(entities, there, strict=True)
        ]

    def _sees(self, above: Chain, entry: IndexEntry, own: Access) -> bool:
        if entry.kind in TABLES:
            return permitted(see_table, self.principal, Chain(above.catalog, above.schemas, own))
        return permitted(see_schema, self.principal, Chain(above.catalog, (*above.schemas, own)))

    def _settle(self, position: int, chain: Chain) -> None:
        need = self._needs[position]
        if not allowed(need.rule, self.principal, chain):
            raise denied(self.principal, need)
        self._open.discard(position)
        if position == 0:
            self.chain = chain


def allowed(rule: Rule, principal: Principal, chain: Chain) -> bool:
    """Whether an operation may go on: it is permitted, or it may say that what it is about does not exist.

    What ``create_schema`` is about is the namespace to create; what has to permit it is the last level above it that
    exists. What is admins' alone stays theirs, whether or not it exists.
    """
    if rule is create_schema:
        level = len(chain.levels) - 1 if chain.missing is None else chain.missing
        return level > 0 and permitted(create_schema, principal, chain.upto(level))
    return permitted(rule, principal, chain) or (
        chain.missing is not None and rule not in (*METASTORE_RULES, admin_only) and may_know_missing(principal, chain)
    )


def denied(principal: Principal, need: Need) -> PermissionDenied:
    """The refusal, the same whether or not the target exists."""
    if need.rule is admin_only:
        return PermissionDenied(
            f"'{principal.name}' is no admin, and this is for admins", remedy="ask an admin to do it"
        )
    if need.target == METASTORE:
        return PermissionDenied(
            f"'{principal.name}' may not {need.rule.__name__.replace('_', ' ')}",
            remedy="ask an admin for the grant on the metastore",
        )
    kind = "table" if need.rule in TABLE_RULES else "securable"
    return PermissionDenied(
        f"'{principal.name}' may not {need.rule.__name__.replace('_', ' ')}: {kind} '{need.target}'",
        remedy="ask its owner, or the owner of what it is in, for a grant; if it exists",
    )


def _undeclared(catalog: str) -> PermissionDenied:
    return PermissionDenied(f"the request declares nothing that it needs in catalog '{catalog}'")


def access_of(entity: Entity) -> Access:
    """The rights that an entity carries; a catalog's are in its own tree."""
    return NO_ACCESS if isinstance(entity, Catalog | NamedSnapshot) else entity.access


def _entries(tree: Tree, target: Target) -> list[IndexEntry]:
    """The entries along ``target`` up to the first that is missing, or is not what it would have to be."""
    found: list[IndexEntry] = []
    path = target.path
    for depth in range(1, len(path) + 1):
        entry = tree.find(path[:depth])
        wanted = TABLES if target.table and depth == len(path) else (NAMESPACE,)
        if entry is None or entry.kind not in wanted:
            break
        found.append(entry)
    return found
