"""The services of this sandbox, built once from one world."""

from __future__ import annotations

import os
from dataclasses import dataclass

import settings

from turnstile.delta.publish import Publisher
from turnstile.delta.sweep import Sweeper
from turnstile.gc.collector import Collector, CollectTask
from turnstile.gc.core import Grace
from turnstile.store.faults import faults_from
from turnstile.store.ports import World


@dataclass(frozen=True, slots=True)
class Services:
    """The world, what sweeps and collects in it, and how long one table may take."""

    world: World
    sweeper: Sweeper
    collect_task: CollectTask
    table_ms: int
    workers: int


_built: list[Services] = []


def use_world(world: World, *, grace: Grace | None = None, table_ms: int = 60_000, workers: int = 8) -> Services:
    """Build the services on ``world``; tests pass fakes here and then call the real handlers."""
    faults = faults_from(os.environ)
    made = Services(
        world=world,
        sweeper=Sweeper(world, Publisher(world, faults=faults)),
        collect_task=CollectTask(world, Collector(world, grace, faults=faults, workers=workers)),
        table_ms=table_ms,
        workers=workers,
    )
    _built[:] = [made]
    return made


def services() -> Services:
    """The services, opened at first use."""
    if not _built:
        found = settings.read()
        use_world(found.stores.open(), grace=found.grace, table_ms=found.table_ms, workers=found.workers)
    return _built[0]
