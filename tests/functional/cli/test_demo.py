"""The demo fails where a fact that it checks is wrong."""

from collections import Counter
from types import SimpleNamespace

import pytest

from tests.support.repository import ROOT
from turnstile_cli.demo import data, writers


@pytest.fixture(scope="module")
def frames():
    return data.load()


def test_the_five_tables_have_the_columns_of_sparks_schema(frames):
    assert {name: list(frame.columns) for name, frame in frames.items()} == {
        name: list(data.columns(name)) for name in data.SCHEMAS
    }
    assert len(frames["flights"]) == 336_776


def test_a_missing_row_a_changed_number_and_a_changed_text_are_noticed(frames):
    airports = frames["airports"]
    whole = data.fingerprint_of_pandas(airports)
    assert data.differences(whole, whole) == []
    assert data.differences(data.fingerprint_of_pandas(airports[1:]), whole)
    assert data.differences(data.fingerprint_of_pandas(airports.assign(alt=airports["alt"] + 1)), whole)
    assert data.differences(data.fingerprint_of_pandas(airports.assign(name=airports["name"] + "x")), whole)
    assert data.differences(data.fingerprint_of_pandas(airports.drop(columns="tz")), whole)


def test_the_key_that_merge_uses_is_a_key(frames):
    flights = frames["flights"]
    assert not flights.duplicated(["time_hour", "carrier", "flight"]).any()


def test_proposals_are_counted_by_what_became_of_them():
    from turnstile_http.errors import ApiError

    def propose(table_id, proposal):
        if proposal["version"] == 1:
            raise ApiError(409, "CommitVersionConflict", "taken")
        return {"commit": {}}

    lake = SimpleNamespace(api=SimpleNamespace(propose=propose))
    attempts = writers.watch(lake)
    with pytest.raises(ApiError):
        lake.api.propose("t", {"version": 1, "inline": {}})
    lake.api.propose("t", {"version": 2, "staged": {}})
    assert Counter((a.kind, a.won) for a in attempts) == {("inline", False): 1, ("staged", True): 1}


def test_quantiles_are_values_that_occurred():
    assert writers.quantile([], 0.5) == 0
    assert writers.quantile([3, 1, 2], 0.5) == 2
    assert writers.quantile([1, 2, 3, 4], 1.0) == 4


def test_the_demo_is_the_first_command_of_the_readme():
    assert "turnstile demo" in (ROOT / "Makefile").read_text()
