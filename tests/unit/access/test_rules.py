"""The rules of access without trees and requests: inheritance, ownership, and the answer for a
missing entity."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.rights import rules
from turnstile.rights.grants import (
    GRANTABLE,
    MAX_PRINCIPALS,
    NO_ACCESS,
    OPERATOR,
    Access,
    Grant,
    GrantChange,
    Principal,
    Privilege,
    Securable,
    apply_changes,
    check_principal,
    check_privileges,
    owner_for,
)
from turnstile.rights.rules import Chain, Rule, is_permitted, may_go_on, may_know_missing, padded_chain
from turnstile.store.core.errors import InvalidRequest, TooLarge

ANN = Principal("ann", frozenset({"team"}))
TABLE_RULES = [*rules.TABLE_RULES]
LEVEL_RULES = [rules.use_catalog, rules.edit_catalog, rules.see_schema, rules.edit_schema, rules.create_table]
METASTORE_RULES = [*rules.METASTORE_RULES]


def granted(*privileges: Privilege, to: str = "ann", owner: str = "") -> Access:
    grants = (Grant(to, tuple(sorted(privileges))),) if privileges else ()
    return Access(owner, grants)


SOME = st.builds(
    lambda owner, own, team: Access(
        owner, tuple(Grant(name, tuple(sorted(held))) for name, held in (("ann", own), ("team", team)) if held)
    ),
    st.sampled_from(["", "ann", "team", "bob"]),
    st.frozensets(st.sampled_from([*Privilege]), max_size=3),
    st.frozensets(st.sampled_from([*Privilege]), max_size=3),
)
CHAINS = st.builds(Chain, SOME, st.lists(SOME, min_size=1, max_size=3).map(tuple), SOME)


@pytest.mark.parametrize("rule", TABLE_RULES + LEVEL_RULES + METASTORE_RULES)
def test_i12_nothing_is_permitted_without_any_right(rule: Rule) -> None:
    assert not is_permitted(rule, ANN, Chain(NO_ACCESS, (NO_ACCESS, NO_ACCESS), NO_ACCESS))


@given(
    chain=CHAINS, rule=st.sampled_from(TABLE_RULES), level=st.integers(0, 4), privilege=st.sampled_from([*Privilege])
)
def test_i12_a_further_grant_takes_nothing_away(chain: Chain, rule: Rule, level: int, privilege: Privilege) -> None:
    levels = list(chain.levels)
    at = min(level, len(levels) - 1)
    levels[at] = apply_changes(levels[at], [GrantChange("ann", (privilege,))])
    more = padded_chain(levels, len(chain.schemas), table=True)
    assert not is_permitted(rule, ANN, chain) or is_permitted(rule, ANN, more)


@given(chain=CHAINS, rule=st.sampled_from(TABLE_RULES))
def test_i12_a_privilege_holds_on_everything_below_where_it_was_granted(chain: Chain, rule: Rule) -> None:
    """Moving every grant to the catalog takes nothing away."""
    held = frozenset[Privilege]().union(*(level.held_by(ANN.names) for level in chain.levels))
    catalog = apply_changes(chain.catalog, [GrantChange("ann", tuple(held))])
    bare = tuple(Access(level.owner) for level in chain.schemas)
    assert chain.table is not None
    moved = Chain(catalog, bare, Access(chain.table.owner))
    assert not is_permitted(rule, ANN, chain) or is_permitted(rule, ANN, moved)


@given(chain=CHAINS, rule=st.sampled_from([rules.read_table, rules.modify_table, rules.write_files]))
def test_i12_owning_what_a_table_is_in_is_no_right_to_its_data(chain: Chain, rule: Rule) -> None:
    """As owner of everything above, but not of the table, one needs exactly what everybody
    needs."""
    assert chain.table is not None
    above = Chain(
        msgspec.structs.replace(chain.catalog, owner="ann"),
        tuple(msgspec.structs.replace(level, owner="ann") for level in chain.schemas),
        msgspec.structs.replace(chain.table, owner=""),
    )
    held = frozenset[Privilege]().union(*(level.held_by(ANN.names) for level in above.levels))
    needed = {
        rules.read_table: {Privilege.SELECT},
        rules.modify_table: {Privilege.MODIFY},
        rules.write_files: {Privilege.SELECT, Privilege.MODIFY},
    }[rule]
    assert is_permitted(rule, ANN, above) == (held >= needed)


@given(chain=CHAINS, rule=st.sampled_from(TABLE_RULES))
def test_i12_without_use_of_a_level_nothing_below_it_can_be_read_or_written(chain: Chain, rule: Rule) -> None:
    closed = msgspec.structs.replace(chain, catalog=Access())  # without USE of the catalog
    assert not is_permitted(rule, ANN, closed)


def test_i12_nested_namespaces_count_as_parents() -> None:
    catalog = granted(Privilege.USE_CATALOG)
    table = granted(Privilege.SELECT)
    inner = granted(Privilege.USE_SCHEMA)
    assert not is_permitted(rules.read_table, ANN, Chain(catalog, (NO_ACCESS, inner), table))
    assert is_permitted(rules.read_table, ANN, Chain(catalog, (inner, NO_ACCESS), table))
    assert is_permitted(rules.edit_table, ANN, Chain(catalog, (Access("ann"), Access("bob")), Access("bob")))
    assert not is_permitted(rules.edit_table, ANN, Chain(catalog, (NO_ACCESS, Access("ann")), NO_ACCESS))


@given(chain=CHAINS, rule=st.sampled_from(TABLE_RULES))
def test_i12_a_role_is_as_good_as_its_member_and_an_admin_as_any_principal(chain: Chain, rule: Rule) -> None:
    assert is_permitted(rule, Principal("x", frozenset({"ann", "team"})), chain) == is_permitted(rule, ANN, chain)
    assert is_permitted(rule, Principal("x", admin=True), chain)


@given(chain=CHAINS, rule=st.sampled_from(TABLE_RULES), there=st.integers(0, 4))
def test_i12_what_is_missing_is_answered_as_if_it_had_another_owner(chain: Chain, rule: Rule, there: int) -> None:
    """Refused for the missing: refused for the existing without rights of its own. Told that it is
    missing: would have been let in, or may create it."""
    existing = chain.levels[: min(there, len(chain.levels))]
    missing = padded_chain(existing, len(chain.schemas), table=True)
    existing = msgspec.structs.replace(missing, missing=None)
    if missing.missing is not None:
        assert may_go_on(rule, ANN, missing) == (is_permitted(rule, ANN, existing) or may_know_missing(ANN, missing))
    else:
        assert may_go_on(rule, ANN, missing) == is_permitted(rule, ANN, existing)


def test_creating_a_namespace_is_authorized_on_the_last_level_that_exists() -> None:
    catalog = granted(Privilege.USE_CATALOG, Privilege.CREATE_SCHEMA)
    assert may_go_on(rules.create_schema, ANN, padded_chain([catalog], 1, table=False))
    assert may_go_on(
        rules.create_schema, ANN, padded_chain([catalog, NO_ACCESS], 1, table=False)
    )  # told that it exists
    assert not may_go_on(
        rules.create_schema, ANN, padded_chain([catalog, NO_ACCESS], 2, table=False)
    )  # no USE of the level above
    assert may_go_on(rules.create_schema, ANN, padded_chain([catalog, Access("ann")], 2, table=False))
    assert not may_go_on(rules.create_schema, ANN, padded_chain([], 1, table=False))


def test_changes_add_then_remove_and_equal_rights_are_equal_values() -> None:
    one = apply_changes(
        NO_ACCESS, [GrantChange("b", (Privilege.SELECT,)), GrantChange("a", (Privilege.MODIFY, Privilege.SELECT))]
    )
    other = apply_changes(
        NO_ACCESS, [GrantChange("a", (Privilege.SELECT, Privilege.MODIFY)), GrantChange("b", (Privilege.SELECT,))]
    )
    assert one == other
    both = apply_changes(one, [GrantChange("a", (Privilege.CREATE_TABLE,), (Privilege.CREATE_TABLE, Privilege.SELECT))])
    assert both.held_by(frozenset({"a"})) == {Privilege.MODIFY}
    assert (
        apply_changes(one, [GrantChange("a", (), tuple(Privilege)), GrantChange("b", (), tuple(Privilege))])
        == NO_ACCESS
    )
    assert apply_changes(one, [], "ann").owner == "ann" and apply_changes(one, [], "").owner == ""


def test_a_securable_has_room_for_so_many_principals_and_can_always_shrink() -> None:
    full = apply_changes(NO_ACCESS, [GrantChange(f"p{n}", (Privilege.SELECT,)) for n in range(MAX_PRINCIPALS)])
    with pytest.raises(TooLarge):
        apply_changes(full, [GrantChange("one more", (Privilege.SELECT,))])
    apply_changes(full, [GrantChange("p1", (Privilege.MODIFY,))])
    over = Access("", (*full.grants, Grant("z", (Privilege.SELECT,))))
    assert len(apply_changes(over, [GrantChange("p1", (), (Privilege.SELECT,))]).grants) == MAX_PRINCIPALS


@pytest.mark.parametrize("securable", [*Securable])
def test_only_what_has_a_meaning_there_can_be_granted(securable: Securable) -> None:
    for privilege in Privilege:
        if privilege in GRANTABLE[securable]:
            assert check_privileges(securable, [str(privilege)], "add") == (privilege,)
        else:
            with pytest.raises(InvalidRequest):
                check_privileges(securable, [str(privilege)], "add")
    with pytest.raises(InvalidRequest):
        check_privileges(securable, ["OWNER"], "add")


@pytest.mark.parametrize("name", ["", "a\nb", "\x00", "x" * 256])
def test_a_principal_has_a_name(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_principal(name, "principal")


def test_i12_what_the_nameless_operator_makes_belongs_to_no_user_of_that_name() -> None:
    assert owner_for(OPERATOR) == ""
    assert owner_for(Principal("operator")) == "operator"
    assert not Access(owner_for(OPERATOR)).owned_by(frozenset({"", "operator"}))
