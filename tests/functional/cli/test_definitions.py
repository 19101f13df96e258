"""Creating, renaming and dropping what a catalog holds, over a real server's HTTP API or a canned
one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cli import Canned, run, service
from turnstile_cli import output
from turnstile_cli.errors import Exit

FIELDS = [
    {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "who"}},
    {
        "name": "at",
        "type": {"type": "struct", "fields": [{"name": "city", "type": "string", "nullable": True, "metadata": {}}]},
        "nullable": True,
        "metadata": {},
    },
    {
        "name": "tags",
        "type": {"type": "map", "keyType": "string", "valueType": {"type": "array", "elementType": "integer"}},
        "nullable": True,
        "metadata": {},
    },
    {"name": "day", "type": "date", "nullable": True, "metadata": {}},
]


def ask(canned: Canned, *arguments: str, exit: int = 0) -> Any:
    ended = run(*arguments, "--url", canned.url, "--output", "json")
    assert ended.exit_code == exit, ended.output
    return json.loads(ended.stdout if exit == 0 else ended.stderr)


def refusal(type: str, status: int = 409) -> tuple[int, Any]:
    return status, {"error": {"type": type, "message": "no", "remedy": "do otherwise"}}


def test_catalogs_are_listed_and_created() -> None:
    listed = {"catalogs": [{"name": "main", "created": 1_770_000_000_000}]}
    made = {"name": "other", "created": 1_770_000_000_001}
    with service({"GET /v1/catalogs": (200, listed), "POST /v1/catalogs": (201, made)}) as canned:
        assert ask(canned, "catalogs") == listed
        assert "main" in run("catalogs", "--url", canned.url).stdout
        assert ask(canned, "create", "catalog", "other") == {**made, "created_now": True}
        ((_, _, body, headers),) = [request for request in canned.seen if request[0] == "POST"]
    assert body == {"name": "other"}
    assert headers["idempotency-key"]


def test_a_namespace_is_created_with_comment_and_properties() -> None:
    made = {"name": "sales.eu", "comment": "here", "properties": {"a": "b=c"}, "created": 1}
    with service({"POST /v1/catalogs/main/namespaces": (201, made)}) as canned:
        given = ("--comment", "here", "--property", "a=b=c")
        assert ask(canned, "create", "namespace", "main.sales.eu", *given) == {**made, "created_now": True}
        ((_, _, body, _),) = canned.seen
        assert run("create", "namespace", "main.s", "--property", "a", "--url", canned.url).exit_code == Exit.USAGE
        assert run("create", "namespace", "sa.les.", "--url", canned.url).exit_code == Exit.USAGE
        assert len(canned.seen) == 1, "what cannot be right is not sent"
    assert body == {"name": "sales.eu", "comment": "here", "properties": {"a": "b=c"}}


def test_what_exists_already_is_an_error_unless_that_was_said() -> None:
    with service({"POST /v1/catalogs/main/namespaces": refusal("AlreadyExists")}) as canned:
        error = ask(canned, "create", "namespace", "main.sales", exit=Exit.REFUSED)["error"]
        assert error["type"] == "AlreadyExists"
        answer = ask(canned, "create", "namespace", "main.sales", "--if-not-exists")
        assert answer == {"name": "main.sales", "created_now": False}
        shown = run("create", "namespace", "main.sales", "--if-not-exists", "--url", canned.url).stdout
    assert "is there already" in shown


def test_another_refusal_is_an_error_also_with_if_not_exists() -> None:
    answers = {"POST /v1/catalogs/main/namespaces": refusal("NoSuchNamespace", 404)}
    with service(answers) as canned:
        ask(canned, "create", "namespace", "main.a.b", "--if-not-exists", exit=Exit.NOT_FOUND)


@pytest.mark.parametrize(
    ("to", "body"),
    [
        ("b", {"name": "b", "namespace": "sales"}),
        ("main.other.b", {"name": "b", "namespace": "other"}),
        ("other.b", {"name": "b", "namespace": "other"}),
    ],
)
def test_a_table_is_renamed_or_moved(to: str, body: dict[str, str]) -> None:
    path = "/v1/catalogs/main/namespaces/sales/tables/a/rename"
    with service({f"POST {path}": (200, {"name": "main.sales.b"})}) as canned:
        assert ask(canned, "rename", "table", "sales.a", to) == {"name": "main.sales.b"}
        assert canned.seen[0][2] == body
        assert "is main." in run("rename", "table", "sales.a", to, "--url", canned.url).stdout


@pytest.mark.parametrize(
    ("to", "body"),
    [
        ("c", {"name": "c", "namespace": "sales"}),
        ("main.other.c", {"name": "c", "namespace": "other"}),
        ("main.c", {"name": "c", "namespace": ""}),
    ],
)
def test_a_namespace_is_renamed_or_moved(to: str, body: dict[str, str]) -> None:
    path = "/v1/catalogs/main/namespaces/sales.eu/rename"
    with service({f"POST {path}": (200, {"name": "c"})}) as canned:
        ask(canned, "rename", "namespace", "main.sales.eu", to)
        assert canned.seen[0][2] == body


@pytest.mark.parametrize(
    "arguments",
    [
        ("table", "main.s.a", "other.s.a"),
        ("namespace", "main.s", "other.s"),
        ("table", "s.a", "b c"),
        ("namespace", "main.s", "b/c"),
    ],
)
def test_nothing_is_moved_to_another_catalog_or_to_what_is_no_name(arguments: tuple[str, ...]) -> None:
    with service({}) as canned:
        assert run("rename", *arguments, "--url", canned.url).exit_code == Exit.USAGE
        assert canned.seen == []


def test_tables_and_namespaces_are_dropped() -> None:
    answers = {
        "DELETE /v1/catalogs/main/namespaces/sales/tables/a": (204, b""),
        "DELETE /v1/catalogs/main/namespaces/sales": (204, b""),
    }
    with service(answers) as canned:
        assert ask(canned, "drop", "table", "sales.a") == {"name": "main.sales.a", "dropped": True}
        assert ask(canned, "drop", "namespace", "main.sales", "--cascade") == {"name": "main.sales", "dropped": True}
        assert "dropped main.sales" in run("drop", "namespace", "main.sales", "--yes", "--url", canned.url).stdout
        targets = [target for _, target, _, _ in canned.seen]
    path = "/v1/catalogs/main/namespaces/sales"
    assert targets == [f"{path}/tables/a", f"{path}?cascade=true", path]


def test_what_is_not_there_is_an_error_unless_that_was_said() -> None:
    answers = {"DELETE /v1/catalogs/main/namespaces/sales/tables/a": refusal("NoSuchTable", 404)}
    with service(answers) as canned:
        ask(canned, "drop", "table", "sales.a", exit=Exit.NOT_FOUND)
        answer = ask(canned, "drop", "table", "sales.a", "--if-exists")
    assert answer == {"name": "main.sales.a", "dropped": False}


def test_a_person_is_asked_before_something_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile_cli.commands.definitions.is_terminal", lambda: True)
    answers = {"DELETE /v1/catalogs/main/namespaces/sales/tables/a": (204, b"")}
    with service(answers) as canned:
        declined = run("drop", "table", "sales.a", "--url", canned.url)  # no answer
        assert declined.exit_code != 0
        assert canned.seen == []
        assert run("drop", "table", "sales.a", "--yes", "--url", canned.url).exit_code == 0
        assert len(canned.seen) == 1


def test_a_schema_shows_types_as_sql_writes_them_and_nested_fields() -> None:
    loaded = {"latest": 4, "metadata": {"schema": {"type": "struct", "fields": FIELDS}, "partition_columns": ["day"]}}
    with service({"GET /v1/catalogs/main/namespaces/s/tables/t": (200, loaded)}) as canned:
        answer = ask(canned, "schema", "s.t")
        shown = run("schema", "s.t", "--url", canned.url).stdout
    assert answer == {"name": "main.s.t", "latest": 4, "fields": FIELDS, "partition_columns": ["day"]}
    rows = [line.split() for line in shown.splitlines()[2:]]
    assert rows == [
        ["id", "bigint", "not", "null", "who"],
        ["at", "struct"],
        ["at.city", "string"],
        ["tags", "map<string,", "array<int>>"],
        ["day", "date", "partition"],
    ]


def test_tables_of_a_prefix_that_none_has_are_not_found() -> None:
    row = {"name": "main.b.t", "table_id": "x", "state": "active", "latest": 3, "floor": 1, "location": "s3://lake/t"}
    with service({"GET /v1/tables": (200, {"tables": [row]})}) as canned:
        assert [each["name"] for each in ask(canned, "tables", "b.")["tables"]] == ["main.b.t"]
        error = ask(canned, "tables", "nyc", exit=Exit.NOT_FOUND)["error"]
    assert "nyc" in error["message"]


def test_the_version_is_reported() -> None:
    ended = run("--version")
    assert ended.exit_code == 0
    assert ended.stdout.startswith("turnstile ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(shell: str) -> None:
    words = {"bash": {"COMP_WORDS": "turnstile cat", "COMP_CWORD": "1"}}.get(
        shell, {"_TYPER_COMPLETE_ARGS": "turnstile cat", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    )
    ended = run(**words, _TURNSTILE_COMPLETE=f"complete_{shell}")
    assert "catalogs" in ended.stdout


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_PIPE_WIDTH", 60)


def test_rows_that_do_not_fit_are_lists(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    long = "main.sales.orders_of_every_day_and_of_every_shop_of_ours"
    output.table("", ("name", "#latest", "comment"), [(long, 3, None), ("b", 4, "x" * 90)], empty="none")
    assert capsys.readouterr().out.splitlines() == [long, "  latest   3", "b", "  latest   4", f"  comment  {'x' * 90}"]


def test_rows_that_fit_are_columns(narrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    output.table("", ("name", "#latest"), [("a", 3), ("b", 14)], empty="none")
    assert capsys.readouterr().out.splitlines() == ["name  latest", "a          3", "b         14"]


def test_a_dropped_table_is_brought_back_by_name_under_another_and_as_of_a_moment() -> None:
    path = "/v1/catalogs/main/namespaces/sales/tables/t/undrop"
    entry = {"name": "main.sales.t", "kind": "table", "id": "1", "created": 1}
    with service({f"POST {path}": (200, entry)}) as canned:
        assert ask(canned, "undrop", "sales.t") == entry
        ask(canned, "undrop", "main.sales.t", "--to", "u", "--at", "7")
        shown = run("undrop", "sales.t", "--to", "eu.u", "--url", canned.url).stdout
        assert "main.sales.t is there again" in shown
        assert run("undrop", "sales.t", "--to", "other.eu.u", "--url", canned.url).exit_code == Exit.USAGE
        bodies = [body for _, _, body, _ in canned.seen]
        assert all(headers["idempotency-key"] for *_, headers in canned.seen)
    assert bodies == [{}, {"name": "u", "namespace": "sales", "at": {"seq": 7}}, {"name": "u", "namespace": "eu"}]
    with service({f"POST {path}": refusal("CannotUndrop")}) as canned:
        assert ask(canned, "undrop", "sales.t", exit=Exit.REFUSED)["error"]["type"] == "CannotUndrop"
