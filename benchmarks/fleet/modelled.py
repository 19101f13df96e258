"""The fleet on a store that answers as DynamoDB does, in virtual time: requests take their time,
and a row that is in a transaction refuses others. Computing takes none, so a busy machine changes
no figure. The times are assumptions, as in docs/operations.md, and none was measured on AWS.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from benchmarks.catalog_racing.worlds import VirtualTime
from benchmarks.fleet.coordinated import ROLE
from benchmarks.fleet.heats import UNEVEN, Result
from tests.support.fakes.refs import FakeRefs
from tests.support.fakes.world import fake_world
from turnstile.fleet.member import Member
from turnstile.store.ports import BATCH_GET_MAX

T = TypeVar("T")

REQUEST_S: Final = 0.005
TRANSACTION_S: Final = 0.020
"""Of up to a hundred rows."""

FIRST_PAUSE_S: Final = 0.025
LONGEST_PAUSE_S: Final = 0.5
"""Between tries of what met another transaction: with full jitter, as the adapter has it."""


class ModelledRefs:
    """Refs in memory, whose requests take virtual time."""

    def __init__(self, refs: FakeRefs, time: VirtualTime) -> None:
        self._refs = refs
        self.transact_max = refs.transact_max
        self._time = time
        self._random = random.Random(1)
        self._locked = set[str]()
        self.counts = {"requests": 0, "conflicts": 0}

    def _wait(self, seconds: float) -> None:
        self.counts["requests"] += 1
        self._time.sleep(seconds)

    def read(self, key: str) -> Any:
        self._wait(REQUEST_S)
        return self._refs.read(key)

    def read_many(self, keys: Sequence[str]) -> Any:
        for _ in range(0, len(keys), BATCH_GET_MAX):
            self._wait(REQUEST_S)
        return self._refs.read_many(keys)

    def write(self, write: Any) -> Any:
        return self._changed({write.key}, REQUEST_S, lambda: self._refs.write(write), locks=False)

    def transact(self, writes: Any, token: str) -> Any:
        keys = {write.key for write in writes}
        return self._changed(keys, TRANSACTION_S, lambda: self._refs.transact(writes, token), locks=True)

    def _changed(self, keys: set[str], seconds: float, change: Callable[[], T], *, locks: bool) -> T:
        pause_s = FIRST_PAUSE_S
        while self._locked & keys:
            self.counts["conflicts"] += 1
            self._wait(REQUEST_S + self._random.uniform(0, pause_s))
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)
        if not locks:
            self._wait(seconds)
            return change()
        self._locked |= keys
        self._wait(seconds)
        try:
            return change()
        finally:
            self._locked -= keys


def scale_out(granules: int, most: int, beat_ms: int, alone_beats: int) -> Iterator[Result]:
    """Doubles the members until there are ``most``, as ``heats.scale_out`` does."""
    time = VirtualTime()
    fake = fake_world()
    refs = ModelledRefs(fake.refs, time)
    world: Any = replace(fake, refs=refs)
    members = list[Member]()
    results = list[Result]()
    ended = list[bool]()

    def live(member: Member) -> None:
        while not ended:
            member.beat()
            time.sleep(max(0.001, member.next_beat_ms() / 1000))

    def measure() -> None:
        count = 1
        while True:
            began_s = time.seconds()
            before = dict(refs.counts)
            mean = granules / count
            while True:
                time.sleep(0.05)
                owned = [len(member.owned_granules()) for member in members[:count]]
                if (
                    sum(owned) == granules
                    and mean * (1 - UNEVEN) - 1 <= min(owned) <= max(owned) <= mean * (1 + UNEVEN) + 1
                ):
                    break
            seconds = time.seconds() - began_s
            results.append({
                "heat": "claim" if count == 1 else f"{count // 2} to {count}", "members": count, "balanced_s": seconds,
                "migrations": granules if count == 1 else sum(owned[count // 2 :]),
                **{name: refs.counts[name] - number for name, number in before.items()},
            })  # fmt: skip
            if count == most:
                ended.append(True)
                return
            time.sleep(3 * beat_ms / 1000)
            for number in range(count, 2 * count):
                time.wake(starts[number])
            count *= 2

    starts = {number: threading.Event() for number in range(1, most)}

    def joins(number: int, member: Member) -> Callable[[], None]:
        def run() -> None:
            if number:
                time.wait(starts[number])
            live(member)

        return run

    for number in range(most):
        members.append(Member(
            world, lambda: int(time.seconds() * 1000), name=f"m{number:03d}", granules={ROLE: granules},
            beat_ms=beat_ms,
            alone_beat_ms=alone_beats * beat_ms,
        ))  # fmt: skip
    time.run([measure, *(joins(number, member) for number, member in enumerate(members))])
    yield from results
