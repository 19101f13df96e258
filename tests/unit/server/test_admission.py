"""Requests that a server admits, and the end of requests with a body that does not come (I12)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from turnstile.api.http.request import MAX_BODY, BodyLimit
from turnstile.api.http.responses import Response
from turnstile.rights.grants import Principal
from turnstile.store.core.errors import NotAuthenticated, Throttled, TurnstileError
from turnstile.store.shares import Shares
from turnstile_server.admission import Admission, Visit
from turnstile_server.supervisor import most_connections


class ByName:
    """The header is the principal's name."""

    def principal(self, authorization: str, _context: Any) -> Principal:
        if not authorization:
            raise NotAuthenticated("no token")
        return Principal(authorization)


def refuse(error: TurnstileError) -> Response:
    return Response(429, {}, error.message.encode())


class Sender:
    """A body that comes when a test says so, or when its request was answered early."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.over = threading.Event()

    def read(self, _limit: Any) -> bytes:
        self.begun.set()
        self.over.wait()
        return b"{}"


class Door:
    """An admission of 16 places and 2 turns, a clock, and the answers that were given early."""

    def __init__(self, turns: int = 2) -> None:
        self.now_s = 0.0
        self.senders = dict[int, Sender]()
        self.early = list[Response]()
        self.admission = Admission(
            ByName(), turns, places=16, body_s=30, clock_s=lambda: self.now_s, end=self._end  # type: ignore[arg-type]
        )  # fmt: skip
        self.pool = ThreadPoolExecutor(32)

    def _end(self, thread: int, response: Response) -> None:
        self.early.append(response)
        self.senders[thread].over.set()

    def slow(self, name: str, length: int = 0) -> tuple[Sender, Any]:
        """Begins a request with a body that does not come."""
        sender = Sender()

        def run() -> bytes:
            visit = self.admission.enter(name, refuse)
            self.senders[threading.get_ident()] = sender
            try:
                return self.admission.read(visit, sender.read, None, length)
            finally:
                self.admission.leave(visit)

        future = self.pool.submit(run)
        if not future.done():
            while not sender.begun.wait(0.01) and not future.done():
                pass
        return sender, future

    @contextmanager
    def working(self, name: str) -> Iterator[Visit]:
        visit = self.admission.enter(name, refuse)
        try:
            self.admission.read(visit, lambda _limit: b"{}", None, 0)
            yield visit
        finally:
            self.admission.leave(visit)


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door()
    yield door
    for sender in door.senders.values():
        sender.over.set()
    door.pool.shutdown()


def test_i12_a_request_that_leaves_twice_gives_one_turn_back() -> None:
    """As a request that was answered early, with a thread that ends later."""
    door = Door(turns=1)
    with door.working("honest") as visit:
        door.admission.leave(visit)
    assert door.admission._turns.qsize() == 1


def test_i12_bodies_that_do_not_come_hold_no_turn(door: Door) -> None:
    for _ in range(4):
        door.slow("slow")
    with door.working("honest"), door.working("honest"):
        pass


def test_i12_a_body_that_does_not_come_in_time_is_refused_and_its_thread_is_free(door: Door) -> None:
    _, late = door.slow("slow")
    door.now_s = 29.9
    door.admission.end_late()
    assert not door.early
    door.now_s = 30
    door.admission.end_late()
    with pytest.raises(Throttled, match="did not come in time"):
        late.result()
    assert [response.status for response in door.early] == [429]


def test_a_long_body_has_more_time(door: Door) -> None:
    sender, long = door.slow("slow", 655_360)
    door.now_s = 39
    door.admission.end_late()
    sender.over.set()
    assert long.result() == b"{}" and not door.early


def test_i3_a_body_that_came_is_never_refused_as_late(door: Door) -> None:
    with door.working("honest"):
        door.now_s = 1_000
        door.admission.end_late()
    assert not door.early


def test_i12_a_principal_has_its_share_of_the_places_once_half_are_taken(door: Door) -> None:
    for _ in range(9):
        door.slow("slow")
    _, refused = door.slow("slow")
    with pytest.raises(Throttled, match="share"):
        refused.result()
    with door.working("honest"):
        pass


def test_i12_the_share_is_an_eighth_of_the_places_and_each_principals_own(door: Door) -> None:
    for number in range(7):
        door.admission.enter(f"p{number}", refuse)
    for name in ("slow", "other"):
        waiting = [door.slow(name)[1] for _ in range(2)]
        assert not any(future.done() for future in waiting)
        with pytest.raises(Throttled, match="share"):
            door.slow(name)[1].result()


def test_i12_large_bodies_have_a_bound_and_a_principal_half_of_it(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile_server.admission.LARGE", 4)
    limit = BodyLimit(MAX_BODY + 1, "too large")

    def begin(name: str, length: int = MAX_BODY + 1) -> Visit:
        visit = door.admission.enter(name, refuse)
        door.admission.read(visit, lambda _limit: b"{}", limit, length)
        return visit

    door.admission.take_turn = lambda _visit: None  # type: ignore[method-assign]
    first = begin("a")
    begin("a", 0)  # in chunks: as large as it may be
    with pytest.raises(Throttled, match="large bodies"):
        begin("a")
    begin("a", MAX_BODY)
    begin("b")
    begin("b")
    with pytest.raises(Throttled, match="large bodies"):
        begin("c")
    door.admission.leave(first)
    begin("c")


def test_i12_without_a_place_a_request_is_refused_at_once(door: Door) -> None:
    visits = [door.admission.enter(f"p{number}", refuse) for number in range(16)]
    with pytest.raises(Throttled) as refused:
        door.admission.enter("honest", refuse)
    assert refused.value.details["retry_after_ms"] == 1_000
    door.admission.leave(visits[0])
    door.admission.leave(door.admission.enter("honest", refuse))


def test_i12_requests_without_a_token_have_a_quarter_of_the_turns(door: Door) -> None:
    sender = Sender()
    read = partial(door.admission.read_of_stranger, limit=None, length=0)
    first = door.pool.submit(lambda: read(door.admission.enter("", refuse), sender.read))
    sender.begun.wait()
    with pytest.raises(Throttled, match="without a token"):
        read(door.admission.enter("", refuse), sender.read)
    sender.over.set()
    assert first.result() == b"{}"


def test_as_many_are_worked_on_as_there_are_turns_and_a_resting_request_lends_its_own(door: Door) -> None:
    began = threading.Event()

    def work() -> None:
        with door.working("third"):
            began.set()

    with door.working("first") as first, door.working("second"):
        third = door.pool.submit(work)
        assert not third.done()
        with door.admission.rest(first):
            began.wait()
            third.result()


def test_a_turn_is_free_again_after_a_body_that_is_refused(door: Door) -> None:
    def cut(_limit: Any) -> bytes:
        raise Throttled("no")

    for _ in range(4):
        visit = door.admission.enter("a", refuse)
        with pytest.raises(Throttled):
            door.admission.read(visit, cut, None, 0)
        door.admission.leave(visit)
    with door.working("a"), door.working("a"):
        pass


def test_i12_waits_for_events_are_shared_between_principals() -> None:
    waits = Shares(most=3, each=2)
    assert [waits.begin("a") for _ in range(3)] == [True, True, False]
    assert [waits.begin("b") for _ in range(2)] == [True, False], "the third wait of all"
    waits.end("a")
    assert waits.begin("b") and not waits.begin("a")


@pytest.mark.parametrize(("files", "connections"), [(20_000, 19_488), (1_024, 512), (256, 128)])
def test_connections_leave_files_for_store_and_lake(files: int, connections: int) -> None:
    assert most_connections(files) == connections
