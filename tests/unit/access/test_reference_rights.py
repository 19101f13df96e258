"""Rights on references: the condition of a write and the check of its row are one rule (I12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes.world import fake_world
from tests.support.faults import before_next_write
from turnstile.coordination.core.ref_rights import (
    MAX_NAMES,
    OWN,
    READ,
    SWAP,
    access_of,
    permission_clause,
    permits,
    rights_after,
)
from turnstile.coordination.refs import NamedRefs
from turnstile.rights.grants import Access, Grant, GrantChange, Principal, Privilege
from turnstile.store.core.errors import NotFound, PermissionDenied
from turnstile.store.core.evaluate import holds
from turnstile.store.core.writes import Present

NAMES = ("ann", "bob", "team", "ops")
RIGHTS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3), max_size=4)
ASKERS = st.builds(Principal, st.sampled_from(NAMES), st.frozensets(st.sampled_from(NAMES), max_size=3))
ANN = Principal("ann")


@given(rights=RIGHTS, owner=st.sampled_from(("", *NAMES)), asker=ASKERS, least=st.sampled_from((READ, SWAP, OWN)))
def test_i12_the_condition_of_a_write_holds_exactly_for_principals_that_are_permitted(
    rights: dict[str, int], owner: str, asker: Principal, least: int
) -> None:
    rights = {**rights, owner: rights.get(owner, 0) + OWN} if owner else rights
    row = {"rights": rights} if rights else {}
    assert holds(row, permission_clause(asker.names, least).test) == permits(rights, asker, least)
    assert permits(rights, Principal("root", admin=True), least)


@given(rights=RIGHTS, owner=st.sampled_from(("", *NAMES)))
def test_rights_and_what_is_shown_of_them_are_the_same(rights: dict[str, int], owner: str) -> None:
    rights = {**rights, owner: rights.get(owner, 0) + OWN} if owner else rights
    shown = access_of(rights)
    assert shown.owner == owner
    changes = [GrantChange(one.principal, one.privileges) for one in shown.grants]
    assert rights_after({}, changes, shown.owner) == rights
    assert rights_after(rights, [GrantChange(name, (), tuple(Privilege)) for name in NAMES], "") == {}


def test_i12_a_principal_in_more_roles_than_a_condition_holds_has_the_same_rights() -> None:
    """One read more, and the right it has is still a condition of the write."""
    world = fake_world()
    crowd = Principal("bob", frozenset(f"role{number:03d}" for number in range(3 * MAX_NAMES)))
    owner = NamedRefs(world, ANN)
    member = NamedRefs(world, crowd)
    token = owner.create("r", "a").entry.token
    with pytest.raises(PermissionDenied):
        member.swap("r", token, "b")
    owner.grant("r", [GrantChange("role149", (Privilege.MODIFY,))])
    world.refs.requests.clear()
    token = member.swap("r", token, "b").entry.token
    assert world.refs.requests == ["read", "write"]
    assert member.read("r").current.token == token
    before_next_write(world, lambda: owner.grant("r", [GrantChange("role149", (), (Privilege.MODIFY,))]))
    with pytest.raises(PermissionDenied):
        member.swap("r", token, "c")
    assert owner.read("r").current.value == "b"
    for refs in (member, NamedRefs(world, crowd, lambda: True)):
        with pytest.raises((PermissionDenied, NotFound)) as error:
            refs.swap("nothing", token, "c")
        assert isinstance(error.value, PermissionDenied) == (refs is member)


def test_i12_a_grant_on_what_was_deleted_meanwhile_is_refused() -> None:
    world = fake_world()
    refs = NamedRefs(world, ANN)
    token = refs.create("r", "a").entry.token
    before_next_write(world, lambda: refs.delete("r", token))
    with pytest.raises(NotFound):
        refs.grant("r", [GrantChange("bob", (Privilege.SELECT,))])
    assert not holds(world.refs.rows["test/ref/r"], Present(("rights", "bob")))


def test_i12_a_change_of_rights_that_meets_another_keeps_both() -> None:
    world = fake_world()
    refs = NamedRefs(world, ANN)
    refs.create("r", "a")
    before_next_write(world, lambda: refs.grant("r", [GrantChange("ops", (Privilege.SELECT,))]))
    access = refs.grant("r", [GrantChange("bob", (Privilege.MODIFY,))])
    assert access == Access("ann", (Grant("bob", (Privilege.MODIFY,)), Grant("ops", (Privilege.SELECT,))))
    assert refs.rights("r") == access
