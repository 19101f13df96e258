"""Reading as of a moment: pages and their tokens, versions, refusals and costs (I6, I10)."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from tests.support.catalog import LAKE, MAIN, counted, create, fakes, fresh
from tests.support.gc import DAY, days
from tests.support.queries import Thing, catalog_with, finder
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import IcebergTable, Namespace, Table
from turnstile.catalog.core.paths import Path
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.listing import Page
from turnstile.catalog.services import CatalogServices, build
from turnstile.gc.core import Grace
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.limits import Limits, SpillLimits
from turnstile.store.ports import World

GRACE = Grace(history_ms=2 * DAY)
LIMITS = Limits(spill=SpillLimits(embedded=150, segment=300), history_ms=GRACE.history_ms)


def opened(world: World) -> CatalogServices:
    """Another sandbox, with a history of two days."""
    return build(world, lake_root=LAKE, limits=LIMITS)


def test_pages_of_a_moment_are_one_view_and_their_tokens_are_good_for_that_moment_alone() -> None:
    services = fresh()
    for number in range(4):
        create(services, f"t{number}")
    then = services.reader.current("main").head
    services.dropper.drop(*MAIN, "t3")
    head = AsOf(head=then)
    first = services.listings.tables(*MAIN, as_of=head, max_results=2)
    services.dropper.drop(*MAIN, "t2")
    cold = fresh(services.world)
    rest = cold.listings.tables(*MAIN, as_of=head, page_token=first.next_token)
    assert [one.name for one in (*first.items, *rest.items)] == ["t0", "t1", "t2", "t3"]
    assert (first.head, rest.head) == (then, then)
    for other in (None, AsOf(seq=1), AsOf(head="commit/x")):
        with pytest.raises(InvalidRequest, match="another listing"):
            cold.listings.tables(*MAIN, as_of=other, page_token=first.next_token)
    present = services.listings.tables(*MAIN, max_results=1).next_token
    with pytest.raises(InvalidRequest, match="another listing"):
        services.listings.tables(*MAIN, as_of=head, page_token=present)


def test_a_time_that_is_to_come_is_the_present_and_its_pages_stay_where_they_began() -> None:
    services = fresh()
    for number in range(3):
        create(services, f"t{number}")
    ahead = AsOf(time=services.world.clock.now_ms() + DAY)
    first = services.listings.tables(*MAIN, as_of=ahead, max_results=1)
    fakes(services).clock.now += 1000
    services.dropper.drop(*MAIN, "t2")
    rest = services.listings.tables(*MAIN, as_of=ahead, page_token=first.next_token)
    assert [one.name for one in rest.items] == ["t1", "t2"]


def test_a_snapshot_tells_the_versions_of_its_delta_tables_and_nothing_else_does() -> None:
    services = fresh()
    ids = [create(services, f"t{number}") for number in range(2)]
    services.named_snapshots.create("main", "s")
    key = services.world.space.table(ids[1])
    fakes(services).refs.rows[key]["latest"] = 41
    services.named_snapshots.create("main", "later")
    for as_of, wanted in (
        (AsOf(snapshot="s"), {ids[0]: 0, ids[1]: 0}),
        (AsOf(snapshot="later"), {ids[0]: 0, ids[1]: 41}),
        (AsOf(seq=services.named_snapshots.get("main", "s").seq), {}),
        (None, {}),
    ):
        page: Page[Table] = services.listings.tables(*MAIN, as_of=as_of, max_results=1)
        rest = services.listings.tables(*MAIN, as_of=as_of, page_token=page.next_token)
        assert dict(page.versions) == dict(rest.versions) == wanted
        assert services.entries.table(*MAIN, "t1", as_of).version == wanted.get(ids[1])
        assert dict(finder(services).find("/main/*/*", as_of=as_of).versions) == wanted


def test_entries_are_tables_and_views_of_any_format() -> None:
    services = fresh()
    create(services, "Delta")
    iceberg = IcebergTable("Ice", "i", "s3://lake/i", "s3://lake/i/1.json", 5)
    services.committer.commit("main", lambda _: Edit("ice", put={("default", "Ice"): iceberg}))
    moved = msgspec.structs.replace(iceberg, metadata="s3://lake/i/2.json")
    before = services.reader.current("main").head
    services.committer.commit("main", lambda _: Edit("commit", put={("default", "Ice"): moved}))
    entry = services.entries.table("MAIN", ("DEFAULT",), "ice", None)
    assert (entry.catalog, entry.path, entry.entity) == ("main", ("default", "Ice"), moved)
    assert services.entries.table(*MAIN, "ICE", AsOf(head=before)).entity == iceberg
    assert services.entries.table(*MAIN, "delta", None).path == ("default", "Delta")
    for path in (("default",), ("nothing",)):
        with pytest.raises(NotFound) as refused:
            services.entries.table("main", path, "default", None)
        assert refused.value.type == ("NoSuchNamespace" if path == ("nothing",) else "NoSuchTable")


def test_a_query_that_depends_on_what_the_past_does_not_hold_is_refused() -> None:
    """A Delta table's properties are beside its HEAD, which is in the present."""
    there: dict[Path, Thing] = {
        ("eu",): Thing(properties={"tier": "gold"}),
        ("eu", "delta"): Thing(table=True, properties={"tier": "gold"}),
        ("eu", "other"): Thing(table=True, external=True, properties={"tier": "gold"}),
        ("eu", "inner"): Thing(properties={"tier": "gold"}),
    }
    services = catalog_with(there)
    now = AsOf(head=services.reader.current("main").head)
    for query in ('/main/eu/[tier = "gold"]', "/main/*/[not retention > 5]", "/main/eu/delta[tier exists]"):
        with pytest.raises(InvalidRequest, match=r"main\.eu\.delta") as refused:
            finder(services).find(query, as_of=now)
        assert refused.value.field == "query" and refused.value.remedy
        assert finder(services).find(query).items
    for query, names in (
        ('/main/[tier = "gold"]', ["eu"]),
        ('/main/eu/[tier = "gold" and kind = "namespace"]', ["inner"]),
        ('/main/eu/[format = "delta" and name like "%l%"]', ["delta"]),
        ('/main/eu/[name != "delta" and tier = "gold"]', ["inner", "other"]),
    ):
        assert [one.path[-1] for one in finder(services).find(query, as_of=now).items] == names


