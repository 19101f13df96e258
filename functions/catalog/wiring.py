"""The services of this sandbox, built once from one world."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import settings

from turnstile.access.authorizer import Need, Target
from turnstile.access.core.grants import Access
from turnstile.access.core.rules import Chain, Rule, permitted, see_schema, see_table, use_catalog
from turnstile.access.grants import Grants
from turnstile.adapters.credentials import FileVendor, Operation, vended
from turnstile.api.http.authorization import Authorizers, guard
from turnstile.api.http.idempotency import keyed
from turnstile.api.http.idempotency import once as applied_once
from turnstile.api.http.responses import status_of
from turnstile.catalog.core.entities import Catalog
from turnstile.catalog.load import Loader
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.commits import Commits
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.store.core.errors import ErrorType
from turnstile.store.core.limits import Limits
from turnstile.store.ports import Vended, Vendor, World
from turnstile.transfer.exports import Exporter
from turnstile.transfer.imports import Importer

T = TypeVar("T")

_PASSING = (ErrorType.CONCURRENT_CHANGE, ErrorType.TABLE_NOT_ACTIVE, ErrorType.STALE_METADATA)
"""Conflicts of the moment: the same request may be accepted later."""


@dataclass(frozen=True, slots=True)
class Services:
    """The catalog's services, and what the operators' requests and answers "as load" need. All that finds things by
    name is judged by the request's guard (I12)."""

    open_catalog: CatalogServices
    open_loader: Loader
    collector: Collector
    vendor: Vendor
    authorizers: Authorizers

    @property
    def world(self) -> World:
        """The world they were built on."""
        return self.open_catalog.world

    @property
    def catalog(self) -> CatalogServices:
        """The catalog's services."""
        judge = guard()
        return self.open_catalog if judge.principal.admin else self.open_catalog.authorized_by(judge)

    def may_on_metastore(self, rule: Rule) -> bool:
        """Whether whoever asks may do this with the metastore; one read."""
        return permitted(rule, guard().principal, self.authorizers.access.metastore())

    def visible_catalogs(self) -> list[tuple[Catalog, Access]]:
        """The catalogs that whoever asks may use, with their rights."""
        listed, asker = self.open_catalog.catalogs.list(), guard().principal
        found = zip(listed, self.authorizers.access.catalogs(listed), strict=True)
        guard().mark_authorized()
        return [(one, access) for one, access in found if permitted(use_catalog, asker, Chain(access))]

    @property
    def loader(self) -> Loader:
        """Tables by name."""
        return self.open_loader.guarded(guard())

    def catalog_at(self, target: Target) -> CatalogServices:
        """The catalog's services for an answer about a namespace that is not what the request was judged by."""
        judge = self.authorizers.guard(guard().principal, [Need(see_schema, target)])
        return self.open_catalog if judge.principal.admin else self.open_catalog.authorized_by(judge)

    def loader_of(self, target: Target) -> Loader:
        """For an answer "as load" to a request that was judged by something else: judged as a load of ``target``."""
        need = Need(see_table, target)
        return self.open_loader.guarded(self.authorizers.guard(guard().principal, [need]))

    @property
    def importer(self) -> Importer:
        """Imports."""
        return Importer(self.catalog)

    @property
    def exporter(self) -> Exporter:
        """Exports."""
        return Exporter(self.catalog)

    @property
    def grants(self) -> Grants:
        """Rights."""
        return Grants(self.catalog, self.authorizers.access)

    def keys(self, location: str, operation: Operation) -> tuple[Vended, ...]:
        """Keys for a location; none where clients need none, or bring their own."""
        return vended(self.vendor, location, operation)


_built: list[Services] = []


def use_world(
    world: World,
    *,
    lake_root: str = "file:///lake",
    grace: Grace | None = None,
    limits: Limits | None = None,
    vendor: Vendor | None = None,
) -> Services:
    """Build the services on ``world``; tests pass fakes here and then call the real handler."""
    limits = limits or Limits(history_ms=(grace or Grace()).history_ms)
    catalog = build(world, lake_root=lake_root, limits=limits, pause=time.sleep)
    commits = Commits(world, catalog.limits)
    made = Services(
        open_catalog=catalog,
        open_loader=Loader(world, catalog.reader, catalog.snapshots, commits),
        collector=Collector(world, grace or Grace()),
        vendor=vendor or FileVendor(),
        authorizers=Authorizers(world, catalog.reader),
    )
    _built[:] = [made]
    return made


def services() -> Services:
    """The services, for a view that has declared what it needs."""
    guard()
    return opened()


def opened() -> Services:
    """The services, opened at first use."""
    if not _built:
        found = settings.read()
        world = found.stores.open()
        vendor = found.vending.open(world)
        use_world(world, lake_root=found.lake_root, grace=found.grace, limits=found.limits, vendor=vendor)
    return _built[0]


def once(
    catalog: str, operation: Callable[[CatalogServices], T], again: Callable[[CatalogServices, int | None], T]
) -> T:
    """The answer to a request that changes ``catalog``: with an Idempotency-Key, of one change however often it is sent.

    Args:
        operation: what the request does, by the services it is given.
        again: the answer when it was done before. Told the number of the commit that shows what was done then, so that a
            counter is answered as it was; None: no commit does.

    Raises:
        InvalidRequest: a key that is no uuid.
        KeyReused: one that was sent with another request.
    """
    key, found = keyed(), services().catalog
    if key is None:
        return operation(found)
    return applied_once(
        key,
        catalog,
        lambda committer: operation(found.committing_with(committer)),
        lambda seq: again(found, seq),
        world=found.world,
        reader=found.reader,
        judge=guard(),
        status_of=lambda error: 0 if error.type in _PASSING else status_of(error),
    )
