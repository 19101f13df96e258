"""One dropped table comes back, with all that its drop took away, and nothing else changes (I9,
I10)."""

from __future__ import annotations

import pytest

from tests.support.catalog import (
    MAIN,
    before_swaps,
    complete,
    create,
    fakes,
    fresh,
    head_of,
    names,
    seq,
    set_state,
    undrop,
)
from tests.support.gc import DAY, days
from turnstile.catalog.core.entities import External
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.history.dropped import DroppedTables
from turnstile.catalog.history.undrop import Undropper
from turnstile.delta.core.writes.state import mark_purging
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.store.core.errors import AlreadyExists, NotFound, PermissionDenied, StateConflict
from turnstile.store.core.writes import Change, Set

GRACE = Grace(history_ms=7 * DAY, dropped_ms=7 * DAY)


def test_i9_a_dropped_table_comes_back_under_its_name_in_one_change() -> None:
    services = fresh()
    id = create(services, "T")
    other = create(services, "other")
    services.dropper.drop(*MAIN, "t")
    services.namespaces.update("main", ("default",), set={"k": "v"})
    before = seq(services)
    assert undrop(services) == ("default", "T")
    assert seq(services) == before + 1
    assert (head_of(services.world, id).state, head_of(services.world, id).name) == ("active", "main.default.T")
    assert names(services) == ["other", "T"]
    assert head_of(services.world, other).state == "active"
    assert services.namespaces.get("main", ("default",)).entity.properties == {"k": "v"}
    complete(fakes(services))


def test_a_name_that_is_taken_is_refused_and_the_table_comes_back_under_another() -> None:
    services = fresh()
    first = create(services, "t")
    services.dropper.drop(*MAIN, "t")
    second = create(services, "t")
    with pytest.raises(AlreadyExists, match=r"'main\.default\.t' exists") as refused:
        undrop(services)
    assert "another name" in str(refused.value.remedy)
    assert undrop(services, to=("default", "t_before")) == ("default", "t_before")
    assert head_of(services.world, first).name == "main.default.t_before"
    assert head_of(services.world, second).name == "main.default.t"
    complete(fakes(services))


def test_the_newest_drop_of_a_name_is_taken_back_first() -> None:
    services = fresh()
    first = create(services, "t")
    services.dropper.drop(*MAIN, "t")
    second = create(services, "t")
    services.dropper.drop(*MAIN, "t")
    undrop(services)
    assert head_of(services.world, second).state == "active"
    undrop(services, to=("default", "older"))
    assert head_of(services.world, first).name == "main.default.older"
    complete(fakes(services))


def test_a_table_that_only_got_another_name_is_passed_over() -> None:
    services = fresh()
    first = create(services, "t")
    services.dropper.drop(*MAIN, "t")
    second = create(services, "t")
    services.renamer.rename(*MAIN, "t", "u")
    undrop(services)
    assert head_of(services.world, first).name == "main.default.t"
    services.dropper.drop(*MAIN, "u")
    assert undrop(services, ("default", "u")) == ("default", "u")
    assert head_of(services.world, second).name == "main.default.u"
    complete(fakes(services))


def test_what_was_dropped_under_another_name_is_found_under_that_one() -> None:
    services = fresh()
    create(services, "t")
    services.renamer.rename(*MAIN, "t", "u")
    services.dropper.drop(*MAIN, "u")
    with pytest.raises(NotFound):
        undrop(services)
    assert undrop(services, ("default", "u")) == ("default", "u")


def test_i10_what_gc_has_begun_to_remove_is_refused_at_once() -> None:
    services = fresh()
    id = create(services, "t")
    services.dropper.drop(*MAIN, "t")
    services.world.refs.write(mark_purging(head_of(services.world, id)))
    before = seq(services)
    with pytest.raises(StateConflict, match="gc has removed") as refused:
        undrop(services)
    assert refused.value.type == "CannotUndrop"
    assert seq(services) == before


def test_i10_what_gc_has_removed_is_not_found_any_more_and_says_why() -> None:
    services = fresh()
    create(services, "t")
    services.dropper.drop(*MAIN, "t")
    days(fakes(services), 8)
    Collector(services.world, GRACE, workers=1).collect(dry_run=False)
    with pytest.raises((NotFound, StateConflict)) as refused:
        undrop(services)
    assert refused.value.remedy


def test_a_purge_that_begins_between_the_look_and_the_change_wins() -> None:
    services = fresh()
    world = fakes(services)
    id = create(services, "t")
    services.dropper.drop(*MAIN, "t")
    before_swaps(world, lambda: world.refs.write(mark_purging(head_of(world, id))))
    with pytest.raises(StateConflict, match="gc has removed"):
        undrop(services)
    assert names(services) == []


def test_a_table_that_was_stuck_is_stuck_again() -> None:
    services = fresh()
    id = create(services, "t")
    set_state(services, id, "stuck")
    reason = Set(("reason",), "version 1: gone")
    services.world.refs.write(Change(services.world.space.table(id), (), (reason,)))
    services.dropper.drop(*MAIN, "t")
    undrop(services)
    head = head_of(services.world, id)
    assert (head.state, head.reason) == ("stuck", "version 1: gone")


def test_a_table_of_a_namespace_that_is_gone_comes_back_elsewhere_or_where_it_was_made_again() -> None:
    services = fresh()
    services.namespaces.create("main", ("old",))
    id = create(services, "t", "old")
    services.namespace_dropper.drop("main", ("old",), cascade=True)
    with pytest.raises(NotFound, match="old") as refused:
        undrop(services, ("old", "t"))
    assert "create it first" in str(refused.value.remedy)
    assert undrop(services, ("old", "t"), ("default", "t")) == ("default", "t")
    assert head_of(services.world, id).name == "main.default.t"
    complete(fakes(services))


