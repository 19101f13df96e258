"""Page tokens: they pin the HEAD that the first page read, so a listing is one consistent view
however long it takes.

A token is opaque to clients, and opens nothing that its bearer could not list anyway (I12).
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.opaque import Damaged, unseal

TOKEN_MS: Final = 3_600_000
"""How long a token is valid after the first page: gc keeps a HEAD at least that long after it was
replaced."""

SKEW_MS: Final = 600_000
"""How far the clock that reads a token may be behind the one that wrote it."""

FIELD: Final = "page_token"
"""The query's member that holds a token, in all APIs but Iceberg's."""

MAX_PAGE: Final = 1000


class PageToken(msgspec.Struct, frozen=True, array_like=True):
    """Where a listing goes on: in ``catalog`` at ``head``, among children of ``kind`` of ``parent``
    (see ``place_of``), behind the index key ``after``; ``began`` is when its first page was read
    (ms).
    """

    catalog: str
    head: str
    parent: str
    kind: str
    after: str
    began: int


_DECODER: Final = msgspec.msgpack.Decoder(PageToken)


def place_of(key: str) -> str:
    """Returns a token's ``parent`` for the index key of the listed parent: a digest, enough to
    tell listings apart. With the key itself a token could exceed the 8 KiB of a query: names have
    up to 255 characters a level.
    """
    return hashlib.sha256(key.encode()).hexdigest()[:24] if key else ""


def decode_token(text: str, now: int, member: str = FIELD) -> PageToken:
    """Returns the token that a client sent back in ``member`` of its request. Raises
    InvalidRequest: it is none of ours, or too old."""
    try:
        token = unseal(text, _DECODER, "page token")
    except Damaged as damaged:
        raise bad_token(str(damaged), member) from None
    if not -SKEW_MS <= now - token.began <= TOKEN_MS:
        raise bad_token("has expired", member)
    return token


def bad_token(why: str, member: str = FIELD) -> InvalidRequest:
    """The refusal of a token."""
    return InvalidRequest(f"{member} {why}", field=member, remedy="list again from the start, without a token")


def page_size(max_results: int | None) -> int:
    """Returns how many results a page holds: 1 to ``MAX_PAGE``, also for None and 0. Raises
    InvalidRequest."""
    if max_results is not None and max_results < 0:
        raise InvalidRequest(f"max_results must not be {max_results}", field="max_results", remedy="use 1 to 1000")
    return min(max_results or MAX_PAGE, MAX_PAGE)
