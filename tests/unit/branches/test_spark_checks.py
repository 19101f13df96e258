"""Checks of a branch that Spark counts: what becomes of the numbers where the server takes them,
refuses them, or does not know them."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from turnstile_http.errors import ApiError
from turnstile_spark.branches import checks as branch_checks
from turnstile_spark.branches.checks import SparkBranches
from turnstile_spark.branches.counts import BranchRows


def check(expectation: str, outcome: str = "unchecked", **more: Any) -> dict[str, Any]:
    question = {"kind": "every_row", "text": "id > 0", "columns": [["id"]]} if outcome == "unchecked" else None
    about = {"table": "sales.orders", "version": 3, "expectation": expectation, "outcome": outcome}
    return {**about, "problem": "too large", "question": question, **more}


class Server:
    """Answers the requests for a branch; ``refusal`` of findings."""

    def __init__(self, *checks: dict[str, Any], refusal: ApiError | None = None) -> None:
        self.checks = list(checks)
        self.refusal = refusal
        self.recorded: list[dict[str, Any]] = []
        self.opened: list[str] = []
        self.bases: list[int | None] = []

    def call(self, name: str, _method: str, route: str, body: Any = None, **_options: Any) -> dict[str, Any]:
        if name == "branchChanges":
            tables = [{"name": "sales.orders", "base": 1}]
            return {"tables": tables, "names": [], "conflicts": [], "checks": self.checks, "state": "s1"}
        assert (name, route) == ("recordBranchChecks", "/v1/catalogs/main/branches/dev/checks")
        if self.refusal is not None:
            raise self.refusal
        self.recorded.append(body)
        return {"checks": [each | {"outcome": "passed", "question": None} for each in self.checks], "state": "s1"}

    def check(self, monkeypatch: pytest.MonkeyPatch, *found: Any) -> list[dict[str, Any]]:
        def open_branch(catalog: str) -> Any:
            self.opened.append(catalog)
            return nullcontext()

        def rows(_lake: Any, _table: str, version: int, base: int | None) -> None:
            assert version == 3
            self.bases.append(base)

        monkeypatch.setattr(branch_checks, "BranchRows", rows)
        monkeypatch.setattr(branch_checks, "findings_of", lambda _rows, _checks: [*found])
        api: Any = SimpleNamespace(http=self, catalog="main")
        return SparkBranches(api, open_branch).check("dev")


def finding(expectation: str, **numbers: Any) -> dict[str, Any]:
    return {"table": "sales.orders", "expectation": expectation, "text": "id > 0", "rows": 9, **numbers}


def test_what_the_server_decides_is_not_read_in_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(check("a", "passed"), check("b", "broken"))
    assert server.check(monkeypatch) == server.checks
    assert (server.opened, server.recorded) == ([], [])


def test_numbers_are_recorded_for_the_state_that_was_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(check("a"), check("b", "passed"), check("c"))
    found = server.check(monkeypatch, finding("a"), finding("c", broken=2))
    assert server.recorded == [{"state": "s1", "findings": [finding("a"), finding("c", broken=2)]}]
    assert (server.opened, server.bases) == (["main@dev"], [1])
    assert {each["outcome"] for each in found} == {"passed"}


@pytest.mark.parametrize("status", [403, 404])
def test_numbers_that_the_server_does_not_take_are_shown(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    server = Server(check("a"), refusal=ApiError(status, "PermissionDenied", "'ann' may not promote"))
    (shown,) = server.check(monkeypatch, finding("a", broken=2, newest_us=None, examples='{"id": 0}'))
    assert shown["outcome"] == "unchecked"
    assert shown["problem"].startswith('too large; Spark counted rows 9, broken 2, examples {"id": 0}; not recorded: ')
    assert "'ann' may not promote" in shown["problem"]


def test_a_branch_that_was_changed_meanwhile_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(check("a"), refusal=ApiError(409, "BranchConflict", "check again"))
    monkeypatch.setattr(branch_checks, "as_turnstile_error", lambda error: error)
    with pytest.raises(ApiError, match="BranchConflict"):
        server.check(monkeypatch, finding("a"))


def test_what_spark_cannot_evaluate_is_not_recorded_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(check("a"), check("b"))
    failure = PySparkException("no such function\nand a long plan")
    server.check(monkeypatch, finding("a"), failure)
    assert [each["expectation"] for each in server.recorded[0]["findings"]] == ["a"]
    (shown,) = Server(check("b")).check(monkeypatch, failure)
    assert shown["problem"] == "too large; Spark: no such function"


def test_an_earlier_server_asks_nothing_and_the_outcome_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    old = {key: value for key, value in check("a").items() if key != "question"}
    (shown,) = Server(old).check(monkeypatch)
    assert shown["problem"] == "too large; this server takes no numbers that Spark counts: update it"


def test_rows_are_those_of_the_version_and_times_are_in_utc_as_on_the_server() -> None:
    seen: list[Any] = []
    conf = SimpleNamespace(set=lambda *setting: seen.append(setting))
    spark = SimpleNamespace(conf=conf, sql=lambda text: seen.append(text) or "rows")
    lake: Any = SimpleNamespace(spark=spark, table=lambda name: SimpleNamespace(sql_name=f"`l`.{name}"))
    rows = BranchRows(lake, "t", 7, None)
    assert seen == [("spark.sql.session.timeZone", "UTC"), "SELECT * FROM `l`.t VERSION AS OF 7"]
    assert (rows.all, rows.new) == ("rows", "rows"), "all rows of a table that the branch created are new"
