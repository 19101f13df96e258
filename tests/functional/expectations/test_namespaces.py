"""Expectations of namespaces hold for every table below them: a promotion shows no row that breaks
one, whatever the branch does to the namespace (I28)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.support.clients.branches import drop_all, promote
from tests.support.fakes import delta
from tests.support.v1 import CatalogApi, PlansApi
from turnstile.branches.checks import Checker
from turnstile_client import Lake, connect
from turnstile_server import Server

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
POSITIVE = {"turnstile.expect.positive": "amount >= 0"}


def rows(*values: tuple[Any, ...]) -> pa.Table:
    return pa.table([[row[at] for row in values] for at in range(2)], schema=SCHEMA)


class Site:
    """A server with a namespace that has another one in it, and a branch."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.api = server.client()
        self.main = connect(server.url)
        self.dev = connect(server.url, catalog="main@dev")
        self.top = f"n{uuid4().hex[:10]}"
        self.inner = f"{self.top}.inner"

    def create(self, properties: dict[str, str], name: str = "") -> None:
        made = self.api.post("/v1/catalogs/main/namespaces", json={"name": name or self.top, "properties": properties})
        assert made.status_code == 201, made.text

    def change(self, catalog: str = "main", name: str = "", **change: Any) -> Any:
        return self.api.patch(f"/v1/catalogs/{catalog}/namespaces/{name or self.top}", json=change)

    def table(self, lake: Lake, name: str, schema: pa.Schema = SCHEMA, **properties: str) -> Any:
        given = {f"turnstile.expect.{key}": text for key, text in properties.items()}
        return lake.create(name, schema, properties=given)

    def checks(self) -> list[tuple[str, str, str, bool]]:
        found = self.main.branches.check("dev")
        return [(each["table"], each["expectation"], each["outcome"], each["refuses"]) for each in found]

    def promote(self) -> list[str]:
        """The reasons why the branch is not promoted."""
        return promote(self.main)

    def end(self) -> None:
        drop_all(self.main)
        self.api.close()
        self.main.close()
        self.dev.close()


@pytest.fixture
def site(server: Server) -> Iterator[Site]:
    site = Site(server)
    yield site
    site.end()


def test_i28_an_expectation_of_a_namespace_holds_for_every_table_below_it(site: Site) -> None:
    site.create(POSITIVE)
    site.create({"turnstile.expect.key": "unique(id)"}, site.inner)
    site.table(site.main, f"{site.top}.old").append(rows((1, -1.0)))
    site.main.branches.create("dev")
    site.dev.table(f"{site.top}.old").append(rows((2, 2.0)))
    site.table(site.dev, f"{site.inner}.new", few="row_count < 9").append(rows((1, -1.0), (1, 1.0)))
    assert site.checks() == [
        (f"{site.top}.old", "positive", "passed", False),
        (f"{site.inner}.new", "positive", "broken", True),
        (f"{site.inner}.new", "key", "broken", True),
        (f"{site.inner}.new", "few", "passed", False),
    ]
    first, second = site.promote()
    assert f"'positive' (amount >= 0) of '{site.inner}.new' is broken: 1 rows in 1 of 1 files" in first
    assert "1 keys occur more than once" in second
    site.dev.table(f"{site.inner}.new").overwrite(rows((1, 1.0), (2, 2.0)))
    assert site.promote() == []
    (commit,) = site.main.table(f"{site.top}.old").history(1)
    assert commit["operation"] == "PROMOTE BRANCH"


def test_i28_a_branch_adds_expectations_to_a_namespace_and_takes_none_away(site: Site) -> None:
    site.create(POSITIVE)
    table = site.table(site.main, f"{site.top}.t", positive="amount >= -9")
    table.append(rows((1, 1.0)))
    site.main.branches.create("dev")
    allow = {"turnstile.expect.positive.unchecked": "allow", "turnstile.expect.known": "id > 1"}
    assert site.change("main@dev", set={"turnstile.expect.positive": "amount >= -5", **allow}).status_code == 200
    site.dev.table(f"{site.top}.t").append(rows((1, -2.0)))
    assert [reason.partition(" of ")[0] for reason in site.promote()] == [
        "expectation 'positive' (amount >= 0)",
        "expectation 'known' (id > 1)",
    ]
    assert site.change("main@dev", unset=[*POSITIVE, *allow]).status_code == 200
    assert [reason.partition(" of ")[0] for reason in site.promote()] == ["expectation 'positive' (amount >= 0)"]
    site.dev.table(f"{site.top}.t").overwrite(rows((3, 3.0)))
    assert site.promote() == []


def test_i28_tables_without_its_columns_are_not_concerned_but_one_of_them_has_to_be(site: Site) -> None:
    site.create({"turnstile.expect.mail": "email IS NOT NULL"})
    site.table(site.main, f"{site.top}.t").append(rows((1, 1.0)))
    site.main.branches.create("dev")
    site.dev.table(f"{site.top}.t").append(rows((2, 2.0)))
    assert site.checks() == [(site.top, "mail", "unchecked", True)]
    (reason,) = site.promote()
    assert f"'mail' (email IS NOT NULL) of '{site.top}' could not be checked: none of 1 tables" in reason
    mails = site.table(site.dev, f"{site.top}.mails", pa.schema([("email", pa.string())]))
    assert site.checks() == [(f"{site.top}.mails", "mail", "passed", False)]
    assert site.promote() == []
    site.main.branches.create("dev")
    site.dev.table(f"{site.top}.t").append(rows((3, 3.0)))
    assert site.checks() == [], "another table of the namespace has the column"
    assert site.promote() == []
    assert mails.name


