"""Named references for other systems: create, read, compare-and-swap, delete. Every operation is one request to the
store, accepted or refused: a refusal is answered from the row that it returned. Only what is created again after it was
deleted takes two, since the row that is left says with which version to go on.

Rights are in the same row, and a condition of the same write (I12). Whoever has none is told nothing, not even whether there
is such a reference; that is for those who may create it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from turnstile.access.core.grants import OPERATOR, Access, GrantChange, Principal, owner_for
from turnstile.coordination.core import named_ref
from turnstile.coordination.core.named_ref import DELETED, Entry, NamedRef, check_ref, check_request, check_value
from turnstile.coordination.core.ref_rights import (
    MAX_NAMES,
    OWN,
    READ,
    SWAP,
    access_of,
    denied,
    permits,
    permitted,
    rights_after,
)
from turnstile.store.core.errors import AlreadyExists, InvalidRequest, NotFound, OutcomeUnknown, StateConflict
from turnstile.store.core.writes import Clause, Write
from turnstile.store.ports import Accepted, World

_ROUNDS: Final = 8


class Written(msgspec.Struct, frozen=True):
    """What a request wrote (``entry.value`` None: it deleted), now or when it was sent before."""

    outcome: Literal["applied", "replayed"]
    name: str
    entry: Entry


class NamedRefs:
    """The references of one realm, in a key space of their own: no name leads to a row of anything else.

    Args:
        principal: who asks, and owns what it creates.
        may_create: whether it may be told that a reference does not exist; asked only when one does not.
    """

    def __init__(
        self, world: World, principal: Principal = OPERATOR, may_create: Callable[[], bool] = lambda: False
    ) -> None:
        self._world, self._principal, self._may_create = world, principal, may_create

    def create(self, name: str, value: str, request_id: str | None = None) -> Written:
        """A new reference.

        Raises:
            AlreadyExists: somebody has the name; ``details`` has the present value for those who may read it.
            InvalidRequest, TooLarge: name, value or request id.
            OutcomeUnknown: as ``swap``.
        """
        id, key, now = self._request(request_id), self._key(name), self._world.clock.now_ms()
        owner = owner_for(self._principal)
        write: Write = named_ref.create(key, name, check_value(value), id, now, owner=owner)
        for _ in range(_ROUNDS):
            try:
                ref, accepted = self._write(write, id)
            except _NoRow:  # gc took the tombstone meanwhile
                write = named_ref.create(key, name, value, id, now, owner=owner)
                continue
            if accepted:
                return Written("applied", name, ref.current)
            told = permits(ref.rights, self._principal, READ)
            before = named_ref.creation(ref, value, id)
            if before is not None and not told:  # it handed the reference over since
                raise denied(self._principal, name)
            if before is not None:
                return _again(name, before, value, id)
            if ref.state != DELETED:
                current = {"current": _told(ref.current)} if told else {}
                raise AlreadyExists(f"reference '{name}' exists", field="name", remedy="read it and swap it", **current)
            write = named_ref.revive(key, ref, value, id, now, owner=owner)
        raise StateConflict(
            "ConcurrentChange", f"reference '{name}' changed during every attempt", remedy="send the same request again"
        )

    def read(self, name: str) -> NamedRef:
        """A reference as it is now, with its recent values.

        Raises:
            PermissionDenied: whoever asks may not read it, whether or not there is one.
            NotFound: there is none.
        """
        return self._live(name, READ)

    def swap(self, name: str, token: str, value: str, request_id: str | None = None) -> Written:
        """``value`` in place of the value of ``token``.

        Raises:
            StateConflict: ``RefMoved``, for good: another value came after that one; ``details`` has the present one.
                ``ReloadRequired``: the reference has moved on so far that nobody can tell whether this very request
                was applied before.
            NotFound: there is no such reference, or not any more.
            PermissionDenied: whoever asks may not swap it.
            OutcomeUnknown: the answer was lost; ``details`` has the request id under which to send it again.
        """
        id, key = self._request(request_id), self._key(name)
        judged = self._judged(name, SWAP)
        write = named_ref.swap(key, token, check_value(value), id, self._world.clock.now_ms(), judged=judged)
        return self._changed(name, token, value, id, write=write, least=SWAP)

    def delete(self, name: str, token: str, request_id: str | None = None) -> Written:
        """Delete the reference, if its value is still that of ``token``. For its owner. Raises as ``swap``."""
        id, key = self._request(request_id), self._key(name)
        judged = self._judged(name, OWN)
        write = named_ref.delete(key, token, id, self._world.clock.now_ms(), judged=judged)
        return self._changed(name, token, None, id, write=write, least=OWN)

    def rights(self, name: str) -> Access:
        """Owner and grants: all to the owner, to others what they have themselves and by their roles, be there such a
        reference or not.

        Raises:
            NotFound: there is none, for those who may create it.
        """
        row, principal = self._world.refs.read(self._key(name)), self._principal
        if (row is None or row["state"] == DELETED) and (principal.admin or self._may_create()):
            raise _missing(name)
        ref = NamedRef.from_row(row) if row is not None and row["state"] != DELETED else None
        found = access_of(ref.rights) if ref is not None else Access()
        if ref is not None and permits(ref.rights, principal, OWN):
            return found
        return Access("", tuple(grant for grant in found.grants if grant.principal in principal.names))

    def grant(self, name: str, changes: Sequence[GrantChange] = (), *, owner: str | None = None) -> Access:
        """The rights after ``changes``, and with another ``owner`` if one is given (empty: admins only). For its owner; one
        read and one write.

        Raises:
            PermissionDenied, NotFound: as ``read``.
            TooLarge: too many principals.
            StateConflict: ``ConcurrentChange``: others changed them at every attempt.
        """
        for _ in range(_ROUNDS):
            ref = self._live(name, OWN)
            after = rights_after(ref.rights, changes, owner)
            if after == ref.rights:
                return access_of(after)
            if isinstance(self._world.refs.write(named_ref.regrant(self._key(name), ref, after)), Accepted):
                return access_of(after)
        raise StateConflict(
            "ConcurrentChange", f"rights on reference '{name}' changed during every attempt", remedy="try again"
        )

    def _live(self, name: str, least: int) -> NamedRef:
        row = self._world.refs.read(self._key(name))
        ref = self._known(name, None if row is None else NamedRef.from_row(row), least)
        if ref.state == DELETED:
            raise _missing(name)
        return ref

    def _known(self, name: str, ref: NamedRef | None, least: int) -> NamedRef:
        """The reference, tombstones included, for whoever has the right to hear of it."""
        if ref is not None and permits(ref.rights, self._principal, least):
            return ref
        if (ref is None or ref.state == DELETED) and (self._principal.admin or self._may_create()):
            raise _missing(name)
        raise denied(self._principal, name)

    def _judged(self, name: str, least: int) -> tuple[Clause, ...]:
        """What a write asks for besides the token. One read for somebody with more roles than a condition can hold."""
        names = self._principal.names
        if self._principal.admin:
            return ()
        if len(names) > MAX_NAMES:
            row = self._world.refs.read(self._key(name))
            ref = self._known(name, None if row is None else NamedRef.from_row(row), least)
            names = frozenset(one for one in names if ref.rights.get(one, 0) >= least)
        return (permitted(sorted(names)[:MAX_NAMES], least),)

    def _changed(self, name: str, token: str, value: str | None, id: str, *, write: Write, least: int) -> Written:
        try:
            found, accepted = self._write(write, id)
        except _NoRow:
            self._known(name, None, least)
            raise
        if accepted:
            return Written("applied", name, found.current)
        ref = self._known(name, found, least)
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
