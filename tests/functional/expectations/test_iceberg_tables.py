"""Expectations of Iceberg tables: a promotion shows no row that breaks one, and PyIceberg's writes
are checked by statistics where they decide (I28)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.table import Table
from pyiceberg.types import DoubleType

from tests.support.clients.branches import drop_all, promote
from turnstile_client import connect
from turnstile_server import Server

SCHEMA = pa.schema([
    ("id", pa.int64()), ("amount", pa.float64()), ("note", pa.string()), ("at", pa.timestamp("us", "UTC")),
    ("inside", pa.struct([("n", pa.int32())])),
])  # fmt: skip
NOW = dt.datetime.now(dt.UTC)
LONG = "a" * 40
"""Longer than the bounds of texts in statistics."""


def rows(*values: tuple[Any, ...], at: dt.datetime = NOW) -> pa.Table:
    """Rows of an id, an amount and a note."""
    columns: list[Any] = [[row[place] if place < len(row) else None for row in values] for place in range(3)]
    return pa.table([*columns, [at] * len(values), [{"n": row[0]} for row in values]], schema=SCHEMA)


class Site:
    """A server, clients of its catalog and of a branch, and a table's name."""

    def __init__(self, server: Server) -> None:
        self.uri = f"{server.url}/iceberg"
        self.lake = connect(server.url)
        self.main = RestCatalog("c", uri=self.uri, warehouse="main")
        self.name = f"default.i_{uuid4().hex[:10]}"

    def create(self, catalog: RestCatalog | None = None, **expectations: str) -> Table:
        properties = {f"turnstile.expect.{key.replace('__', '.')}": text for key, text in expectations.items()}
        return (catalog or self.main).create_table(self.name, SCHEMA, properties=properties)

    @property
    def dev(self) -> RestCatalog:
        return RestCatalog("d", uri=self.uri, warehouse="main@dev")

    def branch(self) -> Table:
        self.lake.branches.create("dev")
        return self.dev.load_table(self.name)

    def checks(self) -> list[tuple[str, str, str]]:
        found = self.lake.branches.check("dev")
        assert all(each["table"] == self.name for each in found)
        return [(each["expectation"], each["outcome"], each["problem"] or "") for each in found]

    def promote(self) -> list[str]:
        """The reasons why the branch is not promoted."""
        return promote(self.lake)

    def end(self) -> None:
        drop_all(self.lake)
        if self.main.table_exists(self.name):
            self.main.drop_table(self.name)
        self.lake.close()


@pytest.fixture
def site(server: Server) -> Iterator[Site]:
    site = Site(server)
    yield site
    site.end()


def test_i28_rows_that_a_branch_adds_to_an_iceberg_table_are_checked_and_earlier_ones_are_not(site: Site) -> None:
    main = site.create(positive="amount >= 0", noted="note LIKE '%a'")
    main.append(rows((1, -1.0, "b"), (2, 2.0, "a")))
    dev = site.branch()
    dev.append(rows((3, 3.0, LONG), (4, -4.0, "a"), (5, None, "x")))
    first, second = site.promote()
    assert f"expectation 'noted' (note LIKE '%a') of '{site.name}' is broken: 1 rows in 1 of 1 files" in first
    assert "2 rows in 1 of 1 files" in second and '"amount": -4.0' in second and '"id": 4' in second
    dev.delete("id >= 4")
    assert site.checks() == [("noted", "passed", ""), ("positive", "passed", "")]
    assert site.promote() == []
    assert sorted(site.main.load_table(site.name).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("row_count between 3 and 4", ""),
        ("row_count <= 3", "the table has 4 rows"),
        ("null_fraction(note) < 0.5", "it is null in 2 of 4 rows"),
        ("null_fraction(note) <= 0.5", ""),
        ("unique(id)", "1 keys occur more than once"),
        ("unique(id, amount)", ""),
        ("unique(inside.n)", "1 keys occur more than once"),
        ("freshness(at) < interval 1 day", ""),
        ("freshness(at) < interval 1 hour", "the newest value of at is"),
        ("null_fraction(inside.n) < 1", "do not say how many nulls"),
        ("freshness(id) < interval 1 hour", "freshness needs a date or time"),
    ],
)
def test_i28_conditions_of_whole_iceberg_tables_count_the_rows_of_before(site: Site, text: str, broken: str) -> None:
    old = NOW - dt.timedelta(hours=3)
    site.create(whole=text).append(rows((1, 1.0, "a"), (2, 2.0), at=old))
    site.branch().append(rows((2, 3.0, "b"), (4, 4.0), at=old))
    reasons = site.promote()
    assert len(reasons) == bool(broken)
    assert all(broken in reason for reason in reasons)


