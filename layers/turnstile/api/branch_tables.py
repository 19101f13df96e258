"""Logs for tables of branches, by the services of a sandbox."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from turnstile.catalog.core.branches import BranchTables, no_own_log
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree

if TYPE_CHECKING:
    from turnstile.catalog.reader import CatalogReader
    from turnstile.catalog.services import CatalogServices
    from turnstile.delta.metadata import MetadataStore
    from turnstile.delta.publish import Publisher
    from turnstile.store.ports import World


class Parts(Protocol):
    """The services of a sandbox that it takes."""

    world: World

    @property
    def open_reader(self) -> CatalogReader: ...

    @property
    def open_catalog(self) -> CatalogServices: ...

    @property
    def metadata(self) -> MetadataStore: ...

    @property
    def publisher(self) -> Publisher: ...


class OwnTablesWithParquet:
    """``BranchTables`` where Parquet can be written. Nothing of it is imported before its first
    use."""

    def __init__(self, services: Parts) -> None:
        self._services = services

    def make_own(self, catalog: str, path: Path) -> Tree:
        """As ``BranchTables``. Raises UnsupportedTable without pyarrow."""
        from turnstile.delta.log.parquet import has_parquet

        if not has_parquet():
            raise no_own_log(catalog, path)
        return self._tables.make_own(catalog, path)

    @cached_property
    def _tables(self) -> BranchTables:
        from turnstile.branches.tables import OwnTables

        by = self._services
        return OwnTables(by.world, by.open_reader, by.open_catalog.committer, by.metadata, by.publisher)
