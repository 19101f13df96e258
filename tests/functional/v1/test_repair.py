"""Repair over HTTP, on the real handlers: the diagnosis changes nothing, the repair does what it says (I2, I4, I11)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.openapi import check, operations
from tests.support.v1 import NOBODY, Site
from turnstile.store.core.evaluate import clone
from turnstile.store.core.locations import published_path


@pytest.fixture
def site() -> Site:
    """``main.sales.orders`` with one published version and two that wait."""
    return Site()


def key(site: Site) -> str:
    return site.world.space.table(site.table)


def head(site: Site) -> Any:
    return site.http["commit"].get(f"/v1/tables/{site.table}/head").json


def stored(site: Site) -> Any:
    return clone(site.world.refs.rows), dict(site.world.objs.rows), dict(site.world.storages.files)


def put(site: Site, version: int, content: bytes) -> None:
    """Write past the catalog."""
    site.world.storages.files[f"{head(site)['location']}/{published_path(version)}"] = (content, site.now())


def test_a_diagnosis_says_how_the_table_stands_and_changes_nothing(site: Site) -> None:
    before = stored(site)
    told = site.ask("diagnose").json
    assert (told["finding"], told["version"], told["floor"], told["latest"]) == ("behind", 2, 1, 3)
    assert told["facts"]["txn_id"] == "t2"
    assert stored(site) == before


def test_i11_a_repair_publishes_and_says_that_the_table_is_healthy(site: Site) -> None:
    told = site.ask("repair").json
    assert (told["published"], told["adopted"], told["diagnosis"]["finding"]) == (2, 0, "healthy")
    assert "problem" not in told
    again = site.ask("repair").json
    assert (again["published"], again["diagnosis"]) == (0, told["diagnosis"])


def test_i4_a_foreign_version_stops_the_table_with_a_remedy_until_it_is_moved_away(site: Site) -> None:
    foreign = delta.append("foreign", site.now())
    put(site, 2, foreign)
    told = site.ask("repair").json
    assert told["problem"]["stuck"] and told["problem"]["version"] == 2
    assert (told["diagnosis"]["finding"], told["diagnosis"]["state"]) == ("differs", "stuck")
    assert "repair again" in told["diagnosis"]["remedy"] and told["diagnosis"]["facts"]["published_txn_id"] == "foreign"
    refused = site.append(4, "t4").error
    assert refused["type"] == "TableNotActive" and "turnstile repair" in refused["remedy"]
    del site.world.storages.files[f"{head(site)['location']}/{published_path(2)}"]
    assert site.ask("repair").json["diagnosis"]["finding"] == "healthy"
    assert site.append(4, "t4").status == 200


def test_i1_i2_a_table_restored_behind_its_own_log_is_taken_up_again(site: Site) -> None:
    backup = clone(site.world.refs.rows[key(site)])
    assert site.append(None, "t4", base=3).status == 200
    site.ask("publish")
    site.world.refs.rows[key(site)] = backup
    told = site.ask("repair").json
    assert (told["published"], told["adopted"], told["diagnosis"]["finding"]) == (2, 1, "healthy")
    loaded = site.ask("loadTable").json
    assert loaded["latest"] == loaded["floor"] == 4
    replay = site.append(None, "t4", base=3).json
    assert (replay["outcome"], replay["commit"]["version"]) == ("replayed", 4)


def test_i4_what_cannot_be_adopted_is_named(site: Site) -> None:
    site.ask("publish")
    put(site, 4, b"not a commit\n")
    assert site.ask("diagnose").json["finding"] == "foreign"
    told = site.ask("repair").json
    assert (told["adopted"], told["diagnosis"]["state"], told["diagnosis"]["version"]) == (0, "stuck", 4)
    assert "move it" in told["diagnosis"]["remedy"]
    put(site, 6, b"not a commit\n")
    del site.world.storages.files[f"{head(site)['location']}/{published_path(4)}"]
    assert site.ask("diagnose").json["finding"] == "gap"


@pytest.mark.parametrize("operation", ["diagnose", "repair"])
def test_tables_that_do_not_exist_and_ids_that_are_none_are_refused(site: Site, operation: str) -> None:
    one = operations()[operation]
    for table_id, status in ((NOBODY, 404), ("orders", 400)):
        answer: Answer = site.http["catalog"].call(one.method, f"/v1/tables/{table_id}/repair")
        check(one, answer)
        assert answer.status == status and answer.error["field"] == "table_id"
