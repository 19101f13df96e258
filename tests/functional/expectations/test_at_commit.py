"""Expectations of each commit: no version shows a row that breaks one, by whichever API (I29)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pyarrow as pa
import pytest

from tests.support.fakes import delta
from turnstile_client import ApiError, Lake, Table, connect
from turnstile_server import Server

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("note", pa.string())])
POSITIVE = {"turnstile.expect.positive": "amount >= 0", "turnstile.expect.positive.on": "commit"}
LIKE = {"turnstile.expect.mail": "note LIKE '%@_%'", "turnstile.expect.mail.on": "commit"}
LONG = {"turnstile.expect.short": "note < 'x'", "turnstile.expect.short.on": "commit"}
"""Statistics keep the first characters of a text, so they do not decide for long ones."""


def rows(*values: tuple[Any, ...]) -> pa.Table:
    columns = [[row[at] if at < len(row) else None for row in values] for at in range(3)]
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture
def lake(server: Server) -> Iterator[Lake]:
    with connect(server.url) as lake:
        yield lake


def table(lake: Lake, properties: dict[str, str]) -> Table:
    return lake.create(f"default.c_{uuid4().hex[:10]}", SCHEMA, properties=properties)


def id_of(server: Server, table: Table) -> str:
    with server.client() as api:
        return str(
            api.get(f"/v1/catalogs/main/namespaces/default/tables/{table.name.rpartition('.')[2]}").json()["table_id"]
        )


def ids(table: Table) -> list[int]:
    return sorted(table.read()["id"].to_pylist())


def test_i29_a_commit_with_a_bad_row_is_refused_and_changes_nothing(lake: Lake) -> None:
    orders = table(lake, POSITIVE)
    orders.append(rows((1, 1.0)))
    said = rf"expectation 'positive' \(amount >= 0\) of 'main\.{orders.name}' is broken: 2 rows in 1 of 1 files"
    with pytest.raises(ApiError, match=said):
        orders.append(rows((2, 2.0), (3, -1.0), (4,)))
    assert (ids(orders), orders.version()) == ([1], 1)
    orders.append(rows((5, 0.0)))
    assert ids(orders) == [1, 5]


def test_i29_files_are_read_where_statistics_do_not_decide(lake: Lake) -> None:
    notes = table(lake, LONG)
    notes.append(rows((1, 1.0, "a" * 100)))
    with pytest.raises(ApiError, match="1 rows in 1 of 1 files"):
        notes.append(rows((2, 1.0, "a" * 100), (3, 1.0, "z" * 100)))
    assert ids(notes) == [1]


def test_i29_a_pattern_is_decided_by_the_rows(lake: Lake) -> None:
    mails = table(lake, LIKE)
    mails.append(rows((1, 1.0, "a@b")))
    with pytest.raises(ApiError, match="2 rows in 1 of 1 files"):
        mails.append(rows((2, 1.0, "c@d"), (3, 1.0, "c@"), (4, 1.0)))
    assert ids(mails) == [1]


def test_i29_rows_from_before_are_checked_when_their_file_is_written_anew(lake: Lake, server: Server) -> None:
    orders = table(lake, {})
    orders.append(rows((1, 1.0), (2, -2.0), (3, 3.0)))
    assert "error" not in redefine(server, orders, POSITIVE)
    orders.append(rows((4, 4.0)))
    for change in (lambda: orders.overwrite(rows((1, -1.0))), lambda: orders.delete([("id", "=", 3)])):
        with pytest.raises(ApiError, match="'positive'"):
            change()
    orders.delete([("id", "=", 2)])
    orders.delete([("id", "=", 3)])
    assert ids(orders) == [1, 4]


def test_i29_each_request_of_rows_over_http_has_its_own_outcome(lake: Lake, server: Server) -> None:
    orders = table(lake, POSITIVE)
    table_id = id_of(server, orders)
    answers: dict[int, int] = {}

    def send(id: int) -> None:
        body = json.dumps({"id": id, "amount": -1.0 if id % 3 == 0 else 1.0})
        with server.client() as api:
            answer = api.post(
                f"/v1/tables/{table_id}/rows", content=body, headers={"Content-Type": "application/x-ndjson"}
            )
        answers[id] = answer.status_code
        assert answer.status_code == 200 or answer.json()["error"]["type"] == "ExpectationBroken", answer.text

    threads = [threading.Thread(target=send, args=(id,)) for id in range(1, 19)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    good = [id for id in range(1, 19) if id % 3]
    assert sorted(id for id, status in answers.items() if status == 200) == good
    assert sorted(id for id, status in answers.items() if status == 400) == [3, 6, 9, 12, 15, 18]
    assert ids(orders) == good


def test_i29_a_table_is_not_created_with_rows_that_break_its_expectation(server: Server) -> None:
    name = f"c_{uuid4().hex[:10]}"
    namespace = "/v1/catalogs/main/namespaces/default"
    with server.client() as api:
        staged = api.post(f"{namespace}/staging-tables", json={"name": name}).json()
        stats = json.dumps({"numRecords": 1, "nullCount": {"id": 0}, "minValues": {"id": -1}, "maxValues": {"id": -1}})
        properties = {"turnstile.expect.p": "id >= 0", "turnstile.expect.p.on": "commit"}
        info = delta.info("create", int(time.time() * 1000))
        content = delta.lines(info, delta.protocol(), delta.metadata(**properties), delta.add("f", stats=stats))
        log = Path(unquote(urlsplit(staged["location"]).path)) / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020}.json").write_bytes(content)
        answer = api.post(f"{namespace}/tables", json={"name": name, "table_id": staged["table_id"]})
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "ExpectationBroken"
        assert api.get(f"{namespace}/tables/{name}").status_code == 404


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"turnstile.expect.a": "nothing > 1", "turnstile.expect.a.on": "commit"}, "no column"),
        ({"turnstile.expect.a": "unique(id)", "turnstile.expect.a.on": "commit"}, "about the whole table"),
        ({"turnstile.expect.a": "amount > 1", "turnstile.expect.a.on": "always"}, "set it to promote or commit"),
    ],
)
def test_i29_an_expectation_that_no_commit_could_satisfy_is_refused_when_it_is_set(
    lake: Lake, server: Server, properties: dict[str, str], problem: str
) -> None:
    orders = table(lake, {})
    answer = redefine(server, orders, properties)
    assert (answer["error"]["type"]) == "ExpectationBroken"
    assert problem in answer["error"]["message"] + answer["error"]["remedy"]


def test_i29_a_promotion_does_not_check_again_and_members_of_a_transaction_are_checked(
    lake: Lake, server: Server
) -> None:
    orders = table(lake, POSITIVE)
    lake.branches.create("dev")
    with connect(server.url, catalog="main@dev") as dev:
        with pytest.raises(ApiError, match="'positive'"):
            dev.table(orders.name).append(rows((1, -1.0)))
        dev.table(orders.name).append(rows((2, 2.0)))
    assert lake.branches.check("dev")[0]["outcome"] == "passed"
    lake.branches.promote("dev")
    assert ids(orders) == [2]


def test_i29_one_member_of_a_transaction_that_breaks_an_expectation_refuses_all(lake: Lake, server: Server) -> None:
    orders = table(lake, POSITIVE)
    other = table(lake, {})
    for amount, status in ((-3.0, 400), (3.0, 200)):
        members = [member(id_of(server, other), 1.0), member(id_of(server, orders), amount)]
        with server.client() as api:
            answer = api.post("/v1/transactions", json={"id": str(uuid4()), "commits": members})
        assert answer.status_code == status, answer.text
        assert [orders.version(), other.version()] == ([1, 1] if status == 200 else [0, 0])


def member(table_id: str, amount: float) -> dict[str, Any]:
    """The commit of a file with such a row, by its statistics."""
    bounds = {"minValues": {"amount": amount}, "maxValues": {"amount": amount}}
    stats = json.dumps({"numRecords": 1, "nullCount": {"amount": 0}, **bounds})
    add = delta.add(f"{uuid4()}.parquet", stats=stats)
    content = delta.lines(delta.info(str(uuid4()), int(time.time() * 1000) + 1), add).decode()
    return {"table_id": table_id, "version": 1, "base": 0, "inline": {"content": content}}


def redefine(server: Server, table: Table, properties: dict[str, str]) -> Any:
    """Sets properties of a table, as ALTER TABLE does."""
    with server.client() as api:
        name = table.name.rpartition(".")[2]
        loaded = api.get(f"/v1/catalogs/main/namespaces/default/tables/{name}").json()
        body = delta.redefinition(loaded, properties, int(time.time() * 1000) + 2)
        return api.post(f"/v1/tables/{loaded['table_id']}/commits", json=body).json()
