"""A whole world in memory."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass

from tests.support.fakes.objs import FakeObjs
from tests.support.fakes.refs import FakeRefs
from tests.support.fakes.storage import FakeClock, FakeIds, FakeStorages
from turnstile.store.core.evaluate import clone
from turnstile.store.core.rows import Space
from turnstile.store.ports import World


@dataclass(frozen=True, slots=True)
class FakeWorld(World):
    """``World`` with fakes in its fields."""

    refs: FakeRefs
    objs: FakeObjs
    storages: FakeStorages
    clock: FakeClock
    ids: FakeIds


def fake_world(realm: str = "test") -> FakeWorld:
    """Empty tables, empty storage, a clock that ticks 1 ms a look."""
    clock = FakeClock()
    return FakeWorld(
        refs=FakeRefs(),
        objs=FakeObjs(clock),
        storages=FakeStorages(clock),
        clock=clock,
        ids=FakeIds(),
        space=Space(realm),
    )


def copied(world: FakeWorld) -> FakeWorld:
    """A world with the same content, time and next ids, to be changed on its own."""
    twin = fake_world(world.space.realm)
    twin.refs.rows.update(clone(world.refs.rows))
    twin.objs.rows.update(world.objs.rows)
    twin.storages.files.update(world.storages.files)
    twin.clock.now = world.clock.now
    twin.clock.step = world.clock.step
    return dataclasses.replace(twin, ids=copy.copy(world.ids))
