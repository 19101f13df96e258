"""The exchange between a server and the owner to which it forwards a request, and the conclusions
that each side may draw (I3, I21). Pure.

    server                                 owner
      request                      ->
                                   <-      "taken": the owner is alive
      "begin"                      ->
                                   <-      response

A frozen owner does not answer "taken". Then the server knows that nothing happened, and applies the
change itself. The outcome can be unknown only between "begin" and the response: an owner that has
received "begin" may apply the change at any later time, even after the server is gone.

Each side is a generator. It yields the next action on the connection, and is sent the bytes that
were received. The driver throws the OSError of a broken connection or of a timeout into the
generator. It closes the connection when the generator raises, because later bytes belong to a
request that is over.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import Final

import msgspec

TAKEN_S: Final = 0.5
ANSWER_S: Final = 20.0
"""How long an asker waits: longer than a change tries."""

IDLE_S: Final = 60.0

TAKEN: Final = b"\x01"
BEGIN: Final = b"\x02"


class ForwardedRequest(msgspec.Struct, array_like=True):
    """A request as the caller sent it."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class ForwardedResponse(msgspec.Struct, array_like=True):
    """The owner's response to it."""

    status: int
    headers: dict[str, str]
    body: bytes


class Reached(Enum):
    """How far a request came before it failed."""

    NOT_SENT = "no connection, or one that was closed before anything was sent"
    NOT_STARTED = "it was sent, and the owner was not told to begin"
    STARTED = "the owner was told to begin, and did not answer"


class Failed(Exception):
    """There is no answer of the owner. ``reached``: how far the request came."""

    def __init__(self, reached: Reached, why: object) -> None:
        super().__init__(f"{reached.value}: {why}")
        self.reached = reached


class Send(msgspec.Struct, frozen=True):
    """A step: send a word, or with ``framed`` a request or response, within so many seconds."""

    payload: bytes
    within_s: float
    framed: bool = False


class Receive(msgspec.Struct, frozen=True):
    """A step: receive a word, or with ``framed`` a request or response, within so many seconds."""

    within_s: float
    framed: bool = False


class Answer(msgspec.Struct, frozen=True):
    """A step: carry out the request, and return its response."""

    request: ForwardedRequest


Step = Send | Receive | Answer

encode: Final = msgspec.msgpack.Encoder().encode
_request: Final = msgspec.msgpack.Decoder(ForwardedRequest).decode
_response: Final = msgspec.msgpack.Decoder(ForwardedResponse).decode


def asking(request: bytes) -> Generator[Step, bytes, ForwardedResponse]:
    """The asker's side of an encoded request. Returns the owner's response; raises Failed."""
    reached = Reached.NOT_STARTED
    try:
        yield Send(request, TAKEN_S, framed=True)
        _require((yield Receive(TAKEN_S)), TAKEN)
        reached = Reached.STARTED  # from here on the word may arrive, whatever sending it comes to
        yield Send(BEGIN, ANSWER_S)
        return _response((yield Receive(ANSWER_S, framed=True)))
    except (OSError, msgspec.DecodeError) as error:
        raise Failed(reached, error) from error


def answering() -> Generator[Step, bytes, None]:
    """The owner's side of one request. Raises OSError, DecodeError: the connection is of no use any
    more."""
    request = _request((yield Receive(IDLE_S, framed=True)))
    yield Send(TAKEN, ANSWER_S)
    _require((yield Receive(ANSWER_S)), BEGIN)
    yield Send((yield Answer(request)), ANSWER_S, framed=True)


def _require(received: bytes, word: bytes) -> None:
    if received != word:
        raise ConnectionError("no word of this protocol")


class Then(Enum):
    """The actions of a server that has forwarded a request to an owner."""

    ANSWER = "it hands on the owner's response"
    HERE = "it applies the change itself"
    UNKNOWN = "it says that the outcome is unknown"


_UNAUTHENTICATED: Final = 401

_REMEMBERED: Final = frozenset({400, 406, 409, 413, 422})
"""Statuses of refusals that are stored under the idempotency key, or that every other attempt would
get, too. 404 is not among them: the 404 of a principal without rights is not stored."""


def after_asking(outcome: ForwardedResponse | Failed, *, has_key: bool) -> Then:
    """Returns the next action. ``has_key``: the request has an idempotency key, or is a commit,
    which its transaction identifies. Then a second attempt finds the result of the first one (I3).

    An owner that answers 401 has not applied anything: its tokens differ from the tokens of this
    server, which has accepted the caller's token.
    """
    if isinstance(outcome, ForwardedResponse):
        return Then.HERE if outcome.status == _UNAUTHENTICATED else Then.ANSWER
    if outcome.reached is Reached.STARTED and not has_key:
        return Then.UNKNOWN
    return Then.HERE


def after_applying(outcome: ForwardedResponse | Failed, status: int, *, is_commit: bool = False) -> Then:
    """Returns the action for the response of this server to a request that was forwarded before:
    ``HERE``: return it; ``UNKNOWN``.

    An owner that has received "begin" may have applied the change, or may still apply it. A refusal
    that is not stored under the key says nothing about that, so the caller must not conclude that
    the change was not made (I21). Refusals of a table's commit are never stored (``is_commit``): a
    client that sends the same proposal again learns which of them are final (I3).
    """
    if isinstance(outcome, ForwardedResponse) or outcome.reached is not Reached.STARTED:
        return Then.HERE
    return Then.HERE if status < 300 or (status in _REMEMBERED and not is_commit) else Then.UNKNOWN
