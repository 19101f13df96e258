"""Connections between simulated processes: messages that are late, lost or cut off, and processes
that die or freeze with all their threads."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, TypeVar

from tests.simulation.engine.plans import FREEZE, HOUR, MINUTE, SECOND
from tests.simulation.engine.ports import Process
from tests.simulation.engine.scheduler import Crashed, Task
from tests.simulation.engine.state import State
from turnstile.catalog.changes.waiting import ChangeQueue, WaitingChange
from turnstile.fleet.core.forwarded import ForwardedRequest, ForwardedResponse, Receive, Send
from turnstile.fleet.core.owners import Address
from turnstile_server.fleet.forwarding import CONNECT_S, serve

T = TypeVar("T")

CHANNEL: Final = frozenset({"before", "lost", "late", "duplicate"})
"""Faults of a message: an error, with or without effect; all later messages vanish, both ways; it
is late; the connection is cut after it."""

MORE_OFTEN: Final = 3
"""How much likelier a fault of a message is than one of a call: a request is five messages, and
many calls."""

AT_ONCE: Final = frozenset({"crash", "stall", FREEZE})

_LATE: Final = (SECOND // 3, SECOND, 5 * SECOND, 30 * SECOND)
_FROZEN: Final = (SECOND // 3, SECOND, 6 * SECOND, 30 * SECOND, 10 * MINUTE, 3 * HOUR)


class ThreadedProcess(Process):
    """A process of which several tasks are threads: they die together, and freeze together."""

    def __init__(self, state: State, name: str, rng: random.Random) -> None:
        super().__init__(state, name)
        self.rng = rng
        self.ends = None
        self._frozen_until = 0
        self._connections = list[SimConnection]()

    def monotonic(self) -> int:
        """The machine's clock that never steps back (ms)."""
        return self.state.scheduler.now

    def call(self, what: str, effect: Callable[[], T], *more: Any) -> T:
        try:
            return super().call(what, effect, *more)
        except Crashed:
            if self.dead:
                self.kill()
            raise

    def step(self, what: str) -> None:
        """Something that is no call of a store; here, too, a process may die or freeze."""
        self.call(what, lambda: None, AT_ONCE, ConnectionError, ConnectionError)

    def kill(self) -> None:
        """Ends the process: its connections are closed by the machine."""
        self.dead = True
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    def thaw(self) -> None:
        """Waits while the process is frozen. Raises Crashed for one that is dead."""
        scheduler = self.state.scheduler
        while scheduler.now < self._frozen_until:
            scheduler.sleep(self._frozen_until - scheduler.now)
            self.state.deliver()
        if self.dead:
            raise Crashed

    @property
    def is_frozen(self) -> bool:
        return self.state.scheduler.now < self._frozen_until

    def opened(self, connection: SimConnection) -> None:
        self._connections.append(connection)

    def _freeze(self) -> None:
        long = int(self.rng.choice(_FROZEN) * (0.5 + self.rng.random()))
        self.state.scheduler.note(f"{self.name} is frozen for {long:,} ms")
        self._frozen_until = self.state.scheduler.now + long
        self.thaw()

    def _live(self) -> None:
        self.thaw()
        super()._live()


class TaskQueue(ChangeQueue):
    """The lines of a simulated process: a waiting request is a task."""

    def __init__(self, process: ThreadedProcess) -> None:
        super().__init__()
        self._process = process
        self._tasks = dict[WaitingChange, Task]()

    def _wait(self, change: WaitingChange, seconds: float) -> bool:
        scheduler = self._process.state.scheduler
        until = scheduler.now + int(seconds * 1000)
        self._tasks[change] = scheduler.running
        while not change.turn.is_set() and scheduler.now < until:
            scheduler.sleep(until - scheduler.now)
        del self._tasks[change]
        self._process.thaw()
        return change.turn.is_set()

    def _wake(self, change: WaitingChange) -> None:
        super()._wake(change)
        if change in self._tasks:
            self._tasks[change].wake_ms = 0


