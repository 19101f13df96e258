"""The services of this sandbox, built once from one world."""

from __future__ import annotations

import os
from dataclasses import dataclass

import settings

from turnstile.delta.publish import Publisher
from turnstile.store.faults import faults_from
from turnstile.store.ports import World


@dataclass(frozen=True, slots=True)
class Services:
    """The world, what publishes in it, and how long one table may take."""

    world: World
    publisher: Publisher
    table_ms: int
    workers: int


_built: list[Services] = []


def use_world(world: World, *, table_ms: int = 20_000, workers: int = 8) -> Services:
    """Build the services on ``world``; tests pass fakes here and then call the real handler."""
    made = Services(world, Publisher(world, faults=faults_from(os.environ)), table_ms, workers)
    _built[:] = [made]
    return made


def services() -> Services:
    """The services, opened at first use."""
    if not _built:
        found = settings.read()
        use_world(found.stores.open(), table_ms=found.table_ms, workers=found.workers)
    return _built[0]
