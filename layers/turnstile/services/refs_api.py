"""Named references for other systems: create, read, compare-and-swap, delete. Every operation is one request to the
store, accepted or refused: a refusal is answered from the row that it returned. Only what is created again after it was
deleted takes two, since the row that is left says with which version to go on."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from turnstile.core import named_ref
from turnstile.core.errors import AlreadyExists, InvalidRequest, NotFound, OutcomeUnknown, StateConflict
from turnstile.core.named_ref import DELETED, Entry, NamedRef, check_ref, check_request, check_value
from turnstile.core.plan import Write
from turnstile.ports import Accepted
from turnstile.world import World

_ROUNDS: Final = 8


class Written(msgspec.Struct, frozen=True):
    """What a request wrote (``entry.value`` None: it deleted), now or when it was sent before."""

    outcome: Literal["applied", "replayed"]
    name: str
    entry: Entry


class NamedRefs:
    """The references of one realm, in a key space of their own: no name leads to a row of anything else."""

    def __init__(self, world: World) -> None:
        self._world = world

    def create(self, name: str, value: str, request_id: str | None = None) -> Written:
        """A new reference.

        Raises:
            AlreadyExists: somebody has the name; ``details`` has the present value.
            InvalidRequest, TooLarge: name, value or request id.
            OutcomeUnknown: as ``swap``.
        """
        id, key, now = self._request(request_id), self._key(name), self._world.clock.now_ms()
        write: Write = named_ref.create(key, name, check_value(value), id, now)
        for _ in range(_ROUNDS):
            try:
                ref, accepted = self._write(write, id)
            except _NoRow:  # gc took the tombstone meanwhile
                write = named_ref.create(key, name, value, id, now)
                continue
            if accepted:
                return Written("applied", name, ref.current)
            before = named_ref.creation(ref, value, id)
            if before is not None:
                return _again(name, before, value, id)
            if ref.state != DELETED:
                raise AlreadyExists(
                    f"reference '{name}' exists", field="name", remedy="read it and swap it", current=_told(ref.current)
                )
            write = named_ref.revive(key, ref, value, id, now)
        raise StateConflict(
            "ConcurrentChange", f"reference '{name}' changed during every attempt", remedy="send the same request again"
        )

    def read(self, name: str) -> NamedRef:
        """A reference as it is now, with its recent values; raises NotFound."""
        row = self._world.refs.read(self._key(name))
        ref = NamedRef.from_row(row) if row is not None else None
        if ref is None or ref.state == DELETED:
            raise _missing(name)
        return ref

    def swap(self, name: str, token: str, value: str, request_id: str | None = None) -> Written:
        """``value`` in place of the value of ``token``.

        Raises:
            StateConflict: ``RefMoved``, for good: another value came after that one; ``details`` has the present one.
                ``ReloadRequired``: the reference has moved on so far that nobody can tell whether this very request
                was applied before.
            NotFound: there is no such reference, or not any more.
            OutcomeUnknown: the answer was lost; ``details`` has the request id under which to send it again.
        """
        id, key = self._request(request_id), self._key(name)
        write = named_ref.swap(key, token, check_value(value), id, self._world.clock.now_ms())
        return self._changed(name, token, value, id, write)

    def delete(self, name: str, token: str, request_id: str | None = None) -> Written:
        """Delete the reference, if its value is still that of ``token``. Raises as ``swap``."""
        id, key = self._request(request_id), self._key(name)
        write = named_ref.delete(key, token, id, self._world.clock.now_ms())
        return self._changed(name, token, None, id, write)

    def _changed(self, name: str, token: str, value: str | None, id: str, write: Write) -> Written:
        try:
            ref, accepted = self._write(write, id)
        except _NoRow:
            raise _missing(name) from None
        if accepted:
            return Written("applied", name, ref.current)
        before = named_ref.replayed(ref, token, id)
        if before is not None:
            return _again(name, before, value, id)
        if not named_ref.moved_on(ref, token):
            raise StateConflict(
                "ReloadRequired",
                f"reference '{name}' no longer knows what came after this token",
                field="token",
                remedy="read the reference and decide anew; this request may have been applied before",
                current=_told(ref.current),
            )
        if ref.state == DELETED:
            raise _missing(name)
        raise StateConflict(
            "RefMoved",
            f"reference '{name}' has another value now; this request was not applied and never will be",
            field="token",
            remedy="read the present value, decide anew, and swap it under its token with a fresh request id",
            current=_told(ref.current),
        )

    def _write(self, write: Write, id: str) -> tuple[NamedRef, bool]:
        """The row after the write, or the one that refused it, and whether it was accepted."""
        try:
            answer = self._world.refs.write(write)
        except OutcomeUnknown as unknown:
            unknown.details["request_id"] = id
            raise
        if answer.row is None:
            raise _NoRow
        return NamedRef.from_row(answer.row), isinstance(answer, Accepted)

    def _key(self, name: str) -> str:
        return self._world.space.ref(check_ref(name))

    def _request(self, request_id: str | None) -> str:
        """The request's id; one of our own tells repetitions inside the store's client from other requests."""
        return self._world.ids.uuid() if request_id is None else check_request(request_id)


class _NoRow(Exception):
    """The write was refused because there is no row."""


def _again(name: str, before: Entry, value: str | None, id: str) -> Written:
    """The answer of the first time, to the same request."""
    if before.value != value:
        raise InvalidRequest(
            f"request_id {id!r} was used for another change of this reference",
            field="request_id",
            remedy="use a fresh id for every request, and the same one only to send the same request again",
        )
    return Written("replayed", name, before)


def _told(entry: Entry) -> dict[str, object]:
    return {"value": entry.value, "version": entry.version, "token": entry.token}


def _missing(name: str) -> NotFound:
    return NotFound("ref", name, field="name", remedy="create it, or check the name")
