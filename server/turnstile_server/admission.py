"""Limits on requests: how many are open, how long their bodies may take, and how many are worked on
at once (I12).

    enter     a request takes a place. There are far more places than threads that work, so that
              slow
              senders do not occupy the threads. Health checks need no place: the process has spare
              threads for them
    read      its body arrives, within a time limit; then the request takes one of the turns, of
              which
              the setting ``threads`` gives the number
    rest      it waits for work of another process or thread, and lends its turn meanwhile
    leave     turn and place are free again

Once half of the places are taken, a principal may have an eighth of them. Bodies that may be over
the usual limit, as those with rows, are in memory at once up to ``LARGE``; a principal may have
half of these.

A thread of granian that waits for a body cannot be interrupted. Another thread answers a request
with a late body (``answer_early``). The first thread is free when the sender has read that answer
and closed the connection. A sender that does not close it keeps the place, which counts against the
share of its principal.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final

from turnstile.api.auth.bearer import Authentication
from turnstile.api.http.request import MAX_BODY, BodyLimit
from turnstile.api.http.responses import Response
from turnstile.store.core.errors import Throttled, TurnstileError

PLACES: Final = 1_024
SPARE_THREADS: Final = 16
"""Threads beyond the number of places, for health checks and refusals."""

LARGE: Final = 32
"""Requests at once with bodies that are, or may become, larger than ``MAX_BODY``."""

BODY_BYTES_A_S: Final = 65_536
"""A body has a second more for as many bytes of the length that its sender names."""

_TICK_S: Final = 0.5
_RETRY_MS: Final = 1_000

log = logging.getLogger("turnstile.admission")


class Visit:
    """A request that has a place."""

    __slots__ = ("authorization", "due_s", "has_turn", "is_large", "name", "refuse", "thread")

    def __init__(self, authorization: str, refuse: Callable[[TurnstileError], Response]) -> None:
        self.authorization = authorization
        self.refuse = refuse
        self.name: str | None = None
        self.has_turn = False
        self.is_large = False
        self.due_s = 0.0
        self.thread = 0


class Admission:
    """Lets requests in. Safe for threads; each visit is of one thread.

    Args:
        turns: requests that are worked on at once.
        places: requests that are inside at once.
        body_s: how long a short body may take.
        end: ends the wait for the body of a visit with a response; ``answer_early`` unless a test
            says otherwise.
    """

    def __init__(
        self, authentication: Authentication, turns: int, *, places: int = PLACES, body_s: float,
        clock_s: Callable[[], float] = time.monotonic, end: Callable[[int, Response], None] | None = None,
    ) -> None:  # fmt: skip
        self._authentication = authentication
        self._places = places
        self._body_s = body_s
        self._clock_s = clock_s
        self._end = end or answer_early
        self._visits = dict[Visit, None]()
        self._reading = dict[Visit, None]()
        self._turns: SimpleQueue[None] = SimpleQueue()
        for _ in range(turns):
            self._turns.put(None)
        self._answering = threading.Lock()
        self._strangers = threading.Semaphore(max(1, turns // 4))

    def watch(self) -> None:
        """Starts the thread that ends requests whose time limit has passed."""
        threading.Thread(target=self._watch, name="admission", daemon=True).start()

    def enter(self, authorization: str, refuse: Callable[[TurnstileError], Response]) -> Visit:
        """Gives a place to a request. Requires a call of ``leave`` afterwards. Raises Throttled if
        no place is free.

        Args:
            authorization: the request's header that names its sender.
            refuse: makes the response from an error.
        """
        if len(self._visits) >= self._places:
            raise Throttled("the server has as many requests as it takes at once", retry_after_ms=_RETRY_MS)
        visit = Visit(authorization, refuse)
        self._visits[visit] = None
        return visit

    def leave(self, visit: Visit) -> None:
        """Frees the turn and the place of a request."""
        if visit.has_turn:
            self._turns.put(None)
            visit.has_turn = False
        self._visits.pop(visit, None)

    def read(
        self, visit: Visit, read: Callable[[BodyLimit | None], bytes], limit: BodyLimit | None, length: int
    ) -> bytes:
        """Returns the result of ``read`` once the request has a turn. Requires that the sender is
        authenticated.

        Args:
            length: the size of the body in bytes by its header; 0: it comes in chunks.

        Raises:
            Throttled: the principal has used its share of the places, or the body did not arrive in
                time; nothing was applied.
        """
        if 2 * len(self._visits) > self._places:
            self._require_share(visit)
        if limit is not None and limit.bytes > MAX_BODY and not 0 < length <= MAX_BODY:
            self._require_large_share(visit)
        visit.due_s = self._clock_s() + self._body_s + length / BODY_BYTES_A_S
        visit.thread = threading.get_ident()
        self._reading[visit] = None
        late: TurnstileError | None = None
        try:
            body = read(limit)
        finally:
            if not self._forget(visit):
                with self._answering:  # the thread stays in this request until it was answered
                    late = _late()
        if late is not None:
            raise late
        self.take_turn(visit)
        return body

    def read_of_stranger(
        self, visit: Visit, read: Callable[[BodyLimit | None], bytes], limit: BodyLimit | None, length: int
    ) -> bytes:
        """As ``read``, of a request that carries no token; such requests have a quarter of the
        turns. Raises Throttled beyond."""
        if not self._strangers.acquire(blocking=False):
            raise Throttled("too many requests without a token are being received", retry_after_ms=_RETRY_MS)
        try:
            return self.read(visit, read, limit, length)
        finally:
            self._strangers.release()

    def take_turn(self, visit: Visit) -> None:
        """Waits until the request may be worked on; the one that has waited longest is first."""
        if not visit.has_turn:
            self._turns.get()
            visit.has_turn = True

    @contextmanager
    def rest(self, visit: Visit) -> Iterator[None]:
        """Lends the turn of the request to others while it waits."""
        if visit.has_turn:
            visit.has_turn = False
            self._turns.put(None)
        try:
            yield
        finally:
            self.take_turn(visit)

    def end_late(self) -> None:
        """Answers the requests with bodies that did not arrive in time."""
        now_s = self._clock_s()
        for visit in list(self._reading):
            if visit.due_s <= now_s:
                with self._answering:
                    if self._forget(visit):
                        self._end(visit.thread, visit.refuse(_late()))

    def _watch(self) -> None:
        while True:
            time.sleep(_TICK_S)
            try:
                self.end_late()
            except Exception:  # the next one is looked at all the same
                log.exception("a request with a late body could not be answered")

    def _require_share(self, visit: Visit) -> None:
        """Raises Throttled where the principal has its share."""
        name = self._name(visit)
        if sum(self._name(other) == name for other in list(self._visits)) > self._places // 8:
            text = "this principal has its share of the requests that the server takes at once"
            raise Throttled(text, retry_after_ms=_RETRY_MS)

    def _require_large_share(self, visit: Visit) -> None:
        """Raises Throttled where as many large bodies are in memory as may be, or as this principal
        may have."""
        visit.is_large = True
        large = [other for other in list(self._visits) if other.is_large]
        name = self._name(visit)
        if len(large) > LARGE or sum(self._name(other) == name for other in large) > LARGE // 2:
            visit.is_large = False
            raise Throttled("as many large bodies as the server takes at once are here", retry_after_ms=_RETRY_MS)

    def _name(self, visit: Visit) -> str:
        if visit.name is None:
            try:
                visit.name = self._authentication.principal(visit.authorization, {}).name
            except TurnstileError:
                visit.name = ""
        return visit.name

    def _forget(self, visit: Visit) -> bool:
        """Whether this call ended the reading. Its thread and the watching thread both try; only
        the first of them does."""
        try:
            del self._reading[visit]
        except KeyError:
            return False
        return True


def _late() -> Throttled:
    return Throttled("the body of the request did not come in time, and nothing was applied", retry_after_ms=_RETRY_MS)


def answer_early(thread: int, response: Response) -> None:
    """Answers the request that a thread of granian works on, before the application does.

    granian hands an application nothing to do so with; the frame that called it has the protocol of
    the request. Requires that the thread stays in that request until this returns.
    """
    frame: FrameType | None = sys._current_frames().get(thread)  # noqa: SLF001 - no other name has it
    while frame is not None:
        protocol: Any = frame.f_locals.get("proto") if frame.f_globals.get("__name__") == "granian.wsgi" else None
        if protocol is not None:
            headers = [(name.lower(), value) for name, value in response.headers.items()]
            length = ("content-length", str(len(response.body)))
            protocol.response_bytes(response.status, [*headers, length, ("connection", "close")], response.body)
            return
        frame = frame.f_back