def test_an_expectation_of_no_table_passes_where_its_namespace_allows_it(site: Site) -> None:
    site.create({"turnstile.expect.mail": "unique(email)", "turnstile.expect.mail.unchecked": "allow"})
    site.main.branches.create("dev")
    site.table(site.dev, f"{site.top}.t").append(rows((1, 1.0)))
    assert site.checks() == [(site.top, "mail", "unchecked", False)]
    assert site.promote() == []


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"turnstile.expect.a": "amount >"}, "cannot be read"),
        ({"turnstile.expect.a": "unique()"}, "write unique(id)"),
        ({"turnstile.expect.a.unchecked": "allow"}, "belongs to no expectation"),
        ({"Turnstile.Expect.a": "amount > 0"}, "is misspelled"),
        ({"turnstile.expect.a": "amount > 0", "turnstile.expect.a.on": "commit"}, "not of a namespace"),
    ],
)
def test_a_property_of_a_namespace_that_is_no_expectation_is_refused_by_every_api(
    site: Site, properties: dict[str, str], problem: str
) -> None:
    site.create({})
    iceberg = "/iceberg/v1/main/namespaces"
    unity = "/api/2.1/unity-catalog/schemas"
    other = f"{site.top}x"
    answers = [
        site.change(set=properties),
        site.api.post("/v1/catalogs/main/namespaces", json={"name": other, "properties": properties}),
        site.api.post(iceberg, json={"namespace": [other], "properties": properties}),
        site.api.post(f"{iceberg}/{site.top}/properties", json={"updates": properties, "removals": []}),
        site.api.post(unity, json={"name": other, "catalog_name": "main", "properties": properties}),
        site.api.patch(f"{unity}/main.{site.top}", json={"properties": properties}),
        site.api.patch(f"{unity}/main.{site.top}", json={"properties": properties, "new_name": other}),
        site.api.post(
            "/v1/catalogs/main/transactions",
            json={
                "id": str(uuid4()),
                "changes": [{"change": "update_namespace", "namespace": site.top, "set": properties}],
            },
        ),
    ]
    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert problem in answer.text.replace("\\", "")
    assert site.api.get(f"/v1/catalogs/main/namespaces/{site.top}").json()["properties"] == {}
    assert site.api.get(f"/v1/catalogs/main/namespaces/{other}").status_code == 404
    assert site.change(set=POSITIVE).status_code == 200
    assert site.change(comment="others stay as they are").status_code == 200


def test_a_catalog_has_no_expectations(site: Site) -> None:
    answer = site.api.post("/v1/catalogs", json={"name": site.top, "properties": POSITIVE})
    assert answer.status_code in (400, 405), answer.text
    answer = site.api.patch("/api/2.1/unity-catalog/catalogs/main", json={"properties": POSITIVE})
    assert answer.status_code == 400 and "a catalog has no expectations" in answer.text


def test_i28_iceberg_tables_keep_to_the_expectations_of_their_namespace(site: Site) -> None:
    site.create(POSITIVE)
    site.main.branches.create("dev")
    dev = RestCatalog("c", uri=f"{site.server.url}/iceberg", warehouse="main@dev")
    table = dev.create_table(f"{site.top}.ice", SCHEMA)
    table.append(rows((1, 1.0), (2, -2.0)))
    assert site.checks() == [(f"{site.top}.ice", "positive", "broken", True)]
    table.overwrite(rows((1, 1.0)))
    assert site.promote() == []


def test_i28_an_expectation_that_a_namespace_gets_meanwhile_is_not_passed_by(
    api: CatalogApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    api_of_all = PlansApi(api)
    main = "/v1/catalogs/main"
    api_of_all.create("t")
    assert api.http.post(f"{main}/branches", {"name": "dev"}).status == 201
    own = api_of_all.commits.get("/v1/catalogs/main@dev/namespaces/default/tables/t").json["table_id"]
    api_of_all.add_files(own, delta.add("a"))
    check = Checker.check

    def changed_after(self: Checker, plan: Any) -> Any:
        found = check(self, plan)
        monkeypatch.undo()
        change = {"set": {"turnstile.expect.few": "row_count < 9"}, "comment": "x"}
        assert api.http.patch(f"{main}/namespaces/default", change).status == 200
        return found

    monkeypatch.setattr(Checker, "check", changed_after)
    answer = api.http.post(f"{main}/branches/dev/promote", {})
    assert (answer.status, answer.error["type"]) == (409, "ConcurrentChange")
    assert "the expectations of a namespace were changed" in answer.error["message"]
    assert api.http.patch(f"{main}/namespaces/default", {"unset": ["turnstile.expect.few"]}).status == 200
    assert api.http.post(f"{main}/branches/dev/promote", {}).status == 200
