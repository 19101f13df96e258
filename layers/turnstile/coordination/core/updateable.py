"""Updateable objects: small values that change in place, each change by compare-and-swap on a version token (Polaris,
"Special case: consistent, updateable objects").

    updateable    {key, kind, type, token, payload, created, changed_at}

For what is changed by one owner at a time and needs no history; everything else is immutable objs behind a HEAD.
"""

from __future__ import annotations

import re
from typing import Final

from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.core.obj_types import TYPES
from turnstile.store.core.writes import Change, Clause, Equals, Erase, Insert, Row, Set, new_row

MAX_PAYLOAD: Final = 32_000
"""Bytes: every write is charged by the whole row."""

_TYPE: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_ID: Final = re.compile(r"[A-Za-z0-9_.@-]{1,255}")


def create(key: str, type: str, token: str, payload: bytes, now: int) -> Insert:
    """The first write of an object."""
    row: Row = {
        "key": key,
        "kind": "updateable",
        "type": type,
        "token": token,
        "payload": payload,
        "created": now,
        "changed_at": now,
    }
    return Insert(row, (new_row("I6"),))


def update(key: str, seen: str, token: str, payload: bytes, now: int) -> Change:
    """Another payload and another token, if the object is still as it was ``seen``."""
    return Change(key, (_same(seen),), (Set(("token",), token), Set(("payload",), payload), Set(("changed_at",), now)))


def delete(key: str, seen: str) -> Erase:
    """No object any more, if it is still as it was ``seen``."""
    return Erase(key, (_same(seen),))


def _same(seen: str) -> Clause:
    return Clause("same version", "I6", "nobody changed the object since it was read", Equals(("token",), seen))


def check_name(type: str, id: str) -> None:
    """Raise InvalidRequest unless both can be part of a key, and the type is not one of immutable objs."""
    if not _TYPE.fullmatch(type) or not _ID.fullmatch(id):
        raise InvalidRequest(
            f"{type[:60]}/{id[:60]} cannot name an object",
            field="id",
            remedy="use a type of lower-case letters and an id of up to 255 letters, digits, '_', '.', '@' or '-'",
        )
    known = TYPES.get(type)
    if known is not None and not known.mutable:
        raise InvalidRequest(
            f"objects of type {type} are immutable", field="type", remedy="write an obj, or use another type"
        )


def check_payload(payload: bytes) -> bytes:
    """``payload`` if it fits; raises TooLarge otherwise."""
    if len(payload) > MAX_PAYLOAD:
        raise TooLarge(
            f"an updateable object of {len(payload)} bytes is over the limit",
            remedy="write an obj and keep its id here",
            limit=MAX_PAYLOAD,
            size=len(payload),
        )
    return payload
