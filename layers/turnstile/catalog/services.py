"""The catalog's services, built from one world and sharing their caches."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

from turnstile.catalog.awaited import Awaiting
from turnstile.catalog.branches import Branches
from turnstile.catalog.catalogs import Catalogs
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.create import Registrar, Staging
from turnstile.catalog.drop import Dropper, NamespaceDropper
from turnstile.catalog.external import Externals
from turnstile.catalog.history.log import History
from turnstile.catalog.history.reader import AsOfReader
from turnstile.catalog.history.reset import Resetter
from turnstile.catalog.history.snapshots import NamedSnapshots
from turnstile.catalog.listing import Entries, Listings
from turnstile.catalog.locations import Zones, require_served
from turnstile.catalog.namespaces import ExpectationsCheck, Namespaces
from turnstile.catalog.reader import CatalogReader, TreeAuthorizer
from turnstile.catalog.rename import NamespaceMover, Renamer
from turnstile.catalog.store import CatalogStore
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.prepare import RowsCheck
from turnstile.delta.publish import Publisher
from turnstile.store.core.errors import AlreadyExists
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import check_namespace
from turnstile.store.ports import World
from turnstile.store.retry import Pause, no_pause


@dataclass(frozen=True, eq=False)
class CatalogServices:
    """The services of a sandbox, or of one request: all fields are shared by all requests, except
    ``reader``, which authorizes the request, and ``request_committer``, which applies the change of
    one that carries an idempotency key. Each service is built when it is first used.
    """

    world: World
    lake_root: str
    limits: Limits
    pause: Pause
    metadata: MetadataStore
    publisher: Publisher
    zones: Zones
    reader: CatalogReader
    rows_check: RowsCheck | None = None
    expectations_check: ExpectationsCheck | None = None
    request_committer: Committer | None = None

    def authorized_by(self, authorizer: TreeAuthorizer) -> CatalogServices:
        """Returns the services for one request: everything they do is authorized first, a change by
        the very tree that it replaces (I12)."""
        return replace(self, reader=self.reader.authorized_by(authorizer), request_committer=None)

    def committing_with(self, committer: Committer) -> CatalogServices:
        return replace(self, request_committer=committer)

    @cached_property
    def committer(self) -> Committer:
        return self.request_committer or Committer(self.world, self.reader, pause=self.pause)

    @cached_property
    def steps(self) -> Committer:
        """Commits changes of a request of several; none of them answers for its key."""
        return Committer(self.world, self.reader, pause=self.pause)

    @cached_property
    def catalogs(self) -> Catalogs:
        return Catalogs(self.world, self.reader, self.committer, self.namespace_dropper)

    @cached_property
    def namespaces(self) -> Namespaces:
        return Namespaces(self.world, self.reader, self.committer, self.expectations_check)

    @cached_property
    def namespace_mover(self) -> NamespaceMover:
        return NamespaceMover(self.world, self.reader, self.committer, self.expectations_check)

    @cached_property
    def namespace_dropper(self) -> NamespaceDropper:
        tables = Dropper(self.world, self.reader, self.steps, self.publisher)
        return NamespaceDropper(self.world, self.reader, self.committer, tables)

    @cached_property
    def staging(self) -> Staging:
        return Staging(self.world, self.reader, self.zones, self.lake_root)

    @cached_property
    def registrar(self) -> Registrar:
        parts = self.world, self.reader, self.committer, self.metadata, self.limits
        return Registrar(*parts, rows_check=self.rows_check)

    @cached_property
    def awaiting(self) -> Awaiting:
        return Awaiting(self.world, self.reader, self.committer)

    @cached_property
    def renamer(self) -> Renamer:
        return Renamer(self.world, self.reader, self.committer)

    @cached_property
    def dropper(self) -> Dropper:
        return Dropper(self.world, self.reader, self.committer, self.publisher)

    @cached_property
    def externals(self) -> Externals:
        def admit(location: str) -> None:
            require_served(location, self.lake_root, only_registered=True)
            self.zones.ensure(self.lake_root)

        return Externals(self.world, self.reader, self.committer, admit)

    @cached_property
    def entries(self) -> Entries:
        return Entries(self.reader, self.as_of_reader)

    @cached_property
    def listings(self) -> Listings:
        return Listings(self.reader, self.as_of_reader)

    @cached_property
    def as_of_reader(self) -> AsOfReader:
        return AsOfReader(self.reader, self.world.clock, self.limits.history_ms)

    @cached_property
    def history(self) -> History:
        return History(self.reader)

    @cached_property
    def named_snapshots(self) -> NamedSnapshots:
        return NamedSnapshots(self.world, self.reader, self.committer, self.as_of_reader)

    @cached_property
    def branches(self) -> Branches:
        return Branches(self.world, self.reader, self.committer, self.as_of_reader, self.steps)

    @cached_property
    def resetter(self) -> Resetter:
        return Resetter(self.world, self.reader, self.committer, self.history, self.as_of_reader)


def build(
    world: World,
    *,
    lake_root: str,
    limits: Limits | None = None,
    pause: Pause = no_pause,
    reader: CatalogReader | None = None,
    metadata: MetadataStore | None = None,
    rows_check: RowsCheck | None = None,
    expectations_check: ExpectationsCheck | None = None,
) -> CatalogServices:
    """Returns the services of a sandbox; ``lake_root`` is the location below which managed tables
    live. ``reader`` and ``metadata`` are given to share their caches; ``rows_check``: of
    expectations; None: they are not checked. ``expectations_check``: of expectations that are set
    on namespaces."""
    limits = limits or Limits()
    return CatalogServices(
        world=world,
        lake_root=lake_root,
        limits=limits,
        pause=pause,
        metadata=metadata or MetadataStore(world.objs, world.space),
        publisher=Publisher(world, limits),
        zones=Zones(world),
        reader=reader or CatalogReader(world, CatalogStore(world, limits.spill)),
        rows_check=rows_check,
        expectations_check=expectations_check,
    )


def ensure(world: World, catalog: str = "main", namespace: str = "default", *, lake_root: str = "") -> None:
    """Creates the missing ones of a stack's first entities: a catalog with a namespace (dotted),
    and the claim of the lake root; an empty root leaves that to the first staging table. May be
    repeated, also by several at once.
    """
    services = build(world, lake_root=lake_root)
    if lake_root:
        services.zones.ensure(lake_root)
    with suppress(AlreadyExists):
        services.catalogs.create(catalog)
    with suppress(AlreadyExists):
        services.namespaces.create(catalog, check_namespace(namespace))
