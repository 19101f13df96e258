"""A whole world in memory."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.fakes.objs import FakeObjs
from tests.support.fakes.refs import FakeRefs
from tests.support.fakes.storage import FakeClock, FakeIds, FakeStorages
from turnstile.store.core.keys import Space
from turnstile.store.ports import World


@dataclass(frozen=True, slots=True)
class FakeWorld(World):
    """``World`` whose fields are known to be fakes."""

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
