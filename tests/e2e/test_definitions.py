"""Namespaces and tables are created, renamed and dropped from the shell, on a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.cli import ask, show
from tests.support.stack import Table

if TYPE_CHECKING:
    from turnstile_server import Server


def test_what_the_shell_defines_is_there_and_what_it_drops_is_gone(lake: Server) -> None:
    table = Table(lake)
    space = f"main.shell_{table.name}"
    assert ask(lake, "create", "namespace", space, "--comment", "here")["comment"] == "here"
    assert ask(lake, "create", "namespace", space, exit=4)["error"]["type"] == "AlreadyExists"
    ask(lake, "create", "namespace", f"{space}.deep")
    ask(lake, "rename", "namespace", f"{space}.deep", "deeper")
    below = ask(lake, "namespaces", "--under", space.removeprefix("main."))["namespaces"]
    assert [each["name"] for each in below] == [f"{space.removeprefix('main.')}.deeper"]
    moved = f"{space}.deeper.orders"
    ask(lake, "rename", "table", f"default.{table.name}", moved)
    assert ask(lake, "head", moved)["table_id"] == table.id
    assert "column" in show(lake, "schema", moved)
    assert ask(lake, "drop", "namespace", space, exit=4)["error"]["type"] == "NamespaceNotEmpty"
    assert ask(lake, "drop", "table", moved)["dropped"]
    assert not ask(lake, "drop", "table", moved, "--if-exists")["dropped"]
    ask(lake, "drop", "namespace", space, "--cascade")
    assert ask(lake, "namespaces", "--under", space.removeprefix("main."), exit=3)["error"]["type"] == "NoSuchNamespace"
    assert "main" in [each["name"] for each in ask(lake, "catalogs")["catalogs"]]
