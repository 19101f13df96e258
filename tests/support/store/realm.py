"""A realm of its own on real tables, with its lake in a folder."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from tests.support.store.backends import Backend, Counter
from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.adapters.opening import FileStorages
from turnstile.catalog import services as bootstrap
from turnstile.catalog.services import CatalogServices, build
from turnstile.store.core.rows import Space
from turnstile.store.ports import World

_REALMS = itertools.count()


class StoredRealm:
    """A realm of its own on the shared tables, with its lake in a temporary folder."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self._backend = backend
        self._realm = f"r{next(_REALMS)}"
        self.lake = f"file://{folder}/lake"
        self.old = f"file://{folder}/old/t"
        bootstrap.ensure(self.world(), lake_root=self.lake)

    def world(self, counter: Counter | None = None) -> World:
        return World(
            refs=self._backend.refs(counter, realm=self._realm),
            objs=self._backend.objs(counter),
            storages=FileStorages(None),
            clock=SystemClock(),
            ids=RandomIds(),
            space=Space(self._realm),
        )

    def services(self, counter: Counter | None = None) -> CatalogServices:
        return build(self.world(counter), lake_root=self.lake, pause=time.sleep)
