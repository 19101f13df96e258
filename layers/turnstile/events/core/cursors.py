"""Cursors: places in a log, opaque to clients. A cursor opens nothing that its bearer could not
read anyway (I12)."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.opaque import Damaged, unseal

FIELD: Final = "after"
NOW: Final = "now"
"""The name of the log's end."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """The place behind ``index`` events of chunk ``chunk`` of ``catalog``'s log with the id ``log``
    (empty: before its first event, whichever it will be)."""

    catalog: str
    log: str
    chunk: Annotated[int, msgspec.Meta(ge=0)]
    index: Annotated[int, msgspec.Meta(ge=0)]


_DECODER: Final = msgspec.msgpack.Decoder(Place)


def decode_cursor(text: str, catalog: str) -> Place:
    """Returns the place of a cursor that a client sent back. Raises InvalidRequest: it is none of
    ours, was changed, or is of another catalog."""
    try:
        place = unseal(text, _DECODER, "cursor")
    except Damaged as damaged:
        raise _bad(str(damaged)) from None
    if place.catalog != catalog.lower():
        raise _bad(f"is a place in the events of catalog '{place.catalog[:255]}'")
    return place


def _bad(why: str) -> InvalidRequest:
    remedy = "send the cursor of an earlier answer as it was, or none to begin with the oldest event, or 'now'"
    return InvalidRequest(f"{FIELD} {why}", field=FIELD, remedy=remedy)
