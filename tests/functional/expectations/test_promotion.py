"""Expectations of the tables of a branch: a promotion shows nothing that breaks one (I28)."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from tests.support.clients.branches import drop_all, promote
from tests.support.fakes import delta
from turnstile_client import ApiError, Lake, Table, connect
from turnstile_server import Server

SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("email", pa.string()), ("day", pa.date32())])
DAY = dt.date(2026, 11, 1)


def rows(*values: tuple[Any, ...]) -> pa.Table:
    columns = [[row[at] if at < len(row) else None for row in values] for at in range(3)]
    return pa.table([*columns, [DAY] * len(values)], schema=SCHEMA)


class Site:
    """A server with a table that has expectations, and a branch."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.api = server.client()
        self.main = connect(server.url)
        self.dev = connect(server.url, catalog="main@dev")
        self.name = f"default.x_{uuid4().hex[:10]}"

    def create(self, lake: Lake | None = None, **expectations: str) -> Table:
        properties = {f"turnstile.expect.{name.replace('__', '.')}": text for name, text in expectations.items()}
        return (lake or self.main).create(self.name, SCHEMA, partition_by=["day"], properties=properties)

    def branch(self) -> Table:
        self.main.branches.create("dev")
        return self.dev.table(self.name)

    def promote(self) -> list[str]:
        """The reasons why the branch is not promoted."""
        return promote(self.main)

    def end(self) -> None:
        drop_all(self.main)
        self.main.drop(self.name)
        self.main.close()
        self.dev.close()
        self.api.close()


@pytest.fixture
def site(server: Server) -> Iterator[Site]:
    site = Site(server)
    yield site
    site.end()


def test_i28_rows_that_break_an_expectation_are_not_promoted_until_they_are_mended(site: Site) -> None:
    main = site.create(positive="amount >= 0", known="id IS NOT NULL")
    main.append(rows((1, 1.0), (2, -5.0)))
    dev = site.branch()
    dev.append(rows((3, 3.0), (4, -1.0), (None, 2.0), (6, None), (7, float("nan"))))
    reasons = site.promote()
    assert len(reasons) == 2
    assert f"expectation 'known' (id IS NOT NULL) of '{site.name}' is broken: 1 rows in 1 of 1 files" in reasons[0]
    assert "2 rows in 1 of 1 files" in reasons[1]
    examples = json.loads("[" + reasons[1].partition("such as ")[2] + "]")
    assert [(row["id"], row["amount"]) for row in examples] == [(4, -1.0), (6, None)]
    assert main.read().num_rows == 2, "nothing of it is shown"
    dev.delete([("id", "=", 4)])
    dev.delete([("id", "=", 6)])
    dev.overwrite(rows((3, 3.0), (7, 7.0)))
    assert site.promote() == []
    assert sorted(main.read()["id"].to_pylist()) == [3, 7]
    (commit,) = main.history(1)
    assert commit["operation"] == "PROMOTE BRANCH"


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("row_count between 3 and 4", ""),
        ("row_count <= 3", "the table has 4 rows"),
        ("ROW_COUNT > 3.5", ""),
        ("null_fraction(email) < 0.5", "it is null in 2 of 4 rows"),
        ("null_fraction(email) <= 0.5", ""),
        ("null_fraction(day) = 0", ""),
        ("unique(id)", "1 keys occur more than once"),
        ("unique(id, amount)", ""),
        ("unique(email)", ""),
    ],
)
def test_i28_conditions_of_the_whole_table_count_the_rows_of_before(site: Site, text: str, broken: str) -> None:
    site.create(whole=text).append(rows((1, 1.0, "a"), (2, 2.0)))
    site.branch().append(rows((2, 3.0, "b"), (4, 4.0)))
    reasons = site.promote()
    assert len(reasons) == bool(broken)
    assert all(broken in reason for reason in reasons)


