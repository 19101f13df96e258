"""Leases: who holds a name until when, in one row that each holder replaces by compare-and-swap.

    lease    {key, kind, holder, until, fence, created}

``holder`` is a random token that every renewal replaces: a copy of a process that renews with an old one is refused.
``until`` (ms) only ever rises. A lease is taken over when the taker's clock is past it; a wrong clock may take it early,
so whoever needs more than good manners uses what the row orders: ``start`` (the new holder's times begin where those of
the one before end) or ``fence`` (a number that rises with every holder).

Rows are never deleted: one that began anew would give times and fences out a second time.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from turnstile.store.core.errors import InvalidRequest, TooLarge
from turnstile.store.core.obj_types import TYPES
from turnstile.store.core.writes import Change, Clause, Equals, Erase, Insert, Row, Set, SetSum, new_row

RELEASED: Final = "released"


class LeaseRow(msgspec.Struct, frozen=True):
    """A parsed row."""

    key: str
    holder: str
    until: int
    fence: int

    @classmethod
    def from_row(cls, row: Row) -> LeaseRow:
        """Parse a refs row of kind ``lease``."""
        return cls(row["key"], row["holder"], row["until"], row["fence"])


class Lease(msgspec.Struct, frozen=True):
    """A lease that is held: from ``start`` on and before ``until`` (ms), under the token ``holder``."""

    key: str
    holder: str
    start: int
    until: int
    fence: int


def take_first(key: str, holder: str, now: int, until: int) -> Insert:
    """The first lease of a name."""
    row: Row = {"key": key, "kind": "lease", "holder": holder, "until": until, "fence": 0, "created": now}
    return Insert(row, (new_row("I2"),))


def take_over(seen: LeaseRow, holder: str, until: int) -> Change:
    """The next lease of a name whose last one is over, as it was ``seen``. Whoever else takes it or extends it moves the
    end; a renewal that does not leaves nothing to collide with."""
    return Change(
        seen.key,
        (Clause("same end", "I2", "times begin where those of the last lease end", Equals(("until",), seen.until)),),
        (Set(("holder",), holder), Set(("until",), until), SetSum(("fence",), ("fence",), 1)),
    )


def renew(lease: Lease, holder: str, until: int) -> Change:
    """A later end, and another token. Possible also after the end, as long as nobody took the lease over."""
    return Change(lease.key, (_held(lease),), (Set(("holder",), holder), Set(("until",), max(until, lease.until))))


def release(lease: Lease, free: int) -> Change:
    """Give it up: from ``free`` (ms) on, times are the next holder's."""
    return Change(lease.key, (_held(lease),), (Set(("holder",), RELEASED), Set(("until",), free)))


def _held(lease: Lease) -> Clause:
    return Clause("held", "I2", "the lease is still this holder's", Equals(("holder",), lease.holder))


# -- task -------------------------------------------------------------------------------------------------------------
# A coordinated task: something of which at most one runs at a time (Polaris, "Special case: coordinated tasks").
#
# A task is an updateable object. Who begins it holds a lease on it; who finds a lease that is over takes it over; who
# finishes leaves a result, which stays until the next one. Every one of these is a function from what the object holds to
# what it is to hold, written under the version that it was computed from. So of two that begin at once one wins, and who
# lost the lease cannot leave a result any more (I10).


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the object holds; times in ms.

    Attributes:
        attempt: rises by one whenever the task is begun. Whatever the task writes elsewhere can be fenced with it.
        until: end of the lease of the one that runs; 0 when none does.
        began: when the present or the last attempt began.
        ended: when the last one that ended did; 0 before.
        result: what the last attempt that succeeded left.
        succeeded: the attempt that left it; 0 before.
        failure: why the last attempt failed; empty when it did not.
        abandoned: attempts that were taken over since the last one that succeeded.
    """

    attempt: int = 0
    until: int = 0
    began: int = 0
    ended: int = 0
    result: bytes = b""
    succeeded: int = 0
    failure: str = ""
    abandoned: int = 0

    def running(self, now: int) -> bool:
        """Whether somebody holds the lease."""
        return now < self.until


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Task)


def pack(task: Task) -> bytes:
    """The object's payload."""
    return _ENCODER.encode(task)


def unpack(payload: bytes) -> Task:
    """The task that ``pack`` was given. Members that later versions add are skipped."""
    return _DECODER.decode(payload)


def begun(task: Task, now: int, until: int) -> Task:
    """The next attempt, of a task that does not run."""
    return msgspec.structs.replace(
        task, attempt=task.attempt + 1, until=until, began=now, abandoned=task.abandoned + bool(task.until)
    )


def renewed(task: Task, until: int) -> Task:
    """The same attempt with a later end of its lease."""
    return msgspec.structs.replace(task, until=max(until, task.until))


def finished(task: Task, result: bytes, now: int) -> Task:
    """The attempt succeeded."""
    return msgspec.structs.replace(
        task, until=0, ended=now, result=result, succeeded=task.attempt, failure="", abandoned=0
    )


def failed(task: Task, why: str, now: int) -> Task:
    """The attempt failed; the next may begin at once. The result of an earlier one stays."""
    return msgspec.structs.replace(task, until=0, ended=now, failure=why[:500] or "failed")


# -- updateable -------------------------------------------------------------------------------------------------------
# Updateable objects: small values that change in place, each change by compare-and-swap on a version token (Polaris,
# "Special case: consistent, updateable objects").
#
#     updateable    {key, kind, type, token, payload, created, changed_at}
#
# For what is changed by one owner at a time and needs no history; everything else is immutable objs behind a HEAD.


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
