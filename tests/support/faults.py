"""Fake ports that fail: at the n-th write in one of four ways, by losing answers, or because
another process is faster.

Reads never fail: a crash at a read is one at the write before it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

from tests.support.fakes.refs import FakeRefs
from tests.support.fakes.world import FakeWorld
from turnstile.store.core.errors import OutcomeUnknown, StorageFault
from turnstile.store.core.writes import Write
from turnstile.store.ports import Accepted, Rejected, World

How = Literal["before", "after", "unsent", "lost"]
CRASHES: tuple[How, ...] = ("before", "after")
LOSSES: tuple[How, ...] = ("unsent", "lost")
"""``before``, ``after``: the process dies around the write. ``unsent``, ``lost``: it lives on and
hears no answer to a write that was not, or was, applied."""


class Crash(BaseException):
    """The process is gone."""


class Faulty:
    """``world`` with ports of which the ``at``-th write (from 1) fails; ``writes`` names those that
    were made."""

    def __init__(self, world: FakeWorld, at: int = 0, how: How = "before") -> None:
        self._left = at
        self._how = how
        self.writes: list[str] = []
        self.world: World = World(
            refs=_Port(world.refs, self, {"write": OutcomeUnknown, "transact": OutcomeUnknown}),
            objs=_Port(world.objs, self, {"put": OutcomeUnknown, "put_many": OutcomeUnknown, "delete": OutcomeUnknown}),
            storages=_Storages(world.storages, self),
            clock=world.clock,
            ids=world.ids,
            space=world.space,
        )

    def write(self, name: str, apply: Callable[[], Any], lost: type[Exception]) -> Any:
        self.writes.append(name)
        self._left -= 1
        if self._left:
            return apply()
        if self._how == "before":
            raise Crash(name)
        if self._how == "unsent":
            raise lost(f"no answer to {name}")
        apply()
        if self._how == "after":
            raise Crash(name)
        raise lost(f"no answer to {name}")


class _Port:
    def __init__(self, port: Any, faulty: Faulty, lost: dict[str, type[Exception]]) -> None:
        self._port = port
        self._faulty = faulty
        self._lost = lost

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._port, name)
        if name not in self._lost:
            return call
        return lambda *args, **named: self._faulty.write(name, lambda: call(*args, **named), self._lost[name])


@dataclasses.dataclass
class _Storages:
    storages: Any
    faulty: Faulty

    def open(self, location: str) -> _Port:
        return _Port(self.storages.open(location), self.faulty, {"put_if_absent": StorageFault, "delete": StorageFault})


class Losing(FakeRefs):
    """Loses the answers that ``lose`` names, in order: ``before`` the write is applied, ``after``
    it, or (empty) none. ``applied`` has the tokens of the rows that writes left."""

    def __init__(self) -> None:
        super().__init__()
        self.lose: list[str] = []
        self.applied: list[str] = []

    def write(self, write: Write) -> Accepted | Rejected:
        how = self.lose.pop(0) if self.lose else ""
        if how == "before":
            raise OutcomeUnknown("lost")
        answer = super().write(write)
        if isinstance(answer, Accepted) and answer.row is not None:
            self.applied.append(str(answer.row.get("token")))
        if how == "after":
            raise OutcomeUnknown("lost")
        return answer


def before_next_write(world: FakeWorld, act: Callable[[], object]) -> None:
    """Have ``act`` happen between the next write, or transaction, and all that its writer has read;
    once."""
    refs: Any = world.refs
    saved = {name: getattr(refs, name) for name in ("write", "transact")}

    def late(name: str) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            for each, method in saved.items():
                setattr(refs, each, method)
            act()
            return saved[name](*given)

        return call

    for name in saved:
        setattr(refs, name, late(name))


def before_write(world: FakeWorld, at: int, act: Callable[[], object]) -> None:
    """Has ``act`` happen right before the ``at``-th write of refs from now."""
    refs: Any = world.refs
    inner = {name: getattr(refs, name) for name in ("write", "transact")}
    left = [at]
    refs.racing = False

    def raced(name: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            left[0] -= not refs.racing
            if left[0] == 0 and not refs.racing:
                refs.racing = True
                act()
                refs.racing = False
            return inner[name](*args, **named)

        return call

    for name in inner:
        setattr(refs, name, raced(name))


def stop_races(world: FakeWorld) -> None:
    """Ends what ``before_write`` began."""
    for name in ("write", "transact"):
        world.refs.__dict__.pop(name, None)
