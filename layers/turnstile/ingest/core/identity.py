"""The identity of a request with rows, and the order of a producer's requests (I26)."""

from __future__ import annotations

import uuid
from typing import Final

import msgspec

from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict
from turnstile_rows.commits import ProducerTxn

KEY: Final = "Idempotency-Key"
PRODUCER: Final = "Turnstile-Producer"
SEQUENCE: Final = "Turnstile-Sequence"

_IDS: Final = uuid.UUID("5f8c2b1e-7a40-4d0c-9a52-6c1f0f6f3d11")
_NAME_MOST: Final = 200
_SEQUENCE_MOST: Final = 2**63 - 1


class Identity(msgspec.Struct, frozen=True):
    """The identity of a request. ``txn``: the transaction id of its commit, the same for each
    attempt; empty for a request that has none. ``producer``: as the commit records it.
    """

    txn: str = ""
    producer: ProducerTxn | None = None


def identity_of(principal: str, key: str | None, producer: str | None, sequence: str | None) -> Identity:
    """Returns the identity of a request by its headers. It depends on the principal, so that no
    other one learns of the request. Raises InvalidRequest for headers that do not fit each other.
    """
    if producer is None and sequence is None:
        return Identity() if key is None else Identity(_id(principal, "key", key.lower()))
    if producer is None or sequence is None:
        missing = PRODUCER if producer is None else SEQUENCE
        raise InvalidRequest(
            f"{missing} is missing", field=missing, remedy=f"send {PRODUCER} and {SEQUENCE}, or neither"
        )
    if key is not None:
        raise InvalidRequest(f"{KEY} and {PRODUCER} are both there", field=KEY, remedy="send one of the two")
    if not 0 < len(producer) <= _NAME_MOST or not producer.isprintable():
        problem = f"{PRODUCER} is no name of 1 to {_NAME_MOST} printable characters"
        raise InvalidRequest(problem, field=PRODUCER)
    number = int(sequence) if sequence.isascii() and sequence.isdigit() and len(sequence) < 20 else -1
    if not 0 <= number <= _SEQUENCE_MOST:
        raise InvalidRequest(f"{SEQUENCE} is no whole number from 0 to {_SEQUENCE_MOST}", field=SEQUENCE)
    return Identity(_id(principal, "producer", producer, str(number)), ProducerTxn(producer, number))


def _id(*parts: str) -> str:
    return str(uuid.uuid5(_IDS, msgspec.json.encode(parts).decode()))


def sequence_passed(producer: ProducerTxn, last: int) -> StateConflict | None:
    """Returns the refusal of a request after which its producer has already added rows under
    ``last``, and which was not added itself; None if it may be added now."""
    if producer.sequence > last:
        return None
    return StateConflict(
        ErrorType.SEQUENCE_PASSED,
        f"producer {producer.producer!r} has added rows under sequence {last}, and {producer.sequence} was not added before",
        field=SEQUENCE,
        remedy=f"send these rows under a sequence after {last}; a producer sends one request after the other",
        last=last,
    )
