"""Rights on references (I12).

    rights    {principal or role: READ, SWAP and OWN in any sum}

The rights are in the reference's own row, so they cost no request, and a swap is authorized by the
row that it changes. They are an ``Access`` in a form that one condition of a write can check:
SELECT reads, MODIFY swaps and reads the value that it may replace, the owner does everything. A
reference without rights is for admins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from turnstile.rights.grants import Access, Grant, GrantChange, Principal, Privilege, apply_changes
from turnstile.store.core.errors import InvalidRequest, PermissionDenied, TooLarge
from turnstile.store.core.writes import Absent, AtLeast, Clause, Either, Equals

READ: Final = 1
SWAP: Final = 2
OWN: Final = 4
"""Each is more than all before it together, so that "at least" means it or more."""

PRIVILEGES: Final = {Privilege.SELECT: READ, Privilege.MODIFY: SWAP}

MAX_PRINCIPALS: Final = 20  # with rights on one reference: every swap is charged by the whole row
MAX_NAMES: Final = 50  # in one condition: a principal's own and its roles

Rights = Mapping[str, int]


def permits(rights: Rights, principal: Principal, least: int) -> bool:
    """Whether ``principal`` has the right ``least`` or a greater one."""
    return principal.admin or any(rights.get(name, 0) >= least for name in principal.names)


def permission_clause(names: Iterable[str], least: int) -> Clause:
    """``permits`` as a condition of a write."""
    tests = tuple(AtLeast(("rights", name), least) for name in sorted(names))
    return Clause("permitted", "I12", "the principal has the right", Either(tests))


def unchanged_clause(rights: Rights) -> Clause:
    """The condition that the rights are still the ones that a change of them was computed from."""
    test = Equals(("rights",), dict(rights)) if rights else Absent(("rights",))
    return Clause("same rights", "I12", "the rights were not changed meanwhile", test)


def owned_by(owner: str) -> dict[str, int]:
    """The rights on references that ``owner`` creates; empty: admins only."""
    return {owner: OWN} if owner else {}


def access_of(rights: Rights) -> Access:
    """The rights as owner and grants."""
    owner = next((name for name, held in rights.items() if held >= OWN), "")
    held = {name: [privilege for privilege, bit in PRIVILEGES.items() if rights[name] & bit] for name in sorted(rights)}
    return Access(
        owner, tuple(Grant(name, tuple(sorted(privileges))) for name, privileges in held.items() if privileges)
    )


def rights_after(rights: Rights, changes: Iterable[GrantChange], owner: str | None) -> dict[str, int]:
    """``rights`` after ``changes``, and with another ``owner`` if one is given (empty: admins
    only). Raises TooLarge."""
    access = apply_changes(access_of(rights), changes, owner)
    after = owned_by(access.owner)
    for grant in access.grants:
        after[grant.principal] = after.get(grant.principal, 0) + sum(PRIVILEGES[name] for name in grant.privileges)
    if len(after) > max(MAX_PRINCIPALS, len(rights)):
        raise TooLarge(
            f"{len(after)} principals would have rights on one reference",
            field="changes",
            remedy="grant to a role that they share",
            limit=MAX_PRINCIPALS,
            size=len(after),
        )
    return after


def check_privileges(names: Iterable[str], field: str) -> tuple[Privilege, ...]:
    """The privileges of these names; raises InvalidRequest for one that means nothing on a
    reference."""
    names = tuple(names)
    fitting = " or ".join(PRIVILEGES)
    for name in names:
        if name not in {*PRIVILEGES}:
            raise InvalidRequest(f"{name[:60]!r} cannot be granted on a reference", field=field, remedy=fitting)
    return tuple(map(Privilege, names))


def denial(principal: Principal, name: str) -> PermissionDenied:
    """The error, the same whether or not there is such a reference."""
    return PermissionDenied(
        f"'{principal.name}' may not do this with reference '{name}'",
        remedy="if it exists, ask its owner for a grant",
    )
