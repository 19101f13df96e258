"""The services of this sandbox, built once from one world, and what one request gets of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import settings

from turnstile.access.authorizer import METASTORE, Guard, Need
from turnstile.access.clone_rights import SourceRights
from turnstile.access.core.rules import create_external
from turnstile.adapters.credentials import FileVendor, Operation, vended
from turnstile.api.http.authorization import Authorizers, guard
from turnstile.api.http.idempotency import keyed
from turnstile.api.http.idempotency import once as applied_once
from turnstile.api.iceberg import naming
from turnstile.api.iceberg.errors import ReadOnly, kind_of
from turnstile.catalog.commit import Committer
from turnstile.catalog.services import CatalogServices, build
from turnstile.iceberg.context import Context
from turnstile.iceberg.files import MetadataFiles
from turnstile.store.core.limits import Limits
from turnstile.store.ports import Vended, Vendor, World

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """What does not depend on who asks."""

    open_catalog: CatalogServices
    files: MetadataFiles
    vendor: Vendor
    authorizers: Authorizers
    sources: SourceRights

    @property
    def world(self) -> World:
        """The world they were built on."""
        return self.open_catalog.world

    def context(self, judge: Guard | None = None) -> Context:
        """One request's operations; whatever they look at is judged first, by ``judge`` or the request's own guard."""
        judge = judge or guard()
        catalog = self.open_catalog if judge.principal.admin else self.open_catalog.authorized_by(judge)
        return Context(catalog, catalog.committer, self.files, judge.principal, self._elsewhere)

    def reading(self, prefix: str) -> Context:
        """The operations of a request that reads what its prefix names: a catalog, or its past."""
        return replace(self.context(), as_of=naming.warehouse(prefix, "prefix")[1])

    def guard_of(self, needs: Sequence[Need]) -> Guard:
        """The guard of a request whose needs only its body says."""
        principal = guard().principal
        return self.authorizers.guard(principal, [] if principal.admin else needs)

    def _elsewhere(self) -> None:
        """Raise PermissionDenied unless whoever asks may register tables where files belong to nobody."""
        self.guard_of([Need(create_external, METASTORE)]).authorize_now()

    def keys(self, location: str, operation: Operation) -> tuple[Vended, ...]:
        """Keys for a location; none where clients need none, or bring their own."""
        return vended(self.vendor, location, operation)


_built: list[Services] = []


def use_world(
    world: World, *, lake_root: str = "file:///lake", limits: Limits | None = None, vendor: Vendor | None = None
) -> Services:
    """Build the services on ``world``; tests pass fakes here and then call the real handler."""
    catalog = build(world, lake_root=lake_root, limits=limits, pause=time.sleep)
    authorizers = Authorizers(world, catalog.reader)
    made = Services(
        open_catalog=catalog,
        files=MetadataFiles(world.storages, world.ids),
        vendor=vendor or FileVendor(),
        authorizers=authorizers,
        sources=SourceRights(world, authorizers.access, catalog.reader),
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
        use_world(world, lake_root=found.lake_root, limits=found.limits, vendor=found.vending.open(world))
    return _built[0]


def once(
    catalog: str, operation: Callable[[Context], T], again: Callable[[Context], T], judge: Guard | None = None
) -> T:
    """The answer to a request that changes ``catalog``: with an Idempotency-Key, of one run however often it is sent.

    Args:
        operation: what the request does.
        again: the answer when it was done before.
        judge: the guard of a request whose needs only its body says; else the one its view declared.

    Raises:
        InvalidRequest: a key that is no uuid.
        ReadOnly: the prefix names a moment of the past.
    """
    if naming.warehouse(catalog, "prefix")[1] is not None:
        raise ReadOnly(
            "the past of a catalog cannot be changed", field="prefix", remedy="change the catalog without '@'"
        )
    context, key = services().context(judge), keyed()
    if key is None:
        return operation(context)
    asked_by = judge or guard()

    def first(committer: Committer) -> T:
        asked_by.authorize_now()
        return operation(replace(context, committer=committer))

    return applied_once(
        key,
        catalog,
        first,
        lambda _: again(context),
        world=context.world,
        reader=context.catalog.reader,
        judge=asked_by,
        status_of=lambda error: kind_of(error)[0],
    )
