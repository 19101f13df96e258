"""The catalog's services of one sandbox, built from one world and sharing their caches."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from turnstile.catalog.catalogs import Catalogs
from turnstile.catalog.commit import Committer
from turnstile.catalog.create import Registrar, Staging
from turnstile.catalog.drop import Dropper, NamespaceDropper
from turnstile.catalog.external import Externals
from turnstile.catalog.history.log import History
from turnstile.catalog.history.moments import AsOfReader
from turnstile.catalog.history.reset import Resetter
from turnstile.catalog.history.snapshots import NamedSnapshots
from turnstile.catalog.listing import Entries, Listings
from turnstile.catalog.locations import Zones
from turnstile.catalog.namespaces import Namespaces
from turnstile.catalog.reader import CatalogReader, TreeAuthorizer
from turnstile.catalog.rename import NamespaceMover, Renamer
from turnstile.catalog.retry import Pause, no_pause
from turnstile.catalog.store import CatalogStore
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.publish import Publisher
from turnstile.store.core.errors import AlreadyExists
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import check_namespace
from turnstile.store.ports import World


@dataclass(frozen=True, slots=True)
class CatalogServices:
    """One of each."""

    world: World
    lake_root: str
    limits: Limits
    pause: Pause
    reader: CatalogReader
    snapshots: MetadataStore
    committer: Committer
    publisher: Publisher
    zones: Zones
    catalogs: Catalogs
    namespaces: Namespaces
    moments: AsOfReader
    entries: Entries
    listings: Listings
    history: History
    named: NamedSnapshots
    resetter: Resetter
    staging: Staging
    registrar: Registrar
    renamer: Renamer
    dropper: Dropper
    externals: Externals
    namespace_dropper: NamespaceDropper
    namespace_mover: NamespaceMover

    def authorized_by(self, authorizer: TreeAuthorizer) -> CatalogServices:
        """The same services for one request: whatever they do is judged by ``authorizer`` first, changes by the very tree
        that they replace (I12). Caches are shared."""
        shared = Shared(self.world, self.lake_root, self.limits, self.pause, self.snapshots, self.publisher, self.zones)
        return _built(shared, self.reader.authorized_by(authorizer))

    def committing_with(self, committer: Committer) -> CatalogServices:
        """The same services for one request, whose change is applied by ``committer``."""
        shared = Shared(self.world, self.lake_root, self.limits, self.pause, self.snapshots, self.publisher, self.zones)
        return _built(shared, self.reader, committer)


@dataclass(frozen=True, slots=True)
class Shared:
    """What does not depend on who asks."""

    world: World
    lake_root: str
    limits: Limits
    pause: Pause
    snapshots: MetadataStore
    publisher: Publisher
    zones: Zones


def build(world: World, *, lake_root: str, limits: Limits | None = None, pause: Pause = no_pause) -> CatalogServices:
    """All services of the catalog.

    Args:
        lake_root: storage location below which managed tables live.
        pause: how to wait between attempts to swap a HEAD.
    """
    limits = limits or Limits()
    snapshots = MetadataStore(world.objs, world.space)
    shared = Shared(world, lake_root, limits, pause, snapshots, Publisher(world, limits), Zones(world))
    return _built(shared, CatalogReader(world, CatalogStore(world, limits.spill)))


def _built(shared: Shared, reader: CatalogReader, by: Committer | None = None) -> CatalogServices:
    world, zones = shared.world, shared.zones
    plain = Committer(world, reader, pause=shared.pause)
    committer = by or plain
    dropper = Dropper(world, reader, committer, shared.publisher)
    steps = Dropper(world, reader, plain, shared.publisher)  # each of its changes is one of several of a request
    namespace_dropper = NamespaceDropper(world, reader, committer, steps)
    history, moments = History(reader), AsOfReader(reader, world.clock, shared.limits.history_ms)
    return CatalogServices(
        world=world,
        lake_root=shared.lake_root,
        limits=shared.limits,
        pause=shared.pause,
        reader=reader,
        snapshots=shared.snapshots,
        committer=committer,
        publisher=shared.publisher,
        zones=zones,
        catalogs=Catalogs(world, reader, committer, namespace_dropper),
        namespaces=Namespaces(world, reader, committer),
        history=history,
        named=NamedSnapshots(world, reader, committer, moments),
        resetter=Resetter(world, reader, committer, history, moments),
        moments=moments,
        entries=Entries(reader, moments),
        listings=Listings(reader, moments),
        staging=Staging(world, reader, zones, shared.lake_root),
        registrar=Registrar(world, reader, committer, shared.snapshots, shared.limits),
        renamer=Renamer(world, reader, committer),
        dropper=dropper,
        externals=Externals(world, reader, committer, lambda: zones.ensure(shared.lake_root)),
        namespace_dropper=namespace_dropper,
        namespace_mover=NamespaceMover(world, reader, committer),
    )


# -- bootstrap --------------------------------------------------------------------------------------------------------
# What a stack has from the start: a catalog with a namespace, and its lake root claimed.


def ensure(world: World, catalog: str = "main", namespace: str = "default", *, lake_root: str = "") -> None:
    """Create what is missing; harmless to repeat, also by several at once.

    Args:
        namespace: dotted.
        lake_root: location of managed tables to claim; empty leaves that to the first staging table.
    """
    services = build(world, lake_root=lake_root)
    if lake_root:
        services.zones.ensure(lake_root)
    with suppress(AlreadyExists):
        services.catalogs.create(catalog)
    with suppress(AlreadyExists):
        services.namespaces.create(catalog, check_namespace(namespace))