def test_a_registered_table_has_its_location_again_unless_another_has_it() -> None:
    services = fresh()
    about = External(properties={"k": "v"})
    made = services.externals.register(*MAIN, "e", location="s3://b/e", format="delta", about=about)
    services.externals.drop(*MAIN, "e", made.table_id)
    assert undrop(services, ("default", "e")) == ("default", "e")
    row = services.world.refs.read(services.world.space.location("s3://b/e"))
    assert row is not None and row["table_id"] == made.table_id
    services.externals.drop(*MAIN, "e", made.table_id)
    services.externals.register(*MAIN, "f", location="s3://b/e/below", format="delta", about=about)
    with pytest.raises(StateConflict) as refused:
        undrop(services, ("default", "e"))
    assert refused.value.type == "LocationOwned"


def test_i12_a_location_beside_the_lake_is_claimed_again_only_by_principals_that_may_use_it() -> None:
    services = fresh()
    made = services.externals.register(*MAIN, "e", location="s3://b/e", format="delta", about=External())
    services.externals.drop(*MAIN, "e", made.table_id)

    class NotPermitted(Exception):
        pass

    def elsewhere() -> None:
        raise NotPermitted

    with pytest.raises(NotPermitted):
        undrop(services, ("default", "e"), elsewhere=elsewhere)


def test_a_moment_at_which_it_was_there_finds_it_behind_any_number_of_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.catalog.history.dropped.LOOK_BACK", 5)
    services = fresh()
    id = create(services, "t")
    there = seq(services)
    for number in range(4):
        services.namespaces.update("main", ("default",), set={"n": str(number)})
    services.dropper.drop(*MAIN, "t")
    for number in range(20):
        services.namespaces.update("main", ("default",), set={"m": str(number)})
    with pytest.raises(NotFound, match="5 commits") as refused:
        undrop(services)
    assert refused.value.field == "at" and "moment" in str(refused.value.remedy)
    undrop(services, at=AsOf(seq=there))
    assert head_of(services.world, id).state == "active"
    complete(fakes(services))


def test_a_table_that_is_there_at_the_moment_and_now_was_not_dropped() -> None:
    services = fresh()
    create(services, "t")
    there = seq(services)
    services.renamer.rename(*MAIN, "t", "u")
    with pytest.raises(StateConflict, match="was not dropped under this name") as refused:
        undrop(services, at=AsOf(seq=there))
    assert refused.value.type == "CannotUndrop"


def test_nothing_of_that_name_is_not_found() -> None:
    with pytest.raises(NotFound, match="never"):
        undrop(fresh(), ("default", "never"))


def test_what_was_dropped_before_the_kept_history_is_not_looked_at_though_it_may_still_be_there() -> None:
    """gc may be removing what that tree leads to (I9)."""
    services = fresh()
    create(services, "t")
    services.dropper.drop(*MAIN, "t")
    services.world.clock.now += services.limits.history_ms  # type: ignore[attr-defined]
    for number in range(3):
        services.namespaces.update("main", ("default",), set={"n": str(number)})
    with pytest.raises(NotFound):
        undrop(services)


def test_i9_a_moment_before_the_kept_history_is_refused_though_its_tree_may_still_be_there() -> None:
    services = fresh()
    create(services, "t")
    there = seq(services)
    services.dropper.drop(*MAIN, "t")
    services.namespaces.update("main", ("default",), set={"n": "1"})
    services.world.clock.now += services.limits.history_ms + 1  # type: ignore[attr-defined]
    services.namespaces.update("main", ("default",), set={"n": "2"})
    with pytest.raises(NotFound) as refused:
        undrop(services, at=AsOf(seq=there))
    assert refused.value.field == "at" and "gone" in str(refused.value.remedy)


@pytest.mark.parametrize("then", ["recently", "long ago"])
def test_i9_a_snapshot_of_long_ago_finds_a_drop_of_the_kept_history_and_no_earlier_one(then: str) -> None:
    """Of the trees between the two, gc may have removed parts."""
    services = fresh()
    id = create(services, "t")
    services.named_snapshots.create("main", "spring")
    if then == "long ago":
        services.dropper.drop(*MAIN, "t")
    for number in range(12):
        services.namespaces.update("main", ("default",), set={"n": str(number)})
    services.world.clock.now += services.limits.history_ms + 1  # type: ignore[attr-defined]
    for number in range(3):
        services.namespaces.update("main", ("default",), set={"m": str(number)})
    if then == "recently":
        services.dropper.drop(*MAIN, "t")
        undrop(services, at=AsOf(snapshot="spring"))
        assert head_of(services.world, id).state == "active"
        return
    with pytest.raises(NotFound) as refused:
        undrop(services, at=AsOf(snapshot="spring"))
    assert refused.value.field == "at"


def test_i12_rights_are_those_of_the_tree_that_is_replaced() -> None:
    services = fresh()
    create(services, "t")
    services.dropper.drop(*MAIN, "t")
    seen = list[str]()

    def rights(now: Tree, *_: object) -> None:
        seen.append(now.head)
        if len(seen) == 1:  # what follows was not there when the rights were looked at first
            fresh(services.world).namespaces.update("main", ("default",), set={"n": "1"})
        elif now.head != seen[0]:
            raise PermissionDenied("revoked meanwhile")

    dropped = DroppedTables(services.world, services.reader, services.history, services.limits.history_ms)
    by = Undropper(services.world, services.reader, services.committer, dropped, rights=rights, elsewhere=lambda: None)
    with pytest.raises(PermissionDenied, match="revoked"):
        by.undrop("main", ("default", "t"), ("default", "t"))
    assert names(services) == []
