"""``turnstile repair`` against the real handlers: its output, its changes and its exit codes (I4,
I11)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typer.testing import Result

from tests.support.cli import run, service
from tests.support.fakes import delta
from tests.support.openapi import REPAIR
from tests.support.v1 import Site
from turnstile.store.core.evaluate import clone
from turnstile.store.core.names import published_path


class Served(Site):
    """The catalog's handler behind a port."""

    url = ""

    def command(self, *arguments: str) -> Result:
        return run("repair", *arguments, "--url", self.url)

    def told(self, *arguments: str) -> Any:
        """What the command prints as JSON, after what the handlers log in this process."""
        return json.loads(self.command(*arguments, "--output", "json").stdout.splitlines()[-1])

    def key(self) -> str:
        return self.world.space.table(self.table)

    def file(self, version: int) -> str:
        return f"{self.world.refs.rows[self.key()]['location']}/{published_path(version)}"


@pytest.fixture
def site() -> Iterator[Served]:
    made = Served()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path, _, query = self.path.partition("?")
            told = made.http["catalog"].call(self.command, path, query=query, body=body or None)
            content = told.text.encode()
            self.send_response(told.status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


def test_a_dry_run_says_how_the_table_stands_and_changes_nothing(site: Served) -> None:
    before = clone(site.world.refs.rows), dict(site.world.storages.files)
    shown = site.command("sales.orders", "--dry-run")
    assert shown.exit_code == 0
    for text in ("main.sales.orders", "active, published 1 of 3", "behind, at version 2", "nothing is in the way"):
        assert text in shown.stdout
    assert "diagnosis" in site.told("main.Sales.ORDERS", "--dry-run")
    assert before == (site.world.refs.rows, site.world.storages.files)


def test_i11_a_repair_publishes_and_ends_well(site: Served) -> None:
    told = site.told("sales.orders")
    assert (told["name"], told["published"], told["diagnosis"]["finding"]) == ("main.sales.orders", 2, "healthy")
    shown = site.command("sales.orders")
    assert shown.exit_code == 0
    assert "0 published, 0 adopted" in shown.stdout and "remedy" not in shown.stdout


def test_i4_a_stuck_table_ends_in_exit_code_1_with_facts_and_remedy(site: Served) -> None:
    site.world.storages.files[site.file(2)] = (delta.append("foreign", site.now()), 1)
    shown = site.command("sales.orders")
    assert shown.exit_code == 1
    for text in ("stuck, published 1 of 3", "differs, at version 2", "foreign", "--adopt log", "--adopt head"):
        assert text in shown.stdout
    for text in ("HEAD", "_delta_log", "2 to 3", "2 to 2", "t2", "WRITE", "digest", "written"):
        assert text in shown.stdout, "both sides are shown"


def test_i2_i4_a_choice_shows_both_sides_and_what_was_set_aside(site: Served) -> None:
    site.world.storages.files[site.file(2)] = (delta.append("foreign", site.now()), 1)
    site.command("sales.orders")
    before = clone(site.world.refs.rows), dict(site.world.storages.files)
    for wrong in (
        ("--all", "--adopt", "log"),
        ("sales.orders", "--adopt", "log", "--dry-run"),
        ("sales.orders", "--adopt", "x"),
    ):
        assert site.command(*wrong).exit_code == 2
    assert before == (site.world.refs.rows, site.world.storages.files)
    named = site.command("sales.orders", "--adopt", "head")
    assert named.exit_code == 1 and "remove by hand" in named.stdout and published_path(2) in named.stdout
    shown = site.command("sales.orders", "--adopt", "log")
    assert shown.exit_code == 0, shown.stdout
    for text in ("active, published 2 of 2", "healthy", "1 adopted", "_set_aside", "2 to 3", "foreign"):
        assert text in shown.stdout
    assert site.told("sales.orders", "--adopt", "log")["diagnosis"]["finding"] == "healthy"


def test_i1_i2_every_table_is_taken_up_again_after_a_restore(site: Served) -> None:
    backup = clone(site.world.refs.rows[site.key()])
    site.append(None, "t4", base=3)
    site.ask("publish")
    site.world.refs.rows[site.key()] = backup
    site.register("returns", site.stage("returns"))
    shown = site.command("--all")
    assert shown.exit_code == 0 and "2 healthy" in shown.stdout
    told = site.told("--all")["tables"]
    assert [(one["name"], one["diagnosis"]["latest"]) for one in told] == [
        ("main.sales.orders", 4), ("main.sales.returns", 0),
    ]  # fmt: skip


def test_i11_a_table_that_recovers_is_found_by_name_though_it_cannot_be_loaded(site: Served) -> None:
    site.ask("publish")
    site.set(state="recovering")
    assert site.told("sales.orders")["diagnosis"]["state"] == "active"


def test_a_table_that_does_not_exist_and_a_command_without_one_are_distinguished(site: Served) -> None:
    assert site.command("sales.nothing").exit_code == 3
    assert site.command().exit_code == site.command("sales.orders", "--all").exit_code == 2


def test_one_table_that_fails_does_not_keep_the_others_waiting() -> None:
    heads = [{"name": f"main.s.{name}", "table_id": name, "state": "active"} for name in "ba"]
    heads.append({"name": "main.s.gone", "table_id": "gone", "state": "dropped"})
    healthy = {"state": "active", "finding": "healthy", "latest": 3, "message": "everything", "remedy": "nothing to do"}
    answers = {
        "GET /v1/tables": (200, {"tables": heads}),
        "POST /v1/tables/a/repair": (500, {"error": {"type": "InternalError", "message": "a defect"}}),
        "POST /v1/tables/b/repair": (200, {"published": 0, "adopted": 0, "diagnosis": healthy}),
    }
    with service(answers) as canned:
        shown = run("repair", "--all", "--url", canned.url)
    assert shown.exit_code == 1
    assert "InternalError" in shown.stdout and "look at the service's log" in shown.stdout
    assert [path for method, path, *_ in canned.seen if method == "POST"] == [
        "/v1/tables/a/repair", "/v1/tables/b/repair",
    ]  # fmt: skip


def test_i10_a_repair_of_all_tables_asks_only_what_a_closed_api_lets_through(
    site: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``ApiRateLimit=0`` while rows are restored (docs/operations.md)."""
    asked: set[str] = set()
    call = site.http["catalog"].call

    def noted(method: str, path: str, **more: Any) -> Any:
        asked.add(f"{method} {path.replace(site.table, '{table_id}')}")
        return call(method, path, **more)

    monkeypatch.setattr(site.http["catalog"], "call", noted)
    for arguments in (("--all", "--dry-run"), ("--all",)):
        assert site.command(*arguments).exit_code == 0
    assert asked == REPAIR
