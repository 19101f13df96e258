"""A damaged row beside callers that may not see its subject: it does not stop their answers, and no
answer to them has its key (I12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.access.realm import Realm
from tests.support.functions import Answer
from turnstile.events.append import Appender, behind

ID = "c0000000-0000-4000-8000-000000000001"


@pytest.fixture
def realm() -> Realm:
    made = Realm()
    made.create("t9", "hr")
    made.grant("catalog", "main", "ann", "USE CATALOG")
    made.grant("schema", "main.sales", "ann", "USE SCHEMA")
    made.grant("table", "main.sales.t1", "ann", "SELECT")
    appender = Appender(made.world)
    appender.append(list(behind(made.world, appender)))
    return made


def damage(realm: Realm, table: str) -> str:
    """Damages the row of a table, for functions that know nothing yet; returns its key."""
    key = realm.world.space.table(table)
    realm.world.refs.damage(key)
    realm.open()
    return key


def names(answer: Answer) -> list[str | None]:
    assert answer.status == 200, answer.text
    return [event["data"].get("name") for event in answer.json["events"] if ".table." in event["type"]]


def events(realm: Realm, user: str = "ann", **query: Any) -> list[str | None]:
    return names(realm.ask(user, "GET", "/v1/events", catalog="main", **query))


def test_i12_events_of_other_tables_are_read_beside_a_damaged_table(realm: Realm) -> None:
    rows = realm.world.refs.rows.values()
    other = next(row["table_id"] for row in rows if row.get("name") == "main.hr.t9")
    before = events(realm)
    assert before == ["main.sales.t1", "main.sales.t1"]
    damage(realm, other)
    assert events(realm) == before
    assert events(realm, table_id=realm.table) == before
    assert events(realm, table_id=other) == []
    assert "main.hr.t9" in events(realm, "root")


def test_i12_events_of_a_damaged_table_are_for_the_callers_that_may_see_it_by_its_name_in_the_catalog(
    realm: Realm,
) -> None:
    before = events(realm)
    damage(realm, realm.table)
    assert events(realm) == [None for _ in before], "none is passed over; how old the name is, is not known"
    realm.revoke("table", "main.sales.t1", "ann", "SELECT")
    realm.open()
    assert events(realm) == []


def test_i12_events_of_a_dropped_table_with_a_damaged_row_are_for_administrators(realm: Realm) -> None:
    realm.must("DELETE", "/v1/catalogs/main/namespaces/sales/tables/t1")
    damage(realm, realm.table)
    assert events(realm) == []
    assert "main.sales.t1" in events(realm, "root")


def test_i12_the_key_of_a_damaged_transaction_is_in_the_log_and_for_administrators_alone(
    realm: Realm, caplog: pytest.LogCaptureFixture
) -> None:
    realm.grant("table", "main.sales.t1", "ann", "MODIFY")
    key = realm.world.space.transaction(ID)
    realm.world.refs.damage(key)
    table = f"/v1/tables/{realm.table}"
    shown = realm.ask("root", "GET", f"{table}/pins")
    assert (shown.status, shown.error["row"]) == (503, key) and key in shown.error["message"]
    for method, path, body in (("GET", f"{table}/pins", None), ("POST", f"{table}/vacuums", {})):
        answer = realm.ask("ann", method, path, body)
        assert (answer.status, answer.error["type"]) == (503, "StorageFault")
        assert "nothing of any table is removed" in answer.error["message"]
        assert "administrator" in answer.error["remedy"]
        assert ID not in answer.text and "row" not in answer.error
        assert key in vars(caplog.records[-1])["reason"], "the log has it"
