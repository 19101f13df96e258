"""``turnstile top``: two readings of a service, and their difference."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.support.cli import run, service
from turnstile_cli.commands.top import MOST_ROWS, Reading, parse, quantile_ms, render, summary

COMMITS = "POST /v1/tables/{table_id}/commits"


def requests_total(**counts: int) -> str:
    return "".join(
        f'turnstile_requests_total{{operation="{COMMITS}",status="{status[1:]}"}} {count}\n'
        for status, count in counts.items()
    )


def head(table_id: str, latest: int, floor: int, state: str = "active") -> dict[str, Any]:
    return {"table_id": table_id, "name": f"main.default.{table_id}", "latest": latest, "floor": floor, "state": state}


def reading(at_s: float, exposition: str | None, *heads: dict[str, Any]) -> Reading:
    figures = None if exposition is None else parse(exposition)
    return Reading(at_s, figures, {head["table_id"]: head for head in heads}, True, ())


def test_rates_are_of_what_was_counted_between_the_readings() -> None:
    before = reading(10.0, requests_total(s200=100, s409=50), head("a", 5, 5), head("b", 7, 7))
    after = reading(12.0, requests_total(s200=130, s409=60, s503=4), head("a", 11, 9), head("b", 7, 7), head("c", 3, 3))
    document = summary(before, after)
    assert (document["tables"], document["tables_behind"], document["commits_unpublished"]) == (3, 1, 2)
    assert document["commits_per_s"] == 3.0, "a table that is new has no rate yet"
    assert [(row["name"][-1], row["commits_per_s"]) for row in document["busiest"]] == [("a", 3.0), ("b", 0), ("c", 0)]
    assert document["requests"]["conflicts_percent"] == 25.0
    [operation] = document["requests"]["operations"]
    assert (operation["per_s"], operation["refused_per_s"], operation["failed_per_s"]) == (22.0, 5.0, 2.0)


def test_rows_over_http_are_counted_with_the_lag_until_folders_have_them() -> None:
    before = reading(0.0, "turnstile_rows_added_total 500\n")
    after = reading(2.0, "turnstile_rows_added_total 700\n")
    document = summary(before, after)
    assert document["requests"]["rows_per_s"] == 100.0
    assert "rows 100.0/s" in str(render(document, "http://here").renderables[2])  # type: ignore[attr-defined]
    assert "rows" not in str(render(summary(after, after), "http://here").renderables[2])  # type: ignore[attr-defined]


def test_counters_of_a_server_that_was_started_anew_are_counted_from_nothing() -> None:
    document = summary(reading(0.0, requests_total(s200=1_000)), reading(1.0, requests_total(s200=40)))
    assert document["requests"]["operations"][0]["per_s"] == 40.0
    assert document["requests"]["conflicts_percent"] == 0.0


def test_stopped_tables_come_first_and_no_list_is_longer_than_the_screen() -> None:
    heads = [head(f"t{number:03}", number, 0) for number in range(50)]
    stuck = head("broken", 1, 0, "stuck")
    document = summary(reading(0.0, None, *heads, stuck), reading(1.0, None, *heads, stuck))
    assert len(document["busiest"]) == MOST_ROWS
    assert document["busiest"][0]["name"] == "main.default.broken" and document["tables_stopped"] == 1
    assert document["requests"] is None, "a deployment has none"


def test_quantiles_are_those_of_prometheus() -> None:
    buckets = [(0.001, 0.0), (0.002, 50.0), (0.004, 90.0), (math.inf, 100.0)]
    assert quantile_ms(0.5, buckets) == 2.0
    assert quantile_ms(0.7, buckets) == 3.0
    assert quantile_ms(0.99, buckets) == 4.0, "what lies beyond the last bound counts as that bound"
    assert quantile_ms(0.5, [(0.001, 0.0), (math.inf, 0.0)]) is None
    assert quantile_ms(0.5, []) is None


@pytest.mark.parametrize("output", ["text", "json"])
def test_where_there_is_no_terminal_it_is_printed_once(output: str) -> None:
    answers: dict[str, Any] = {
        "GET /v1/tables": (200, {"tables": [head("a", 5, 3), head("gone", 1, 1, "dropped")]}),
        "GET /v1/fleet": (200, {"members": []}),
    }
    with service(answers) as canned:
        shown = run("top", "--url", canned.url, "--every", "0.1", "-o", output).stdout
    if output == "json":
        [line] = shown.splitlines()
        assert json.loads(line)["tables"] == 1 and json.loads(line)["requests"] is None
    else:
        assert "main.default.a" in shown and "1 behind (2 commits)" in shown and "gone" not in shown


def test_only_administrators_see_it() -> None:
    refused = {"error": {"type": "PermissionDenied", "message": "for administrators"}}
    with service({"GET /v1/tables": (403, refused)}) as canned:
        ended = run("top", "--url", canned.url)
    assert ended.exit_code == 4 and "for administrators" in ended.output
