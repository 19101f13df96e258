"""Parts of the services with modules that are imported at their first use: logs of branches'
tables, and checks of expectations."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

from turnstile.catalog.core.branches import BranchTables, no_own_log
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.store.ports import Storages

if TYPE_CHECKING:
    from turnstile.api.settings import Settings
    from turnstile.catalog.reader import CatalogReader
    from turnstile.catalog.services import CatalogServices
    from turnstile.delta.metadata import MetadataStore
    from turnstile.delta.prepare import NewRows, Refusal, RowsCheck
    from turnstile.delta.publish import Publisher
    from turnstile.store.ports import World


_LOG: Final = logging.getLogger("turnstile.expectations")


class Parts(Protocol):
    """The services of a sandbox that it takes."""

    world: World
    settings: Settings

    @property
    def open_reader(self) -> CatalogReader: ...

    @property
    def open_catalog(self) -> CatalogServices: ...

    @property
    def metadata(self) -> MetadataStore: ...

    @property
    def publisher(self) -> Publisher: ...


class OwnTablesOnDemand:
    """``BranchTables`` of this process, or by the function that can write Parquet. Nothing of it is
    imported before its first use."""

    def __init__(self, services: Parts) -> None:
        self._services = services

    def make_own(self, catalog: str, path: Path) -> Tree:
        """As ``BranchTables``. Raises UnsupportedTable without pyarrow or such a function."""
        if self._tables is None:
            raise no_own_log(catalog, path)
        return self._tables.make_own(catalog, path)

    @cached_property
    def _tables(self) -> BranchTables | None:
        by = self._services
        if by.settings.branches_function:
            from turnstile.adapters.branch_tables import OwnTablesByFunction

            return OwnTablesByFunction(by.settings.branches_function, by.open_reader)
        from turnstile.delta.log.parquet import has_parquet

        if not has_parquet():
            return None
        from turnstile.branches.tables import OwnTables

        return OwnTables(by.world, by.open_reader, by.open_catalog.committer, by.metadata, by.publisher)


class CheckWithPredicates:
    """``RowsCheck`` for tables with expectations. Commits that are let through unchecked are
    warnings in the log."""

    def __init__(self, storages: Storages) -> None:
        self._storages = storages

    def refusal(self, rows: NewRows) -> Refusal | None:
        """As ``RowsCheck``."""
        return self._check.refusal(rows)

    @cached_property
    def _check(self) -> RowsCheck:
        from turnstile.expectations.at_commit import CommitCheck

        return CommitCheck(self._storages, _log_unchecked)


def check_namespace(properties: Mapping[str, str]) -> None:
    """``ExpectationsCheck``: raises InvalidRequest for an expectation that no table could have."""
    from turnstile.expectations.core.validity import check_of_namespace

    check_of_namespace(properties)


def _log_unchecked(location: str, reason: str) -> None:
    _LOG.warning("a commit of %s was let through: %s", location, reason)
