"""Repair over HTTP, on the real handlers: the diagnosis changes nothing, the repair does what it
says (I2, I4, I11)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.openapi import check, operations
from tests.support.v1 import NOBODY, Site
from turnstile.store.core.evaluate import clone
from turnstile.store.core.names import published_path


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
    assert "--dry-run" in told["problem"]["remedy"] and " move" not in told["problem"]["remedy"]
    refused = site.append(4, "t4").error
    assert refused["type"] == "TableNotActive" and "turnstile repair" in refused["remedy"]
    del site.world.storages.files[f"{head(site)['location']}/{published_path(2)}"]
    assert site.ask("repair").json["diagnosis"]["finding"] == "healthy"
    assert site.append(4, "t4").status == 200


def test_i2_i4_the_choice_of_the_log_keeps_its_version_and_copies_of_what_was_ratified(site: Site) -> None:
    foreign = delta.append("foreign", site.now())
    put(site, 2, foreign)
    sides = site.ask("repair").json["diagnosis"]["sides"]
    assert (sides["head"]["txn_id"], sides["head"]["up_to"], sides["log"]["txn_id"]) == ("t2", 3, "foreign")
    choice = {"side": "log", "version": 2, "digest": sides["log"]["digest"]}
    told = site.ask("repair", {"adopt": choice}).json
    assert (told["adopted"], told["diagnosis"]["finding"], told["to_remove"]) == (1, "healthy", [])
    assert len(told["set_aside"]) == 2
    assert "sides" not in told["diagnosis"]
    assert site.ask("repair", {"adopt": choice}).json["diagnosis"]["finding"] == "healthy"
    loaded = site.ask("loadTable").json
    assert loaded["latest"] == loaded["floor"] == 2


def test_i4_the_choice_of_the_head_names_the_files_that_are_in_its_way(site: Site) -> None:
    put(site, 2, delta.append("foreign", site.now()))
    put(site, 3, delta.append("foreign too", site.now()))
    sides = site.ask("repair").json["diagnosis"]["sides"]
    choice = {"side": "head", "version": 2, "digest": sides["log"]["digest"]}
    told = site.ask("repair", {"adopt": choice}).json
    assert told["to_remove"] == [published_path(3), published_path(2)]
    for path in told["to_remove"]:
        del site.world.storages.files[f"{head(site)['location']}/{path}"]
    assert site.ask("repair").json["diagnosis"]["finding"] == "healthy"
    assert site.ask("loadTable").json["floor"] == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"adopt": "log"}, "adopt"),
        ({"adopt": {"side": "both", "version": 2}}, "adopt.side"),
        ({"adopt": {"side": "log"}}, "adopt.version"),
        ({"adopt": {"side": "log", "version": "2"}}, "adopt.version"),
        ({"adopts": {}}, "adopts"),
    ],
)
def test_a_choice_that_is_none_is_refused_and_changes_nothing(site: Site, body: Any, field: str) -> None:
    put(site, 2, delta.append("foreign", site.now()))
    site.ask("repair")
    before = stored(site)
    refused = site.ask("repair", body)
    assert (refused.status, refused.error["field"]) == (400, field)
    assert stored(site) == before


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
    assert "--adopt head" in told["diagnosis"]["remedy"]
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
