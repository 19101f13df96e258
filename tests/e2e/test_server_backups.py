"""A store that is behind its lake: by a WAL that is gone, an old backup, or a copy of the file
alone. Told before anything is acknowledged, repaired by the log, and nothing that was acknowledged
is lost (I1, I2, I4)."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import httpx
import pytest

from tests.support.cli import Program
from tests.support.server import alive
from tests.support.stack import Table, until
from turnstile_server import AlreadyRunning, Server, ServerError
from turnstile_server.settings import ServerSettings


def killed(server: Server) -> None:
    """Its main process is killed, and so end the others."""
    pids = server.pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(alive, pids)), "all processes have ended")


def published_to(table: Table, version: int) -> None:
    until(lambda: table.published(version) is not None, f"version {version} is published")


def refused(response: httpx.Response) -> dict[str, object]:
    assert response.status_code >= 400, response.text
    error: dict[str, object] = response.json()["error"]
    return error


def closed(home: Path) -> Server:
    return Server.start(home, 0, closed=True)


def test_i1_i4_a_server_whose_wal_is_gone_refuses_the_first_commit_and_goes_on_after_a_repair(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Server.start(home, 0) as server:  # a clean end: what is committed is in the file itself
        table = Table(server, "kept")
        for version in range(1, 4):
            table.append(version)
        published_to(table, 3)
    server = Server.start(home, 0)
    table.api = server.client()
    for version in range(4, 9):
        table.append(version)
    published_to(table, 8)
    log = [table.published(version) for version in range(9)]
    killed(server)
    for suffix in ("-wal", "-shm"):
        (home / f"turnstile.db{suffix}").unlink()
    with Server.start(home, 0) as server:
        assert any("-wal file" in notice for notice in server.notices)
        table.api = server.client()
        for _ in range(3):
            error = refused(table.propose(4))
            assert error["type"] == "TableNotActive" and "repair" in str(error["remedy"])
        repaired = Program(home).run("repair", "--all")
        assert repaired.returncode == 0, repaired.stdout + repaired.stderr
        assert [table.published(version) for version in range(9)] == log
        table.append(9)
        published_to(table, 9)
        assert Program(home).run("verify", "default.kept").returncode == 0


def test_i1_i4_an_old_backup_is_restored_looked_at_closed_and_opened(tmp_path: Path) -> None:
    home = tmp_path / "home"
    cli = Program(tmp_path / "home")
    server = Server.start(home, 0)
    table = Table(server, "kept")
    table.append(1)
    backup = cli.json("backup", str(tmp_path / "backup"))
    assert backup["tables"] == 1 and (tmp_path / "backup" / "manifest.json").is_file()
    for version in range(2, 6):
        table.append(version)
    published_to(table, 5)
    log = [table.published(version) for version in range(6)]
    refusal = cli.run("restore", str(tmp_path / "backup"))
    assert refusal.returncode != 0 and "running" in refusal.stderr, "a server runs"
    killed(server)
    restored = cli.json("restore", str(tmp_path / "backup"))
    assert Path(restored["kept"]).is_dir()
    with closed(home) as server, server.client() as api:
        table.api = api
        assert refused(table.propose(2))["type"] == "ServerClosed"
        assert refused(api.post("/v1/catalogs/main/namespaces", json={"name": "new"}))["type"] == "ServerClosed"
        assert refused(api.delete("/v1/catalogs/main/namespaces/default/tables/kept"))["type"] == "ServerClosed"
        assert api.get("/v1/tables").json()["tables"][0]["latest"] == 1
        assert "closed" in str(api.get("/readyz").json()["problems"])
        assert cli.run("repair", "--all").returncode == 0
        assert refused(table.propose(6))["type"] == "ServerClosed", "until it is opened"
        assert cli.json("open")["opened"] is True
        table.append(6)
        published_to(table, 6)
        assert [table.published(version) for version in range(6)] == log
        assert cli.json("open")["opened"] is False
        until(lambda: api.get("/readyz").status_code == 200, "its background works again")


def test_a_closed_server_publishes_nothing_and_is_open_after_a_start_without_the_option(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Server.start(home, 0) as server:
        Table(server, "kept")
    with closed(home) as server:
        assert len(server.pids) == 1 + ServerSettings(str(home)).workers + 1, "no process for light work"
    with Server.start(home, 0) as server, server.client() as api:
        assert api.post("/v1/catalogs/main/namespaces", json={"name": "new"}).status_code == 201
        with pytest.raises(AlreadyRunning, match="takes changes"):
            closed(home)


@pytest.mark.slow
def test_a_copy_of_the_file_alone_is_noticed_with_words(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Server.start(home, 0) as server:
        table = Table(server, "kept")
        table.append(1)
        published_to(table, 1)
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copy(home / "turnstile.db", copy / "turnstile.db")
        lake = server.lake_root
    cli = Program(copy)
    checked = cli.run("doctor", "--store", "--output", "json")
    assert checked.returncode == 1 and "-wal file is missing" in checked.stdout
    up = cli.json("up", "--port", "0", "--lake", lake)
    try:
        assert any("-wal file" in notice for notice in up["notices"])
        assert any("has no table" in notice for notice in up["notices"])
    finally:
        cli.json("down")


@pytest.mark.parametrize(
    "ends", ["killed", *(pytest.param(end, marks=pytest.mark.slow) for end in ("in order", "by a setting"))]
)
def test_a_store_with_its_wal_or_after_a_clean_end_gives_no_notice(ends: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    server = Server.start(home, 0)
    Table(server, "kept").append(1)
    if ends == "killed":
        killed(server)
    else:
        server.stop()
    if ends == "by a setting":
        with pytest.raises(ServerError, match="TURNSTILE_FOLLOW_UPS"):
            Server.start(home, 0, environment={"TURNSTILE_FOLLOW_UPS": "f=lambda:"})
    with Server.start(home, 0) as server:
        assert server.notices == ()
    assert json.loads(Program(home).run("doctor", "--store", "--output", "json").stdout)["ok"] is True