def test_i28_an_expectation_that_cannot_be_checked_refuses_unless_its_table_allows_it(site: Site) -> None:
    for policy, refused in (("refuse", True), ("allow", False)):
        site.create(odd="email < 'x'", odd__unchecked=policy).append(rows((1, 1.0, "a")))
        dev = site.branch()
        redefine(site, {}, without="email")
        dev.append(rows((2, 2.0)).drop_columns(["email"]))
        (check,) = site.main.branches.check("dev")
        assert (check["outcome"], check["refuses"]) == ("unchecked", refused)
        reasons = site.promote()
        assert ["could not be checked: the table has no column 'email'" in reason for reason in reasons] == [
            True
        ] * refused
        if refused:
            site.main.branches.drop("dev")
            site.main.drop(site.name)
            site.name += "2"


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"odd__unchecked": "allow"}, "belongs to no expectation 'odd'"),
        ({"a b": "amount > 0"}, "is no expectation"),
        ({"a": "amount > 0", "a__unchecked": "maybe"}, "set it to refuse or allow"),
        ({"a": "amount LIKE 'x%'"}, "LIKE needs a text"),
    ],
)
def test_i29_a_property_that_is_no_expectation_is_refused_when_it_is_set(
    site: Site, properties: dict[str, str], problem: str
) -> None:
    with pytest.raises(ApiError, match=problem):
        site.create(**properties)
    site.create()


def redefine(site: Site, properties: dict[str, str], without: str = "") -> None:
    """Sets properties of the branch's table, as ALTER TABLE does, or takes a column away."""
    loaded = site.api.get("/v1/catalogs/main@dev/namespaces/default/tables/" + site.name.partition(".")[2]).json()
    body = delta.redefinition(loaded, properties, int(time.time() * 1000) + 2, without=without)
    answer = site.api.post(f"/v1/tables/{loaded['table_id']}/commits", json=body)
    assert answer.status_code == 200, answer.text


def test_i28_a_branch_adds_expectations_and_takes_none_of_its_catalogs_away(site: Site) -> None:
    main = site.create(positive="amount >= 0")
    main.append(rows((1, 1.0)))
    dev = site.branch()
    dev.append(rows((2, -2.0)))
    redefine(site, {"turnstile.expect.positive": "amount >= -5", "turnstile.expect.known": "id > 2"})
    assert [reason.partition(" of ")[0] for reason in site.promote()] == [
        "expectation 'positive' (amount >= 0)",
        "expectation 'known' (id > 2)",
    ]
    dev.overwrite(rows((3, 3.0)))
    assert site.promote() == []
    loaded = site.api.get("/v1/catalogs/main/namespaces/default/tables/" + site.name.partition(".")[2]).json()
    assert loaded["metadata"]["properties"]["turnstile.expect.known"] == "id > 2"


def test_i28_a_table_that_replaces_another_on_the_branch_keeps_to_its_expectations(site: Site) -> None:
    site.create(positive="amount >= 0").append(rows((1, 1.0)))
    site.branch()
    site.dev.drop(site.name)
    other = site.create(site.dev)
    other.append(rows((2, -2.0)))
    (reason,) = site.promote()
    assert "'positive'" in reason
    other.overwrite(rows((2, 2.0)))
    assert site.promote() == []


def test_a_sample_of_a_branchs_table_has_the_rows_of_both(site: Site) -> None:
    site.create().append(rows((1, 1.0)))
    dev = site.branch()
    dev.append(rows((2, 2.0)))
    id = site.api.get(f"/v1/catalogs/main@dev/namespaces/default/tables/{site.name.partition('.')[2]}").json()[
        "table_id"
    ]
    found = site.api.get(f"/v1/tables/{id}/sample").json()
    assert sorted(row["id"] for row in found["rows"]) == [1, 2], found


def test_i28_a_table_that_the_branch_created_is_checked_too(site: Site) -> None:
    branch = site.main.branches.create("dev", days=2, comment="nightly", at=dt.datetime.now(dt.UTC))
    assert site.main.branches.renew("dev", 9).until_ms > branch.until_ms
    assert [(each.name, each.comment) for each in site.main.branches] == [("dev", "nightly")]
    made = site.create(site.dev, positive="amount >= 0", size="row_count >= 1")
    made.append(rows((1, 1.0), (2, -2.0)))
    (reason,) = site.promote()
    assert "'positive'" in reason and "1 rows in 1 of 1 files" in reason
    made.overwrite(rows((1, 1.0)))
    assert site.promote() == []
    assert site.main.table(site.name).read().num_rows == 1
