"""Creates, reads and updates namespaces. ``drop``, ``rename`` and ``listing`` have the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

import msgspec

from turnstile.catalog.changes.commit import CatalogChange, Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Catalog, Entity, Namespace, require_size
from turnstile.catalog.core.merges import Merge, apply_merges
from turnstile.catalog.core.paths import Path, check_path, dotted_name
from turnstile.catalog.core.policies import check_policies
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.content import expectations_among
from turnstile.rights.grants import Access
from turnstile.store.core.errors import AlreadyExists, InvalidRequest
from turnstile.store.ports import World

MAX_BYTES: Final = 32_768
"""Bytes that a namespace or a catalog may take with its comment and properties."""

E = TypeVar("E", Namespace, Catalog)

Alter = Callable[[Namespace], Namespace]
"""Returns a namespace after a change; raises the reason for refusing it. No side effects."""

ExpectationsCheck = Callable[[Mapping[str, str]], None]
"""Raises InvalidRequest for properties of a namespace that are meant to be expectations and are
none."""


class NamedNamespace(msgspec.Struct, frozen=True):
    """A namespace with its full name, and its catalog's, as written."""

    name: Path
    entity: Namespace
    catalog: str


class Namespaces:
    """Creates, reads and updates namespaces."""

    def __init__(
        self,
        world: World,
        reader: CatalogReader,
        committer: Committer,
        expectations_check: ExpectationsCheck | None = None,
    ) -> None:
        """``expectations_check`` None: expectations that are set are not looked at."""
        self._world = world
        self._reader = reader
        self._committer = committer
        self._expectations_check = expectations_check

    def create(
        self,
        catalog: str,
        path: Path,
        *,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        owner: str = "",
    ) -> NamedNamespace:
        """Creates a namespace. Levels above it that do not exist are created in the same change,
        for the same ``owner``. Raises NotFound, InvalidRequest; AlreadyExists for a name of a
        namespace or a table, perhaps in another case.
        """
        prepared = self.creation(path, comment=comment, properties=properties, owner=owner)
        return self.of(self._committer.commit(catalog, prepared.apply), path)

    def creation(
        self, path: Path, *, comment: str | None, properties: Mapping[str, str] | None, owner: str
    ) -> CatalogChange:
        """As ``create``, to be committed with others."""
        check_path(path, "name")
        now = self._world.clock.now_ms()
        ids = [self._world.ids.uuid() for _ in path]
        access = Access(owner)
        check_expectations(self._expectations_check, properties or {})

        def change(view: View) -> Edit:
            put: dict[Path, Entity] = {}
            for depth, (name, id) in enumerate(zip(path, ids, strict=True), start=1):
                here = path[:depth]
                if depth == len(path):
                    require_free(view, here, "name")
                    put[here] = check_properties(
                        Namespace(name, id, now, comment, dict(properties or {}), access=access)
                    )
                elif view.tree.find(here) is None:
                    put[here] = Namespace(name, id, now, access=access)
                else:
                    view.tree.parent(here, "name")
            return Edit(f"create namespace {dotted_name(*path)}", put=put)

        return CatalogChange(change)

    def get(self, catalog: str, path: Path) -> NamedNamespace:
        return self.of(self._reader.current(catalog), path)

    def of(self, tree: Tree, path: Path) -> NamedNamespace:
        """Returns the namespace as a tree has it, perhaps one of the past. Raises NotFound."""
        return named_namespace(View(tree, self._reader.store), path)

    def update(
        self,
        catalog: str,
        path: Path,
        *,
        set: Mapping[str, str] | None = None,
        unset: Collection[str] = (),
        merge: Mapping[str, Merge] | None = None,
        comment: str | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> NamedNamespace:
        """Sets and unsets properties and then merges; a comment of None removes the comment, UNSET
        keeps it. Concurrent updates of different properties are all applied, and so are merges of
        the same one. Raises NotFound; InvalidRequest for a property that occurs twice, or to merge
        that is no whole number.
        """
        prepared = self.alteration(path, properties_altered(set=set, unset=unset, merge=merge, comment=comment))
        return self.of(self._committer.commit(catalog, prepared.apply), path)

    def alter(self, catalog: str, path: Path, alter: Alter) -> NamedNamespace:
        """Changes a namespace but not its name, and returns it. Raises NotFound."""
        return self.of(self._committer.commit(catalog, self.alteration(path, alter).apply), path)

    def alteration(self, path: Path, alter: Alter) -> CatalogChange:
        """As ``alter``, to be committed with others."""

        def change(view: View) -> Edit | None:
            old = view.namespace(path)
            new = alter(old)
            if new == old:
                return None
            check_expectations(self._expectations_check, new.properties, old.properties)
            new = msgspec.structs.replace(new, updated=self._world.clock.now_ms())
            return Edit(f"update namespace {dotted_name(*path)}", put={path: new})

        return CatalogChange(change)


def properties_altered(
    *,
    set: Mapping[str, str] | None = None,
    unset: Collection[str] = (),
    merge: Mapping[str, Merge] | None = None,
    comment: str | msgspec.UnsetType | None = msgspec.UNSET,
) -> Alter:
    """Returns the change that ``Namespaces.update`` makes. Raises InvalidRequest for a property
    that occurs twice."""
    both = sorted({*unset} & {*(set or {})})
    if both:
        raise InvalidRequest(f"property {both[0]!r} is both set and unset", field="unset", remedy="choose one")
    twice = sorted({*unset, *(set or {})} & {*(merge or {})})
    if twice:
        raise InvalidRequest(f"property {twice[0]!r} is merged as well", field="merge", remedy="choose one")

    def alter(old: Namespace) -> Namespace:
        kept = {name: value for name, value in old.properties.items() if name not in unset}
        properties = apply_merges({**kept, **(set or {})}, merge or {})
        text = old.comment if comment is msgspec.UNSET else comment
        return check_properties(msgspec.structs.replace(old, properties=properties, comment=text), old)

    return alter


def named_namespace(view: View, path: Path) -> NamedNamespace:
    """Raises NotFound."""
    namespace = view.namespace(path)
    return NamedNamespace(view.written_levels(path), namespace, view.tree.catalog)


def check_properties(entity: E, before: E | None = None) -> E:
    """Returns ``entity``. Raises TooLarge if it has more than ``MAX_BYTES``; InvalidRequest for a
    policy of maintenance that cannot be read, unless it is as ``before``."""
    check_policies(entity.properties, None if before is None else before.properties)
    require_size(entity, MAX_BYTES, field="properties", remedy="shorten its comment or properties")
    return entity


def check_expectations(
    check: ExpectationsCheck | None, properties: Mapping[str, str], before: Mapping[str, str] | None = None
) -> None:
    """Raises InvalidRequest for properties of a namespace that are no expectations, unless all of
    them are as ``before``."""
    given = expectations_among(properties)
    if check is not None and given and given != expectations_among(before or {}):
        check(given)


def require_free(view: View, path: Path, field: str) -> None:
    """Raises AlreadyExists if ``path`` leads to anything (I9: a name leads to at most one
    thing)."""
    entry = view.tree.find(path)
    if entry is not None:
        name = dotted_name(view.tree.catalog, *path)
        raise AlreadyExists(
            f"{entry.kind} '{name}' exists", field=field, remedy="use it, or choose another name", kind=entry.kind
        )
