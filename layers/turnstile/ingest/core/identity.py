"""The identity of a request with rows, and the row by which the store remembers it (I26).

The row of a request is written in the transaction that ratifies the commit with its rows. It names
that commit's transaction, from which the version follows. So however often a request is sent, and
whichever process gets it, one commit has its rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from turnstile.catalog.core.request_rows import DONE, RequestOutcome
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.writes import Insert, Row, new_row

KEY: Final = "Idempotency-Key"
PRODUCER: Final = "Turnstile-Producer"
SEQUENCE: Final = "Turnstile-Sequence"

_NAME_MOST: Final = 200
_SEQUENCE_MOST: Final = 2**63 - 1


class Identity(msgspec.Struct, frozen=True):
    """The identity of a request of ``principal``: an idempotency ``key``, or a ``sequence`` of a
    ``producer``; or none."""

    principal: str = ""
    key: str = ""
    producer: str = ""
    sequence: int = 0

    @property
    def text(self) -> str:
        """The identity below its principal; empty for none."""
        if self.producer:
            return f"producer/{self.sequence}/{self.producer}"
        return f"key/{self.key}" if self.key else ""


def identity_of(principal: str, key: str | None, producer: str | None, sequence: str | None) -> Identity:
    """Returns the identity of a request by its headers. It is the principal's, so that no other one
    learns of the request. Raises InvalidRequest for headers that do not fit each other.
    """
    if producer is None and sequence is None:
        return Identity(principal, key=(key or "").lower())
    if producer is None or sequence is None:
        missing = PRODUCER if producer is None else SEQUENCE
        remedy = f"send {PRODUCER} and {SEQUENCE}, or neither"
        raise InvalidRequest(f"{missing} is missing", field=missing, remedy=remedy)
    if key is not None:
        raise InvalidRequest(f"{KEY} and {PRODUCER} are both there", field=KEY, remedy="send one of the two")
    if not 0 < len(producer) <= _NAME_MOST or not producer.isprintable():
        problem = f"{PRODUCER} is no name of 1 to {_NAME_MOST} printable characters"
        raise InvalidRequest(problem, field=PRODUCER)
    number = int(sequence) if sequence.isascii() and sequence.isdigit() and len(sequence) < 20 else -1
    if not 0 <= number <= _SEQUENCE_MOST:
        raise InvalidRequest(f"{SEQUENCE} is no whole number from 0 to {_SEQUENCE_MOST}", field=SEQUENCE)
    return Identity(principal, producer=producer, sequence=number)


def common_principal(identities: Iterable[Identity]) -> str:
    """Returns the principal of requests that share a commit; empty where they are of several."""
    names = {identity.principal for identity in identities}
    return names.pop() if len(names) == 1 else ""


def digest_of(plain: bytes, media: str) -> str:
    """The digest that tells a request from another one with the same identity."""
    return hashlib.sha256(media.encode() + b"\n" + plain).hexdigest()


class _Commit(msgspec.Struct, omit_defaults=True):
    txn: str
    rejected: int = 0


def remembering_row(key: str, digest: str, txn: str, *, now_ms: int, days: int, rejected: int = 0) -> Insert:
    """The write that remembers a request for ``days`` days, in the transaction that ratifies the
    commit with the transaction id ``txn``. It is refused where the request was added before.
    ``rejected``: the number of rows that are in the table of rejected rows."""
    details = msgspec.json.encode(_Commit(txn, rejected)).decode()
    row = RequestOutcome(key, digest, DONE, now_ms, now_ms // 1000 + days * 86_400, details=details)
    return Insert(row.to_row(), (new_row("I26"),))


def txn_in(row: Row) -> str:
    """The transaction id of the commit that has the rows of a remembered request."""
    return msgspec.json.decode(RequestOutcome.from_row(row).details, type=_Commit).txn


def rejected_in(row: Row) -> int:
    """The number of rejected rows of a remembered request."""
    return msgspec.json.decode(RequestOutcome.from_row(row).details, type=_Commit).rejected


def digest_in(row: Row) -> str:
    """The digest of a remembered request."""
    return RequestOutcome.from_row(row).asked
