"""The final bytes of a ticket: the proposed content with what follows from its position filled in.

Members that do not depend on the position keep their exact bytes (``msgspec.Raw``), so everybody who computes the
bytes gets the same ones.
"""

from __future__ import annotations

import msgspec

from turnstile.delta.core.content import ROW_TRACKING_DOMAIN
from turnstile.delta.core.positions import Positioned

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Stats(msgspec.Struct):
    numRecords: int = 0


class _Add(msgspec.Struct):
    stats: str = "{}"


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def final_bytes(place: Positioned, proposed: bytes) -> bytes:
    """The content of version ``place.version``; for anything but a ticket the proposed bytes themselves (I2).

    Args:
        place: the entry's place in the tail.
        proposed: newline-delimited JSON as the client sent it.
    """
    if not place.entry.ticket:
        return proposed
    next_row = place.first_row
    lines = []
    for line in proposed.rstrip(b"\n").split(b"\n"):
        ((name, body),) = _OBJECT.decode(line).items()
        if name == "commitInfo":
            info = _OBJECT.decode(body)
            info["inCommitTimestamp"] = _raw(place.ict)
            body = _raw(info)
        elif name == "add" and next_row is not None:
            add = _OBJECT.decode(body)
            add["baseRowId"] = _raw(next_row)
            add["defaultRowCommitVersion"] = _raw(place.version)
            next_row += msgspec.json.decode(msgspec.json.decode(body, type=_Add).stats, type=_Stats).numRecords
            body = _raw(add)
        elif name == "domainMetadata":
            continue  # only row tracking's own is allowed in a blind append; it is written anew below
        lines.append(msgspec.json.encode({name: body}))
    if next_row is not None:
        mark = msgspec.json.encode({"rowIdHighWaterMark": next_row - 1}).decode()
        domain = {"domain": ROW_TRACKING_DOMAIN, "configuration": mark, "removed": False}
        lines.append(msgspec.json.encode({"domainMetadata": domain}))
    return b"\n".join(lines) + b"\n"
