"""The Delta API: metadata that stands beside the log, and UniForm's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conformance.actions import (
    INVALID,
    config,
    etag,
    properties,
    sets,
)
from tests.support.conformance.cases import covers
from tests.support.unity import (
    SCHEMA,
    T1,
    B,
    Unity,
    metadata,
    refused,
)


@pytest.fixture
def unity() -> Unity:
    made = Unity()
    made.create()
    return made


# -- metadata without a commit ----------------------------------------------------------------------------------------


@covers(updateTable=200)
def test_a_comment_and_own_properties_are_kept_beside_the_log(unity: Unity) -> None:
    old = etag(unity.get(T1))
    answer = unity.update(sets(team="a"), {"action": "set-table-comment", "comment": "hello"})
    assert properties(answer)["team"] == "a" and etag(answer) != old
    assert unity.get(f"{T1.split('/delta')[0]}/tables/main.sales.t1").json["comment"] == "hello"
    again = unity.update(sets(team="a"))
    assert etag(again) == etag(answer)
    gone = unity.update({"action": "remove-properties", "removals": ["team"]})
    assert "team" not in properties(gone)
    assert unity.update({"action": "set-table-comment", "comment": None}).status == 200
    assert unity.get(f"{T1.split('/delta')[0]}/tables/main.sales.t1").json["comment"] is None


@covers(updateTable=200)
def test_every_change_has_an_etag_and_a_time_of_its_own(unity: Unity) -> None:
    """Also one that brings back what was there before: the reference's clock may stand still, a
    name of content too."""
    removal = {"action": "remove-properties", "removals": ["team"]}
    found = [unity.get(T1), unity.update(sets(team="a")), unity.update(removal), unity.update(sets(team="a"))]
    assert len({etag(one) for one in found}) == 4
    times = [one.json["metadata"]["updated-time"] for one in found]
    assert times == sorted({*times})
    assert unity.get(f"{B}/tables/main.sales.t1").json["updated_at"] == times[-1]
    assert found[-1].json["metadata"]["last-commit-version"] == 0


@covers(updateTable=200)
def test_what_is_beside_the_log_stays_through_commits(unity: Unity) -> None:
    unity.update(sets(team="a"))
    unity.update(unity.commit(1, metadata(**config(unity, mine="1"))), sets(mine="1"))
    answer = unity.update(unity.commit(2))
    assert (properties(answer)["team"], properties(answer)["mine"]) == ("a", "1")


@covers(updateTable=200)
def test_maintenance_is_a_policy_of_the_table(unity: Unity) -> None:
    answer = unity.update(sets(**{"turnstile.allowed-maintenance": "data_reorganization"}))
    assert answer.json["allowed-maintenance-operations"] == ["DATA_REORGANIZATION"]
    answer = unity.update(sets(**{"turnstile.allowed-maintenance": ""}))
    assert answer.json["allowed-maintenance-operations"] == []


# -- UniForm ----------------------------------------------------------------------------------------------------------


def iceberg(unity: Unity, version: int) -> dict[str, Any]:
    location = unity.get(T1).json["metadata"]["location"]
    return {
        "iceberg": {
            "metadata-location": f"{location}/metadata/{version}.json",
            "converted-delta-version": version,
            "converted-delta-timestamp": 1,
        }
    }


@covers(updateTable=(200, 400))
def test_uniform_rides_with_every_commit_exactly_when_the_table_has_it(unity: Unity) -> None:
    refused(unity.update(unity.commit(1) | {"uniform": iceberg(unity, 1)}), 400, INVALID)
    formats = {"delta.universalFormat.enabledFormats": "iceberg"}
    enabling = unity.commit(1, metadata(**config(unity, **formats)))
    refused(unity.update(enabling, sets(**formats)), 400, INVALID)
    first = unity.update(enabling | {"uniform": iceberg(unity, 1)}, sets(**formats))
    assert first.json["uniform"] == iceberg(unity, 1)
    refused(unity.update(unity.commit(2)), 400, INVALID)
    refused(unity.update(unity.commit(2) | {"uniform": iceberg(unity, 3)}), 400, INVALID)
    elsewhere = iceberg(unity, 2)
    elsewhere["iceberg"]["metadata-location"] = "s3://elsewhere/x"
    refused(unity.update(unity.commit(2) | {"uniform": elsewhere}), 400, INVALID)
    second = unity.update(unity.commit(2) | {"uniform": iceberg(unity, 2)}, etag=etag(first))
    assert second.json["uniform"] == iceberg(unity, 2)
    assert etag(second) == etag(first)
    assert second.json["metadata"]["last-commit-version"] == 1


@covers(updateTable=200)
def test_uniform_is_shown_as_long_as_the_table_has_it(unity: Unity) -> None:
    formats = {"delta.universalFormat.enabledFormats": "iceberg"}
    enabling = unity.commit(1, metadata(**config(unity, **formats))) | {"uniform": iceberg(unity, 1)}
    assert unity.update(enabling, sets(**formats)).json["uniform"] == iceberg(unity, 1)
    removal = {"action": "remove-properties", "removals": [*formats]}
    assert "uniform" not in unity.update(unity.commit(2, metadata(**config(unity))), removal).json
    assert "uniform" not in unity.update(unity.commit(3)).json


@covers(updateTable=(200, 400))
def test_i9_the_property_that_names_the_table_stays_what_it_is(unity: Unity) -> None:
    """Also for tables whose log does not hold it."""
    staged = unity.stage("t2")
    unity.write_zero(staged, instead=[metadata()])
    path = f"{SCHEMA}/tables/t2"
    assert unity.post(f"{SCHEMA}/tables", unity.create_body(staged, "t2")).status == 200
    key = "io.unitycatalog.tableId"
    uuid = staged["table-id"]
    refused(unity.update(sets(**{key: unity.uuid}), uuid=uuid, path=path), 400, INVALID)
    assert unity.update(sets(**{key: uuid}), uuid=uuid, path=path).status == 200
    removal = {"action": "remove-properties", "removals": [key]}
    assert properties(unity.update(removal, uuid=uuid, path=path))[key] == uuid
