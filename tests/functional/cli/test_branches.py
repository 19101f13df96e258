"""``turnstile branch create``, ``check``, ``update`` and ``promote --state``."""

from __future__ import annotations

import json
from typing import Any

from tests.support.cli import run, service

DIFF = "GET /v1/catalogs/main/branches/dev/diff"
PROMOTE = "POST /v1/catalogs/main/branches/dev/promote"
DONE = {"branch": "main@dev", "seq": 7, "tables": [], "names": []}


def check(outcome: str, *, refuses: bool = False, problem: str | None = None) -> dict[str, Any]:
    return {
        "table": "sales.orders", "version": 3, "expectation": "positive", "condition": "amount >= 0",
        "outcome": outcome, "refuses": refuses, "problem": problem,
    }  # fmt: skip


def diff(*checks: dict[str, Any]) -> dict[str, Any]:
    changes = {"tables": [], "names": [], "conflicts": [], "checks": list(checks), "state": "5b0c"}
    return {DIFF: (200, changes), PROMOTE: (200, DONE)}


def test_a_check_shows_each_outcome_and_fails_where_one_refuses_a_promotion() -> None:
    for checks, exit in (
        ([], 0),
        ([check("passed"), check("unchecked", problem="no statistics")], 0),
        ([{**check("passed"), "by": "ann"}], 0),
        ([check("passed"), check("broken", refuses=True, problem="2 rows in 1 of 1 files")], 4),
    ):
        with service(diff(*checks)) as canned:
            shown = run("branch", "check", "main", "dev", "--url", canned.url)
            printed = run("branch", "check", "main", "dev", "--url", canned.url, "-o", "json")
        assert shown.exit_code == printed.exit_code == exit, shown.output
        assert json.loads(printed.stdout) == {"checks": checks}
        assert all(str(each["problem"]) in shown.stdout for each in checks if each["problem"])
        assert checks or "no expectations" in shown.stdout
        assert ("passed, by ann" in shown.stdout) == any("by" in each for each in checks)


def test_a_promotion_carries_the_state_that_a_comparison_showed_or_some_tables() -> None:
    with service(diff()) as canned:
        assert "state: 5b0c" in run("branch", "diff", "main", "dev", "--url", canned.url).stdout
        assert run("branch", "promote", "main", "dev", "--state", "5b0c", "--url", canned.url).exit_code == 0
        assert run("branch", "promote", "main", "dev", "--url", canned.url).exit_code == 0
        some = run("branch", "promote", "main", "dev", "--tables", "sales.a, sales.b", "--url", canned.url)
        assert some.exit_code == 0
    bodies = [body for method, _, body, _ in canned.seen if method == "POST"]
    assert bodies == [{"state": "5b0c"}, {}, {"tables": ["sales.a", "sales.b"]}]


def test_a_promotion_of_some_tables_says_that_the_branch_stays() -> None:
    with service(diff()) as canned:
        whole = run("branch", "promote", "main", "dev", "--url", canned.url).stdout
        some = run("branch", "promote", "main", "dev", "--tables", "sales.a", "--url", canned.url).stdout
    assert "main@dev is number 7 of the log of main" in whole and "main@dev is number 7 of the log of main" in some
    assert "main@dev stays" in some and "stays" not in whole


def test_a_branch_is_named_with_or_without_its_catalog() -> None:
    made = {"full_name": "main@dev", "at": 1_764_547_200_000_000, "until": 1_764_547_200_000}
    routes = {"POST /v1/catalogs/main/branches": (201, made), "DELETE /v1/catalogs/main/branches/dev": (204, None)}
    with service({**diff(), **routes}) as canned:
        for name in ("dev", "main@dev"):
            assert run("branch", "create", "main", name, "--url", canned.url).exit_code == 0
            assert run("branch", "diff", "main", name, "--url", canned.url).exit_code == 0
            assert run("branch", "drop", "main", name, "--url", canned.url).stdout == "dropped main@dev\n"
    assert [body["name"] for method, _, body, _ in canned.seen if method == "POST"] == ["dev", "dev"]


def test_a_branch_is_in_deltas_registry_only_if_the_command_says_so() -> None:
    made = {"full_name": "main@dev", "at": 1_764_547_200_000_000, "until": 1_764_547_200_000}
    with service({"POST /v1/catalogs/main/branches": (201, made)}) as canned:
        assert run("branch", "create", "main", "dev", "--url", canned.url).exit_code == 0
        assert run("branch", "create", "main", "dev", "--delta-registry", "--url", canned.url).exit_code == 0
    assert [body.get("delta_registry") for _, _, body, _ in canned.seen] == [None, True]


def test_an_update_shows_the_tables_with_changes_of_both_sides_and_the_new_base() -> None:
    branch = {"full_name": "main@dev", "at": 1_764_547_200_000_000}
    tables = [{"name": "sales.orders", "table_id": "x", "base": 12, "version": 15}]
    for changed in ([], tables):
        with service(
            {"POST /v1/catalogs/main/branches/dev/update": (200, {"branch": branch, "tables": changed})}
        ) as to:
            shown = run("branch", "update", "main", "dev", "--url", to.url).stdout
            printed = run("branch", "update", "main", "dev", "--url", to.url, "-o", "json")
        assert json.loads(printed.stdout)["tables"] == changed
        assert "main@dev shows main as of 2025-12-01" in shown
        assert ("sales.orders" in shown and "15" in shown) if changed else "no table has changes of both" in shown
