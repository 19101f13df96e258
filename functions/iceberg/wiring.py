"""The services of this sandbox, built once from one world, and what one request gets of them."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

import settings

from turnstile.adapters.vending import FileVendor, open_vendor
from turnstile.core.access_rules import create_external
from turnstile.core.errors import InvalidRequest, PermissionDenied
from turnstile.ports import Vended, Vendor
from turnstile.services.access import METASTORE, Guard, Need
from turnstile.services.catalog.services import CatalogServices, build
from turnstile.world import World
from turnstile_http.judging import Judging
from turnstile_http.request import current
from turnstile_http.rights import guard
from turnstile_iceberg.context import Context
from turnstile_iceberg.files import MetadataFiles
from turnstile_iceberg.once import Once

T = TypeVar("T")

_KEY: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class Services:
    """What does not depend on who asks."""

    open_catalog: CatalogServices
    files: MetadataFiles
    vendor: Vendor
    judges: Judging

    @property
    def world(self) -> World:
        """The world they were built on."""
        return self.open_catalog.world

    def context(self, judge: Guard | None = None) -> Context:
        """One request's operations; whatever they look at is judged first, by ``judge`` or the request's own guard."""
        judge = judge or guard()
        catalog = self.open_catalog if judge.principal.admin else self.open_catalog.watched(judge)
        return Context(catalog, catalog.committer, self.files, judge.principal, self._elsewhere)

    def guard_of(self, needs: Sequence[Need]) -> Guard:
        """The guard of a request whose needs only its body says."""
        principal = guard().principal
        return self.judges.guard(principal, [] if principal.admin else needs)

    def _elsewhere(self) -> None:
        """Raise PermissionDenied unless whoever asks may register tables where files belong to nobody."""
        self.guard_of([Need(create_external, METASTORE)]).settle()

    def keys(self, location: str, operation: Literal["READ", "READ_WRITE"]) -> tuple[Vended, ...]:
        """Keys for a location; none where clients need none, or bring their own."""
        try:
            return self.vendor.vend(location, operation)
        except PermissionDenied:
            return ()


_built: list[Services] = []


def use_world(world: World, *, lake_root: str = "file:///lake", vendor: Vendor | None = None) -> Services:
    """Build the services on ``world``; tests pass fakes here and then call the real handler."""
    catalog = build(world, lake_root=lake_root, pause=time.sleep)
    made = Services(
        open_catalog=catalog,
        files=MetadataFiles(world.storages, world.ids),
        vendor=vendor or FileVendor(),
        judges=Judging(world, catalog.reader),
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
        from turnstile.adapters import open_world

        found = settings.read()
        world = open_world(refs_table=found.refs_table, objs_table=found.objs_table, realm=found.realm)
        vendor = open_vendor(world.clock, world.ids, role=found.vending_role, keys=found.keys)
        use_world(world, lake_root=found.lake_root, vendor=vendor)
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
    """
    request, context = current(), services().context(judge)
    key = request.headers.get("idempotency-key")
    if key is None:
        return operation(context)
    if not _KEY.fullmatch(key):
        raise InvalidRequest("the idempotency key is no uuid", field="Idempotency-Key", remedy="send a uuid, version 7")
    (judge or guard()).settle()  # what was done before is told to those only who may do it
    world = context.world
    asked = f"{request.method} {request.path}\n".encode() + request.body
    committer = Once(
        world,
        context.catalog.reader,
        key=world.space.request(catalog, context.principal.name, key.lower()),
        asked=hashlib.sha256(asked).hexdigest(),
        pause=time.sleep,
    )
    mine = replace(context, committer=committer)
    return committer.run(lambda: operation(mine), lambda: again(context))
