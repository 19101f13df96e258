"""Opaque texts: a client gets one with an answer and sends it back with a later request, such as a
page token. Base64 of a record with a checksum, which detects a text that was damaged or edited by
mistake. It is no secret: its content is authorized like everything else in a request (I12).
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final, TypeVar

import msgspec

_CHARACTERS: Final = 8192
"""The longest text that is looked at: no URL's query can be longer."""

_CHECKSUM_BYTES: Final = 6

Record = TypeVar("Record", bound=msgspec.Struct)


class Damaged(ValueError):
    """The text is none that :func:`seal` returned. The message says why, as the end of a
    sentence."""


def seal(record: msgspec.Struct) -> str:
    """Returns the text for the client."""
    packed = msgspec.msgpack.encode(record)
    return _text(_checksum(packed) + packed)


def unseal(text: str, decoder: msgspec.msgpack.Decoder[Record], kind: str, *, characters: int = _CHARACTERS) -> Record:
    """Returns the record of a text that a client sent back, of at most so many ``characters``;
    ``kind`` names it in the message. Raises Damaged: another service wrote it, or it was changed by
    a character, also by one that base64 ignores.
    """
    try:
        if len(text) > characters:
            raise ValueError(text[:1])
        sealed = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        packed = sealed[_CHECKSUM_BYTES:]
        record = decoder.decode(packed)
    except (ValueError, msgspec.DecodeError):
        raise Damaged(f"is no {kind} of this service") from None
    if _checksum(packed) != sealed[:_CHECKSUM_BYTES] or _text(sealed) != text:
        raise Damaged("was changed")
    return record


def _text(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def _checksum(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()[:_CHECKSUM_BYTES]
