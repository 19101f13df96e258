"""Path queries over a catalog's tree: the same answers as the obvious way, in few requests, one
view however long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.catalog import counted, fakes, fresh
from tests.support.examples import examples
from tests.support.queries import Thing, catalog_with, entity, find_all, finder, naive
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity, IcebergTable
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.paging import TOKEN_MS
from turnstile.catalog.query import find
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.core.query import (
    All,
    Compare,
    Exists,
    Field,
    In,
    Like,
    Not,
    Prefix,
    Query,
    Some,
    Step,
    to_text,
)
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.limits import SpillLimits

# -- the same answers as the obvious way --------------------------------------------------------------------------

NAMES = ("a", "B", "ab", "b-1", "c")
names = st.sampled_from(NAMES)
values = st.sampled_from(("eu", "us", "1", "2"))
properties = st.dictionaries(st.sampled_from(("region", "days", "format")), values, max_size=2)
things = st.builds(Thing, st.booleans(), st.booleans(), st.none() | st.just("c"), properties)


@st.composite
def catalogs(draw: st.DrawFn) -> dict[Path, Thing]:
    """Trees of up to three levels; only namespaces have children."""
    things_by_path: dict[Path, Thing] = {}
    parents: list[Path] = [()]
    for _ in range(draw(st.integers(1, 12))):
        path = (*draw(st.sampled_from(parents)), draw(names))
        if path not in things_by_path and len(path) <= 3:
            things_by_path[path] = draw(things)
            if not things_by_path[path].table:
                parents.append(path)
    return things_by_path


fields = st.sampled_from(("name", "kind", "region", "days", "format", "comment")).map(Field)
literals = values | names | st.sampled_from(("table", "namespace", "delta"))
comparisons = st.one_of(
    st.builds(Compare, fields, st.sampled_from(("=", "!=", "<", "<=", ">", ">=")), literals),
    st.builds(Compare, st.just(Field("days")), st.sampled_from(("=", "<")), st.integers(0, 3)),
    st.builds(In, fields, st.lists(literals, min_size=1, max_size=3).map(tuple)),
    st.builds(Like, fields, st.sampled_from(("a%", "%b", "_", "%"))),
    st.builds(Prefix, fields, literals),
    st.builds(Exists, fields),
)
pairs = st.lists(comparisons, min_size=2, max_size=2).map(tuple)
predicates = comparisons | comparisons.map(Not) | pairs.map(All) | pairs.map(Some) | pairs.map(All).map(Not)
spills = st.sampled_from((None, SpillLimits(embedded=60, segment=120)))
steps = st.builds(Step, st.none() | names, st.none() | predicates)
queries = st.builds(Query, st.just("main"), st.lists(steps, min_size=1, max_size=3).map(tuple))


@settings(max_examples=examples(200))
@given(catalogs(), st.lists(queries, min_size=1, max_size=4), st.integers(1, 4), st.integers(1, 3), spills)
def test_i9_every_query_finds_what_its_meaning_says_in_order_and_once_however_it_is_paged(
    there: dict[Path, Thing], sample: list[Query], size: int, batch: int, spill: SpillLimits | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(find, "BATCH_GET_MAX", batch)
        patch.setattr(find, "MAX_VISITS", batch)
        services = catalog_with(there, spill)
        for query in sample:
            wanted = naive(there, query)
            assert find_all(services, to_text(query), size) == wanted
            assert find_all(services, to_text(query)) == wanted


# -- examples -----------------------------------------------------------------------------------------------------


def lake() -> dict[Path, Thing]:
    """Namespaces eu and us with three tables each, one of them registered only."""
    there: dict[Path, Thing] = {}
    for region in ("EU", "us"):
        there[region,] = Thing(properties={"region": region.lower()})
        there[region, "Orders"] = Thing(table=True, properties={"retention": "30", "tier": "gold"})
        there[region, "clicks"] = Thing(table=True, properties={"retention": "7"})
        there[region, "dim"] = Thing(table=True, external=True, properties={"tier": "gold"}, comment="dimension")
    return there


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("/main/*", ["EU", "us"]),
        ("/MAIN/eu/orders", ["EU.Orders"]),
        ('/main/[region = "eu"]/*', ["EU.clicks", "EU.dim", "EU.Orders"]),
        ('/main/*/[tier = "gold"]', ["EU.dim", "EU.Orders", "us.dim", "us.Orders"]),
        ('/main/*/[retention < 10 and format = "delta"]', ["EU.clicks", "us.clicks"]),
        ("/main/*/[comment exists]", ["EU.dim", "us.dim"]),
        ("/main/*/[managed = true and not retention > 7]", ["EU.clicks", "us.clicks"]),
        ('/main/us/*[name prefix "D" or name like "%ick%"]', ["us.clicks", "us.dim"]),
        ('/main/[kind = "table"]', []),
        ("/main/*/*/*", []),
        ("/main/nothing/*", []),
    ],
)
def test_examples(query: str, wanted: list[str]) -> None:
    assert find_all(catalog_with(lake()), query) == wanted


def test_a_delta_tables_properties_are_those_of_its_last_commit() -> None:
    services = catalog_with(lake())
    query = '/main/eu/[tier = "silver"]'
    assert find_all(services, query) == []
    world = fakes(services)
    key = next(key for key in world.refs.rows if "/table/" in key)
    row = world.refs.rows[key]
    snapshot = services.metadata.get("main", row["metadata"])
    changed = msgspec.structs.replace(snapshot, version=1, metadata={"configuration": {"tier": "silver"}})
    row["metadata"] = services.metadata.put("main", row["table_id"], changed, 1)
    assert find_all(services, '/main/*/[tier = "silver"]') == [row["name"].removeprefix("main.")]


def test_tables_of_other_formats_are_found_by_what_the_tree_knows_of_them() -> None:
    services = catalog_with(lake())
    iceberg = IcebergTable("events", "11111111-1111-4111-8111-111111111111", "s3://lake/e", "s3://lake/e/m.json", 5)
    services.committer.commit("main", lambda _: Edit("iceberg", put={("EU", "events"): iceberg}))
    assert find_all(services, '/main/*/[format = "iceberg"]') == ["EU.events"]
    assert find_all(services, '/main/*/[kind = "iceberg-table" and created < 6]') == ["EU.events"]
    assert find_all(services, '/main/EU/[id prefix "11111111"]') == ["EU.events"]
    assert find_all(services, '/main/*/[tier = "gold" and format = "iceberg"]') == []
    assert find_all(services, "/main/*/events/*") == []


# -- one view -----------------------------------------------------------------------------------------------------


def test_i6_a_query_is_one_view_of_the_catalog_however_much_changes_meanwhile() -> None:
    services = catalog_with(lake())
    first = finder(services).find("/main/*/*", max_results=2)
    put: dict[Path, Entity] = {("EU", "aaa"): entity(("EU", "aaa"), Thing(table=True, external=True))}
    services.committer.commit("main", lambda _: Edit("more", put=put, remove=(("us", "dim"),)))
    rest = finder(fresh(services.world)).find("/main/*/*", page_token=first.next_token)
    assert [one.path for one in (*first.items, *rest.items)] == [
        ("EU", "clicks"), ("EU", "dim"), ("EU", "Orders"), ("us", "clicks"), ("us", "dim"), ("us", "Orders"),
    ]  # fmt: skip
    assert first.head == rest.head != finder(services).find("/main/*").head


def test_a_token_belongs_to_one_query_in_any_spelling_and_expires() -> None:
    services = catalog_with(lake())
    token = finder(services).find("/main/*/*", max_results=1).next_token
    assert len(finder(services).find(" /MAIN/ * /*", page_token=token).items) == 5
    for query in ("/main/*", '/main/*/[name = "x"]', "/main/*/*/*"):
        with pytest.raises(InvalidRequest, match="another listing"):
            finder(services).find(query, page_token=token)
    with pytest.raises(InvalidRequest, match="another listing"):
        services.listings.namespaces("main", page_token=token)
    fakes(services).clock.now += TOKEN_MS
    with pytest.raises(InvalidRequest, match="expired") as error:
        finder(services).find("/main/*/*", page_token=token)
    assert error.value.field == "page_token"


def test_a_token_whose_head_is_gone_counts_as_expired() -> None:
    services = catalog_with(lake())
    first = finder(services).find("/main/*/*", max_results=1)
    services.namespaces.create("main", ("n",))
    fakes(services).objs.delete(services.world.space.objs("main"), first.head)
    with pytest.raises(InvalidRequest, match="expired"):
        finder(fresh(services.world)).find("/main/*/*", page_token=first.next_token)


def test_what_is_not_there_is_distinguished_from_what_does_not_match() -> None:
    services = catalog_with(lake())
    with pytest.raises(NotFound) as error:
        finder(services).find("/second/*")
    assert error.value.type == "NoSuchCatalog"
    assert finder(services).find("/main/eu/nothing").items == ()


# -- requests -----------------------------------------------------------------------------------------------------


def wide(namespaces: int, tables: int) -> dict[Path, Thing]:
    there: dict[Path, Thing] = {}
    for n in range(namespaces):
        there[f"n{n:03d}",] = Thing(properties={"even": str(n % 2 == 0)})
        for t in range(tables):
            there[f"n{n:03d}", f"t{t:03d}"] = Thing(table=True, properties={"t": str(t)})
    return there


def requests_of(there: Mapping[Path, Thing], query: str, size: int | None = None) -> list[str]:
    services = catalog_with(there)
    list(services.reader.current("main").subtree(()))  # warm, as far as the tree and its segments go
    return counted(services, lambda: finder(services).find(query, max_results=size))


def test_a_query_by_names_reads_the_head_and_what_it_tells() -> None:
    """One entity for the table, one for the spelling of its namespace."""
    there = wide(30, 10)
    assert requests_of(there, "/main/n003/t007") == ["objs.get_many", "objs.get_many", "refs.read"]
    assert requests_of(there, '/main/n003/[name = "x"]') == ["refs.read"]
    assert requests_of(there, "/main/nothing/*/*") == ["refs.read"]


def test_what_names_and_kinds_rule_out_is_never_read() -> None:
    there = wide(300, 1)
    query = '/main/[name prefix "n1"]/[kind = "namespace" and even = "True"]'
    assert requests_of(there, query) == ["refs.read"]
    assert requests_of(there, '/main/[name like "%7" and kind = "table" and even = "True"]') == ["refs.read"]


def test_entities_are_read_a_hundred_at_a_time_whatever_their_parents() -> None:
    """250 namespaces of one table each: three requests for the namespaces (their predicate, or
    their spelling) and three for the tables."""
    there = wide(250, 1)
    wanted = ["objs.get_many"] * 6 + ["refs.read"]
    assert requests_of(there, "/main/*/*") == wanted
    assert requests_of(there, '/main/[even = "True"]/[format = "delta"]') == wanted


def test_properties_of_delta_tables_cost_two_requests_a_hundred_and_only_where_they_decide() -> None:
    there = wide(2, 150)
    with_heads = ["objs.get_many"] * (3 + 3 + 1) + ["refs.read"] + ["refs.read_many"] * 3
    assert sorted(requests_of(there, '/main/*/[t = "7"]')) == with_heads
    without = requests_of(there, '/main/*/[format = "iceberg" and t = "7"]')
    assert without == ["objs.get_many"] * 3 + ["refs.read"]


def test_a_small_page_stops_reading_when_it_is_full() -> None:
    there = wide(3, 200)
    assert requests_of(there, "/main/*/*", 5) == ["objs.get_many"] * 2 + ["refs.read"]


def test_a_page_that_follows_asks_for_no_head() -> None:
    services = catalog_with(wide(1, 5))
    token = finder(services).find("/main/*/*", max_results=2).next_token
    assert counted(services, lambda: finder(services).find("/main/*/*", page_token=token)) == []


def test_a_page_ends_after_so_many_looks_even_if_nothing_matches() -> None:
    there = wide(3, 150)
    services = catalog_with(there)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(find, "MAX_VISITS", 200)
        sizes = []
        token = None
        while True:
            page = finder(services).find('/main/*/[t = "149"]', page_token=token)
            sizes.append(len(page.items))
            token = page.next_token
            if token is None:
                break
    assert sum(sizes) == 3
    assert 2 <= len(sizes) <= 4


@pytest.mark.parametrize("place", ["comment", "property", "property of a Delta table"])
def test_a_page_ends_after_so_much_text_even_if_nothing_matches(place: str) -> None:
    """Texts come from users, so the work of a request is bounded by their size and not by the
    number of entries."""
    text = "x" * 5_000
    thing = Thing(comment=text) if place == "comment" else Thing(properties={"p": text}, table="Delta" in place)
    there = {("n",): Thing(), **{("n", f"e{number:02}"): thing for number in range(40)}}
    services = catalog_with(there)
    query = f'/main/*/[{"comment" if place == "comment" else "p"} like "%x_y%"]'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(find, "BATCH_GET_MAX", 5)
        patch.setattr(find, "MAX_VISITS", 100)
        pages = 1
        token = finder(services).find(query).next_token
        while token is not None:
            pages = pages + 1
            token = finder(services).find(query, page_token=token).next_token
    assert 3 <= pages <= 4, "40 entries of 5 looks and one"


# -- rights -------------------------------------------------------------------------------------------------------


class OnlySome:
    """An authorizer that hides names and everything below them."""

    def __init__(self, hidden: frozenset[str]) -> None:
        self._hidden = hidden

    def authorize(self, tree: Tree) -> None:
        pass

    def authorize_missing(self, catalog: str) -> None:
        pass

    def visible(self, now: Tree, parent: Path, entities: Sequence[Entity]) -> list[bool]:
        return [now.find((*parent, one.name)) is not None and one.name not in self._hidden for one in entities]


@given(st.sets(names, max_size=3), queries)
@settings(max_examples=examples(100))
def test_i12_what_may_not_be_seen_is_not_found_and_nothing_below_it_is(hidden: set[str], query: Query) -> None:
    there = {(a,): Thing() for a in NAMES} | {(a, b): Thing(properties={"region": "eu"}) for a in NAMES for b in NAMES}
    services = catalog_with(there)
    authorized = services.authorized_by(OnlySome(frozenset(hidden)))
    text = to_text(query)
    seen = [".".join(one.path) for one in finder(authorized).find(text).items]
    assert seen == [name for name in naive(there, parse(text)) if not set(name.split(".")) & hidden]
