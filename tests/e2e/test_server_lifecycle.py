"""A server's life: ``turnstile up``, ``down``, ``serve`` and ``Server``. Data outlives it, its
locks do not; two do not meet."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.cli import TURNSTILE, Program
from tests.support.server import alive
from tests.support.stack import NAMESPACE, Table, eventually, until
from turnstile_server import AlreadyRunning, NotRunning, PortTaken, Server, ServerError
from turnstile_server.home import Home, ServerState, take_lock
from turnstile_server.settings import ServerSettings


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path / "home")
    yield program
    with contextlib.suppress(NotRunning):
        Server.attach(program.home).stop()


def tables(server: Server) -> list[str]:
    with server.client() as api:
        return [table["name"] for table in api.get("/v1/tables").json()["tables"]]


# -- up and down ------------------------------------------------------------------------------------------------------


def test_up_is_idempotent_and_down_keeps_the_data(cli: Program) -> None:
    up = cli.json("up", "--port", "0")
    assert (up["started"], up["emulated"], up["authentication"]) == (True, False, "none")
    assert up["lake_root"] == (cli.home / "lake").as_uri()
    assert up["attach"][2] == f'lake = attach(spark, name="lake", uri="{up["url"]}", catalog="main")'
    again = cli.json("up")
    assert (again["started"], again["url"], again["pids"][0]) == (False, up["url"], up["pids"][0])
    table = Table(Server.attach(cli.home), "kept")
    table.append(1)
    assert cli.json("tables")["tables"][0]["name"] == "main.default.kept"

    assert cli.json("down")["stopped"] is True
    until(lambda: not any(map(alive, up["pids"])), "all processes have ended")
    assert cli.json("down")["stopped"] is False
    assert cli.run("status").returncode == 5
    assert cli.run("tables").returncode == 5

    assert cli.json("up", "--port", "0")["started"] is True
    assert cli.json("head", "default.kept")["latest"] == 1
    table.api = Server.attach(cli.home).client()
    table.append(2)
    assert table.published(1) and table.published(2)


def test_two_ups_at_once_start_one_server(cli: Program) -> None:
    with ThreadPoolExecutor(2) as pool:
        ups = list(pool.map(lambda _: cli.json("up", "--port", "0"), range(2)))
    assert sorted(up["started"] for up in ups) == [False, True]
    assert ups[0]["pids"][0] == ups[1]["pids"][0]


@pytest.mark.slow
def test_down_finds_what_a_program_started_and_attach_what_up_started(cli: Program) -> None:
    server = Server.start(cli.home, 0)
    assert cli.json("down")["stopped"] is True
    until(lambda: not any(map(alive, server.pids)), "all processes have ended")
    with pytest.raises(NotRunning, match=re.escape(str(cli.home))):
        Server.attach(cli.home)
    up = cli.json("up", "--port", "0")
    attached = Server.attach(cli.home)
    assert (attached.url, attached.fresh) == (up["url"], False)
    attached.stop()
    assert cli.json("down")["stopped"] is False


def test_a_taken_port_is_reported_at_once(cli: Program) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTaken):
            Server.start(cli.home, port)
        done = cli.run("up", "--port", str(port), "--output", "json")
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, done.stdout, error["type"]) == (4, "", "PortTaken")
    assert str(port) in error["message"] and "--port" in error["remedy"]


def test_status_and_up_print_no_secret(cli: Program) -> None:
    cli.json("up", "--port", "0", "--token", "a very secret token")
    secrets = json.loads((cli.home / "server.json").read_text())
    assert secrets["token"] == "a very secret token" and secrets["keys"].startswith("local:")
    for arguments in (("status",), ("status", "--output", "json"), ("up",), ("up", "--output", "json"), ("down",)):
        done = cli.run(*arguments)
        assert done.returncode == 0, done.stderr
        text = done.stdout + done.stderr
        assert secrets["token"] not in text and secrets["keys"].split(":")[1] not in text, arguments
    assert secrets["token"] not in (cli.home / "log" / "server.log").read_text()


# -- homes ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_servers_side_by_side_share_nothing_and_other_settings_are_refused(tmp_path: Path) -> None:
    with Server.start(tmp_path / "a", 0) as a, Server.start(tmp_path / "b", 0, "secret") as b:
        Table(a, "only_in_a")
        Table(b, "only_in_b")
        assert (tables(a), tables(b)) == (["main.default.only_in_a"], ["main.default.only_in_b"])
        with a.client() as api:
            assert api.get(f"{b.url}/v1/catalogs").status_code == 401
        with pytest.raises(AlreadyRunning, match="another token"):
            Server.start(b.home, token="other")
        with pytest.raises(AlreadyRunning, match=str(b.port)):
            Server.start(b.home, port=b.port + 1)
        with pytest.raises(AlreadyRunning, match=re.escape(a.lake_root)):
            Server.start(a.home, lake="s3://other/place")
        with pytest.raises(AlreadyRunning, match=re.escape(a.state.store)):
            Server.start(a.home, store=f"sqlite:{tmp_path}/another.db")
        assert Server.start(b.home).token == "secret"
    with Server.start(tmp_path / "b", 0) as b:
        assert b.token == "secret", "a restart does not open the API"
        assert tables(b) == ["main.default.only_in_b"]
    with Server.start(tmp_path / "b", 0, "other") as b, b.client() as api:
        assert api.get("/v1/catalogs").status_code == 200
        assert api.get("/v1/catalogs", headers={"authorization": "Bearer secret"}).status_code == 401


def test_tokens_that_the_server_issued_outlive_a_restart(tmp_path: Path) -> None:
    with Server.start(tmp_path / "home", 0, "operator") as server, server.client() as api:
        client = api.post("/v1/clients", json={"name": "etl", "admin": True}).json()
        form = {"grant_type": "client_credentials"}
        credentials = (client["client_id"], client["client_secret"])
        token = httpx.post(f"{server.url}/oauth/token", data=form, auth=credentials, trust_env=False, timeout=60).json()
    with Server.start(tmp_path / "home", 0) as server, server.client() as api:
        headers = {"authorization": f"Bearer {token['access_token']}"}
        assert api.get("/v1/clients", headers=headers).status_code == 200


@pytest.mark.slow
def test_a_left_over_state_file_is_not_taken_for_a_server(cli: Program) -> None:
    home = Home.at(cli.home)
    home.create()
    stale = {"pids": [os.getpid()], "port": 1, "url": "http://127.0.0.1:1", "token": "", "lake_root": "", "store": ""}
    for text in (json.dumps(stale), "{ not json", "[]", "null"):
        home.state_file.write_text(text)
        assert cli.run("status").returncode == 5
        assert cli.json("down")["stopped"] is False, "the pid in the file is this test's"


def test_i12_a_home_that_demanded_tokens_is_opened_on_purpose_only(tmp_path: Path) -> None:
    """Its tokens were in the environment, and the next start has another one."""
    reader = {"TURNSTILE_TOKENS": json.dumps({"0" * 64: {"name": "reader"}})}
    with Server.start(tmp_path, 0, environment=reader) as closed, closed.client() as api:
        assert api.get("/v1/catalogs").status_code == 401
    with pytest.raises(ServerError, match="demanded tokens"):
        Server.start(tmp_path)
    with Server.start(tmp_path, token="") as opened, opened.client() as api:
        assert api.get("/v1/catalogs").status_code == 200
    with Server.start(tmp_path) as still, still.client() as api:
        assert api.get("/v1/catalogs").status_code == 200


def test_a_state_file_makes_a_start_remove_no_folder_but_one_of_sockets(tmp_path: Path) -> None:
    """A home may come with a folder that somebody else made."""
    precious = tmp_path / "tst-project" / "file"
    precious.parent.mkdir()
    precious.write_text("kept")
    home = Home.at(tmp_path / "home")
    home.create()
    ServerState("http://127.0.0.1:1", 0, "", "", runtime=str(precious.parent)).write(home)
    with Server.start(home.path, 0):
        assert precious.read_text() == "kept"


def test_down_ends_no_process_but_the_one_that_holds_the_lock(tmp_path: Path) -> None:
    """The number in the state file is that of a process in another container, or of one that has
    ended."""
    home = Home.at(tmp_path)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        ServerState("http://127.0.0.1:1", 1, "file:///lake", "sqlite:/x", pids=(bystander.pid,)).write(home)
        lock = take_lock(home.lock)
        assert lock is not None
        try:
            with pytest.raises(ServerError, match="nothing was stopped"):
                Server.attach(tmp_path).stop()
            assert bystander.poll() is None
        finally:
            os.close(lock)
            bystander.kill()


def test_nothing_is_written_outside_the_home_and_secrets_are_their_owners_only(tmp_path: Path) -> None:
    with Server.start(tmp_path / "home", 0, "secret") as server:
        Table(server)
        assert {path.name for path in tmp_path.iterdir()} == {"home"}
        assert Home.at(server.home).state_file.stat().st_mode & 0o077 == 0


def test_a_server_whose_home_is_deleted_stops(tmp_path: Path) -> None:
    server = Server.start(tmp_path / "home", 0)
    Table(server)
    pids = server.pids

    def is_deleted() -> bool:
        shutil.rmtree(server.home, ignore_errors=True)  # the server may write a file meanwhile
        return not server.home.exists()

    until(is_deleted, "the home is deleted")
    server.stop()
    until(lambda: not any(map(alive, pids)), "all processes have ended")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{server.url}/healthz", trust_env=False, timeout=60)


def test_a_store_that_cannot_be_opened_is_reported_and_leaves_nothing_running(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    home.create()
    (home.path / "turnstile.db").write_text("this is no database " * 100)
    with pytest.raises(ServerError, match=r"turnstile\.db|database"):
        Server.start(home.path, 0)
    with pytest.raises(NotRunning):
        Server.attach(home.path)
    (home.path / "turnstile.db").unlink()
    with Server.start(home.path, 0) as server:
        assert tables(server) == []


@pytest.mark.parametrize("store", ["postgres:x", "sqlite:", "dynamodb:one", "nothing"])
def test_a_store_that_is_none_is_refused(tmp_path: Path, store: str) -> None:
    with pytest.raises(ServerError, match="is no store"):
        ServerSettings(str(tmp_path), store=store)


# -- serve ------------------------------------------------------------------------------------------------------------


class Serving:
    """``turnstile serve`` in the foreground of a process of its own."""

    def __init__(self, cli: Program, *arguments: str) -> None:
        command = [TURNSTILE, "serve", "--port", "0", *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=cli.environment, stdout=pipe, stderr=pipe, text=True)
        self.lines: list[str] = []

    def url(self) -> str:
        """Where it says that it serves, as soon as it answers there."""
        assert self.process.stdout is not None
        urls = re.findall(r"http://\S+", self.process.stdout.readline())
        assert urls, self.end()
        (url, *_) = urls
        eventually(lambda: _answers(url), what="it answers")
        return url

    def end(self) -> tuple[int, str]:
        """SIGTERM; the exit code, and what it wrote on standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_i12_serve_where_others_reach_it_refuses_to_start_without_authentication(cli: Program, host: str) -> None:
    done = cli.run("serve", "--host", host, "--port", "0")
    assert done.returncode == 1
    assert "no token and no issuer is configured" in done.stderr and "--token" in done.stderr
    with pytest.raises(NotRunning):
        Server.attach(cli.home)


