"""What passes between a server and the owner that it asks, and what each side may conclude from it (I3, I21). Pure.

    asker                                  owner
      request                      ->
                                   <-      "taken": somebody lives here
      "begin"                      ->
                                   <-      response

An owner that is frozen says nothing at "taken", so the asker knows that nothing happened and applies the change itself. Only between "begin" and
the response an outcome can be unknown: an owner that was told to begin may do so at any later time, also when the asker has gone.

Each side is a generator: it yields what has to be done on the connection, and is sent what was received. Whoever drives it throws in the OSError
of a connection that broke or of a time that is over, and closes the connection when the generator raises: what still comes on it belongs to a
request that nobody waits for.
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


class AskedRequest(msgspec.Struct, array_like=True):
    """A request as the caller sent it."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class AskedResponse(msgspec.Struct, array_like=True):
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
    """To send a word, or with ``framed`` a request or response, within so many seconds."""

    payload: bytes
    within_s: float
    framed: bool = False


class Receive(msgspec.Struct, frozen=True):
    """To receive the same."""

    within_s: float
    framed: bool = False


class Answer(msgspec.Struct, frozen=True):
    """To carry out a request, and give back its response."""

    request: AskedRequest


Step = Send | Receive | Answer

encode: Final = msgspec.msgpack.Encoder().encode
_request: Final = msgspec.msgpack.Decoder(AskedRequest).decode
_response: Final = msgspec.msgpack.Decoder(AskedResponse).decode


def asking(request: bytes) -> Generator[Step, bytes, AskedResponse]:
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
    """The owner's side of one request. Raises OSError, DecodeError: the connection is of no use any more."""
    request = _request((yield Receive(IDLE_S, framed=True)))
    yield Send(TAKEN, ANSWER_S)
    _require((yield Receive(ANSWER_S)), BEGIN)
    yield Send((yield Answer(request)), ANSWER_S, framed=True)


def _require(received: bytes, word: bytes) -> None:
    if received != word:
        raise ConnectionError("no word of this protocol")


class Then(Enum):
    """What a server does with a request for which it asked an owner."""

    ANSWER = "it hands on the owner's response"
    HERE = "it applies the change itself"
    UNKNOWN = "it says that the outcome is unknown"


_UNAUTHENTICATED: Final = 401

_REMEMBERED: Final = frozenset({400, 406, 409, 413, 422})
"""Statuses of refusals that a key remembers, or that no other attempt would be spared. 404 is not among them: that of somebody whose rights are
gone is not remembered."""


def after_asking(outcome: AskedResponse | Failed, *, has_key: bool) -> Then:
    """Returns what to do. ``has_key``: the request has an idempotency key, or is a commit, which its transaction identifies: whoever applies it second
    finds what the first one did (I3).

    An owner that answers 401 accepts other tokens than this server, which has accepted the caller's, and did nothing."""
    if isinstance(outcome, AskedResponse):
        return Then.HERE if outcome.status == _UNAUTHENTICATED else Then.ANSWER
    if outcome.reached is Reached.STARTED and not has_key:
        return Then.UNKNOWN
    return Then.HERE


def after_applying(outcome: AskedResponse | Failed, status: int, *, is_commit: bool = False) -> Then:
    """Returns what to do with the response that a request got here after its owner had been asked: ``HERE``: hand it on; ``UNKNOWN``.

    The owner may have applied the change, or may do so yet, if it was told to begin. So a refusal that the key does not remember says nothing of
    what the owner does, and the caller must not take it for a change that was not made (I21). No refusal of a table's commit is remembered
    (``is_commit``): whoever sends the same proposal again is told which ones are final (I3)."""
    if isinstance(outcome, AskedResponse) or outcome.reached is not Reached.STARTED:
        return Then.HERE
    return Then.HERE if status < 300 or (status in _REMEMBERED and not is_commit) else Then.UNKNOWN
