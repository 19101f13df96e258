"""``turnstile up --aws`` and ``down``: data outlive them, two stacks do not meet, and leftovers of
a run do no harm."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cli import Program
from tests.support.stack import Storage, Table, eventually
from turnstile_local import Stack, StackError
from turnstile_local.errors import AlreadyRunning, PortTaken
from turnstile_local.home import Layout

pytestmark = [pytest.mark.stack, pytest.mark.slow]


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path / "home")
    yield made
    made.run("down")


def test_up_is_idempotent_and_down_keeps_the_data(cli: Program) -> None:
    up = cli.json("up", "--aws", "--port", "0")
    assert up["started"] is True
    assert up["emulated"] is True
    assert up["lake_root"] == (cli.home / "aws" / "lake").as_uri()
    assert up["attach"][2] == f'lake = attach(spark, name="lake", uri="{up["url"]}", catalog="main")'
    again = cli.json("up")
    assert (again["started"], again["pids"], again["url"]) == (False, up["pids"], up["url"])

    table = Table(Stack.attach(cli.home / "aws"), "kept")
    table.append(1)
    published = table.published(1)
    assert cli.json("tables")["tables"][0]["name"] == "main.default.kept"

    assert cli.json("down")["stopped"] is True
    assert cli.json("down")["stopped"] is False
    assert cli.run("status").returncode == 5
    assert cli.run("tables").returncode == 5

    assert cli.json("up", "--aws", "--port", "0")["started"] is True
    table = Table.__new__(Table)
    table.api = Stack.attach(cli.home / "aws").client()
    table.id = cli.json("head", "default.kept")["table_id"]
    assert cli.json("head", "default.kept")["latest"] == 1
    table.append(2)
    log = eventually(lambda: (told := cli.json("log", "default.kept"))["floor"] == 2 and told)
    assert [commit["version"] for commit in log["commits"]] == [2, 1, 0], "the stream is heard after a restart too"
    assert all(commit["published"] for commit in log["commits"])
    assert (cli.home / "aws" / "lake").exists()
    assert published


def test_a_killed_stack_keeps_what_was_there_at_the_last_checkpoint(tmp_path: Path) -> None:
    stack = Stack.start(tmp_path / "home", port=0)
    table = Table(stack, "survivor")
    state = Layout.at(stack.home).state / "dynamodb.json"
    eventually(lambda: table.id in state.read_text())
    os.kill(stack.state.pid, signal.SIGKILL)
    assert stack._process is not None
    stack._process.wait()
    with Stack.start(stack.home, port=0) as again:
        assert again.fresh
        with again.client() as api:
            (found,) = api.get("/v1/tables").json()["tables"]
    assert found["name"] == "main.default.survivor"


def test_two_stacks_side_by_side(tmp_path: Path) -> None:
    with Stack.start(tmp_path / "a", port=0) as a, Stack.start(tmp_path / "b", port=0, token="secret") as b:
        assert a.url != b.url
        Table(a, "only_in_a")
        Table(b, "only_in_b")
        for stack, name in ((a, "only_in_a"), (b, "only_in_b")):
            with stack.client() as api:
                (found,) = api.get("/v1/tables").json()["tables"]
            assert found["name"] == f"main.default.{name}"
            assert found["location"].startswith(stack.lake_root)
        with a.client() as api:
            refused = api.get(f"{b.url}/v1/catalogs")
        assert refused.status_code == 401
        with pytest.raises(AlreadyRunning, match="another token"):
            Stack.start(b.home, token="other")
        with pytest.raises(AlreadyRunning, match=str(b.port)):
            Stack.start(b.home, port=b.port + 1)
        assert Stack.start(b.home).token == "secret"
    with Stack.start(tmp_path / "b", port=0) as b:
        assert b.token == "secret", "a restart does not open the API"
    with Stack.start(tmp_path / "b", port=0, token="other") as b, b.client() as api:
        assert api.get("/v1/catalogs").status_code == 200
        assert api.get("/v1/catalogs", headers={"authorization": "Bearer secret"}).status_code == 401


def test_two_ups_at_once_start_one_stack(cli: Program) -> None:
    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(lambda _: cli.json("up", "--aws", "--port", "0"), range(2)))
    assert sorted(up["started"] for up in told) == [False, True]
    assert told[0]["pids"] == told[1]["pids"]


def test_a_lake_in_s3_outlives_a_restart(tmp_path: Path) -> None:
    with Stack.start(tmp_path / "home", port=0, lake="s3://lake/warehouse/") as stack:
        table = Table(stack)
        table.append(1)
        published = table.published(1)
    with Stack.start(tmp_path / "home", port=0) as stack:
        assert stack.lake_root == "s3://lake/warehouse"
        with stack.client() as api:
            (found,) = api.get("/v1/tables").json()["tables"]
        assert Storage(stack, found["location"]).version(1) == published
        with pytest.raises(AlreadyRunning, match="s3://lake/warehouse"):
            Stack.start(stack.home, lake="s3://other/place")


def test_a_taken_port_is_reported_at_once(cli: Program) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTaken):
            Stack.start(cli.home, port=port)
        done = cli.run("up", "--aws", "--port", str(port), "--output", "json")
    assert done.returncode == 4
    assert done.stdout == ""
    error = json.loads(done.stderr)["error"]
    assert error["type"] == "PortTaken"
    assert str(port) in error["message"]
    assert "--port" in error["remedy"]


def test_a_stale_state_file_is_not_taken_for_a_stack(cli: Program) -> None:
    layout = Layout.at(cli.home / "aws")
    layout.create()
    stale = {"pid": os.getpid(), "port": 1, "url": "http://127.0.0.1:1", "token": "", "lake_root": "file:///x"}
    layout.state_file.write_text(json.dumps(stale))
    assert cli.run("status").returncode == 5
    assert cli.json("down")["stopped"] is False, "the pid in the file is this test's"
    layout.state_file.write_text("{ not json")
    assert cli.run("status").returncode == 5


def test_a_function_that_cannot_start_is_reported_and_leaves_nothing_running(tmp_path: Path) -> None:
    for name in ("commit", "catalog", "publish", "gc"):
        (tmp_path / "functions" / name).mkdir(parents=True)
        (tmp_path / "functions" / name / "app.py").write_text(
            "def app(event, context):\n    return {'statusCode': 418}\n"
        )
    with pytest.raises(StackError, match="418"):
        Stack.start(tmp_path / "home", port=0, functions=tmp_path / "functions")
    with Stack.start(tmp_path / "home", port=0) as stack, stack.client() as api:
        assert api.get("/v1").status_code == 200, "the same home starts once the functions are right"


def test_nothing_is_written_outside_the_home_and_the_token_is_private(tmp_path: Path) -> None:
    with Stack.start(tmp_path / "home", port=0, token="secret") as stack:
        Table(stack)
        assert {path.name for path in tmp_path.iterdir()} == {"home"}
        assert Layout.at(stack.home).state_file.stat().st_mode & 0o077 == 0
