"""Snapshots keep a HEAD, a reset goes back to one: names, HEADs of tables and the files that gc
leaves agree at every step (I9)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.support.catalog import MAIN, complete, create, fakes, fresh, head_of, names
from tests.support.faults import Crash, Faulty
from tests.support.gc import DAY, days
from turnstile.access.authorizer import Authorizer, Target
from turnstile.access.grants import Grants
from turnstile.catalog.core.entities import External
from turnstile.catalog.core.rows import RECENT
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.writes.state import restore_head
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.rights.grants import GrantChange, Privilege
from turnstile.store.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    TooLarge,
    TurnstileError,
)
from turnstile.store.core.limits import SpillLimits
from turnstile.store.ports import Accepted, Rejected

GRACE = Grace(history_ms=7 * DAY, dropped_ms=7 * DAY)


def now(services: CatalogServices) -> str:
    return services.reader.current("main").head


def churn(services: CatalogServices, count: int = RECENT + 2) -> None:
    """As many changes as push a HEAD out of the recent ones."""
    for number in range(count):
        services.namespaces.update("main", ("default",), set={"n": str(number)})


def collect(services: CatalogServices) -> None:
    Collector(services.world, GRACE, workers=1).collect(dry_run=False)


# -- snapshots --------------------------------------------------------------------------------------------------------


def test_i10_a_snapshot_keeps_its_tree_for_as_long_as_it_has_a_name() -> None:
    services = fresh(spill=SpillLimits(embedded=150, segment=300))
    world = fakes(services)
    ids = [create(services, f"t{n}") for n in range(5)]
    snapshot = services.named_snapshots.create("main", "before", comment="c")
    head = snapshot.head
    services.renamer.rename(*MAIN, "t0", "zero")
    services.dropper.drop(*MAIN, "t1")
    churn(services)
    days(world, 40)
    churn(services)
    collect(services)
    cold = fresh(world)
    then = cold.history.tree("main", AsOf(snapshot="BEFORE"))
    assert then.head == head
    assert [then.table(("default",), f"t{n}").table_id for n in range(5)] == ids
    assert [cold.reader.store.entity("main", entry.obj) for _, entry in then.subtree(())]
    assert cold.listings.snapshots("main").items == (snapshot,) and snapshot.versions == dict.fromkeys(ids, 0)
    services.named_snapshots.drop("main", "before")
    days(world, 40)
    churn(services)
    collect(services)
    with pytest.raises(NotFound):
        fresh(world).history.tree("main", AsOf(snapshot="before"))
    assert (world.space.objs("main"), head) not in world.objs.rows
    complete_ish(services)


def complete_ish(services: CatalogServices) -> None:
    """The present tree is whole; its past may have ended."""
    tree = fresh(services.world).reader.current("main")
    services.reader.store.entities("main", [entry.obj for _, entry in tree.index.iterate()])


def test_a_snapshot_of_the_past_names_a_head_that_will_stay() -> None:
    services = fresh()
    world = fakes(services)
    create(services, "t")
    old = now(services)
    churn(services)
    snapshot = services.named_snapshots.create("main", "old", of=AsOf(head=old))
    assert (snapshot.head, snapshot.versions) == (old, {})
    days(world, 2)
    churn(services)
    with pytest.raises(NotFound):
        kept(services, AsOf(head=now_minus(services, 3)), world.clock.now + DAY)
    assert kept(services, AsOf(snapshot="old"), world.clock.now).head == old
    complete(world)


def kept(services: CatalogServices, of: AsOf, since: int) -> Tree:
    return services.history.kept_tree(services.reader.current("main"), of, since).tree


def now_minus(services: CatalogServices, back: int) -> str:
    return services.history.log("main", max_results=back + 1).commits[-1].head


def test_snapshots_have_names_of_their_own_and_hide_from_every_listing() -> None:
    services = fresh()
    services.named_snapshots.create("main", "default")
    services.named_snapshots.create("main", "a")
    with pytest.raises(AlreadyExists):
        services.named_snapshots.create("main", "A")
    with pytest.raises(InvalidRequest):
        services.named_snapshots.create("main", "no name")
    with pytest.raises(NotFound):
        services.named_snapshots.drop("main", "b")
    with pytest.raises(NotFound):
        services.named_snapshots.create("nothing", "a")
    assert [one.name for one in services.listings.snapshots("main").items] == ["a", "default"]
    assert [one.name for one in services.listings.namespaces("main").items] == [("default",)]
    services.namespace_dropper.drop("main", ("default",))
    services.catalogs.drop("main")
    assert services.catalogs.list() == []


def test_a_snapshot_of_more_tables_than_fit_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    services = fresh()
    create(services, "t")
    monkeypatch.setattr("turnstile.catalog.history.snapshots.MAX_BYTES", 100)
    with pytest.raises(TooLarge) as refused:
        services.named_snapshots.create("main", "a")
    assert refused.value.remedy
    assert services.listings.snapshots("main").items == ()


# -- reset ------------------------------------------------------------------------------------------------------------


def test_i9_a_reset_brings_back_names_properties_and_tables_in_one_change() -> None:
    services = fresh()
    world = fakes(services)
    kept, dropped, renamed = (create(services, name) for name in ("kept", "Dropped", "Renamed"))
    services.namespaces.update("main", ("default",), set={"k": "old"})
    services.namespaces.create("main", ("gone", "deep"))
    head = now(services)
    services.dropper.drop(*MAIN, "dropped")
    services.renamer.rename(*MAIN, "renamed", "x")
    services.namespaces.update("main", ("default",), set={"k": "new"})
    services.namespace_dropper.drop("main", ("gone",), cascade=True)
    added = create(services, "added")
    seq = services.reader.current("main").commit.seq
    answer = services.resetter.reset("main", AsOf(head=head))
    assert (answer.to, answer.seq) == (head, seq + 1)
    assert answer.restored == ("main.default.Dropped",)
    assert answer.dropped == ("main.default.added",)
    assert answer.renamed == ("main.default.Renamed",)
    complete(world)
    cold = fresh(world)
    assert names(cold) == ["Dropped", "kept", "Renamed"]
    assert [cold.reader.resolve(*MAIN, name).table_id for name in ("kept", "dropped", "renamed")] == [
        kept,
        dropped,
        renamed,
    ]
    assert (head_of(world, dropped).state, head_of(world, added).state) == ("active", "dropped")
    assert head_of(world, renamed).name == "main.default.Renamed"
    assert cold.namespaces.get("main", ("gone", "deep")).name == ("gone", "deep")
    assert cold.namespaces.get("main", ("default",)).entity.properties == {"k": "old"}
    again = services.resetter.reset("main", AsOf(seq=seq))
    assert again.restored == ("main.default.added",)
    complete(world)


def test_i12_a_reset_brings_back_the_catalogs_rights_of_then() -> None:
    """They are part of the tree: a principal that lost a right since has it again, and one that was
    given a right has not."""
    services = fresh()
    grants = Grants(services, Authorizer(fakes(services), services.reader))
    catalog = Target("main")
    then = grants.change(catalog, [GrantChange("ann", (Privilege.USE_CATALOG,))], owner="old")
    head = now(services)
    changes = [GrantChange("ann", remove=(Privilege.USE_CATALOG,)), GrantChange("bob", (Privilege.USE_CATALOG,))]
    after = grants.change(catalog, changes, owner="new")
    assert services.reader.current("main").commit.access == after != then
    services.resetter.reset("main", AsOf(head=head))
    assert services.reader.current("main").commit.access == then


def test_a_table_that_is_being_purged_does_not_come_back_and_nothing_else_does() -> None:
    services = fresh()
    world = fakes(services)
    id = create(services, "t")
    head = now(services)
    services.dropper.drop(*MAIN, "t")
    world.refs.rows[world.space.table(id)]["reason"] = "purging"
    before = now(services)
    with pytest.raises(StateConflict, match="purging") as refused:
        services.resetter.reset("main", AsOf(head=head))
    assert refused.value.type == "TableNotActive"
    assert now(services) == before


def test_i10_only_a_dropped_table_is_restored_under_the_name_it_gets() -> None:
    services = fresh()
    world = fakes(services)
    id = create(services, "t")
    key = world.space.table(id)
    for state in ("active", "leaving", "stuck", "recovering"):
        world.refs.rows[key]["state"] = state
        assert isinstance(world.refs.write(restore_head(key, "main.default.x", 5)), Rejected)
    world.refs.rows[key]["state"] = "dropped"
    assert isinstance(world.refs.write(restore_head(key, "main.default.x", 5)), Accepted)
    head = head_of(world, id)
    assert (head.state, head.name, head.changed_at) == ("active", "main.default.x", 5)


def test_what_has_no_head_of_its_own_is_not_dropped_by_going_back() -> None:
    services = fresh()
    head = now(services)
    services.externals.register(*MAIN, "e", location="s3://b/e", format="delta", about=External())
    with pytest.raises(StateConflict, match=r"main.default.e") as refused:
        services.resetter.reset("main", AsOf(head=head))
    assert refused.value.type == "CannotReset"
    assert names(services) == ["e"]


def test_more_tables_than_one_transaction_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.catalog.history.reset.MAX_TABLES", 2)
    services = fresh()
    head = now(services)
    for n in range(3):
        create(services, f"t{n}")
    with pytest.raises(TooLarge):
        services.resetter.reset("main", AsOf(head=head))
    services.resetter.reset("main", AsOf(head=now_minus(services, 2)))
    assert names(services) == ["t0"]
    complete(fakes(services))


def test_a_reset_that_is_overtaken_is_computed_again() -> None:
    services = fresh()
    world = fakes(services)
    head = now(services)
    create(services, "t")
    other = fresh(world)
    original = world.objs.put_many
    raced = list[str]()

    def racing(objs: object) -> None:
        original(objs)  # type: ignore[arg-type]
        if not raced:
            raced.append("")
            raced[0] = create(other, "u")

    world.objs.put_many = racing  # type: ignore[method-assign]
    answer = services.resetter.reset("main", AsOf(head=head))
    assert set(answer.dropped) == {"main.default.t", "main.default.u"}
    assert names(services) == []
    complete(world)


@pytest.mark.parametrize("how", ["before", "after", "unsent", "lost"])
def test_a_reset_that_fails_anywhere_happened_or_did_not(how: str) -> None:
    for at in (1, 2):
        services = fresh()
        world = fakes(services)
        create(services, "t")
        head = now(services)
        services.dropper.drop(*MAIN, "t")
        with suppress(Crash, OutcomeUnknown):
            fresh(Faulty(world, at, how).world).resetter.reset("main", AsOf(head=head))  # type: ignore[arg-type]
        complete(world)
        fresh(world).resetter.reset("main", AsOf(head=head))
        assert names(fresh(world)) == ["t"]
        complete(world)


def test_i10_what_a_reset_brought_in_stays_though_it_is_older_than_the_history() -> None:
    """The tree of an old snapshot, brought in for a day, is whole for as long as that day can be
    gone back to."""
    services = fresh(spill=SpillLimits(embedded=150, segment=300))
    world = fakes(services)
    for n in range(20):
        services.namespaces.create("main", (f"n{n:02d}",))
    services.named_snapshots.create("main", "old")
    for n in range(20):
        services.namespace_dropper.drop("main", (f"n{n:02d}",))
    days(world, 100)
    churn(services, 1)
    services.resetter.reset("main", AsOf(snapshot="old"))
    back = now(services)
    days(world, 1)
    for n in range(20):
        services.namespace_dropper.drop("main", (f"n{n:02d}",))
    services.named_snapshots.drop("main", "old")
    churn(services)
    days(world, 3)
    collect(services)
    then = fresh(world).history.tree("main", AsOf(head=back))
    assert len([fresh(world).reader.store.entity("main", entry.obj) for _, entry in then.subtree(())]) == 21


# -- after a loss -----------------------------------------------------------------------------------------------------


def lose(services: CatalogServices, *heads: str) -> None:
    world = fakes(services)
    for head in heads:
        del world.objs.rows[world.space.objs("main"), head]


def test_a_catalog_whose_head_was_lost_goes_on_from_a_recent_one_that_is_whole() -> None:
    services = fresh()
    world = fakes(services)
    for n in range(6):
        services.namespaces.create("main", (f"n{n}",))
    heads = world.refs.rows["test/catalog/main"]["recent"]
    lose(services, heads[0], heads[1])
    cold = fresh(world)
    with pytest.raises(TurnstileError, match="missing"):
        cold.reader.current("main")
    with pytest.raises(StateConflict, match="leads nowhere") as refused:
        cold.resetter.reset("main", AsOf(seq=1))
    assert refused.value.details["recent"] == heads
    answer = cold.resetter.reset("main", AsOf(head=heads[2]))
    assert [one.name for one in fresh(world).listings.namespaces("main").items] == [
        ("default",),
        *((f"n{n}",) for n in range(4)),
    ]
    log = fresh(world).history.log("main").commits
    assert [one.seq for one in log] == list(range(answer.seq, -1, -1))
    assert (log[0].head, log[1].head) == (answer.head, heads[2])
    fresh(world).namespaces.create("main", ("on",))


def test_a_lost_answer_of_going_on_from_a_recent_head_is_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the adapter does it: the write is sent again, and refused by the effect of the first
    one."""
    services = fresh()
    world = fakes(services)
    services.namespaces.create("main", ("n",))
    heads = world.refs.rows["test/catalog/main"]["recent"]
    lose(services, heads[0])
    write = world.refs.write
    monkeypatch.setattr(world.refs, "write", lambda one: (write(one), write(one))[1])
    answer = fresh(world).resetter.reset("main", AsOf(head=heads[1]))
    assert (answer.to, answer.head) == (heads[1], world.refs.rows["test/catalog/main"]["head"])


@pytest.mark.parametrize("warm", [False, True])
def test_i9_a_recent_head_that_is_not_whole_is_not_gone_back_to(warm: bool) -> None:
    """With any content of a sandbox's caches."""
    services = fresh()
    world = fakes(services)
    services.namespaces.create("main", ("n",))
    entry = services.reader.current("main").namespace(("n",))
    services.namespaces.create("main", ("m",))
    heads = world.refs.rows["test/catalog/main"]["recent"]
    assert len(services.listings.namespaces("main").items) == 3
    lose(services, heads[0], entry.obj)
    sandbox = services if warm else fresh(world)
    with pytest.raises(StateConflict, match="missing") as refused:
        sandbox.resetter.reset("main", AsOf(head=heads[1]))
    assert refused.value.type == "CannotReset"
    assert world.refs.rows["test/catalog/main"]["head"] == heads[0]
    assert sandbox.resetter.reset("main", AsOf(head=heads[2])).to == heads[2]
