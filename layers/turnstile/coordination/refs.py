"""Named references for other systems: create, read, compare-and-swap, delete. Every operation is
one request to the store; a refusal is answered from the row that it returned. Only the creation of
a reference that was deleted takes two, since its tombstone says with which version to go on. Rights
are in the same row, and a condition of the same write (I12). A principal without any is not told
whether there is such a reference, unless it may create it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from turnstile.coordination.core import named_ref, ref_rights
from turnstile.coordination.core.named_ref import DELETED, Entry, NamedRef, check_ref, check_request, check_value
from turnstile.coordination.core.ref_rights import OWN, READ, SWAP, access_of, denial, permits
from turnstile.rights.grants import OPERATOR, Access, GrantChange, Principal, owner_for
from turnstile.store.core.errors import (
    AlreadyExists,
    ErrorType,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StateConflict,
)
from turnstile.store.core.writes import Clause, Write
from turnstile.store.ports import Accepted, World

_ROUNDS: Final = 8


class WriteResult(msgspec.Struct, frozen=True):
    """The write of a request (``entry.value`` None: a deletion), now (applied) or when it was sent
    before (replayed)."""

    outcome: Literal["applied", "replayed"]
    name: str
    entry: Entry


class NamedRefs:
    """The references of one realm, in a key space of their own, for ``principal``, which owns the
    references that it creates. ``may_create``: whether it may learn that a reference does not
    exist; called only when one does not.
    """

    def __init__(
        self, world: World, principal: Principal = OPERATOR, may_create: Callable[[], bool] = lambda: False
    ) -> None:
        self._world = world
        self._principal = principal
        self._may_create = may_create

    def create(self, name: str, value: str, request_id: str | None = None) -> WriteResult:
        """A new reference.

        Raises:
            AlreadyExists: the name is taken; ``details`` has the present value if the principal may
                read it.
            InvalidRequest, TooLarge, OutcomeUnknown: as ``swap``.
        """
        id = self._request(request_id)
        key = self._key(name)
        now = self._world.clock.now_ms()
        owner = owner_for(self._principal)
        write: Write = named_ref.create(key, name, check_value(value), id, now, owner=owner)
        for _ in range(_ROUNDS):
            try:
                ref, accepted = self._write(write, id)
            except _NoRow:  # gc removed the tombstone meanwhile
                write = named_ref.create(key, name, value, id, now, owner=owner)
                continue
            if accepted:
                return WriteResult("applied", name, ref.current)
            readable = permits(ref.rights, self._principal, READ)
            first = named_ref.creation(ref, value, id)
            if first is not None and not readable:  # it has given the reference away since
                raise denial(self._principal, name)
            if first is not None:
                return _replay(name, first, value, id)
            if ref.state != DELETED:
                current = {"current": _details(ref.current)} if readable else {}
                raise AlreadyExists(f"reference '{name}' exists", field="name", remedy="read it and swap it", **current)
            write = named_ref.revive(key, ref, value, id, now, owner=owner)
        raise StateConflict(
            ErrorType.CONCURRENT_CHANGE,
            f"reference '{name}' changed during every attempt",
            remedy="send the same request again",
        )

    def read(self, name: str) -> NamedRef:
        """A reference as it is now. Raises NotFound, or PermissionDenied if the principal may not
        read it, whether or not there is one."""
        return self._live(name, READ)

    def swap(self, name: str, token: str, value: str, request_id: str | None = None) -> WriteResult:
        """``value`` in place of the value of ``token``.

        Raises:
            StateConflict: ``RefMoved``, for good: another value came after that one; ``details``
                has the present one.
                ``ReloadRequired``: so many values came since that it is unknown whether this
                    request was applied before.
            NotFound, PermissionDenied: as ``read``.
            OutcomeUnknown: the answer was lost; ``details`` has the request id under which to send
                it again.
        """
        return self._replace(name, token, value, request_id, SWAP)

    def delete(self, name: str, token: str, request_id: str | None = None) -> WriteResult:
        """Delete the reference, if its value is still that of ``token``. For its owner. Raises as
        ``swap``."""
        return self._replace(name, token, None, request_id, OWN)

    def rights(self, name: str) -> Access:
        """Owner and grants: all of them for the owner; for others their own and their roles', also
        if there is no such reference. Raises NotFound if there is none, for a caller that may
        create it.
        """
        ref = self._read(name)
        principal = self._principal
        if ref is None or ref.state == DELETED:
            if principal.admin or self._may_create():
                raise _missing(name)
            return Access()
        access = access_of(ref.rights)
        if permits(ref.rights, principal, OWN):
            return access
        return Access("", tuple(grant for grant in access.grants if grant.principal in principal.names))

    def grant(self, name: str, changes: Sequence[GrantChange] = (), *, owner: str | None = None) -> Access:
        """Change the rights, and set another ``owner`` if one is given (empty: admins only). For
        its owner; one read and one write. Returns the rights afterwards. Raises as ``read``;
        TooLarge; StateConflict, ``ConcurrentChange``, if they were changed during every attempt.
        """
        for _ in range(_ROUNDS):
            ref = self._live(name, OWN)
            after = ref_rights.rights_after(ref.rights, changes, owner)
            if after == ref.rights:
                return access_of(after)
            if isinstance(self._world.refs.write(named_ref.regrant(self._key(name), ref, after)), Accepted):
                return access_of(after)
        raise StateConflict(
            ErrorType.CONCURRENT_CHANGE,
            f"rights on reference '{name}' changed during every attempt",
            remedy="try again",
        )

    def _live(self, name: str, least: int) -> NamedRef:
        ref = self._visible(name, self._read(name), least)
        if ref.state == DELETED:
            raise _missing(name)
        return ref

    def _visible(self, name: str, ref: NamedRef | None, least: int) -> NamedRef:
        """Returns the reference, tombstones included, if the principal has the right ``least``;
        raises otherwise."""
        if ref is not None and permits(ref.rights, self._principal, least):
            return ref
        if (ref is None or ref.state == DELETED) and (self._principal.admin or self._may_create()):
            raise _missing(name)
        raise denial(self._principal, name)

    def _authorizing_clauses(self, name: str, least: int) -> tuple[Clause, ...]:
        """The clauses that authorize a write. One read for a principal with more roles than a
        condition can hold."""
        names = self._principal.names
        if self._principal.admin:
            return ()
        if len(names) > ref_rights.MAX_NAMES:
            ref = self._visible(name, self._read(name), least)
            names = frozenset(held for held in names if ref.rights.get(held, 0) >= least)
        return (ref_rights.permission_clause(sorted(names)[: ref_rights.MAX_NAMES], least),)

    def _replace(self, name: str, token: str, value: str | None, request_id: str | None, least: int) -> WriteResult:
        id = self._request(request_id)
        key = self._key(name)
        authorized = self._authorizing_clauses(name, least)
        if value is None:
            write = named_ref.delete(key, token, id, self._world.clock.now_ms(), authorized=authorized)
        else:
            check_value(value)
            write = named_ref.swap(key, token, value, id, self._world.clock.now_ms(), authorized=authorized)
        try:
            row, accepted = self._write(write, id)
        except _NoRow:
            self._visible(name, None, least)
            raise
        if accepted:
            return WriteResult("applied", name, row.current)
        ref = self._visible(name, row, least)
        first = named_ref.replayed_value(ref, token, id)
        if first is not None:
            return _replay(name, first, value, id)
        if not named_ref.moved_on(ref, token):
            raise StateConflict(
                ErrorType.RELOAD_REQUIRED,
                f"reference '{name}' has no record any more of the value after this token",
                field="token",
                remedy="read the reference and decide anew; this request may have been applied before",
                current=_details(ref.current),
            )
        if ref.state == DELETED:
            raise _missing(name)
        raise StateConflict(
            ErrorType.REF_MOVED,
            f"reference '{name}' has another value now; this request was not applied and never will be",
            field="token",
            remedy="read the present value, decide anew, and swap it under its token with a fresh request id",
            current=_details(ref.current),
        )

    def _write(self, write: Write, id: str) -> tuple[NamedRef, bool]:
        """The row after the write, or the one that refused it, and whether it was accepted."""
        try:
            response = self._world.refs.write(write)
        except OutcomeUnknown as unknown:
            unknown.details["request_id"] = id
            raise
        if response.row is None:
            raise _NoRow
        return NamedRef.from_row(response.row), isinstance(response, Accepted)

    def _read(self, name: str) -> NamedRef | None:
        row = self._world.refs.read(self._key(name))
        return None if row is None else NamedRef.from_row(row)

    def _key(self, name: str) -> str:
        return self._world.space.ref(check_ref(name))

    def _request(self, request_id: str | None) -> str:
        """The request's id. A new one is needed for the store client's own repetitions, even if the
        caller gave none."""
        return self._world.ids.uuid() if request_id is None else check_request(request_id)


class _NoRow(Exception):
    """The write was refused because there is no row."""


def _replay(name: str, first: Entry, value: str | None, id: str) -> WriteResult:
    """The first answer to this request; raises InvalidRequest if it asked for another value
    then."""
    if first.value != value:
        raise InvalidRequest(
            f"request_id {id!r} was used for another change of this reference",
            field="request_id",
            remedy="use a fresh id for every request, and the same one only to send the same request again",
        )
    return WriteResult("replayed", name, first)


def _details(entry: Entry) -> dict[str, object]:
    return {"value": entry.value, "version": entry.version, "token": entry.token}


def _missing(name: str) -> NotFound:
    return NotFound("ref", name, field="name", remedy="create it, or check the name")
