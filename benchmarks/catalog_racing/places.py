"""Worlds to race in, each with a realm of its own on shared tables."""

from __future__ import annotations

import itertools
import os
from typing import Final

import msgspec

from benchmarks.catalog_racing.metering import Delay, Meter, MeteredObjs, MeteredRefs, at_once
from tests.support.store.backends import Backend
from turnstile.adapters.opening import FileStorages
from turnstile.adapters.system import RandomIds, SystemClock
from turnstile.catalog import services as bootstrap
from turnstile.catalog.change import Edit
from turnstile.catalog.core.entities import Entity, Namespace
from turnstile.catalog.core.paths import Path
from turnstile.catalog.services import build
from turnstile.store.core.keys import Space
from turnstile.store.ports import Clock, World

CATALOG: Final = "main"
_LAKE: Final = "file:///lake"
_REALMS = itertools.count()


class Place(msgspec.Struct, frozen=True):
    """A catalog that another process can find: ``name`` and ``url`` of the backend, and its realm."""

    name: str
    url: str
    realm: str

    def world(self, meter: Meter | None = None) -> World:
        """A world of one's own on the catalog's tables."""
        return world_of(Backend(self.name, self.url), self.realm, meter)


def credentials() -> None:
    """What clients of AWS insist on; local servers take anything."""
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "us-east-1")):
        os.environ.setdefault(f"AWS_{name}", value)


def world_of(
    backend: Backend, realm: str, meter: Meter | None = None, *, delay: Delay = at_once, clock: Clock | None = None
) -> World:
    """Ports on ``backend``, metered if there is a meter."""
    sent = meter if backend.real else None  # the fake sends nothing; its calls are what is counted
    refs, objs = backend.refs(sent, realm=realm), backend.objs(sent)
    if meter is not None:
        named = not backend.real
        refs = MeteredRefs(refs, meter, delay=delay, named=named)
        objs = MeteredObjs(objs, meter, delay=delay, named=named)
    return World(refs, objs, FileStorages(None), clock or SystemClock(), RandomIds(), Space(realm))


def fresh_realm(backend: Backend, names: int = 0) -> str:
    """A realm with ``main``, in which ``names`` namespaces are there already: made in one change."""
    realm = f"race{next(_REALMS)}"
    world = world_of(backend, realm)
    bootstrap.ensure(world, lake_root=_LAKE)
    if names:
        there: dict[Path, Entity] = {
            (f"filler_{number:06d}",): Namespace(f"filler_{number:06d}", world.ids.uuid(), 1) for number in range(names)
        }
        build(world, lake_root=_LAKE).committer.commit(CATALOG, lambda _: Edit("fill", put=there))
    return realm
