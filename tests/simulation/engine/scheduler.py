"""One thread runs at a time, and which one is drawn at every storage call.

Each actor is a thread that holds the baton while it runs; at every call of a port it hands the
baton to an actor that the seeded scheduler picks. So services run unchanged, every interleaving at
storage calls is possible, and the same seed gives the same run. Threads are kept for the next run:
starting them costs more than switching.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any, ClassVar


class Killed(BaseException):
    """The run is over; unwinds an actor's thread. No service may catch it."""


class Crashed(BaseException):
    """The process died here; its memory is gone."""


class _Thread:
    """A thread that runs one job after the other, each time it is given the baton."""

    def __init__(self) -> None:
        self.baton = threading.Lock()
        self.baton.acquire()
        self.job: Callable[[], None] = lambda: None
        threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self) -> None:
        while True:
            self.baton.acquire()
            self.job()


class Task:
    """One actor in one run."""

    def __init__(self, name: str, thread: _Thread) -> None:
        self.name = name
        self.thread = thread
        self.baton = thread.baton
        self.wake_ms = 0
        self.done = self.leads = False


class Scheduler:
    """Runs actors to the end of ``steps`` storage calls.

    Attributes:
        now: simulated time in ms; moves a little at every step, and to the next waking when all
            sleep.
        steps: storage calls so far.
        trace: the steps, for people; recorded only when ``tracing``.
    """

    _free: ClassVar[list[_Thread]] = []

    def __init__(self, rng: random.Random, now: int, most_steps: int, *, tracing: bool = False) -> None:
        self._rng = rng
        self.now = now
        self._most = most_steps
        self.steps = 0
        self.tasks: list[Task] = []
        self.trace: list[str] = []
        self.tracing = tracing
        self.failure: BaseException | None = None
        self.current: Task | None = None
        self._over = False
        self._main = threading.Lock()
        self._main.acquire()

    def add(self, name: str, body: Callable[[], Any], *, leads: bool = False) -> Task:
        """An actor. The run ends when no actor that ``leads`` is left."""
        thread = self._free.pop() if self._free else _Thread()
        task = Task(name, thread)
        task.leads = leads
        thread.job = lambda: self._run(task, body)
        self.tasks.append(task)
        return task

    def run(self) -> None:
        """Until every actor is done, a failure is found or the steps are used up."""
        self._hand_on(None)
        self._main.acquire()
        self._over = True
        for task in self.tasks:  # unwind whoever still waits for the baton
            if not task.done:
                self.current = task
                task.baton.release()
                self._main.acquire()
        if self.failure is not None:
            raise self.failure

    def pause(self) -> None:
        """A step: another actor may go first. Called by the ports with the baton in hand."""
        task = self._running()
        self.steps += 1
        self.now += self._rng.randrange(1, 20)
        if self.steps >= self._most:
            self._finish(task)
        if self._hand_on(task) is not task:
            self._wait(task)

    def sleep(self, ms: int) -> None:
        """The actor does nothing for so long."""
        task = self._running()
        task.wake_ms = self.now + ms
        if self._hand_on(task) is not task:
            self._wait(task)

    @property
    def running(self) -> Task:
        """The actor that holds the baton."""
        return self._running()

    def fail(self, failure: BaseException) -> None:
        """The run has failed, even if an actor catches the exception."""
        if self.failure is None:
            self.failure = failure

    def _running(self) -> Task:
        if self._over or self.failure is not None or self.current is None:
            raise Killed
        return self.current

    def note(self, what: str) -> None:
        """A line of the trace."""
        if self.tracing:
            who = self.current.name if self.current else "-"
            self.trace.append(f"{self.steps:5d} {self.now % 10**10:>10d} {who:<12} {what}")

    # -- baton ----------------------------------------------------------------------------------------------------

    def _hand_on(self, task: Task | None) -> Task | None:
        """Pick the next actor; release its baton unless it is ``task`` itself."""
        ready = [one for one in self.tasks if not one.done and one.wake_ms <= self.now]
        if not ready:
            asleep = self._left()
            if not asleep:
                self.current = None
                self._main.release()
                return None
            self.now = min(one.wake_ms for one in asleep)
            ready = [one for one in asleep if one.wake_ms <= self.now]
        chosen = ready[int(self._rng.random() * len(ready))]
        self.current = chosen
        if chosen is not task:
            chosen.baton.release()
        return chosen

    def _left(self) -> list[Task]:
        return [one for one in self.tasks if not one.done]

    def _wait(self, task: Task) -> None:
        task.baton.acquire()
        if self._over:
            raise Killed

    def _finish(self, task: Task) -> None:
        self._main.release()
        task.baton.acquire()
        raise Killed

    def _run(self, task: Task, body: Callable[[], Any]) -> None:
        try:
            if not self._over:
                body()
        except Killed:
            pass
        except BaseException as failure:  # reported by the thread that called run()
            self.fail(failure)
        task.done = True
        self._free.append(task.thread)
        if self._over or self.failure is not None or (task.leads and not any(one.leads for one in self._left())):
            self._main.release()
        else:
            self._hand_on(task)
