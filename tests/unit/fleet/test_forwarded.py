"""Messages between a server and the owner that it asks, step by step, and the resulting outcome
(I3, I21)."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from turnstile.fleet.core.forwarded import (
    ANSWER_S,
    BEGIN,
    IDLE_S,
    TAKEN,
    TAKEN_S,
    Answer,
    Failed,
    ForwardedRequest,
    ForwardedResponse,
    Reached,
    Receive,
    Send,
    Then,
    after_applying,
    after_asking,
    answering,
    asking,
    encode,
)

REQUEST = ForwardedRequest("POST", "/v1/catalogs/main/namespaces", "", {}, b"{}")
RESPONSE = ForwardedResponse(201, {}, b"done")
ASKERS_STEPS = (
    (Send(b"request", TAKEN_S, framed=True), b""),
    (Receive(TAKEN_S), TAKEN),
    (Send(BEGIN, ANSWER_S), b""),
    (Receive(ANSWER_S, framed=True), encode(RESPONSE)),
)
OWNERS_STEPS = (
    (Receive(IDLE_S, framed=True), encode(REQUEST)),
    (Send(TAKEN, ANSWER_S), b""),
    (Receive(ANSWER_S), BEGIN),
    (Answer(REQUEST), encode(RESPONSE)),
    (Send(encode(RESPONSE), ANSWER_S, framed=True), b""),
)


def driven(side: Generator[Any, bytes, Any], steps: Any) -> Any:
    """What a side returns that is given what it receives at each of its steps."""
    step = next(side)
    for expected, received in steps:
        assert step == expected
        try:
            step = side.send(received)
        except StopIteration as ended:
            return ended.value
    return step


def test_a_request_is_taken_then_begun_then_answered() -> None:
    assert driven(asking(b"request"), ASKERS_STEPS) == RESPONSE
    assert driven(answering(), OWNERS_STEPS) is None


@pytest.mark.parametrize(("steps", "reached"), [(0, "NOT_STARTED"), (1, "NOT_STARTED"), (2, "STARTED"), (3, "STARTED")])
def test_i3_an_outcome_is_open_from_the_moment_when_the_owner_may_begin(steps: int, reached: str) -> None:
    side = asking(b"request")
    step = driven(side, ASKERS_STEPS[:steps])
    assert step == ASKERS_STEPS[steps][0]
    with pytest.raises(Failed) as failed:
        side.throw(TimeoutError("nothing came"))
    assert failed.value.reached is Reached[reached]


def test_i3_an_owner_that_says_another_word_has_not_taken_the_request_and_may_not_begin() -> None:
    side = asking(b"request")
    driven(side, ASKERS_STEPS[:1])
    with pytest.raises(Failed) as failed:
        side.send(BEGIN)
    assert failed.value.reached is Reached.NOT_STARTED


def test_i3_a_response_that_cannot_be_read_leaves_the_outcome_open() -> None:
    side = asking(b"request")
    driven(side, ASKERS_STEPS[:3])
    with pytest.raises(Failed) as failed:
        side.send(b"\xff")
    assert failed.value.reached is Reached.STARTED


@pytest.mark.parametrize("word", [TAKEN, b"", b"\x00"])
def test_i3_an_owner_begins_at_the_word_only(word: bytes) -> None:
    side = answering()
    driven(side, OWNERS_STEPS[:2])
    with pytest.raises(ConnectionError):
        side.send(word)


def test_i3_an_owner_that_hears_nothing_does_not_begin() -> None:
    side = answering()
    driven(side, OWNERS_STEPS[:2])
    with pytest.raises(TimeoutError):
        side.throw(TimeoutError())


def test_what_is_no_request_is_not_taken() -> None:
    side = answering()
    next(side)
    with pytest.raises(msgspec.DecodeError):
        side.send(b"\xff")


@pytest.mark.parametrize("has_key", [True, False])
def test_a_request_that_did_not_begin_is_applied_here(has_key: bool) -> None:
    for reached in (Reached.NOT_SENT, Reached.NOT_STARTED):
        assert after_asking(Failed(reached, "x"), has_key=has_key) is Then.HERE
        assert after_applying(Failed(reached, "x"), 503) is Then.HERE


def test_i3_a_request_that_may_have_been_applied_is_unknown_unless_its_key_tells() -> None:
    assert after_asking(Failed(Reached.STARTED, "x"), has_key=False) is Then.UNKNOWN
    assert after_asking(Failed(Reached.STARTED, "x"), has_key=True) is Then.HERE


@pytest.mark.parametrize("has_key", [True, False])
def test_the_owners_response_is_the_answer_unless_it_does_not_know_the_caller(has_key: bool) -> None:
    for status in (201, 400, 402, 404, 429, 503):
        assert after_asking(ForwardedResponse(status, {}, b""), has_key=has_key) is Then.ANSWER
    assert after_asking(ForwardedResponse(401, {}, b""), has_key=has_key) is Then.HERE
    assert after_applying(ForwardedResponse(401, {}, b""), 503) is Then.HERE


def test_i21_after_the_owner_may_begin_only_what_the_key_remembers_is_answered() -> None:
    began = Failed(Reached.STARTED, "x")
    assert {after_applying(began, status) for status in (200, 201, 204, 299, 400, 406, 409, 413, 422)} == {Then.HERE}
    assert {after_applying(began, status) for status in (300, 401, 403, 404, 429, 500, 503)} == {Then.UNKNOWN}
