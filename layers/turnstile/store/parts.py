"""How an obj that is too large for one row is stored: as parts, and a row without payload that names them.

    commit/0123...                              {digest, size, stamp, parts: 3}
    part/commit/0123.../<stamp>.00 ... .02      350,000 bytes each, and the rest

Parts are written before the row that names them, and it goes before they do: at every moment the obj is there, whole,
or it is not there, and what a crash leaves behind are parts that nothing names. Their ids begin with none of the types'
prefixes, so no listing of objs shows them. The stamp is a digest of payload, creation and end: the same obj written again
has the same parts. Another one under the same id has parts of its own; so a writer that is refused has changed nothing,
gc may remove unnamed parts that are old without looking for writers, and parts end when their obj does (I9, I10).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from turnstile.store.core.errors import TooLarge
from turnstile.store.core.obj_types import registered
from turnstile.store.ports import Obj

OBJ_BUDGET: Final = 350_000
"""Bytes of payload in one row: DynamoDB's 400 kB less keys and attributes (Polaris has the same)."""

MAX_OBJ: Final = 4 * 1024 * 1024
"""Bytes of payload of one obj: a dozen parts, which fit into one request to read or write them."""

PREFIX: Final = "part/"
TYPE: Final = "part"


class LargeObj(Obj, frozen=True, kw_only=True):
    """The row of an obj whose payload is in ``count`` parts; its own ``payload`` is empty.

    ``digest`` SHA-256 of the payload, ``size`` its bytes, ``stamp`` what the parts' ids have in common.
    """

    digest: bytes
    size: int
    stamp: str
    count: int


def split(obj: Obj) -> tuple[list[Obj], Obj]:
    """The parts of an obj, and its row; an obj that fits into one row has no parts and is its row.

    Raises:
        ValueError: not an obj of a registered type.
        TooLarge: more than ``MAX_OBJ`` bytes.
    """
    rules, size = registered(obj.type, obj.id), len(obj.payload)
    if size <= OBJ_BUDGET:
        return [], obj
    if size > MAX_OBJ:
        raise TooLarge(
            f"a {obj.type} obj of {size} bytes is over the limit", remedy=rules.remedy, limit=MAX_OBJ, size=size
        )
    digest = hashlib.sha256(obj.payload).digest()
    stamp = hashlib.sha256(b"%d/%d/%b" % (obj.created, obj.expires or 0, digest)).hexdigest()[:24]
    row = LargeObj(
        obj.space,
        obj.id,
        obj.type,
        b"",
        obj.created,
        obj.expires,
        digest=digest,
        size=size,
        stamp=stamp,
        count=-(-size // OBJ_BUDGET),
    )
    slices = (obj.payload[start : start + OBJ_BUDGET] for start in range(0, size, OBJ_BUDGET))
    parts = [
        Obj(obj.space, id, TYPE, payload, obj.created, obj.expires)
        for id, payload in zip(part_ids(row), slices, strict=True)
    ]
    return parts, row


def part_ids(row: Obj) -> list[str]:
    """Ids of the parts that a row names, in their order; none for an obj that fits into its row."""
    if not isinstance(row, LargeObj):
        return []
    return [f"{PREFIX}{row.id}/{row.stamp}.{number:02d}" for number in range(row.count)]


def joined(row: LargeObj, parts: Mapping[str, Obj]) -> Obj | None:
    """The obj of a row; None when not all of its parts are among ``parts``.

    Raises:
        ValueError: the parts are not those that were written.
    """
    found = [parts[id].payload for id in part_ids(row) if id in parts]
    if len(found) < row.count:
        return None
    payload = b"".join(found)
    if hashlib.sha256(payload).digest() != row.digest:
        raise ValueError(f"the parts of obj {row.id} are not those that were written")
    return Obj(row.space, row.id, row.type, payload, row.created, row.expires)


def holds(row: Obj, obj: Obj) -> bool:
    """Whether a stored row is that of an obj with the same payload, however either release splits."""
    if isinstance(row, LargeObj):
        return row.size == len(obj.payload) and row.digest == hashlib.sha256(obj.payload).digest()
    return row.payload == obj.payload


def is_part(id: str) -> bool:
    """Whether a row holds a part, and no obj."""
    return id.startswith(PREFIX)


def owner_of(part: str) -> str:
    """Id of the obj that a part was written for."""
    return part.removeprefix(PREFIX).rpartition("/")[0]