def test_what_gc_may_be_about_to_take_is_not_read_even_where_it_is_remembered() -> None:
    world = fakes(fresh())
    services = opened(world)
    create(services, "t")
    old = AsOf(head=services.reader.current("main").head)
    services.renamer.rename(*MAIN, "t", "u")
    assert [one.name for one in services.listings.tables(*MAIN, as_of=old).items] == ["t"]
    days(world, 1.9)
    assert [one.name for one in services.listings.tables(*MAIN, as_of=old).items] == ["t"]
    days(world, 0.2)
    for opened_services in (services, opened(world)):
        with pytest.raises(NotFound) as gone:
            opened_services.listings.tables(*MAIN, as_of=old)
        assert gone.value.type == "NoSuchCatalogCommit" and gone.value.remedy


def test_a_catalog_that_was_created_again_has_no_past_of_the_one_before() -> None:
    services = fresh()
    services.catalogs.create("other")
    services.namespaces.create("other", ("old",))
    old = services.reader.current("other").head
    services.namespaces.create("other", ("more",))
    assert services.listings.namespaces("other", as_of=AsOf(head=old)).items
    services.catalogs.drop("other", force=True)
    services.catalogs.create("other")
    for name in "abcd":
        services.namespaces.create("other", (name,))
    for opened_services in (services, fresh(services.world)):
        with pytest.raises(NotFound):
            opened_services.listings.namespaces("other", as_of=AsOf(head=old))


# -- what it costs ------------------------------------------------------------------------------------------------


def grown(count: int) -> tuple[CatalogServices, list[str]]:
    """A catalog with so many commits, and their HEADs."""
    services = fresh()
    heads = []
    for number in range(count):
        put = {(f"n{number % 20:02d}",): Namespace(f"n{number % 20:02d}", str(number % 20), 1, str(number))}
        edit = Edit("n", put=put)
        heads.append(services.committer.commit("main", lambda _, edit=edit: edit).head)  # type: ignore[misc]
        fakes(services).clock.now += 10
    return services, heads


def test_a_moment_costs_one_request_once_it_is_known_and_some_twenty_before() -> None:
    services, heads = grown(600)
    world = services.world
    for at in (3, 250, 590):
        cold = fresh(world)
        as_of = AsOf(head=heads[at])
        first = counted(cold, partial(cold.listings.namespaces, "main", as_of=as_of))
        assert first.count("refs.read") == 1 and len(first) <= 25
        again = counted(cold, partial(cold.listings.namespaces, "main", as_of=as_of))
        assert again == ["refs.read"]
        by_seq = AsOf(seq=cold.history.tree("main", as_of).commit.seq)
        cold.listings.namespaces("main", as_of=by_seq)
        assert counted(cold, partial(cold.listings.namespaces, "main", as_of=by_seq)) == ["refs.read"]
        services.namespaces.create("main", (f"new{at}",))
        moved = counted(cold, partial(cold.listings.namespaces, "main", as_of=as_of))
        assert len(moved) <= 1 + 1 + 8, "a new HEAD, and the bookmarks that it does not share"


def test_a_page_of_a_moment_that_follows_asks_for_no_head() -> None:
    services, heads = grown(30)
    as_of = AsOf(head=heads[10])
    token = services.listings.namespaces("main", as_of=as_of, max_results=3).next_token
    assert counted(services, lambda: services.listings.namespaces("main", as_of=as_of, page_token=token)) == []
    services.named_snapshots.create("main", "s")
    token = services.listings.namespaces("main", as_of=AsOf(snapshot="s"), max_results=3).next_token
    following = counted(
        services, lambda: services.listings.namespaces("main", as_of=AsOf(snapshot="s"), page_token=token)
    )
    assert following == ["refs.read"], "the snapshot is an entry of the present tree"


def test_an_entry_of_the_present_costs_what_a_look_up_does() -> None:
    services = fresh()
    create(services, "t")
    services.entries.table(*MAIN, "t", None)
    assert counted(services, lambda: services.entries.table(*MAIN, "t", None)) == ["refs.read"]
    services.named_snapshots.create("main", "s")
    services.entries.table(*MAIN, "t", AsOf(snapshot="s"))
    assert counted(services, lambda: services.entries.table(*MAIN, "t", AsOf(snapshot="s"))) == ["refs.read"]
