"""``turnstile grants``: its requests and its output."""

from __future__ import annotations

import json

import pytest

from tests.support.cli import run, service

RIGHTS = {"owner": "ann", "grants": [{"principal": "bob", "privileges": ["MODIFY", "SELECT"]}]}
T = "/v1/permissions/table/main.sales.orders"


@pytest.mark.parametrize(
    ("arguments", "asked", "body"),
    [
        (["show", "sales.orders"], f"GET {T}", None),
        (["show", "metastore", "--on", "metastore"], "GET /v1/permissions/metastore/metastore", None),
        (["grant", "sales.orders", "bob", "select", "MODIFY"], f"PATCH {T}",
         {"changes": [{"principal": "bob", "add": ["SELECT", "MODIFY"]}]}),
        (["grant", "main.sales.eu", "bob", "USE_SCHEMA", "--on", "schema"],
         "PATCH /v1/permissions/schema/main.sales.eu",
         {"changes": [{"principal": "bob", "add": ["USE SCHEMA"]}]}),
        (["revoke", "main", "bob", "USE CATALOG", "--on", "catalog"], "PATCH /v1/permissions/catalog/main",
         {"changes": [{"principal": "bob", "remove": ["USE CATALOG"]}]}),
        (["owner", "main.sales.orders", "zoe"], f"PATCH {T}", {"owner": "zoe"}),
        (["owner", "main.sales.orders", ""], f"PATCH {T}", {"owner": ""}),
    ],
)  # fmt: skip
def test_grants_asks_for_what_it_says_and_answers_with_the_rights(
    arguments: list[str], asked: str, body: object
) -> None:
    with service({asked: (200, RIGHTS)}) as canned:
        ended = run("grants", *arguments, "--url", canned.url, "--output", "json")
        assert ended.exit_code == 0, ended.stderr
        assert json.loads(ended.stdout) == RIGHTS
        assert [seen[2] for seen in canned.seen] == [body]
        text = run("grants", *arguments, "--url", canned.url)
        assert "owner: ann" in text.stdout and "MODIFY, SELECT" in text.stdout


def test_grants_says_what_belongs_to_administrators_and_that_there_are_none() -> None:
    with service({f"GET {T}": (200, {"owner": None, "grants": []})}) as canned:
        ended = run("grants", "show", "sales.orders", "--url", canned.url)
    assert "administrators only" in ended.stdout and "no grants on sales.orders" in ended.stdout + ended.stderr


def test_a_refusal_ends_with_the_exit_code_of_refusals() -> None:
    error = {"error": {"type": "PermissionDenied", "message": "no", "code": 403}}
    with service({f"PATCH {T}": (403, error)}) as canned:
        ended = run("grants", "grant", "sales.orders", "bob", "SELECT", "--url", canned.url)
    assert ended.exit_code == 4 and "PermissionDenied" in ended.stderr
