"""Privileges that releases without branches do not know: such a release reads rights that have
them, and never has more rights than were granted (I12, I22)."""

from __future__ import annotations

from enum import StrEnum

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.catalog.core.entities import Namespace
from turnstile.rights.grants import (
    GRANTABLE,
    MAX_PRINCIPALS,
    NO_ACCESS,
    OWN,
    Access,
    Grant,
    GrantChange,
    LaterGrant,
    Privilege,
    Securable,
    apply_changes,
    check_privileges,
)
from turnstile.store.core.errors import InvalidRequest, TooLarge

EarlierPrivilege = StrEnum(
    "EarlierPrivilege",
    {
        name.replace(" ", "_"): name
        for name in (
            "CREATE CATALOG", "USE CATALOG", "CREATE SCHEMA", "USE SCHEMA", "CREATE TABLE", "SELECT", "MODIFY",
            "READ FILES", "WRITE FILES", "CREATE EXTERNAL TABLE", "CREATE REFERENCE",
        )
    },
)  # fmt: skip
"""The privileges of releases without branches."""


class EarlierGrant(msgspec.Struct, frozen=True, array_like=True):
    """``Grant`` of these releases."""

    principal: str
    privileges: tuple[EarlierPrivilege, ...]


class EarlierAccess(msgspec.Struct, frozen=True, omit_defaults=True):
    """``Access`` of these releases."""

    owner: str = ""
    grants: tuple[EarlierGrant, ...] = ()


class EarlierNamespace(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="t", tag="namespace"):
    """``Namespace`` of these releases."""

    name: str
    id: str
    created: int
    comment: str | None = None
    access: EarlierAccess = EarlierAccess()


NAMES = st.sampled_from(["ann", "bob", "team"])
CHANGES = st.lists(
    st.builds(
        GrantChange,
        NAMES,
        st.lists(st.sampled_from([*Privilege]), max_size=4).map(tuple),
        st.lists(st.sampled_from([*Privilege]), max_size=2).map(tuple),
    ),
    max_size=6,
)


@given(changes=CHANGES)
def test_i22_a_release_without_branches_reads_the_privileges_that_it_knows(changes: list[GrantChange]) -> None:
    access = apply_changes(NO_ACCESS, changes, "zoe")
    stored = msgspec.msgpack.encode(Namespace("n", "1", 1, access=access))
    earlier = msgspec.msgpack.decode(stored, type=EarlierNamespace).access
    shown = {grant.principal: {*map(str, grant.privileges)} for grant in earlier.grants}
    expected = {grant.principal: {*map(str, grant.privileges)} - {*map(str, OWN)} for grant in access.all_grants}
    assert (earlier.owner, shown) == ("zoe", {name: known for name, known in expected.items() if known})
    rewritten = msgspec.msgpack.decode(msgspec.msgpack.encode(earlier), type=Access)
    for name in ("ann", "bob", "team"):
        names = frozenset({name})
        assert rewritten.held_by(names) == access.held_by(names) - OWN


@given(changes=CHANGES)
def test_rights_are_stored_and_read_as_they_were_granted(changes: list[GrantChange]) -> None:
    granted: dict[str, set[Privilege]] = {}
    for change in changes:
        granted[change.principal] = (granted.get(change.principal, set()) | {*change.add}) - {*change.remove}
    access = msgspec.msgpack.decode(msgspec.msgpack.encode(apply_changes(NO_ACCESS, changes)), type=Access)
    assert {grant.principal: {*grant.privileges} for grant in access.all_grants} == {
        name: held for name, held in granted.items() if held
    }
    assert all(access.held_by(frozenset({name})) == held for name, held in granted.items())
    assert apply_changes(access, [GrantChange(name, (), tuple(Privilege)) for name in granted]) == NO_ACCESS


def test_rights_without_later_privileges_have_the_bytes_of_earlier_releases() -> None:
    access = apply_changes(NO_ACCESS, [GrantChange("ann", (Privilege.SELECT,))], "bob")
    earlier = EarlierAccess("bob", (EarlierGrant("ann", (EarlierPrivilege("SELECT"),)),))
    assert msgspec.msgpack.encode(access) == msgspec.msgpack.encode(earlier)


def test_i22_a_privilege_of_a_later_release_gives_no_right_and_stays() -> None:
    access = Access("", (Grant("ann", (Privilege.SELECT,)),), (LaterGrant("ann", ("FLY", "PROMOTE")),))
    assert access.held_by(frozenset({"ann"})) == {Privilege.SELECT, Privilege.PROMOTE}
    assert access.all_grants == (Grant("ann", (Privilege.PROMOTE, Privilege.SELECT)),)
    after = apply_changes(access, [GrantChange("ann", (Privilege.MODIFY,), (Privilege.PROMOTE,))])
    assert after.later == (LaterGrant("ann", ("FLY",)),)
    assert after.grants == (Grant("ann", (Privilege.MODIFY, Privilege.SELECT)),)
    assert Access(later=(LaterGrant("ann", ("FLY",)),)).all_grants == ()


def test_principals_with_later_privileges_count_and_see_their_own_alone() -> None:
    full = apply_changes(NO_ACCESS, [GrantChange(f"p{n}", (Privilege.PROMOTE,)) for n in range(MAX_PRINCIPALS)])
    with pytest.raises(TooLarge):
        apply_changes(full, [GrantChange("one more", (Privilege.SELECT,))])
    assert apply_changes(full, [GrantChange("p1", (Privilege.SELECT,))]).all_grants[1].principal == "p1"
    assert full.shown_to(frozenset({"p7"})) == Access(later=(LaterGrant("p7", ("PROMOTE",)),))


@pytest.mark.parametrize("securable", [*Securable])
def test_privileges_can_be_left_out_of_what_is_accepted(securable: Securable) -> None:
    for privilege in GRANTABLE[securable]:
        if privilege in OWN:
            with pytest.raises(InvalidRequest):
                check_privileges(securable, [str(privilege)], "add", without=OWN)
        else:
            assert check_privileges(securable, [str(privilege)], "add", without=OWN) == (privilege,)
