"""Everything a service needs of the outside, in one value: built once per sandbox by ``adapters.open_world``, or from
fakes by tests."""

from __future__ import annotations

from dataclasses import dataclass

from turnstile.store.core.keys import Space
from turnstile.store.ports import Clock, Ids, Objs, Refs, Storages


@dataclass(frozen=True, slots=True)
class World:
    """Ports and the tenant's key space."""

    refs: Refs
    objs: Objs
    storages: Storages
    clock: Clock
    ids: Ids
    space: Space
