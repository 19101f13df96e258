"""Rows of updateable objects and coordinated tasks, and the writes that change them. Times are in
ms."""

from __future__ import annotations

import re
from typing import ClassVar, Final

import msgspec

from turnstile.store.core.errors import InvalidRequest, TooLarge, UnreadableRow
from turnstile.store.core.rows import TYPES, StoredRow
from turnstile.store.core.terms import is_over
from turnstile.store.core.writes import Change, Clause, Equals, Erase, Insert, Set, new_row

TERM_MOST_MS: Final = 3_600_000
"""The longest term of a task's attempt."""

MAX_PAYLOAD: Final = 32_000  # bytes: every write is charged by the whole row
_TYPE: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_ID: Final = re.compile(r"[A-Za-z0-9_.@-]{1,255}")


class Updateable(StoredRow, frozen=True):
    """An object as it is stored; ``token`` names this version of it, and each change compares and
    swaps it (Polaris, "Special case: consistent, updateable objects"). For objects that are changed
    by one owner at a time and need no history; everything else is immutable objs behind a HEAD.
    """

    kind: ClassVar[str] = "updateable"

    type: str
    token: str
    payload: bytes
    created: int
    changed_at: int


def create_object(key: str, type: str, token: str, payload: bytes, now: int) -> Insert:
    """The first write of an object."""
    return Insert(Updateable(key, type, token, payload, now, now).to_row(), (new_row("I6"),))


def update_object(key: str, before: str, token: str, payload: bytes, now: int) -> Change:
    """Another payload and token, if the object still has the token ``before``."""
    actions = (Set(("token",), token), Set(("payload",), payload), Set(("changed_at",), now))
    return Change(key, (_same_version(before),), actions)


def delete_object(key: str, before: str) -> Erase:
    """Remove the object if it still has the token ``before``."""
    return Erase(key, (_same_version(before),))


def _same_version(token: str) -> Clause:
    return Clause("same version", "I6", "the object was not changed since it was read", Equals(("token",), token))


def check_name(type: str, id: str) -> None:
    """Raises InvalidRequest unless both can be part of a key, and the type is not one of immutable
    objs."""
    if not _TYPE.fullmatch(type) or not _ID.fullmatch(id):
        raise InvalidRequest(
            f"{type[:60]}/{id[:60]} cannot name an object",
            field="id",
            remedy="use a type of lower-case letters and an id of up to 255 letters, digits, '_', '.', '@' or '-'",
        )
    registered = TYPES.get(type)
    if registered is not None and not registered.mutable:
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


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of a coordinated task's object (Polaris, "Special case: coordinated tasks").

    The process that begins a task holds a lease on it; another takes it over when that lease is
    over. Each step writes a new payload under the version that it was computed from. So one of two
    processes that begin at once wins, and a process that lost the lease cannot leave a result any
    more (I10).

    Attributes:
        attempt: rises by one whenever the task is begun. Other writes of the task can be fenced
            with it.
        until: end of the lease of the running attempt; 0 when none runs.
        began: when the present or the last attempt began.
        result: the result of the last attempt that succeeded; ``succeeded`` is its number.
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

    @classmethod
    def unpack(cls, payload: bytes) -> Task:
        """The task that ``pack`` was called on. Members that later versions add are skipped."""
        return _DECODER.decode(payload)

    def pack(self) -> bytes:
        return _ENCODER.encode(self)

    @property
    def is_unknown(self) -> bool:
        """Whether this is an ``unknown_task``, of which no attempt has begun since."""
        return self.until > 0 and self.attempt == self.began

    def running(self, now: int) -> bool:
        """Whether an attempt may be at work: not where the end of its lease is one that a clock
        which was ahead has written."""
        return not is_over(self.until, now, TERM_MOST_MS)

    def begin(self, now: int, until: int) -> Task:
        """The next attempt, of a task that does not run."""
        attempt = self.attempt + 1
        abandoned = self.abandoned + bool(self.until)
        return msgspec.structs.replace(self, attempt=attempt, until=until, began=now, abandoned=abandoned)

    def renew(self, until: int) -> Task:
        """A later end; an earlier one only where the clock that began the attempt was ahead."""
        kept = 0 if is_over(self.until, until, TERM_MOST_MS) else self.until
        return msgspec.structs.replace(self, until=max(until, kept))

    def finish(self, result: bytes, now: int) -> Task:
        return msgspec.structs.replace(
            self, until=0, ended=now, result=result, succeeded=self.attempt, failure="", abandoned=0
        )

    def fail(self, reason: str, now: int) -> Task:
        """The attempt failed; the next may begin at once. The result of an earlier one stays."""
        return msgspec.structs.replace(self, until=0, ended=now, failure=reason[:500] or "failed")


def unknown_task(now: int, why: str) -> Task:
    """Returns the task in place of one with a damaged row, of which an attempt may run: its lease
    begins now and has the longest term. The number of its attempt, the time in ms, is above all
    numbers that were given before: also where the row of an assumed attempt is damaged again.
    ``why`` is without the key of the row, since the reason is for any caller (I12).
    """
    failure = f"its row could not be read, so its last result is lost and an attempt may be running: {why}"
    return Task(now, now + TERM_MOST_MS, now, failure=failure[:500])


def unpack_task(row: Updateable) -> Task:
    """Returns the task of an object. Raises UnreadableRow for a damaged payload."""
    try:
        return Task.unpack(row.payload)
    except (msgspec.MsgspecError, ValueError) as error:
        raise UnreadableRow(row.key, str(error)) from error


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Task)