def test_i28_a_branch_takes_no_expectation_of_an_iceberg_table_away(site: Site) -> None:
    site.create(positive="amount >= 0")
    dev = site.branch()
    with dev.transaction() as change:
        change.remove_properties("turnstile.expect.positive")
        change.set_properties({"turnstile.expect.few": "row_count < 2"})
    dev.append(rows((1, -1.0), (2, 2.0)))
    assert [reason.partition(" of ")[0] for reason in site.promote()] == [
        "expectation 'positive' (amount >= 0)",
        "expectation 'few' (row_count < 2)",
    ]


def test_i28_an_iceberg_table_that_the_branch_created_or_put_in_a_tables_place_is_checked_whole(site: Site) -> None:
    properties = {"turnstile.expect.positive": "amount >= 0"}
    site.lake.create(site.name, pa.schema([("amount", pa.float64())]), properties=properties)
    site.lake.branches.create("dev")
    with connect(site.uri.removesuffix("/iceberg"), catalog="main@dev") as dev:
        dev.drop(site.name)
    made = site.create(site.dev, some="row_count >= 2")
    made.append(rows((1, -1.0)))
    assert [(name, outcome) for name, outcome, _ in site.checks()] == [("positive", "broken"), ("some", "broken")]
    made.overwrite(rows((1, 1.0), (2, 2.0)))
    assert [(name, outcome) for name, outcome, _ in site.checks()] == [("positive", "passed"), ("some", "passed")]
    site.lake.branches.drop("dev")
    site.lake.drop(site.name)


@pytest.mark.parametrize(
    ("expectations", "problem"),
    [
        ({"a": "nothing > 1"}, "no column 'nothing'"),
        ({"a": "amount >"}, "cannot be read"),
        ({"a": "amount > 0", "a__on": "commit"}, "not of an Iceberg table"),
        ({"a__unchecked": "allow"}, "belongs to no expectation"),
    ],
)
def test_a_property_of_an_iceberg_table_that_is_no_expectation_is_refused_when_it_is_set(
    site: Site, expectations: dict[str, str], problem: str
) -> None:
    with pytest.raises(BadRequestError, match=problem):
        site.create(**expectations)
    table = site.create()
    given = {f"turnstile.expect.{key.replace('__', '.')}": text for key, text in expectations.items()}
    with pytest.raises(BadRequestError, match=problem), table.transaction() as change:
        change.set_properties(given)
    with table.transaction() as change:
        change.set_properties({"turnstile.expect.a": "amount > 0"})
    with table.update_schema() as schema:
        schema.delete_column("amount")
    with pytest.raises(BadRequestError, match=problem):
        site.main.create_table_transaction(f"{site.name}2", SCHEMA, properties=given).commit_transaction()


def test_i28_columns_are_found_by_the_ids_of_their_fields_whatever_their_names(site: Site) -> None:
    site.create()
    dev = site.branch()
    dev.append(rows((1, 7.0, LONG)))
    with dev.update_schema() as schema:
        schema.rename_column("id", "other")
        schema.rename_column("note", "id")
        schema.rename_column("inside.n", "m")
        schema.add_column("extra", DoubleType())
    with dev.transaction() as change:
        texts = {"text": "id LIKE '%aa'", "number": "inside.m = 1", "later": "extra IS NULL", "most": "other > 1"}
        change.set_properties({f"turnstile.expect.{name}": text for name, text in texts.items()})
    found = [(name, outcome) for name, outcome, _ in site.checks()]
    assert found == [("later", "passed"), ("most", "broken"), ("number", "passed"), ("text", "passed")]


def test_a_table_without_a_snapshot_has_no_rows(site: Site) -> None:
    site.create(none="row_count > 0", positive="amount >= 0")
    dev = site.branch()
    with dev.transaction() as change:
        change.set_properties({"owner": "x"})
    assert site.checks() == [("none", "broken", "the table has 0 rows"), ("positive", "passed", "")]
