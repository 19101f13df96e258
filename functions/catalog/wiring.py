"""The services of this sandbox, built once from one world."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import settings

from turnstile.adapters.vending import FileVendor, open_vendor
from turnstile.core.errors import PermissionDenied
from turnstile.core.gc_plan import Grace
from turnstile.ports import Vended, Vendor
from turnstile.services.catalog.services import CatalogServices, build
from turnstile.services.collect import Collector
from turnstile.services.commits import Commits
from turnstile.services.load import Loader
from turnstile.services.transfer.exporting import Exporter
from turnstile.services.transfer.importing import Importer
from turnstile.world import World


@dataclass(frozen=True, slots=True)
class Services:
    """The catalog's services, and what the operators' requests and answers "as load" need."""

    catalog: CatalogServices
    loader: Loader
    collector: Collector
    importer: Importer
    exporter: Exporter
    vendor: Vendor

    @property
    def world(self) -> World:
        """The world they were built on."""
        return self.catalog.world

    def keys(self, location: str, operation: Literal["READ", "READ_WRITE"]) -> tuple[Vended, ...]:
        """Keys for a location; none where clients need none, or bring their own."""
        try:
            return self.vendor.vend(location, operation)
        except PermissionDenied:
            return ()


_built: list[Services] = []


def use_world(
    world: World, *, lake_root: str = "file:///lake", grace: Grace | None = None, vendor: Vendor | None = None
) -> Services:
    """Build the services on ``world``; tests pass fakes here and then call the real handler."""
    catalog = build(world, lake_root=lake_root, pause=time.sleep)
    commits = Commits(world, catalog.limits)
    made = Services(
        catalog=catalog,
        loader=Loader(world, catalog.reader, catalog.snapshots, commits),
        collector=Collector(world, grace or Grace()),
        importer=Importer(catalog),
        exporter=Exporter(catalog),
        vendor=vendor or FileVendor(),
    )
    _built[:] = [made]
    return made


def services() -> Services:
    """The services, opened at first use."""
    if not _built:
        from turnstile.adapters import open_world

        found = settings.read()
        world = open_world(refs_table=found.refs_table, objs_table=found.objs_table, realm=found.realm)
        vendor = open_vendor(world.clock, world.ids, role=found.vending_role, keys=found.keys)
        use_world(world, lake_root=found.lake_root, grace=found.grace, vendor=vendor)
    return _built[0]
