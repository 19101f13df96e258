"""The services of this sandbox, built once from one world."""

from __future__ import annotations

import time

import msgspec
import settings

from turnstile.api.http.rights import Judging, guard
from turnstile.api.unity.update import Updater
from turnstile.catalog.commit import Committer
from turnstile.catalog.external import Externals
from turnstile.catalog.load import Loader
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.store import CatalogStore
from turnstile.delta.commits import Commits
from turnstile.delta.identity import Outcomes
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.limits import Limits
from turnstile.store.ports import World


class Services(msgspec.Struct, frozen=True):
    """One of each; they share their caches. What finds tables by name is judged by the request's guard (I12)."""

    world: World
    limits: Limits
    ratifier: Ratifier
    commits: Commits
    outcomes: Outcomes
    updater: Updater
    judges: Judging
    open_loader: Loader
    open_reader: CatalogReader

    @property
    def loader(self) -> Loader:
        """Tables by name."""
        return self.open_loader.guarded(guard())

    @property
    def reader(self) -> CatalogReader:
        """Catalogs."""
        return self.open_reader.authorized_by(guard())

    @property
    def externals(self) -> Externals:
        """Tables that are registered only."""
        return Externals(self.world, self.reader, Committer(self.world, self.reader, pause=time.sleep))


_built: list[Services] = []


def use_world(world: World, limits: Limits | None = None) -> Services:
    """Build the services on ``world``; tests pass fakes here and then call the real handler."""
    limits = limits or Limits()
    snapshots = MetadataStore(world.objs, world.space)
    commits = Commits(world, limits)
    reader = CatalogReader(world, CatalogStore(world, limits.spill))
    ratifier = Ratifier(world, limits, snapshots)
    made = Services(
        world=world,
        limits=limits,
        ratifier=ratifier,
        commits=commits,
        outcomes=Outcomes(world, limits),
        updater=Updater(world, ratifier, snapshots),
        judges=Judging(world, reader),
        open_loader=Loader(world, reader, snapshots, commits),
        open_reader=reader,
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
        use_world(found.stores.open(), found.limits)
    return _built[0]
