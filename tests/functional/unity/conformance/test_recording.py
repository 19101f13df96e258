"""A recorded Spark session gets from Turnstile what the reference answered, but for the deviations
that are documented."""

from __future__ import annotations

import pytest

from tests.support.conformance.cases import covers
from tests.support.conformance.replay import Replay, merged, sessions

MARKS = {
    "statements": covers(
        listSchemas=200, createSchema=200, getSchema=200, deleteSchema=200, listTables=200, createUnityTable=200,
        getTable=200, deleteUnityTable=200, createStagingTable=200, createTable=200, loadTable=(200, 404),
        updateTable=200, reportMetrics=204,
    ),
    "races": covers(createStagingTable=200, createTable=200, updateTable=(200, 409)),
    "keys": covers(
        getStagingTableCredentials=200, getTableCredentials=200, generateTemporaryPathCredentials=200,
        generateTemporaryTableCredentials=200,
    ),
    "older": covers(createUnityStagingTable=200, createUnityTable=200, getTable=(200, 404), getCommits=200, commit=200),
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS[name]) for name in sessions()])
def test_a_recorded_session_is_answered_as_the_reference_answered_it(name: str) -> None:
    assert Replay(name).run() == []


def test_a_difference_would_be_seen() -> None:
    replay = Replay("races")
    recorded = {"a": 1, "b": "{t1.uuid}", "c": ["{time}"], "d": None, "e": "{text}"}
    given = {"a": 1, "b": "00000000-0000-4000-8000-000000000001", "c": [1_770_000_000_000], "d": None, "e": "x"}
    assert replay.compare(recorded, given) == []
    for change in ({"a": 2}, {"a": True}, {"b": "x"}, {"c": [1]}, {"c": []}, {"d": 0}, {"e": ""}, {"f": 1}):
        assert replay.compare(recorded, given | change), change
    assert replay.compare({"b": "{t2.uuid}"}, {"b": given["b"]}), "another name for the same value"
    assert replay.compare(recorded, {name: given[name] for name in "abcd"})


def test_merge_patches() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None, "e": 3}, "d": [2]}) == {
        "a": {"c": 2, "e": 3},
        "d": [2],
    }
