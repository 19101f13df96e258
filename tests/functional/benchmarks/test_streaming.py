"""The streaming benchmark (``benchmarks.streaming``) says so when a table does not have exactly
what was acknowledged."""

import io

import pyarrow as pa
import pytest

from benchmarks.streaming.__main__ import figures
from benchmarks.streaming.systems import SYSTEMS
from benchmarks.streaming.writers import batch_rows, batches_of, read, write


def result(**changed):
    ms = [(second / 10, 5.0 + second) for second in range(10)]
    return {"seconds": 2.0, "ms": ms, "done": [*range(10)], "unknown": [], "pending": [], "errors": {}} | changed


def stored(batches, broken=0):
    return {"batches": [*batches], "broken": broken}


def test_a_heat_is_rates_percentiles_and_sums_over_its_processes():
    other = result(done=[*range(100, 110)], errors={"Conflict": 2})
    heat = figures([result(errors={"Conflict": 1}), other], stored([*range(10), *range(100, 110)]))
    assert (heat["commits"], heat["per_s"], heat["p50_ms"], heat["p99_ms"]) == (20, 10.0, 10.0, 14.0)
    assert heat["errors"] == {"Conflict": 3}
    assert heat["p50_ms_of_tenths"] == [5.0 + tenth for tenth in range(10)]
    assert heat["right"]


@pytest.mark.parametrize("table", [stored(range(9)), stored(range(11)), stored(range(9), broken=1)])
def test_a_table_with_a_batch_too_few_too_many_or_in_parts_is_not_right(table):
    assert not figures([result()], table)["right"]


@pytest.mark.parametrize("open_", [{"unknown": [10]}, {"pending": [10]}])
@pytest.mark.parametrize("there", [10, 11])
def test_a_batch_without_an_outcome_may_be_there_or_not(open_, there):
    assert figures([result(**open_)], stored(range(there)))["right"]


def test_a_heat_without_a_commit_has_no_percentiles():
    heat = figures([result(ms=[], done=[])], stored([]))
    assert (heat["commits"], heat["p50_ms"], heat["p99_ms"], heat["right"]) == (0, None, None, True)


def test_a_batch_counts_only_with_each_of_its_rows_once():
    whole, short, doubled = (batch_rows(batch, 10)["id"].combine_chunks() for batch in (0, 1, 2))
    ids = pa.chunked_array([whole, short.slice(1), doubled, doubled.slice(0, 1)])
    assert batches_of(ids, 10) == {"batches": [0], "broken": 2}


@pytest.mark.parametrize("name", ["turnstile", "turnstile-named"])
def test_writers_on_one_table_commit_every_batch_once(name, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with SYSTEMS[name].open(tmp_path) as target:
        plan = {"client": "turnstile", "target": target, "rows": 3, "seconds": 60}
        written = write(plan | {"first": 0, "threads": 2, "commits": 5})
        table = read(plan)
    assert len(written["done"]) == 2 * (1 + 5)
    assert len(written["ms"]) == 2 * 5
    assert figures([written], table)["right"]
