"""Roles of background work, and their division among the processes of a member (I19)."""

from __future__ import annotations

import pytest

from turnstile.fleet.core.decisions import granule_of
from turnstile.fleet.core.roles import ALL, EVENTS, GRANULES, MAINTAIN, PUBLISH, SWEEP, without_members
from turnstile.fleet.core.shares import Ownership, Share, Shares

NAMES = [f"maintain/{number}" for number in range(4)]
SHARES = Shares(100, {MAINTAIN: Share(4, frozenset(NAMES[:1]), frozenset(NAMES[1:3]))})


def catalog_in(name: str) -> str:
    """A catalog whose granule that is."""
    return next(f"c{number}" for number in range(1_000) if granule_of(MAINTAIN, f"c{number}", 4) == name)


@pytest.mark.parametrize(
    ("granule", "whose"), [(0, Ownership.MINE), (1, Ownership.OTHERS), (2, Ownership.OTHERS), (3, Ownership.UNSURE)]
)
def test_i19_the_owner_of_the_granule_should_do_the_work(granule: int, whose: Ownership) -> None:
    assert SHARES.whose(MAINTAIN, catalog_in(NAMES[granule]), 99) is whose


def test_i19_no_member_is_sure_of_what_was_said_long_ago_or_of_a_role_that_nothing_was_said_of() -> None:
    catalog = catalog_in(NAMES[1])
    assert SHARES.whose(MAINTAIN, catalog, 100) is Ownership.UNSURE
    assert SHARES.whose(PUBLISH, catalog, 99) is Ownership.UNSURE
    assert Shares().whose(MAINTAIN, catalog, -1) is Ownership.UNSURE


def test_a_role_without_members_is_named_also_one_that_the_fleet_never_had() -> None:
    assert ALL == (PUBLISH, SWEEP, EVENTS, MAINTAIN) == tuple(GRANULES)
    assert without_members({"catalogs": 32}, [["catalogs"]]) == ALL
    assert without_members({"catalogs": 32}, [["catalogs", MAINTAIN], [PUBLISH, SWEEP]]) == (EVENTS,)
    assert without_members({PUBLISH: 64}, [ALL]) == ()
    assert without_members({PUBLISH: 64}, []) == ALL
    assert without_members({}, []) == (), "there is no fleet"
