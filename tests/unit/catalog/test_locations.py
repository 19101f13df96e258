"""One spelling, one owner (I10)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes.refs import FakeRefs
from turnstile.catalog.core.location_rows import (
    Location,
    claim,
    conflict,
    keys_above,
    owner_row,
    release,
)
from turnstile.catalog.core.paths import managed_location
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.locations import ancestors, branch_location, is_of_branch, is_root, normalise, overlap
from turnstile.store.core.rows import Space
from turnstile.store.ports import AllAccepted, SomeRejected

SPACE = Space("test")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("s3://b/x/y", "s3://b/x/y"),
        ("s3a://b/x/y/", "s3://b/x/y"),
        ("s3n://b//x///y//", "s3://b/x/y"),
        ("S3://b/X", "s3://b/X"),
        ("file:/x/y", "file:///x/y"),
        ("file:///x/y/", "file:///x/y"),
        ("file://localhost/x", "file:///x"),
        ("s3://b", "s3://b"),
        ("file:///", "file://"),
        ("s3://my.old_bucket-1/x", "s3://my.old_bucket-1/x"),
        ("gs://b/x", "gs://b/x"),
        ("ABFSS://c@account.dfs.core.windows.net/x/", "abfss://c@account.dfs.core.windows.net/x"),
        ("hdfs://NameService:8020/x", "hdfs://NameService:8020/x"),
    ],
)
def test_spellings_of_one_place_become_one(written: str, meant: str) -> None:
    assert normalise(written) == meant
    assert normalise(meant + "/") == meant


@pytest.mark.parametrize(
    "written",
    [
        *("", "x", "/x", "x/y", "s3:/x", "s3:///x", "file://host/x", "s3://b/../x", "s3://b/x/..", "file:///./x"),
        *("s3://b/x%2e%2e", "s3://b/x?y", "s3://b/x#y", "s3://b/x\\y", "s3://b/x\ny", "s3://b/*"),
        *("s3://b/" + "x" * 1100, "s3://b" + "/x" * 50, "://b/x", "s3 ://b/x"),
    ],
)
def test_what_may_mean_another_place_is_refused_by_name(written: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        normalise(written)
    assert refused.value.field == "location"
    assert refused.value.remedy


@pytest.mark.parametrize(
    "written",
    [
        *(
            "s3://x@b/t",
            "s3://@b/t",
            "s3a://:@b/t",
            "s3://k:s@b/t",
            "s3://b:443/t",
            "s3://b:/t",
            "s3://b./t",
            "s3://.b/t",
        ),
        *("s3://B/t", "S3A://Lake/t", "s3://b ucket/t", "s3:// b/t", "s3://b /t", "s3://bücket/t", "s3://b\u200b/t"),
        *("s3://-b/t", "s3://b_/t", "gs://x@b/t", "gs://b:443/t", "gs://B/t", "abfss://account/t", "abfss://a@b@c/t"),
        *(
            "abfss://c@Account/t",
            "abfss://c@account./t",
            "hdfs://u@nn/t",
            "hdfs://nn./t",
            "hdfs://nn:x/t",
            "hdfs://n n/t",
        ),
    ],
)
def test_i10_one_place_has_one_name_so_that_it_has_one_owner(written: str) -> None:
    """Clients reach the same bucket with and without a user, a port, a dot at the end, or another
    case."""
    with pytest.raises(InvalidRequest, match="no place that is clear") as refused:
        normalise(written)
    assert refused.value.field == "location" and "://" in str(refused.value.remedy)


def test_i10_a_location_is_as_long_as_a_key_may_be_in_bytes() -> None:
    for letter, size in (("x", 1), ("é", 2), ("漢", 3)):
        longest = "s3://b/" + letter * ((1024 - 7) // size)
        assert normalise(longest) == longest
        with pytest.raises(InvalidRequest, match="longer than 1024 bytes"):
            normalise(longest + letter)


def test_ancestors_reach_up_to_the_bucket() -> None:
    assert ancestors("s3://b/x/y") == ("s3://b", "s3://b/x")
    assert ancestors("file:///x/y") == ("file://", "file:///x")
    assert is_root("s3://b")
    assert is_root("file://")
    assert not is_root("file:///x")
    assert overlap("s3://b/x", "s3://b/x/y")
    assert overlap("s3://b/x/y", "s3://b/x")
    assert not overlap("s3://b/x", "s3://b/xy")


def test_managed_locations_are_disjoint_whatever_namespaces_are_called() -> None:
    """A namespace named like a table's uuid does not lie below that table."""
    first = managed_location("s3a://lake/", "main", ("a",), "u1")
    nested = managed_location("s3a://lake/", "main", ("a", "u1"), "u2")
    assert first == "s3://lake/main/a/u1"
    assert not overlap(first, nested)


places = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map(lambda parts: "s3://" + "/".join(parts))


@given(st.lists(st.tuples(st.booleans(), places), max_size=25))
def test_of_overlapping_claims_one_holds_and_markers_go_with_their_reasons(steps: list[tuple[bool, str]]) -> None:
    """I10: no owner is an ancestor or descendant of another, in whatever order claims and releases
    come."""
    refs = FakeRefs()
    owners: set[str] = set()
    for n, (claiming, place) in enumerate(steps):
        rows = refs.read_many(keys_above(SPACE, place))
        if claiming:
            free = not any(overlap(place, other) for other in owners)
            assert (conflict(SPACE, place, rows) is None) == free
            answer = refs.transact(claim(SPACE, place, rows, table_id=place, catalog="c", now=1), f"c{n}")
            assert isinstance(answer, AllAccepted) == free
            if free:
                owners.add(place)
        else:
            answer = refs.transact(release(SPACE, place, place, rows), f"r{n}")
            assert isinstance(answer, AllAccepted) == (place in owners)
            owners.discard(place)
        parsed = {key.split("/location/", 1)[1]: Location.from_row(row) for key, row in refs.rows.items()}
        assert {place for place, row in parsed.items() if row.table_id} == owners
        for place, row in parsed.items():
            if row.marker:
                assert row.below == sum(place in ancestors(owner) for owner in owners)
        assert all(row.below for row in parsed.values() if not row.table_id), "a marker outlived its reason"


@given(places, places)
def test_two_claims_computed_from_the_same_view_never_both_hold(one: str, other: str) -> None:
    """I10 under a race: both looked before either wrote."""
    refs = FakeRefs()
    views = [refs.read_many(keys_above(SPACE, place)) for place in (one, other)]
    answers = [
        refs.transact(claim(SPACE, place, view, table_id=f"t{n}", catalog="c", now=1), f"c{n}")
        for n, (place, view) in enumerate(zip((one, other), views, strict=True))
    ]
    assert isinstance(answers[0], AllAccepted)
    if overlap(one, other):
        assert isinstance(answers[1], SomeRejected)


def test_inside_a_zone_owners_stand_alone_and_no_other_gets_in() -> None:
    refs = FakeRefs()
    refs.transact(claim(SPACE, "s3://b/lake", {}, table_id="", catalog="", now=1), "zone")
    refs.write(owner_row(SPACE, "s3://b/lake/c/n/u1", "u1", "c", 1))
    for place in ("s3://b/lake", "s3://b/lake/c/n/u1/x", "s3://b/lake/elsewhere", "s3://b", "s3://b/lake/c"):
        rows = refs.read_many(keys_above(SPACE, place))
        assert conflict(SPACE, place, rows) is not None, place
    rows = refs.read_many(keys_above(SPACE, "s3://b/lake/c/n/u1"))
    refs.transact(release(SPACE, "s3://b/lake/c/n/u1", "u1", rows), "release")
    assert sorted(refs.rows) == ["test/location/s3://b", "test/location/s3://b/lake"]
    assert refs.rows["test/location/s3://b"]["below"] == 1


def test_i10_a_location_in_the_folder_of_branches_counts_for_no_marker() -> None:
    refs = FakeRefs()
    claimed = {}
    for number, place in enumerate(("s3://b/x/t", "s3://b/x/u")):
        rows = refs.read_many(keys_above(SPACE, place))
        refs.transact(claim(SPACE, place, rows, table_id=place, catalog="c", now=1), f"c{number}")
        claimed = dict(refs.rows)
    branch = branch_location("s3://b/x/t", "u1")
    refs.write(owner_row(SPACE, branch, "u1", "c", 1))
    rows = refs.read_many(keys_above(SPACE, branch))
    assert isinstance(refs.transact(release(SPACE, branch, "u2", rows), "r1"), SomeRejected), "it is another's"
    assert isinstance(refs.transact(release(SPACE, branch, "u1", rows), "r2"), AllAccepted)
    assert refs.rows == claimed


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("s3://b/t/_branches/u", True),
        ("s3://b/t/_branches", False),
        ("s3://b/t/_branches/u/x", False),
        ("s3://b/my_branches/u", False),
        ("s3://b/t", False),
    ],
)
def test_a_location_of_a_branch_is_known_by_its_folder(location: str, expected: bool) -> None:
    assert is_of_branch(location) == expected
    assert branch_location("s3://b/t", "u") == "s3://b/t/_branches/u"
