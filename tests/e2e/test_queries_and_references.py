"""Path queries and references on a running server, from the shell, on real tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.cli import ask, run, show
from tests.support.stack import Table

if TYPE_CHECKING:
    from turnstile_server import Server


def test_a_table_is_found_by_its_name_and_by_a_property_of_its_namespace(lake: Server) -> None:
    table = Table(lake)
    with lake.client() as api:
        space = f"found_{table.name}"
        assert api.post(
            "/v1/catalogs/main/namespaces", json={"name": space, "properties": {"of": table.name}}
        ).is_success
        rename = {"name": "Orders", "namespace": space}
        moved = api.post(f"/v1/catalogs/main/namespaces/default/tables/{table.name}/rename", json=rename)
        assert moved.is_success, moved.text
    query = f'/main/[of = "{table.name}"]/[format = "delta" and name prefix "ord"]'
    told = ask(lake, "find", query)
    assert [(one["name"], one["id"]) for one in told["found"]] == [(f"main.{space}.Orders", table.id)]
    assert f"main.{space}.Orders" in show(lake, "find", query)
    by_property = f"/main/{space}/[delta.enableInCommitTimestamps = true]"
    assert [one["id"] for one in ask(lake, "find", by_property)["found"]] == [table.id]
    assert ask(lake, "find", "/main/[", exit=4)["error"]["position"] == 8


def test_a_reference_goes_from_value_to_value(lake: Server) -> None:
    made = ask(lake, "refs", "create", "my.app", "one")
    again = ask(lake, "refs", "create", "my.app", "one", exit=4)
    assert again["error"]["type"] == "AlreadyExists"
    swapped = ask(lake, "refs", "swap", "my.app", made["token"], "two", "--request-id", "r-1")
    assert ask(lake, "refs", "swap", "my.app", made["token"], "two", "--request-id", "r-1")["outcome"] == "replayed"
    lost = run("refs", "swap", "my.app", made["token"], "three", TURNSTILE_HOME=str(lake.home))
    assert lost.exit_code == 4 and "RefMoved" in lost.stderr
    assert ask(lake, "refs", "get", "my.app")["token"] == swapped["token"]
    assert [one["value"] for one in ask(lake, "refs", "history", "my.app")["values"]] == ["two", "one"]
    assert "two" in show(lake, "refs", "get", "my.app")
    with lake.client() as api:
        assert api.delete("/v1/refs/my.app", params={"token": swapped["token"]}).status_code == 204
    assert ask(lake, "refs", "get", "my.app", exit=3)["error"]["type"] == "NoSuchRef"
