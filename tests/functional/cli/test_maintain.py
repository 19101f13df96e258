"""Commands on due work and policies: their requests, and their output as text and as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.cli import run, service
from turnstile_client.maintenance import new_parser as client_parser
from turnstile_spark.maintenance.command import new_parser as spark_parser

TABLE_ID = "11111111-1111-4111-8111-111111111111"
NAMESPACE = "/v1/catalogs/main/namespaces/default"
LISTED = {f"GET {NAMESPACE}/tables": (200, {"tables": [{"name": "visits", "table_id": TABLE_ID}]})}
JOB = {
    "operation": "optimize", "reason": "9 of 9 files are below 512 bytes", "files": 9, "bytes": 4500,
    "where": "(`day` = '1')",
    "partitions": [], "complete": False,
}  # fmt: skip
PLAN: dict[str, Any] = {
    "name": "main.default.visits", "table_id": TABLE_ID, "version": 9, "state": "active",
    "policy": [{"name": "enabled", "value": "true", "source": "catalog", "set_on": "main"}],
    "ignored": [{"property": "turnstile.maintenance.reorg", "value": "x", "source": "table",
                 "set_on": "main.default.visits",
                 "problem": "'x' is not true or false"}],
    "files": {"files": 9, "bytes": 4500, "small_files": 9, "deletion_vector_files": 2, "deleted_rows": 7,
              "complete": False, "left_out": 3},
    "due": [JOB],
    "not_due": [{"operation": "vacuum", "reason": "off: turnstile.maintenance.vacuum is false", "files": 0,
                 "bytes": 0}],
    "runs": {"attempt": 4, "running_until_ms": 1_770_000_000_000, "spent_bytes": 1, "spent_dpu_hours": 0.5,
             "failures": 2,
             "reason": "out of memory", "again_ms": 99_770_000_000_000,
             "last": [{"operation": "optimize", "version": 5, "ended_ms": 1_770_000_000_000, "files": 3, "bytes": 9}]},
    "light": {"due": True, "next_version": 10, "failures": 0, "reason": ""},
    "follow_ups": [{"action": "dbt", "commits": 10, "version": 7, "pending_version": 9, "done_ms": 1_770_000_000_000,
                    "failures": 2, "reason": "answered 503", "again_ms": 1_770_000_060_000}],
}  # fmt: skip
POLICY = {
    "name": "main",
    "policy": [{"name": "enabled", "value": "true", "source": "catalog", "set_on": "main"}],
    "ignored": [],
}


def test_a_dry_run_shows_what_is_due_and_why() -> None:
    with service({**LISTED, f"GET /v1/tables/{TABLE_ID}/maintenance": (200, PLAN)}) as canned:
        shown = run("maintain", "default.visits", "--dry-run", "--url", canned.url)
        assert shown.exit_code == 0, shown.output
        for text in (
            "9 of 9 files are below 512 bytes where (`day` = '1'); the rest in another run", "vacuum is false",
            "true of main",
            "from version 10 on", "run 4 is at work", "failed 2 times, set aside until", "out of memory",
            "not all files",
            "3 partitions", "7 rows in 2 files", "turnstile.maintenance.reorg of table main.default.visits",
            "dbt", "answered 503",
        ):  # fmt: skip
            assert text in shown.stdout, shown.stdout
        answer = run("maintain", "--dry-run", "main.default.visits", "--url", canned.url, "-o", "json")
        assert json.loads(answer.stdout) == PLAN
        assert (
            json.loads(
                run("maintain", "table", "default.visits", "--dry-run", "--url", canned.url, "-o", "json").stdout
            )
            == PLAN
        )


def test_without_a_dry_run_it_says_what_does_the_work_and_does_nothing() -> None:
    with service({}) as canned:
        ended = run("maintain", "other.default.visits", "--url", canned.url)
        assert ended.exit_code == 2 and canned.seen == []
    commands = re.findall(r"python -m (turnstile_\w+)\.maintenance ([^;\n]*)", " ".join(ended.stderr.split()))
    parsers = {"turnstile_client": client_parser(), "turnstile_spark": spark_parser()}
    assert [module for module, _ in commands] == list(parsers)
    for module, arguments in commands:
        given = parsers[module].parse_intermixed_args(arguments.split())
        assert (given.operation, given.table, given.catalog, given.uri) == (
            "run",
            "default.visits",
            "other",
            canned.url,
        )


@pytest.mark.parametrize(
    ("target", "path"),
    [("main", "/v1/catalogs/main"), ("main.default", NAMESPACE), ("main.default.visits", f"{NAMESPACE}/tables/visits"),
     ("main.default.eu", "/v1/catalogs/main/namespaces/default.eu")],
)  # fmt: skip
def test_policies_of_a_catalog_a_namespace_and_a_table(target: str, path: str) -> None:
    answers = {
        **LISTED,
        f"GET {path}/maintenance-policy": (200, POLICY),
        f"PATCH {path}/maintenance-policy": (200, POLICY),
    }
    with service(answers) as canned:
        url = ("--url", canned.url)
        assert json.loads(run("maintain", "policy", "show", target, *url, "-o", "json").stdout) == POLICY
        shown = run("maintain", "policy", "show", target, *url).stdout
        assert "enabled" in shown and "catalog" in shown
        assert run("maintain", "policy", "set", target, "target-file-size", "128mb", *url).exit_code == 0
        assert canned.seen[-1][2] == {"set": {"target-file-size": "128mb"}}
        assert run("maintain", "policy", "unset", target, "turnstile.maintenance.windows", *url).exit_code == 0
        assert canned.seen[-1][2] == {"unset": ["windows"]}


def test_a_refusal_ends_with_its_code_and_words() -> None:
    refused = {
        "error": {
            "type": "InvalidRequest",
            "message": "property 'turnstile.maintenance.size'",
            "remedy": "see the list",
        }
    }
    missing = {"error": {"type": "NoSuchTable", "message": "there is none"}}
    answers = {
        "PATCH /v1/catalogs/main/maintenance-policy": (400, refused), f"GET {NAMESPACE}/tables": (200, {"tables": []}),
        f"GET {NAMESPACE}.visits/maintenance-policy": (404, missing),
    }  # fmt: skip
    with service(answers) as canned:
        ended = run("maintain", "policy", "set", "main", "size", "1", "--url", canned.url)
        assert ended.exit_code == 4 and "turnstile.maintenance.size" in ended.stderr and "see the list" in ended.stderr
        assert run("maintain", "default.visits", "--dry-run", "--url", canned.url).exit_code == 3
        assert run("maintain", "policy", "show", "main.default.visits", "--url", canned.url).exit_code == 3
