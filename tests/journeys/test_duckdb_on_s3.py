"""DuckDB with its tables in S3 and with the server's keys, in each way of running: as
``test_on_s3.py``. Its ``unity_catalog`` knows S3 at AWS alone, so a proxy stands for AWS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import duckdb
import pytest

from tests.support.clients import duck
from tests.support.journeys.amazon import Amazon
from tests.support.journeys.origins import SCHEMA, rows
from tests.support.journeys.stores import (
    LASTING,
    PASSING,
    Stored,
    check_after_a_lasting_fault,
    check_after_a_passing_fault,
)

QUICK = "s3_up"


@pytest.fixture(
    scope="module",
    params=[
        QUICK,
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("s3_serve", "s3_dynamodb", "s3_vending_stack")),
    ],
)
def stored(request: pytest.FixtureRequest) -> Stored:
    place: Stored = request.getfixturevalue(request.param)
    return place


@pytest.fixture(scope="module")
def amazon(stored: Stored, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Amazon]:
    with closing(Amazon(tmp_path_factory.mktemp("amazon"), stored.clients.url)) as running, running.reached():
        yield running


class Duck:
    """DuckDB, attached to the place for each statement, since an attachment keeps its snapshot."""

    def __init__(self, stored: Stored, amazon: Amazon) -> None:
        self._stored = stored
        self._authority = amazon.authority

    def run(self, statement: str, catalog: str = "main") -> list[Any]:
        with duck.connect(self._stored.place.work) as db:
            db.execute(f"SET ca_cert_file = '{self._authority}'")
            duck.attach(db, self._stored.place, catalog=catalog)  # type: ignore[arg-type]
            return db.execute(statement).fetchall()

    def ids(self, name: str, catalog: str = "main") -> list[int]:
        return sorted(id for (id,) in self.run(f"SELECT id FROM lake.default.{name}", catalog))

    def append(self, name: str, id: int, catalog: str = "main") -> None:
        self.run(f"INSERT INTO lake.default.{name} (id) VALUES ({id})", catalog)


@pytest.fixture
def db(stored: Stored, amazon: Amazon) -> Iterator[Duck]:
    yield Duck(stored, amazon)
    stored.clients.come_back()


@pytest.fixture
def table(stored: Stored) -> str:
    name = stored.place.fresh("duck")
    with stored.lake() as lake:
        lake.create(f"default.{name}", SCHEMA).append(rows([1]))
    return name


def test_i28_keys_of_a_branchs_table_read_the_files_of_its_base_and_write_those_of_the_branch(
    stored: Stored, db: Duck, table: str
) -> None:
    branch = stored.place.fresh("dev")
    stored.place.ask("POST", "/v1/catalogs/main/branches", {"name": branch})
    dev = f"main@{branch}"
    stored.clients.seen.clear()
    assert db.ids(table, dev) == [1]
    db.append(table, 2, dev)
    assert db.ids(table, dev) == [1, 2]
    outside = {request for request in stored.clients.seen if "_branches" not in request}
    assert outside and all(
        request.startswith(("GET ", "HEAD ")) and request.endswith(".parquet") and "_delta_log" not in request
        for request in outside
    ), "which is what the keys open (ADR 85)"
    assert db.ids(table) == [1]
    stored.place.ask("POST", f"/v1/catalogs/main/branches/{branch}/promote", {})
    assert db.ids(table) == [1, 2]


@pytest.mark.slow
def test_a_read_and_an_append_send_no_more_requests_than_these(stored: Stored, db: Duck, table: str) -> None:
    """It reads the log again and again; an append writes a data file and a staged commit, and looks
    at both."""
    stored.clients.seen.clear()
    assert db.ids(table) == [1]
    assert not stored.clients.methods() - Counter({"HEAD": 1, "GET": 14}), stored.clients.seen
    stored.clients.seen.clear()
    db.append(table, 2)
    assert not stored.clients.methods() - Counter({"PUT": 2, "HEAD": 2, "GET": 9}), stored.clients.seen


@pytest.mark.parametrize("fault", PASSING)
def test_rows_are_right_after_a_fault_that_passes(stored: Stored, db: Duck, table: str, fault: str) -> None:
    check_after_a_passing_fault(fault, stored.clients, partial(db.append, table), partial(db.ids, table))


@pytest.mark.parametrize("fault", [pytest.param(fault, marks=pytest.mark.slow) for fault in LASTING])
def test_a_fault_that_lasts_is_an_error_and_afterwards_rows_are_right(
    stored: Stored, db: Duck, table: str, fault: str
) -> None:
    caught = check_after_a_lasting_fault(fault, stored.clients, partial(db.append, table), partial(db.ids, table))
    assert isinstance(caught.value, duckdb.Error)
