"""A queue for requests of one process that change the same row: they form a line, and the first one
leads and writes for several of them.

    a request comes    1  it joins the line of its row
                       2  the first of the line leads; the others wait, and find their outcome there
    the leader         1  takes the requests that wait, up to a limit
                       2  applies as many of them together as it can, and gives each its outcome;
                          the others stay in the line
                       3  when its own request has an outcome, the next of the line leads

The callers decide which requests are applied together, and the answers:
``catalog.changes.group_commit`` and ``delta.ratify``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from turnstile.store.core.errors import OutcomeUnknown, Throttled
from turnstile.store.core.writes import Row

WAITING_MOST: Final = 1024
"""Requests that wait in one line at most; further ones get Throttled."""

RETRY_MS: Final = 500

T = TypeVar("T")


class LeftLine(Exception):
    """The line did not move: the request has left it, and nothing of it was applied."""


def copy_of(error: Exception) -> Exception:
    """Returns the same error for another request; its caller may add to it."""
    twin = type(error).__new__(type(error), *error.args)
    twin.__dict__.update(error.__dict__)
    return twin


class Turn:
    """An event that is set once, and that one thread waits for: ``threading.Event`` takes ten
    times as long to make, and most are never waited for."""

    __slots__ = ("_closed", "_is_set")

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        if not self._is_set:
            self._is_set = True
            with contextlib.suppress(RuntimeError):  # another thread did at the same moment
                self._closed.release()

    def wait(self, seconds: float = -1) -> bool:
        """Returns whether it was set, after ``seconds`` at most; -1: after any time."""
        return self._is_set or self._closed.acquire(timeout=seconds)


class Waiting(Generic[T]):
    """A request in a line, with a ``T`` or an error as its outcome.

    Attributes:
        turn: set when it has an outcome, or is to lead.
        taken: whether a leader is applying it: it cannot leave its line.
        alone: it has to be applied without others.
    """

    def __init__(self) -> None:
        self._outcome: T | BaseException | None = None
        self.turn = Turn()
        self.taken = False
        self.alone = False

    @property
    def is_settled(self) -> bool:
        return self._outcome is not None

    def settle(self, outcome: T | BaseException) -> None:
        """Gives the request its outcome; the first one counts."""
        if self._outcome is None:
            self._outcome = outcome

    def outcome(self) -> T:
        """Returns the outcome, or raises it. Requires that there is one."""
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        assert self._outcome is not None
        return self._outcome


W = TypeVar("W", bound=Waiting)  # type: ignore[type-arg]


class Line(Generic[W]):
    """The requests for one row that wait, in order of arrival. ``row``: as the last write left it,
    which may be old by now; None if it is unknown."""

    def __init__(self) -> None:
        self.waiting: list[W] = []
        self.row: Row | None = None


class WaitingQueue(Generic[W]):
    """The lines of a process, by row. Safe for threads.

    Args:
        group: how many requests a leader takes at most.
        what: the kind of requests, for the error that too many wait.
    """

    def __init__(self, group: int, what: str, most: int = WAITING_MOST) -> None:
        self._group = group
        self._what = what
        self._most = most
        self._mutex = threading.Lock()
        self._lines: dict[str, Line[W]] = {}
        self._leading = threading.local()

    def apply(self, name: str, waiting: W, lead: Callable[[Line[W]], None], patience_ms: int) -> None:
        """Waits in a line until ``waiting`` has an outcome; ``lead`` is called in this thread if
        that is its part.

        Raises:
            Throttled: too many requests wait.
            LeftLine: the line did not move for ``patience_ms``, or this thread leads already.
            OutcomeUnknown: the leader has not ended.
        """
        if getattr(self._leading, "now", False):  # a request that makes another one would wait for itself
            raise LeftLine
        line, leads = self._join(name, waiting)
        if not leads and not self._wait(waiting, patience_ms / 1000):
            if self._leave(line, waiting):
                raise LeftLine
            if not self._wait(waiting, 4 * patience_ms / 1000):
                raise OutcomeUnknown("the change is being applied by another thread, which has not ended")
        if not waiting.is_settled:
            self._leading.now = True
            try:
                lead(line)
            finally:
                self._leading.now = False
                if not waiting.is_settled:
                    waiting.settle(OutcomeUnknown("the process that applies the change is ending"))
                self._hand_over(name, line)

    def take(self, line: Line[W]) -> list[W]:
        """Returns the requests that make the next group; they cannot leave the line any more."""
        with self._mutex:
            group = line.waiting[: self._group]
            group = group[:1] if group[0].alone else [waiting for waiting in group if not waiting.alone]
            for waiting in group:
                waiting.taken = True
            return group

    def release(self, line: Line[W], group: Sequence[W], leader: W) -> None:
        """Lets the members of ``group`` go that have an outcome; the others keep their place in the
        line."""
        with self._mutex:
            line.waiting = [waiting for waiting in line.waiting if not waiting.is_settled]
            for waiting in group:
                waiting.taken = False
        for waiting in group:
            if waiting.is_settled and waiting is not leader:
                self._wake(waiting)

    def _join(self, name: str, waiting: W) -> tuple[Line[W], bool]:
        with self._mutex:
            line = self._lines.get(name)
            leads = line is None
            if line is None:
                line = self._lines[name] = Line()
            if len(line.waiting) >= self._most:
                raise Throttled(f"{self._most} {self._what} wait in this server", retry_after_ms=RETRY_MS)
            line.waiting.append(waiting)
            return line, leads

    def _leave(self, line: Line[W], waiting: W) -> bool:
        """Takes a request out of its line, unless a leader is applying it, or it has an outcome, or
        is to lead."""
        with self._mutex:
            if waiting.taken or waiting.turn.is_set() or waiting not in line.waiting:
                return False
            line.waiting.remove(waiting)
            return True

    def _hand_over(self, name: str, line: Line[W]) -> None:
        """Lets the next one lead, or closes the line."""
        with self._mutex:
            line.waiting = [waiting for waiting in line.waiting if not waiting.is_settled]
            if not line.waiting:
                del self._lines[name]
                return
            following = line.waiting[0]
            self._wake(following)

    def _wait(self, waiting: W, seconds: float) -> bool:
        return waiting.turn.wait(seconds)

    def _wake(self, waiting: W) -> None:
        waiting.turn.set()
