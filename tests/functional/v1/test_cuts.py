"""Cuts over the real handlers: one moment, whatever changes meanwhile, and only of tables that may
be read (I6, I8, I9, I12)."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.access.operations import SALES
from tests.support.access.realm import Realm
from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.v1 import NOBODY, Site, refused
from turnstile.access.tables import STALE_MS
from turnstile.store.core.errors import Throttled

ORDERS = "main.sales.orders"


class Cutting(Site):
    """A site that takes cuts; ``second`` is another table at version 0."""

    def __init__(self) -> None:
        super().__init__()
        self.second = self.new("second")

    def new(self, name: str) -> str:
        id = self.stage(name)
        assert self.register(name, id).status == 201
        return id

    def cut(self, *tables: str) -> Answer:
        return self.ask("takeCut", {"tables": list(tables)})

    def ok(self, *tables: str) -> list[dict[str, Any]]:
        answer = self.cut(*tables)
        assert answer.status == 200, answer.text
        return list(answer.json["tables"])

    def both(self, version: int, second: int) -> Answer:
        """One transaction over both tables."""
        commits = [
            {"table_id": id, "version": at, "inline": {"content": delta.append(f"{id}-{at}", self.now()).decode()}}
            for id, at in ((self.table, version), (self.second, second))
        ]
        return self.ask("transact", {"id": str(uuid.uuid4()), "commits": commits})

    def meanwhile(self, happens: Callable[[], object]) -> None:
        """Something happens once, after the names of the next cut were resolved and before it is
        taken."""
        refs = self.world.refs
        plain = {name: getattr(refs, name) for name in ("read", "read_cut")}

        def before(name: str) -> Callable[..., Any]:
            def call(keys: Any) -> Any:
                for other, method in plain.items():
                    setattr(refs, other, method)
                happens()
                return getattr(refs, name)(keys)

            return call

        for name in plain:
            setattr(refs, name, before(name))


@pytest.fixture
def site() -> Cutting:
    return Cutting()


def test_i8_a_cut_shows_tables_by_name_and_uuid_in_the_order_of_the_request(site: Cutting) -> None:
    before = site.now()
    answer = site.cut(site.second, "Main.SALES.Orders")
    assert before < answer.json["taken_at_ms"] < site.now()
    second, orders = answer.json["tables"]
    head = site.head()
    assert orders == {
        "table_id": site.table,
        "name": ORDERS,
        "version": 3,
        "timestamp": head["last_ict"],
        "etag": head["metadata"],
        "floor": head["floor"],
    }
    assert (second["table_id"], second["name"], second["version"]) == (site.second, "main.sales.second", 0)
    assert head["floor"] == 1


def test_i8_a_cut_shows_all_of_a_transaction_or_nothing_whatever_comes_between_its_requests(site: Cutting) -> None:
    """A transaction over both tables is applied before every request that a cut sends to the
    store."""
    refs = site.world.refs
    steps = iter(range(1, 1000))
    writing = list[bool]()

    def disturbed(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*keys: Any) -> Any:
            if not writing:
                writing.append(True)
                step = next(steps)
                assert site.both(3 + step, step).status == 200
                writing.clear()
            return plain(*keys)

        return call

    for name in ("read", "read_many", "read_cut"):
        setattr(refs, name, disturbed(getattr(refs, name)))
    shown = []
    for tables in ((ORDERS, site.second), (site.table, site.second), (ORDERS, "main.sales.second")):
        orders, second = site.ok(*tables)
        shown.append((orders["version"] - second["version"], second["version"]))
    assert [difference for difference, _ in shown] == [3, 3, 3]
    assert [second for _, second in shown] == sorted({second for _, second in shown}), "each shows more than the last"


@pytest.mark.parametrize("count", [1, 10, 100])
def test_i8_a_cut_by_uuid_is_one_request_and_one_by_name_asks_for_the_catalog_before(site: Cutting, count: int) -> None:
    names = [f"t{number}" for number in range(count)]
    ids = [site.new(name) for name in names]
    full = [f"main.sales.{name}" for name in names]
    site.ok(*full)
    cut = "read" if count == 1 else "read_cut"
    for tables, expected in ((ids, [cut]), (full, ["read_many", cut])):
        site.world.refs.requests.clear()
        site.world.objs.requests.clear()
        assert [table["table_id"] for table in site.ok(*tables)] == ids
        assert site.world.refs.requests == expected
        assert site.world.objs.requests == []


def test_i9_a_name_that_leads_to_another_table_by_then_shows_that_one(site: Cutting) -> None:
    def replaced() -> None:
        site.ask("renameTable", {"name": "old"})
        site.third = site.new("orders")

    site.meanwhile(replaced)
    orders, second = site.ok(ORDERS, "main.sales.second")
    assert (orders["table_id"], orders["version"], second["version"]) == (site.third, 0, 0)


@pytest.mark.parametrize("tables", [(ORDERS,), (ORDERS, "main.sales.second")])
def test_i9_a_table_that_is_dropped_and_made_again_meanwhile_is_shown_as_it_is(
    site: Cutting, tables: tuple[str, ...]
) -> None:
    def replaced() -> None:
        site.ask("dropTable")
        site.third = site.new("orders")

    site.meanwhile(replaced)
    assert site.ok(*tables)[0]["table_id"] == site.third


def test_i9_a_name_that_leads_nowhere_by_then_is_not_found(site: Cutting) -> None:
    site.meanwhile(lambda: site.ask("renameTable", {"name": "old"}))
    refused(site.cut("main.sales.second", ORDERS), 404, "NoSuchTable", "tables[1]")
    assert site.ok("main.sales.old")[0]["table_id"] == site.table


def test_i9_a_table_whose_namespace_is_renamed_meanwhile_is_not_found_by_its_old_name(site: Cutting) -> None:
    site.meanwhile(lambda: site.ask("renameNamespace", {"name": "trade"}))
    refused(site.cut(ORDERS, "main.sales.second"), 404, "NoSuchNamespace", "tables[0]")
    assert [table["name"] for table in site.ok("main.trade.orders", site.second)] == [
        "main.trade.orders",
        "main.trade.second",
    ]


def test_i9_names_that_never_rest_are_a_conflict_and_no_wrong_answer(site: Cutting) -> None:
    plain = site.world.refs.read_many
    turns = iter(range(100))

    def restless(keys: Any) -> Any:
        """The table moves away and back between every look at the catalog and the cut."""
        site.set(name=f"main.sales.elsewhere{next(turns)}")
        return plain(keys)

    site.world.refs.read_many = restless  # type: ignore[method-assign]
    refused(site.cut(ORDERS, site.second), 409, "ConcurrentChange", "tables")


@pytest.mark.parametrize(
    ("tables", "field"),
    [
        ([], "tables"),
        ([f"{number:08d}-0000-4000-8000-000000000000" for number in range(101)], "tables"),
        (["orders"], "tables[0]"),
        (["main.orders"], "tables[0]"),
        (["main..orders"], "tables[0]"),
        (["main.sales.or ders"], "tables[0]"),
        ([NOBODY, ""], "tables[1]"),
        ([NOBODY, NOBODY], "tables[1]"),
        ([NOBODY.replace("9", "a"), NOBODY.replace("9", "A")], "tables[1]"),
        ([ORDERS, "MAIN.sales.ORDERS"], "tables[1]"),
        ([ORDERS, 3], "tables[1]"),
        ("main.sales.orders", "tables"),
    ],
)
def test_a_bad_request_is_refused_and_names_the_table(site: Cutting, tables: Any, field: str) -> None:
    answer = site.ask("takeCut", {"tables": tables})
    error = refused(answer, 400, "InvalidRequest")
    assert error["field"].replace("[...]", "[1]") == field, error


def test_a_table_that_is_named_and_given_by_its_uuid_is_there_twice(site: Cutting) -> None:
    error = refused(site.cut(site.second, ORDERS, site.table), 400, "InvalidRequest", "tables[2]")
    assert "tables[1]" in error["message"]


@pytest.mark.parametrize("by_name", [True, False])
def test_i6_a_recovering_table_is_no_part_of_a_cut(site: Cutting, by_name: bool) -> None:
    site.set(state="recovering")
    error = refused(site.cut(site.second, ORDERS if by_name else site.table), 409, "TableNotActive", "tables[1]")
    assert (error["table_id"], error["state"]) == (site.table, "recovering")


@pytest.mark.parametrize("by_name", [True, False])
def test_i10_a_dropped_table_is_no_part_of_a_cut(site: Cutting, by_name: bool) -> None:
    site.ask("dropTable")
    refused(site.cut(site.second, ORDERS if by_name else site.table), 404, "NoSuchTable", "tables[1]")


def test_a_table_that_is_written_all_the_time_is_answered_try_again(site: Cutting) -> None:
    def busy(_: Any) -> Any:
        raise Throttled("transact_get_items was put off until the deadline")

    site.world.refs.read_cut = busy  # type: ignore[method-assign]
    error = refused(site.cut(ORDERS, site.second), 429, "Throttled")
    assert error["retry_after_ms"] > 0


# -- rights -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def realm() -> Realm:
    """Ann may read ``t1`` and ``t2`` of ``main.sales``, and not ``t3``."""
    site = Realm()
    site.grant("catalog", "main", "ann", "USE CATALOG")
    site.grant("schema", "main.sales", "ann", "USE SCHEMA")
    site.ids = {"t1": site.table, "t2": site.create("t2"), "t3": site.create("t3")}  # type: ignore[attr-defined]
    for name in ("t2", "t3"):
        site.own("table", f"main.sales.{name}", "")
    for name in ("t1", "t2"):
        site.grant("table", f"main.sales.{name}", "ann", "SELECT")
    site.open()
    return site


def cut(realm: Realm, *tables: str, user: str = "ann") -> Answer:
    return realm.ask(user, "POST", "/v1/snapshots", {"tables": list(tables)})


def id_of(realm: Realm, name: str) -> str:
    return str(realm.ids[name])  # type: ignore[attr-defined]


def test_i12_every_table_of_a_cut_needs_the_right_to_read_it(realm: Realm) -> None:
    t1, t2, t3 = (id_of(realm, name) for name in ("t1", "t2", "t3"))
    for allowed in ((t1, t2), ("main.sales.t1", "main.sales.t2"), (t1, "main.sales.t2")):
        answer = cut(realm, *allowed)
        assert answer.status == 200, answer.text
        assert [table["table_id"] for table in answer.json["tables"]] == [t1, t2]
    for denied in ((t1, t3), ("main.sales.t1", "main.sales.t3"), (t1, "main.sales.t3"), (t3, "main.sales.t1")):
        for warm in (True, False):
            if not warm:
                realm.open()
            answer = cut(realm, *denied)
            assert (answer.status, answer.error["type"]) == (403, "PermissionDenied"), answer.text
            assert not {t2, t3, "secret"} - set(denied) & set(answer.text)
    assert cut(realm, t3, user="root").status == 200


def test_i12_a_name_that_does_not_exist_is_refused_in_the_words_of_one_that_does(realm: Realm) -> None:
    existing = cut(realm, "main.sales.t1", "main.sales.t3")
    absent = cut(realm, "main.sales.t1", "main.sales.nope")
    assert existing.status == absent.status == 403
    assert absent.text.replace("nope", "t3") == existing.text


def test_i12_a_uuid_that_leads_nowhere_is_not_found(realm: Realm) -> None:
    refused(cut(realm, realm.table, NOBODY), 404, "NoSuchTable", "tables[1]")


def test_an_external_table_and_one_that_is_no_table_have_no_versions_to_show(realm: Realm) -> None:
    realm.grant("schema", "main.sales", "ann", "SELECT")
    refused(cut(realm, "main.sales.t1", "main.sales.e1"), 400, "UnsupportedTable", "tables[1]")
    refused(cut(realm, "main.sales.t1", realm.external), 404, "NoSuchTable", "tables[1]")
    refused(cut(realm, "main.sales.t1", "main.sales.nope"), 404, "NoSuchTable", "tables[1]")


def test_i12_a_right_that_was_taken_away_serves_a_cut_by_name_not_at_all_and_by_uuid_for_seconds(realm: Realm) -> None:
    t1 = id_of(realm, "t1")
    t2 = id_of(realm, "t2")
    assert cut(realm, t1, t2).status == cut(realm, "main.sales.t1", "main.sales.t2").status == 200
    realm.revoke("table", "main.sales.t2", "ann", "SELECT")
    assert cut(realm, "main.sales.t1", "main.sales.t2").status == 403
    realm.world.clock.now += STALE_MS
    assert cut(realm, t1, t2).status == 403


def test_i12_rights_by_uuid_cost_one_request_for_all_tables_and_none_when_warm(realm: Realm) -> None:
    ids = [id_of(realm, name) for name in ("t1", "t2")]

    def requests() -> list[str]:
        realm.world.refs.requests.clear()
        realm.world.objs.requests.clear()
        assert cut(realm, *ids).status == 200
        return realm.world.refs.requests

    assert requests() == ["read_cut", "read"]
    assert requests() == ["read_cut"]
    realm.world.clock.now += STALE_MS
    assert requests() == ["read_cut", "read"]


def test_i12_a_table_that_was_renamed_is_authorized_by_its_new_name(realm: Realm) -> None:
    t1 = id_of(realm, "t1")
    t2 = id_of(realm, "t2")
    assert cut(realm, t1, t2).status == 200
    realm.must("POST", f"{SALES}/tables/t2/rename", {"name": "t4"})
    answer = cut(realm, t1, t2)
    assert answer.status == 200
    assert [table["name"] for table in answer.json["tables"]] == ["main.sales.t1", "main.sales.t4"]


# -- cuts of the past -------------------------------------------------------------------------------------------------


def test_i8_a_cut_of_the_past_has_all_of_a_transaction_with_one_timestamp_or_nothing(site: Cutting) -> None:
    before = site.head()["latest"]
    moments = []
    for step in (1, 2):
        timestamp = site.now()
        commits = [
            {"table_id": id, "version": at, "inline": {"content": delta.append(f"{id}-{at}", timestamp).decode()}}
            for id, at in ((site.table, before + step), (site.second, step))
        ]
        assert site.ask("transact", {"id": str(uuid.uuid4()), "commits": commits}).status == 200
        moments.append(timestamp)
    for at_ms, steps in ((moments[0] - 1, 0), (moments[0], 1), (moments[1] - 1, 1), (moments[1], 2), (site.now(), 2)):
        past = site.ask("takeCut", {"tables": [site.second, ORDERS], "at_ms": at_ms})
        assert past.status == 200, past.text
        assert [table["version"] for table in past.json["tables"]] == [steps, before + steps]
        assert all(table["timestamp"] <= at_ms for table in past.json["tables"])
        assert [("etag" in table) for table in past.json["tables"]] == [steps == 2, steps == 2]


@pytest.mark.parametrize(
    ("at_ms", "status", "type", "field"),
    [
        (lambda site: site.now() + 120_000, 400, "InvalidRequest", "at_ms"),
        (lambda site: -1, 400, "InvalidRequest", "at_ms"),
        (lambda site: "yesterday", 400, "InvalidRequest", "at_ms"),
        (lambda site: 1.5, 400, "InvalidRequest", "at_ms"),
        (lambda site: 1_000, 404, "NoSuchCommit", "tables[0]"),
    ],
)
def test_i8_a_moment_that_is_none_of_the_past_is_refused(
    site: Cutting, at_ms: Callable[[Cutting], Any], status: int, type: str, field: str
) -> None:
    answer = site.ask("takeCut", {"tables": [site.table], "at_ms": at_ms(site)})
    assert refused(answer, status, type, field)["remedy"]
