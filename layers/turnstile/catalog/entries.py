"""What a full name leads to in a catalog's tree, now or as of a moment."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from turnstile.catalog.change import View
from turnstile.catalog.core.entities import TABLE, Entity, Namespace, Table, id_of
from turnstile.catalog.core.iceberg_entities import KINDS
from turnstile.catalog.core.paths import Path, dotted
from turnstile.catalog.history.core_as_of import AsOf
from turnstile.catalog.history.moments import Moments
from turnstile.catalog.namespaces import NamedNamespace
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import NotFound


class Entry(msgspec.Struct, frozen=True):
    """A name of a tree.

    Attributes:
        catalog: its name as it was written.
        head: the HEAD whose tree it is.
        path: the full name as it was written, without the catalog.
        version: of the Delta table, where the tree or the snapshot that was asked for says one.
    """

    catalog: str
    head: str
    path: Path
    entity: Entity
    version: int | None = None


class Entries:
    """Looks names up; rights are those of the present tree (I12).

    Args:
        reader: watched, where whoever asks is to be judged.
    """

    def __init__(self, reader: CatalogReader, moments: Moments) -> None:
        self._reader, self._moments = reader, moments

    def namespace(self, catalog: str, path: Path, as_of: AsOf | None) -> tuple[NamedNamespace, str]:
        """A namespace, and the HEAD that had it. What ``Moments.at`` takes, and one request for entities that are new.

        Raises:
            NotFound: no such catalog, moment or namespace.
        """
        moment = self._moments.at(catalog, as_of)
        if as_of is not None:
            self._moments.require(moment, path)
        view = View(moment.tree, self._reader.store)
        entity = view.entity(moment.tree.namespace(path).obj)
        assert isinstance(entity, Namespace)
        return NamedNamespace(view.written(path), entity), moment.tree.head

    def table(self, catalog: str, namespace: Path, name: str, as_of: AsOf | None) -> Entry:
        """A table or view of any format; requests and errors as ``namespace``."""
        moment, path = self._moments.at(catalog, as_of), (*namespace, name)
        if as_of is not None:
            self._moments.require(moment, path, "table", "table")
        found = moment.tree.find(path)
        if found is None or found.kind not in (TABLE, *KINDS):
            moment.tree.namespace(namespace)
            raise NotFound("table", dotted(catalog, *path), field="table", remedy="check the name")
        view = View(moment.tree, self._reader.store)
        entity = view.entity(found.obj)
        written = (*view.written(namespace), entity.name)
        return Entry(moment.tree.catalog, moment.tree.head, written, entity, version_in(moment.versions, entity))


def version_in(versions: Mapping[str, int], entity: Entity) -> int | None:
    """The version of a Delta table that a tree tells with its snapshot's ``versions``: a clone's never changes."""
    if isinstance(entity, Table) and entity.clone is not None:
        return entity.clone.version
    return versions.get(id_of(entity))
