"""Page tokens: they pin the HEAD they started from, so that a listing is one consistent view however long it takes.

A token is opaque to clients: base64 of its members with a checksum. The checksum tells a token that was damaged or
edited by mistake; it is no secret, since a token opens nothing that its bearer could not list anyway (I12).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final

import msgspec

from turnstile.store.core.errors import InvalidRequest

TOKEN_MS: Final = 3_600_000
"""How long a token can be used, from the first page on: gc keeps a HEAD at least so long after it was replaced."""

SKEW_MS: Final = 600_000
"""How far the clock that reads a token may be behind the one that wrote it."""

MEMBER: Final = "page_token"
"""The query's member that holds a token, in all APIs but Iceberg's."""

MAX_PAGE: Final = 1000
_CHECK: Final = 6


class Token(msgspec.Struct, frozen=True, array_like=True):
    """Where a listing goes on: in ``catalog`` at ``head``, among children of a kind of ``parent`` (see ``place``), after
    ``after`` (an index key); ``began`` when its first page was read (ms)."""

    catalog: str
    head: str
    parent: str
    kind: str
    after: str
    began: int


_DECODER: Final = msgspec.msgpack.Decoder(Token)


def place(key: str) -> str:
    """What a token says of the index key whose children are listed: enough to tell them apart. The key itself would be
    there twice, and a query holds 8 KiB; names have up to 255 characters a level."""
    return hashlib.sha256(key.encode()).hexdigest()[:24] if key else ""


def to_text(token: Token) -> str:
    """The token for the client."""
    packed = msgspec.msgpack.encode(token)
    return base64.urlsafe_b64encode(hashlib.sha256(packed).digest()[:_CHECK] + packed).rstrip(b"=").decode()


def from_text(text: str, now: int, member: str = MEMBER) -> Token:
    """The token a client sent back, in ``member`` of its request.

    Raises:
        InvalidRequest: not one of ours, or too old.
    """
    try:
        raw = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        token = _DECODER.decode(raw[_CHECK:])
    except (ValueError, binascii.Error, msgspec.DecodeError):
        raise bad_token("is not a page token of this service", member) from None
    if hashlib.sha256(raw[_CHECK:]).digest()[:_CHECK] != raw[:_CHECK]:
        raise bad_token("was changed", member)
    if not -SKEW_MS <= now - token.began <= TOKEN_MS:
        raise bad_token("has expired", member)
    return token


def bad_token(why: str, member: str = MEMBER) -> InvalidRequest:
    """The refusal of a token."""
    return InvalidRequest(f"{member} {why}", field=member, remedy="list again from the start, without a token")


def page_size(max_results: int | None) -> int:
    """How many results a page holds: 1 to ``MAX_PAGE``, which is also the default; 0 leaves it to the server."""
    if max_results is not None and max_results < 0:
        raise InvalidRequest(f"max_results must not be {max_results}", field="max_results", remedy="use 1 to 1000")
    return min(max_results or MAX_PAGE, MAX_PAGE)
