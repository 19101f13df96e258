"""Every clause of a catalog write refuses a row for itself alone, and cites an invariant."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.fakes.refs import FakeRefs
from turnstile.catalog.clone import core as clones
from turnstile.catalog.core import location_rows
from turnstile.catalog.core import location_rows as clone_holds
from turnstile.catalog.core import location_rows as import_claims
from turnstile.catalog.core import rows as catalog_rows
from turnstile.catalog.core.rows import CatalogHead
from turnstile.delta.core.head import TableHead, new_head_row
from turnstile.delta.core.writes import state as catalog_heads
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import Accepted, Rejected

SPACE = Space("test")
PLACE = "s3://b/x/t"


def head_row(**changes: Any) -> Row:
    row = new_head_row(
        key="test/table/t",
        table_id="t",
        catalog="main",
        name="main.n.t",
        location=PLACE,
        metadata="m",
        version=4,
        ict=1,
        row_hwm=None,
        created=1,
        managed=True,
    )
    return {**row, **changes}


def catalog_row(**changes: Any) -> Row:
    return {**catalog_rows.new_catalog("test/catalog/main", "main", "commit/1", 1).row, **changes}


def staging_row(**changes: Any) -> Row:
    made = catalog_rows.new_staging(
        key="test/staging/t",
        table_id="t",
        catalog="main",
        namespace="n",
        name="t",
        location=PLACE,
        creator="",
        now=1,
    )
    return {**made.row, **changes}


def location(place: str, **changes: Any) -> Row:
    return {"key": SPACE.location(place), "kind": "location", "created": 1, "below": 0, **changes}


HEAD = TableHead.from_row(head_row())
LEAVING = TableHead.from_row(head_row(state="leaving", reason="export", floor=2))
DROPPED = TableHead.from_row(head_row(state="dropped", managed=False))
CATALOG = CatalogHead.from_row(catalog_row())
MARKED = {
    SPACE.location("s3://b"): location("s3://b", below=2),
    SPACE.location("s3://b/x"): location("s3://b/x", below=1),
}
HELD = clone_holds.HeldLocation(PLACE, "t")
HELD_BY_A = clone_holds.Location.from_row(location(PLACE, table_id="t", clones={"a"}, revision=3))
HELD_BY_NONE = clone_holds.Location.from_row(location(PLACE, table_id="t"))
PIN = clones.Pin("t", PLACE, 4, 1, None, "m")
CLAIM = location_rows.claim(SPACE, PLACE, MARKED, table_id="t", catalog="main", now=1)
RELEASE = location_rows.release(SPACE, PLACE, "t", MARKED)
GIVEN_BACK = import_claims.give_back(SPACE, PLACE, "t", "r1", MARKED)

CASES: dict[str, tuple[Write, Row | None, dict[str, Row | None]]] = {
    "new catalog": (catalog_rows.new_catalog("test/catalog/main", "main", "commit/1", 1), None, {"new": catalog_row()}),
    "swap": (
        catalog_rows.swap_head(CATALOG, "commit/2", 2),
        catalog_row(swept=1),
        {
            "same head": catalog_row(head="commit/x"),
            "not swept": catalog_row(swept=2),
            "same sweeps": catalog_row(swept=1, taken_back=1),
        },
    ),
    "swap back": (
        catalog_rows.swap_head(CATALOG, "commit/2", 2, replaced=5),
        catalog_row(swept=4),
        {
            "same head": catalog_row(head="commit/x"),
            "not swept": catalog_row(swept=5),
            "same sweeps": catalog_row(swept=4, taken_back=1),
        },
    ),
    "swap after a mark was taken back": (
        catalog_rows.swap_head(CatalogHead.from_row(catalog_row(taken_back=2)), "commit/2", 2),
        catalog_row(swept=1, taken_back=2),
        {
            "same head": catalog_row(head="commit/x", taken_back=2),
            "not swept": catalog_row(swept=2, taken_back=2),
            "same sweeps": catalog_row(swept=1, taken_back=3),
        },
    ),
    "end of a sweep": (
        catalog_rows.end_sweep(CatalogHead.from_row(catalog_row(swept=9)), 5),
        catalog_row(swept=9),
        {
            "same catalog": catalog_row(swept=9, created=CATALOG.created + 1),
            "same mark": catalog_row(swept=8),
            "same sweeps": catalog_row(swept=9, taken_back=1),
        },
    ),
    "sweep": (
        catalog_rows.begin_sweep(CATALOG.key, CATALOG.created, 5),
        catalog_row(swept=5),
        {"same catalog": catalog_row(created=CATALOG.created + 1), "no later sweep": catalog_row(swept=6)},
    ),
    "new staging": (
        catalog_rows.new_staging(
            key="test/staging/t", table_id="t", catalog="m", namespace="n", name="t", location=PLACE, creator="", now=1
        ),
        None,
        {"new": staging_row()},
    ),
    "use staging": (
        catalog_rows.use_staging("test/staging/t"),
        staging_row(),
        {"open": staging_row(state="collecting")},
    ),
    "drop": (
        catalog_heads.drop_head(HEAD.key, 2),
        head_row(),
        {"droppable": head_row(state="leaving"), "settled": head_row(undecided=b"u")},
    ),
    "drop stuck": (
        catalog_heads.drop_head(HEAD.key, 2),
        head_row(state="stuck"),
        {"droppable": head_row(state="dropped"), "settled": head_row(state="stuck", undecided=b"u")},
    ),
    "drop imported": (
        catalog_heads.drop_published_head(HEAD, 2),
        head_row(),
        {
            "droppable": head_row(state="recovering"),
            "same latest": head_row(latest=5),
            "published": head_row(floor=3),
            "settled": head_row(undecided=b"u"),
        },
    ),
    "rename": (catalog_heads.rename_head(HEAD.key, "n", 2), head_row(), {"shown": head_row(state="stuck")}),
    "rename clone": (
        catalog_heads.rename_head(HEAD.key, "n", 2),
        head_row(state="pinned"),
        {"shown": head_row(state="recovering")},
    ),
    "drop clone": (
        catalog_heads.drop_head(HEAD.key, 2),
        head_row(state="pinned"),
        {"droppable": head_row(state="dropped"), "settled": head_row(state="pinned", undecided=b"u")},
    ),
    "restore": (
        catalog_heads.restore_head(HEAD.key, "n", 2),
        head_row(state="dropped"),
        {"dropped": head_row(state="stuck"), "unpurged": head_row(state="dropped", reason="purging")},
    ),
    "restore what was stuck": (
        catalog_heads.restore_head(HEAD.key, "n", 2, reason="version 5: gone"),
        head_row(state="dropped", reason="version 5: gone"),
        {
            "dropped": head_row(state="stuck", reason="version 5: gone"),
            "unpurged": head_row(state="dropped", reason="exported"),
        },
    ),
    "leave": (
        catalog_heads.leave_head(HEAD, "export", 2),
        head_row(),
        {"active": head_row(state="dropped"), "settled": head_row(undecided=b"u")},
    ),
    "stay": (
        catalog_heads.stay_head(LEAVING, "export", 2),
        head_row(state="leaving", reason="export", floor=2),
        {
            "leaving": head_row(state="dropped", reason="export", floor=2),
            "same export": head_row(state="leaving", reason="other", floor=2),
            "same latest": head_row(state="leaving", reason="export", floor=2, latest=5),
            "unpublished": head_row(state="leaving", reason="export"),
        },
    ),
    "left": (
        catalog_heads.left_head(HEAD, "exported", 2),
        head_row(state="leaving"),
        {
            "leaving": head_row(),
            "same latest": head_row(state="leaving", latest=5),
            "published": head_row(state="leaving", floor=3),
        },
    ),
    "own": (CLAIM[0], None, {"new": location(PLACE)}),
    "mark": (CLAIM[2], location("s3://b/x", below=1), {"marker": location("s3://b/x", table_id="other")}),
    "first mark": (
        location_rows.claim(SPACE, PLACE, {}, table_id="t", catalog="main", now=1)[1],
        None,
        {"new": location("s3://b", below=1)},
    ),
    "disown": (
        RELEASE[0],
        location(PLACE, table_id="t"),
        {"own": location(PLACE, table_id="other"), "uncloned": location(PLACE, table_id="t", clones={"c"})},
    ),
    "hold": (
        clone_holds.hold(SPACE, HELD, ["c"], 0),
        location(PLACE, table_id="t", clones={"b"}),
        {
            "own": location(PLACE, table_id="other"),
            "unpurged": location(PLACE, table_id="t", purging=True),
            "same marks": location(PLACE, table_id="t", revision=1),
        },
    ),
    "let go": (
        clone_holds.let_go(SPACE, HELD, ["c"]),
        location(PLACE, table_id="t", clones={"c"}),
        {"owned": location(PLACE, below=1)},
    ),
    "exchange": (
        clone_holds.exchange(SPACE, HELD, HELD_BY_A, come=["c"], go=["a"]),
        location(PLACE, table_id="t", clones={"a"}, revision=3),
        {
            "own": location(PLACE, table_id="other", clones={"a"}, revision=3),
            "unpurged": location(PLACE, table_id="t", clones={"a"}, purging=True, revision=3),
            "same clones": location(PLACE, table_id="t", clones={"a", "b"}, revision=3),
            "same marks": location(PLACE, table_id="t", clones={"a"}, revision=4),
        },
    ),
    "first back": (
        clone_holds.exchange(SPACE, HELD, HELD_BY_NONE, come=["c"], go=[]),
        location(PLACE, table_id="t"),
        {
            "own": location(PLACE, table_id="other"),
            "unpurged": location(PLACE, table_id="t", purging=True),
            "same clones": location(PLACE, table_id="t", clones={"b"}),
            "same marks": location(PLACE, table_id="t", revision=1),
        },
    ),
    "begin purge": (
        clone_holds.begin_purge(SPACE, HELD, 0),
        location(PLACE, table_id="t"),
        {
            "own": location(PLACE, table_id="other"),
            "uncloned": location(PLACE, table_id="t", clones={"c"}),
            "same marks": location(PLACE, table_id="t", revision=1),
        },
    ),
    "new clone": (
        clones.new_pinned(SPACE, PIN, table_id="c", catalog="main", name="main.n.c", now=1),
        None,
        {"new": head_row()},
    ),
    "unmark": (RELEASE[1], location("s3://b", below=2), {"shared": location("s3://b", below=1)}),
    "last mark": (RELEASE[2], location("s3://b/x", below=1), {"last": location("s3://b/x", below=2)}),
    "take up": (
        import_claims.take_up(SPACE, PLACE, "t", "r1", "r2"),
        location(PLACE, table_id="t", importing="r1"),
        {
            "own": location(PLACE, table_id="other", importing="r1"),
            "same run": location(PLACE, table_id="t", importing="r3"),
        },
    ),
    "take up one without a mark": (
        import_claims.take_up(SPACE, PLACE, "t", "", "r2"),
        location(PLACE, table_id="t"),
        {"own": location(PLACE, table_id="other"), "same run": location(PLACE, table_id="t", importing="r1")},
    ),
    "take over": (
        import_claims.take_over(SPACE, PLACE, DROPPED, "new", "r1")[0],
        location(PLACE, table_id="t"),
        {"still theirs": location(PLACE, table_id="other")},
    ),
    "stays dropped": (
        import_claims.take_over(SPACE, PLACE, DROPPED, "new", "r1")[1],
        head_row(state="dropped"),
        {
            "dropped": head_row(),
            "published": head_row(state="dropped", floor=3),
            "not purged": head_row(state="dropped", reason="purging"),
        },
    ),
    "still owned": (
        import_claims.still_owned(SPACE.location(PLACE), "t"),
        location(PLACE, table_id="t"),
        {
            "still its own": location(PLACE, table_id="other"),
            "no import": location(PLACE, table_id="t", importing="r1"),
        },
    ),
    "finish": (
        import_claims.finish(SPACE, PLACE, "t"),
        location(PLACE, table_id="t", importing="r1"),
        {"own": location(PLACE, table_id="other", importing="r1")},
    ),
    "give back": (
        GIVEN_BACK[0],
        location(PLACE, table_id="t", importing="r1"),
        {
            "own": location(PLACE, table_id="other", importing="r1"),
            "uncloned": location(PLACE, table_id="t", importing="r1", clones={"c"}),
            "same run": location(PLACE, table_id="t", importing="r2"),
        },
    ),
    "give back what is no table": (GIVEN_BACK[-1], None, {"unmade": head_row()}),
}


def accepted(write: Write, row: Row | None) -> bool:
    refs = FakeRefs()
    if row is not None:
        refs.rows[write.key] = {**row, "key": write.key}
    answer = refs.write(write)
    assert isinstance(answer, Accepted | Rejected)
    return isinstance(answer, Accepted)


@pytest.mark.parametrize("name", CASES)
def test_each_clause_refuses_what_the_others_would_let_pass(name: str) -> None:
    write, good, bad = CASES[name]
    assert accepted(write, good)
    assert {clause.name for clause in write.clauses} == set(bad), "a clause without its case"
    for clause in write.clauses:
        assert not accepted(write, bad[clause.name]), clause.name
        without = tuple(other for other in write.clauses if other is not clause)
        assert accepted(replace(write, clauses=without), bad[clause.name]), f"{clause.name} is not alone in refusing"


@pytest.mark.parametrize("name", CASES)
def test_each_clause_says_what_it_protects(name: str) -> None:
    for clause in CASES[name][0].clauses:
        assert re.fullmatch(r"I\d+", clause.invariant)
        assert clause.says


@pytest.mark.parametrize(
    ("spilled", "kept"), [(b"new", b"new"), (b"", None), (b"x" * (catalog_rows.SPILLED_BYTES + 1), None)]
)
def test_i9_a_row_has_the_segments_of_its_head_or_none(spilled: bytes, kept: bytes | None) -> None:
    refs = FakeRefs()
    row = catalog_row(spilled=b"old")
    refs.rows[row["key"]] = row
    refs.write(catalog_rows.swap_head(CatalogHead.from_row(row), "commit/2", 2, spilled))
    assert refs.rows[row["key"]].get("spilled") == kept
