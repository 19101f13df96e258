"""The services of one sandbox for its views and jobs, built from one world: the container that all
functions share.

Each part is built once, on its first use, and shares its caches with the others. Parts that only
some functions need are imported then, so that the commit function starts without them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

from turnstile.access.authorizer import Guard, Need, Target
from turnstile.api.http.authorization import Authorizers, guard
from turnstile.api.http.request import current
from turnstile.api.on_demand import CheckWithPredicates, OwnTablesOnDemand, check_namespace
from turnstile.api.settings import Settings
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.store import CatalogStore
from turnstile.delta.commits import Commits
from turnstile.delta.metadata import MetadataStore
from turnstile.rights.rules import Chain, Rule, is_permitted, see_schema, see_table, use_catalog
from turnstile.store.core.limits import Limits
from turnstile.store.ports import CredentialVendor, VendedCredentials, World
from turnstile.store.shares import Shares
from turnstile_release import version

if TYPE_CHECKING:
    from turnstile.access.clients import Clients
    from turnstile.access.clone_rights import SourceRights
    from turnstile.access.grants import Grants
    from turnstile.adapters.credentials import Operation
    from turnstile.api.auth.settings import AuthSettings
    from turnstile.api.auth.signed import SignedTokens
    from turnstile.api.unity.updater import Updater
    from turnstile.catalog.awaited import Adoption
    from turnstile.catalog.core.entities import Catalog, Table
    from turnstile.catalog.core.paths import Path
    from turnstile.catalog.load import Loader
    from turnstile.catalog.services import CatalogServices
    from turnstile.delta.core.head import TableHead
    from turnstile.delta.identity import Outcomes
    from turnstile.delta.prepare import RowsCheck
    from turnstile.delta.publish import Publisher
    from turnstile.delta.ratify import Ratifier
    from turnstile.delta.sweep import Sweeper
    from turnstile.delta.transactions.cuts import Cuts
    from turnstile.delta.transactions.groups import GroupRatifier
    from turnstile.delta.transactions.journal import Journal
    from turnstile.delta.transactions.reservations import Reservations
    from turnstile.events.append import Appender
    from turnstile.events.deliver import Deliverer
    from turnstile.events.follow_ups import FollowUps
    from turnstile.events.read import EventReader
    from turnstile.gc.collector import Collector, CollectTask
    from turnstile.iceberg.files import MetadataFiles
    from turnstile.iceberg.first_look import IcebergFirstLook
    from turnstile.iceberg.scans.delta_scans import DeltaScans, PlannedPage
    from turnstile.iceberg.scans.plan_runs import PlanRuns
    from turnstile.iceberg.scans.table_scans import TableScans
    from turnstile.iceberg.shared_appends import AppendQueue
    from turnstile.ingest.appends import RowAppender
    from turnstile.maintenance.holds import Holds
    from turnstile.maintenance.pins import Pins
    from turnstile.maintenance.runs import MaintenanceRuns
    from turnstile.maintenance.survey import SurveyedFiles
    from turnstile.maintenance.work import Maintainer
    from turnstile.planning.planner import Planner
    from turnstile.planning.reads import CommitJudge, ReadInCommits
    from turnstile.planning.sample import Sampler
    from turnstile.rights.grants import Access
    from turnstile.transfer.exports import Exporter
    from turnstile.transfer.imports import Importer


class Services:
    """One of each service. ``vendor`` makes clients' credentials; without it they bring their own.

    Parts called ``open_...`` see everything. ``reader``, ``loader``, ``catalog`` and parts that
    work with them are for the present request: its guard authorizes their actions (I12).
    """

    def __init__(
        self, world: World, settings: Settings | None = None, *, vendor: CredentialVendor | None = None
    ) -> None:
        self.world = world
        self.settings = settings or Settings()
        self._vendor = vendor
        self._signed: tuple[AuthSettings | None, SignedTokens] | None = None

    @classmethod
    def open(cls, settings: Settings) -> Services:
        """Returns the services of a deployment; nothing is sent yet."""
        assert settings.stores is not None
        world = settings.stores.open()
        return cls(world, settings, vendor=settings.vending.open(world))

    def prepare(self, *parts: str) -> None:
        """Builds these parts now rather than at the first request."""
        for part in parts:
            getattr(self, part)

    def begin_anew(self) -> None:
        """Renews what sandboxes of one snapshot share; called before the first request of each."""
        from turnstile.adapters.machine import begin_anew

        begin_anew(self.world)

    @property
    def limits(self) -> Limits:
        return self.settings.limits

    # -- tables -------------------------------------------------------------------------------------------------------

    @cached_property
    def metadata(self) -> MetadataStore:
        return MetadataStore(self.world.objs, self.world.space)

    @cached_property
    def commits(self) -> Commits:
        """Ratified commits that tables still carry."""
        return Commits(self.world, self.limits)

    @cached_property
    def cuts(self) -> Cuts:
        """Latest versions of several tables as of one moment."""
        from turnstile.delta.transactions.cuts import Cuts

        return Cuts(self.world)

    @cached_property
    def ratifier(self) -> Ratifier:
        from turnstile.delta.ratify import Ratifier

        return Ratifier(
            self.world, self.limits, self.metadata, pause=time.sleep, looks=self.settings.looks_at_logs,
            rows_check=self.rows_check,
        )  # fmt: skip

    @cached_property
    def rows_check(self) -> RowsCheck:
        return CheckWithPredicates(self.world.storages)

    @cached_property
    def row_appender(self) -> RowAppender:
        """Adds the rows of requests; needs pyarrow."""
        from turnstile.ingest.appends import RowAppender

        return RowAppender(self.world, self.groups, self.metadata, self.limits, rest=lambda: current().rest())

    @cached_property
    def groups(self) -> GroupRatifier:
        """Commits of several tables at once."""
        from turnstile.delta.transactions.groups import GroupRatifier

        def judge(predicate: str, after: int) -> ReadInCommits:
            return self.commit_judge(predicate, after)

        return GroupRatifier(self.world, self.ratifier, self.limits, judge=judge)

    @cached_property
    def commit_judge(self) -> CommitJudge:
        """Checks whether later commits may have changed a read."""
        from turnstile.planning.reads import CommitJudge

        return CommitJudge(self.world, self.metadata)

    @cached_property
    def journal(self) -> Journal:
        """Announced transactions."""
        from turnstile.delta.transactions.journal import Journal

        return Journal(self.world, self.groups)

    @cached_property
    def reservations(self) -> Reservations:
        """Tables that transactions keep others from writing."""
        from turnstile.delta.transactions.reservations import Reservations

        return Reservations(self.world)

    @cached_property
    def outcomes(self) -> Outcomes:
        from turnstile.delta.identity import Outcomes

        return Outcomes(self.world, self.limits)

    @cached_property
    def updater(self) -> Updater:
        from turnstile.api.unity.updater import Updater

        return Updater(self.world, self.ratifier, self.metadata)

    @cached_property
    def publisher(self) -> Publisher:
        from turnstile.delta.publish import Publisher

        own = self.settings
        return Publisher(self.world, own.limits, faults=own.faults, keep=own.keep_published, looks=own.looks_at_logs)

    @cached_property
    def sweeper(self) -> Sweeper:
        from turnstile.delta.sweep import Sweeper

        return Sweeper(self.world, self.publisher, release=version())

    # -- events -------------------------------------------------------------------------------------------------------

    @cached_property
    def appender(self) -> Appender:
        """Makes events from changes of HEADs."""
        from turnstile.events.append import Appender

        return Appender(self.world, faults=self.settings.faults)

    @cached_property
    def event_reader(self) -> EventReader:
        from turnstile.events.read import EventReader

        return EventReader(self.world)

    @cached_property
    def deliverers(self) -> list[Deliverer]:
        """Senders of events, one for each target."""
        from turnstile.events.deliver import Deliverer

        own = self.settings
        return [Deliverer(self.world, to, alone=own.delivers_alone, faults=own.faults) for to in own.event_targets]

    @cached_property
    def maintainer(self) -> Maintainer:
        """Does light work on tables."""
        from turnstile.maintenance.work import Maintainer
        from turnstile.planning.upkeep import IndexUpkeep

        faults = self.settings.faults
        return Maintainer(self.world, following=(IndexUpkeep(self.world, faults=faults),), faults=faults)

    @cached_property
    def follow_ups(self) -> FollowUps:
        """Requests actions after publications."""
        from turnstile.events.follow_ups import FollowUps

        own = self.settings
        return FollowUps(self.world, self.maintenance_runs.policy, own.follow_ups, faults=own.faults)

    @cached_property
    def planner(self) -> Planner:
        """Plans of scans. It remembers leaves of indexes."""
        from turnstile.planning.planner import Planner

        return Planner(self.world)

    @cached_property
    def sampler(self) -> Sampler:
        """Reads some rows of tables; needs pyarrow."""
        from turnstile.planning.sample import Sampler

        return Sampler(self.world, self.planner)

    @cached_property
    def event_waits(self) -> Shares:
        """The requests that wait for events; others are answered at once."""
        return Shares(self.settings.event_waits, self.settings.event_waits_each)

    # -- the catalog --------------------------------------------------------------------------------------------------

    @cached_property
    def authorizers(self) -> Authorizers:
        return Authorizers(self.world, self.open_reader)

    @cached_property
    def open_reader(self) -> CatalogReader:
        return CatalogReader(self.world, CatalogStore(self.world, self.limits.spill, OwnTablesOnDemand(self)))

    @cached_property
    def open_loader(self) -> Loader:
        from turnstile.catalog.load import Loader

        def adopt(catalog: str, path: Path, table: Table) -> bool:
            return self.adoption.adopt(catalog, path, table)

        return Loader(self.world, self.open_reader, self.metadata, self.commits, adopt=adopt)

    @cached_property
    def adoption(self) -> Adoption:
        """Adopts tables that were registered before their version 0 was written."""
        from turnstile.api.unity.awaited import adopted_metadata
        from turnstile.catalog.awaited import Adoption

        catalog = self.open_catalog
        return Adoption(self.world, catalog.committer, self.metadata, limits=self.limits, describe=adopted_metadata)

    @cached_property
    def open_catalog(self) -> CatalogServices:
        from turnstile.catalog.services import build

        return build(
            self.world, lake_root=self.settings.lake_root, limits=self.limits, pause=time.sleep,
            reader=self.open_reader, metadata=self.metadata, rows_check=self.rows_check,
            expectations_check=check_namespace,
        )  # fmt: skip

    def guard_of(self, *needs: Need) -> Guard:
        """Returns another guard for the present request: for names in its body or its answer."""
        principal = guard().principal
        return self.authorizers.access.guard(principal, [] if principal.admin else needs)

    @property
    def reader(self) -> CatalogReader:
        return self.open_reader.authorized_by(guard())

    @property
    def loader(self) -> Loader:
        return self.open_loader.authorized_by(guard())

    def loader_of(self, target: Target) -> Loader:
        """Returns the loader for an answer that shows ``target`` as a load does, by its rights."""
        return self.open_loader.authorized_by(self.guard_of(Need(see_table, target)))

    @property
    def catalog(self) -> CatalogServices:
        return self.catalog_for(guard())

    def catalog_for(self, guard: Guard) -> CatalogServices:
        return self.open_catalog if guard.principal.admin else self.open_catalog.authorized_by(guard)

    def catalog_at(self, target: Target) -> CatalogServices:
        """Returns the catalog's services to answer about ``target``, which no path names."""
        return self.catalog_for(self.guard_of(Need(see_schema, target)))

    @property
    def importer(self) -> Importer:
        from turnstile.transfer.imports import Importer

        return Importer(self.catalog)

    @property
    def exporter(self) -> Exporter:
        from turnstile.transfer.exports import Exporter

        return Exporter(self.catalog)

    # -- rights and credentials ---------------------------------------------------------------------------------------

    @property
    def grants(self) -> Grants:
        from turnstile.access.grants import Grants

        return Grants(self.catalog, self.authorizers.access)

    def may_on_metastore(self, rule: Rule) -> bool:
        """Returns whether the principal may do this with the metastore; one read."""
        return is_permitted(rule, guard().principal, self.authorizers.access.metastore())

    def visible_catalogs(self) -> list[tuple[Catalog, Access]]:
        """Returns the catalogs that the principal may use, with their rights."""
        catalogs = self.open_catalog.catalogs.list()
        principal = guard().principal
        rights = zip(catalogs, self.authorizers.access.catalog_rights(catalogs), strict=True)
        guard().mark_authorized()
        return [(catalog, access) for catalog, access in rights if is_permitted(use_catalog, principal, Chain(access))]

    @cached_property
    def source_rights(self) -> SourceRights:
        from turnstile.access.clone_rights import SourceRights

        return SourceRights(self.world, self.authorizers.access, self.open_reader)

    @cached_property
    def vendor(self) -> CredentialVendor:
        """Makes clients' credentials."""
        from turnstile.adapters.credentials import VendorByLocation

        return self._vendor or VendorByLocation()

    def credentials(
        self, of: str | TableHead, operation: Operation, files: Sequence[str] = ()
    ) -> tuple[VendedCredentials, ...]:
        """As ``credentials_for``; empty if clients need none here."""
        from turnstile.adapters.credentials import credentials_for

        return credentials_for(self.vendor, of, operation, files)

    @cached_property
    def clients(self) -> Clients:
        import secrets

        from turnstile.access.clients import Clients

        return Clients(self.world, secrets.token_bytes)

    @property
    def signed_tokens(self) -> SignedTokens:
        """Signed tokens by the keys that count now."""
        from turnstile.api.auth.signed import SignedTokens, from_settings

        auth = self.settings.auth()
        if self._signed is None or self._signed[0] is not auth:
            self._signed = auth, SignedTokens(None, None) if auth is None else from_settings(auth)
        return self._signed[1]

    # -- upkeep -------------------------------------------------------------------------------------------------------

    @cached_property
    def pins(self) -> Pins:
        """The pins of tables, for any caller."""
        from turnstile.maintenance.pins import Pins

        return Pins(self.world, self.open_reader, self.metadata, history_ms=self.limits.history_ms)

    @cached_property
    def maintenance_runs(self) -> MaintenanceRuns:
        """Policies, and heavy work by workers."""
        from turnstile.maintenance.runs import MaintenanceRuns

        def indexed_survey(head: TableHead, version: int) -> SurveyedFiles | None:
            from turnstile.planning.survey import IndexedSurvey

            return IndexedSurvey(self.planner)(head, version)

        return MaintenanceRuns(self.world, self.open_reader, self.metadata, indexed_survey)

    @cached_property
    def holds(self) -> Holds:
        """Readers that register, and vacuums."""
        from turnstile.maintenance.holds import Holds

        return Holds(self.world, self.pins)

    # -- files and garbage --------------------------------------------------------------------------------------------

    @cached_property
    def metadata_files(self) -> MetadataFiles:
        from turnstile.iceberg.files import MetadataFiles

        return MetadataFiles(self.world.storages, self.world.ids, self.settings.metadata_bytes)

    @cached_property
    def append_queue(self) -> AppendQueue:
        """Appends to Iceberg tables that wait in this process."""
        from turnstile.iceberg.shared_appends import AppendQueue

        return AppendQueue()

    @cached_property
    def iceberg_first_look(self) -> IcebergFirstLook:
        from turnstile.iceberg.first_look import IcebergFirstLook

        return IcebergFirstLook(self.world.storages, self.open_catalog.reader)

    @cached_property
    def delta_scans(self) -> DeltaScans:
        """Delta tables for Iceberg's clients."""
        from turnstile.iceberg.scans.delta_scans import DeltaScans

        return DeltaScans(self.world, self.metadata, lambda: self.planner)

    @cached_property
    def plan_runs(self) -> PlanRuns[PlannedPage]:
        """Plans of scans that take longer than one answer."""
        from turnstile.iceberg.scans.plan_runs import PlanRuns

        return PlanRuns()

    @cached_property
    def table_scans(self) -> TableScans:
        """Scans of Iceberg tables, by their manifests."""
        from turnstile.iceberg.scans.table_scans import TableScans

        return TableScans(self.world.storages)

    @cached_property
    def collector(self) -> Collector:
        from turnstile.gc.collector import Collector

        own = self.settings
        return Collector(self.world, own.grace, faults=own.faults, workers=own.workers, pause=time.sleep)

    @cached_property
    def collect_task(self) -> CollectTask:
        from turnstile.adapters.machine import clock_ahead_ms
        from turnstile.gc.collector import CollectTask

        return CollectTask(self.world, self.collector, ahead_ms=lambda: clock_ahead_ms(self.world))


def services() -> Services:
    """Returns the services, for a view that declares its needs; raises TurnstileError for
    another."""
    guard()
    return open_services()


def open_services() -> Services:
    """Returns the services of the app that is answering, for any declaration of its view."""
    return cast("Services", current().services)