class SimConnection:
    """One side of a connection (``turnstile_server.fleet.forwarding.Connection``)."""

    def __init__(self, process: ThreadedProcess, on_send: Callable[[SimConnection, Send], None]) -> None:
        self._process = process
        self._state = process.state
        self._on_send = on_send
        self.peer: SimConnection
        self.request = b""
        self._inbox = list[tuple[int, bytes]]()
        self._ended_at: int | None = None  # when the other side's end arrives
        self._last_at = 0
        self._is_closed = False
        self._is_cut = False
        self._reader: Task | None = None
        process.opened(self)

    def send(self, step: Send) -> None:
        self._process.step(f"send {step.payload[:1]!r}" if not step.framed else f"send {len(step.payload)} bytes")
        self._on_send(self, step)
        if self._is_closed or (self._ended_at is not None and self._ended_at <= self._now):
            raise ConnectionError("the connection is closed")
        fault = self._state.faults.draw(CHANNEL, MORE_OFTEN * self._state.faults.rate)
        if fault:
            self._state.scheduler.note(f"fault '{fault}' of a message")
        match fault:
            case "before":
                if self._process.rng.random() < 0.7:
                    self.peer.arrive(step.payload)
                self.close()
                raise ConnectionError("reset")
            case "lost":
                self._is_cut = self.peer._is_cut = True
            case "late":
                late = int(self._process.rng.choice(_LATE) * (0.5 + self._process.rng.random()))
                self.peer.arrive(step.payload, late)
            case "duplicate":
                self.peer.arrive(step.payload)
                self.close()
            case _:
                self.peer.arrive(step.payload)

    def receive(self, step: Receive) -> bytes:
        scheduler = self._state.scheduler
        until = self._now + int(step.within_s * 1000)
        while True:
            self._process.thaw()
            if self._is_closed:
                raise ConnectionError("the connection is closed")
            if self._inbox and self._inbox[0][0] <= self._now:
                received = self._inbox.pop(0)[1]
                self._process.step("received")
                return received
            if not self._inbox and self._ended_at is not None and self._ended_at <= self._now:
                raise ConnectionError("the connection was closed")
            if self._now >= until:
                raise TimeoutError
            self._reader = scheduler.running
            scheduler.sleep(min(until, *self._next()) - self._now)
            self._reader = None

    def is_fresh(self) -> bool:
        return not any(at <= self._now for at in self._next()[:-1])

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if not self._is_cut:
            self.peer._ended_at = max(self.peer._last_at, self._now + 1)
            self.peer._wake()
        self._wake()

    def arrive(self, payload: bytes, late_ms: int = 0) -> None:
        """A message of the other side is on its way here, behind those that are so already."""
        if self._is_cut:
            return
        self._last_at = max(self._last_at, self._now + self._process.rng.randrange(1, 6) + late_ms)
        self._inbox.append((self._last_at, payload))
        self._wake()

    def _next(self) -> list[int]:
        """When something is going to arrive; the last is never."""
        return [*(at for at, _ in self._inbox[:1]), *([] if self._ended_at is None else [self._ended_at]), 1 << 62]

    def _wake(self) -> None:
        if self._reader is not None:
            self._reader.wake_ms = min(self._reader.wake_ms, *self._next())
            if self._is_closed:
                self._reader.wake_ms = 0

    @property
    def _now(self) -> int:
        return self._state.scheduler.now


Answering = Callable[[ForwardedRequest], ForwardedResponse]


class Network:
    """Listeners by address, and the connections to them.

    Args:
        on_send: called with every message, with the side that sends it.
    """

    def __init__(self, state: State, on_send: Callable[[SimConnection, Send], None]) -> None:
        self._state = state
        self._on_send = on_send
        self._listeners: dict[tuple[str, int], tuple[ThreadedProcess, str, Answering]] = {}
        self._connections = 0

    def listen(self, address: Address, process: ThreadedProcess, answer: Answering) -> None:
        """Makes ``process`` serve connections to the address from now on, in place of an earlier
        listener."""
        self._listeners[address.host, address.port] = process, address.secret, answer

    def connect(self, process: ThreadedProcess, address: Address) -> SimConnection:
        """Returns the asker's side of a new connection. Raises OSError."""
        process.step(f"connect to {address.host}")
        owner, secret, answer = self._listeners.get((address.host, address.port), (None, "", None))
        if owner is None or answer is None or owner.dead or secret != address.secret:
            raise ConnectionRefusedError
        if owner.is_frozen or self._state.faults.draw(CHANNEL):
            self._state.scheduler.sleep(int(CONNECT_S * 1000))
            process.thaw()
            raise TimeoutError
        near = SimConnection(process, self._on_send)
        far = SimConnection(owner, self._on_send)
        near.peer = far
        far.peer = near
        self._connections += 1

        def answer_all() -> None:
            try:
                serve(far, answer, lambda: False)
            except Crashed:
                pass
            finally:
                far.close()

        self._state.scheduler.add(f"{owner.name} #{self._connections}", answer_all)
        return near
