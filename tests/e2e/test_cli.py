"""Every command against a running server: text for people, one object for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.cli import ask, show
from tests.support.stack import Table

if TYPE_CHECKING:
    from turnstile_server import Server


def test_a_table_seen_from_the_shell(lake: Server) -> None:
    table = Table(lake)
    name = f"default.{table.name}"
    for version in range(1, 9):
        table.append(version) if version % 2 else table.stage(version)
    assert ask(lake, "publish", name)["floor"] == 8

    told = ask(lake, "log", name)
    versions = [commit["version"] for commit in told["commits"]]
    assert all(commit["published"] for commit in told["commits"])
    assert all(commit["operation"] for commit in told["commits"]), "what the HEAD dropped is read from _delta_log"
    if lake.lake_root.startswith("file:"):
        assert versions == [8, 7, 6, 5, 4, 3, 2, 1, 0]
    else:
        assert versions == list(range(8, 8 - len(versions), -1)) and versions
        assert f"{table.storage.bucket}/" in show(lake, "log", name), "where older ones are"
    assert [commit["version"] for commit in ask(lake, "log", name, "-n", "2")["commits"]] == [8, 7]
    shown = show(lake, "log", f"main.{name}")
    assert "WRITE" in shown
    assert "published" in shown

    head = ask(lake, "head", name)
    assert (head["latest"], head["floor"], head["state"]) == (8, 8, "active")
    assert table.id in show(lake, "head", name)
    assert name in show(lake, "tables", f"main.{name}")
    assert [found["latest"] for found in ask(lake, "tables", f"main.{name}")["tables"]] == [8]


def test_outcome_of_a_lost_answer(lake: Server) -> None:
    table = Table(lake)
    table.append(1, txn="mine")
    name = f"default.{table.name}"
    assert ask(lake, "outcome", name, "--txn-id", "mine", "--version", "1")["version"] == 1
    assert ask(lake, "outcome", name, "--txn-id", "other", "--version", "1")["outcome"] == "never"
    assert ask(lake, "outcome", name, "--txn-id", "other", "--version", "2", exit=6)["outcome"] == "open"


def test_what_is_not_there(lake: Server) -> None:
    assert ask(lake, "head", "default.nosuch", exit=3)["error"]["type"] == "NoSuchTable"
    assert ask(lake, "log", "nosuch.t", exit=3)["error"]["type"] == "NoSuchNamespace"
    assert ask(lake, "namespaces", "nosuch", exit=3)["error"]["type"] == "NoSuchCatalog"


def test_the_rest(lake: Server) -> None:
    assert "default" in [found["name"] for found in ask(lake, "namespaces")["namespaces"]]
    assert ask(lake, "gc", "--dry-run")["deleted"] == 0
    assert "default" in show(lake, "namespaces")
    show(lake, "gc", "--dry-run")
    status = ask(lake, "status")
    assert status["running"] is True
    assert (status["url"], status["home"]) == (lake.url, str(lake.home))
    assert lake.url in show(lake, "status")
    figures = ask(lake, "top", "--every", "0.2")
    assert figures["tables"] >= 1 and "GET /v1/tables" in [
        row["operation"] for row in figures["requests"]["operations"]
    ]
    assert ask(lake, "up")["started"] is False