def test_i12_serve_where_others_reach_it_works_with_a_token(cli: Program) -> None:
    serving = Serving(cli, "--host", "0.0.0.0", "--token", "s3cret", "--allow-host", "lake.example")
    url = serving.url()
    bearer = {"authorization": "Bearer s3cret"}
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as api:
        assert api.get("/v1/catalogs").status_code == 401
        assert api.get("/v1/catalogs", headers=bearer).status_code == 200
        assert api.get("/v1/catalogs", headers={**bearer, "host": "lake.example"}).status_code == 200
        assert api.get("/v1/catalogs", headers={**bearer, "host": "other.example"}).status_code == 403
        assert "turnstile_requests_total" in api.get("/metrics", headers=bearer).text
    assert cli.json("status")["url"] == url
    assert cli.run("up", "--port", "1").returncode == 4, "the home has its server"
    code, errors = serving.end()
    assert (code, "Traceback" in errors) == (0, False), errors


def test_a_server_with_tokens_by_variable_says_that_it_demands_them(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"s3cret").hexdigest()
    tokens = json.dumps({digest: {"name": "ann", "roles": [], "admin": True}})
    cli = Program(tmp_path / "home", TURNSTILE_TOKENS=tokens)
    try:
        answers = [cli.json("up", "--port", "0") for _ in range(2)]
        assert [answer["authentication"] for answer in answers] == ["required", "required"]
    finally:
        cli.json("down")


def test_a_wrong_variable_is_reported_by_name(cli: Program) -> None:
    done = subprocess.run(
        [TURNSTILE, "serve", "--port", "0"],
        env={**cli.environment, "TURNSTILE_STAGED_GRACE_HOURS": "soon"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "TURNSTILE_STAGED_GRACE_HOURS" in done.stderr and "Traceback" not in done.stderr


def test_a_request_under_way_is_answered_when_the_server_is_stopped(tmp_path: Path) -> None:
    server = Server.start(tmp_path / "home", 0, workers=1)
    body = json.dumps({"name": "late"}).encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as wire:
        head = f"POST {NAMESPACE.rsplit('/', 1)[0]} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        wire.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
        # The worker answers another connection, so it has taken this one.
        assert httpx.get(f"{server.url}/v1/catalogs", trust_env=False, timeout=60).status_code == 200
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        until(lambda: not _answers(server.url), "no new connection is taken")
        wire.sendall(body[5:])
        assert wire.recv(65_536).startswith(b"HTTP/1.1 201")
        stopping.join(timeout=60)
    assert not stopping.is_alive()
    with Server.start(tmp_path / "home", 0) as again, again.client() as api:
        assert api.get(f"{NAMESPACE.rsplit('/', 1)[0]}/late").status_code == 200
