"""A server whose store cannot be used: told at the start in one sentence, by ``/readyz`` with its
reason, and by every request with one type."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
from pathlib import Path

import httpx
import pytest

from tests.support.cli import Program
from tests.support.stack import Table, until
from turnstile_server import NotRunning, Server, ServerError
from turnstile_server.home import Home

STORE_EXIT = 7


def _problems(server: Server) -> list[str]:
    response = httpx.get(f"{server.url}/readyz", trust_env=False, timeout=60)
    problems: list[str] = response.json()["problems"]
    assert response.status_code == (503 if problems else 200)
    return problems


def _error(server: Server) -> dict[str, object]:
    with server.client() as api:
        response = api.get("/v1/tables")
    assert response.status_code == 503, response.text
    error: dict[str, object] = response.json()["error"]
    return error


def _home_with_a_table(tmp_path: Path) -> Path:
    with Server.start(tmp_path / "home", 0) as server:
        Table(server, "kept").append(1)
        until(lambda: not _problems(server), "it is ready")
    return tmp_path / "home"


# -- at the start ------------------------------------------------------------------------------------------------------


def _overwritten(store: Path) -> None:
    store.write_text("this is no database " * 500)


def _cut(store: Path) -> None:
    with store.open("r+b") as file:
        file.truncate(store.stat().st_size // 2)


def _zeros(store: Path) -> None:
    size = store.stat().st_size
    with store.open("r+b") as file:
        file.seek(4096)
        file.write(bytes(size - 4096))


def _folder(store: Path) -> None:
    store.unlink()
    store.mkdir()


@pytest.mark.parametrize(
    "damage", [_overwritten, *(pytest.param(one, marks=pytest.mark.slow) for one in (_cut, _zeros, _folder))]
)
def test_a_start_on_a_damaged_store_says_so_in_one_sentence_and_has_a_code_of_its_own(
    damage: object, tmp_path: Path
) -> None:
    home = _home_with_a_table(tmp_path)
    damage(home / "turnstile.db")  # type: ignore[operator]
    cli = Program(home)
    for command in ("serve", "up"):
        done = cli.run(command, "--port", "0")
        told = done.stdout + done.stderr
        assert done.returncode == STORE_EXIT, told
        assert "cannot be used" in told and "Traceback" not in told and "crash loop" not in told, told
    with pytest.raises(NotRunning):
        Server.attach(home)


def test_a_start_on_tables_that_are_not_there_or_not_reached_says_so(tmp_path: Path) -> None:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    cli = Program(tmp_path / "home")
    endpoint = f"http://localhost:{port}"
    done = cli.run("serve", "--port", "0", "--store", "dynamodb:nope,objs", "--store-endpoint", endpoint)
    told = done.stdout + done.stderr
    assert done.returncode == STORE_EXIT, told
    assert "dynamodb:nope,objs" in told and "Traceback" not in told and "crash loop" not in told, told


# -- while it runs -----------------------------------------------------------------------------------------------------


def test_readyz_and_every_request_say_that_the_file_was_removed_and_that_it_is_back(tmp_path: Path) -> None:
    with Server.start(tmp_path / "home", 0) as server:
        Table(server)
        until(lambda: not _problems(server), "it is ready")
        store = Home.at(server.home).path / "turnstile.db"
        aside = store.rename(store.with_name("aside.db"))
        until(lambda: any("gone" in problem for problem in _problems(server)), "it says that the store is gone")
        error = _error(server)
        assert (error["type"], error["cause"]) == ("StoreUnavailable", "gone") and error["remedy"]
        shutil.copy(aside, store)
        assert _error(server)["cause"] == "gone", "another file is not the store"
        store.unlink()
        aside.rename(store)
        until(lambda: not _problems(server), "it is ready again")


def test_a_lock_of_another_process_is_named_by_readyz_by_requests_and_by_a_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Server.start(home, 0) as server:
        Table(server)
        until(lambda: not _problems(server), "it is ready")
        other = os.open(home / "turnstile.db-group", os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX)
        until(lambda: any("lock" in problem for problem in _problems(server)), "it says that the lock is taken")
        with server.client() as api:
            body = {"name": "refused"}
            error = api.post("/v1/catalogs/main/namespaces", json=body).json()["error"]
        assert (error["type"], error["cause"]) == ("StoreUnavailable", "locked")
        fcntl.flock(other, fcntl.LOCK_UN)
        until(lambda: not _problems(server), "it is ready again")
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(ServerError, match="another process") as refusal:
        Server.start(home, 0)
    assert refusal.value.kind == "StoreUnavailable" and refusal.value.remedy
    os.close(other)
    with Server.start(home, 0) as server:
        assert _problems(server) in ([], ["publishing has given no sign of life"])


def test_readyz_and_requests_say_that_the_file_is_damaged(tmp_path: Path) -> None:
    with Server.start(tmp_path / "home", 0) as server:
        Table(server)
        store = server.home / "turnstile.db"
        for path in (store, store.with_name("turnstile.db-wal")):
            with path.open("r+b") as file:
                file.write(b"\xff" * path.stat().st_size)
        until(lambda: any("damaged" in problem for problem in _problems(server)), "it says that the store is damaged")
        with server.client() as api:
            response = api.post("/v1/catalogs/main/namespaces", json={"name": "refused"})
        error = response.json()["error"]
        assert (error["type"], error["cause"]) == ("StoreUnavailable", "damaged") and error["remedy"]


# -- a table's folder --------------------------------------------------------------------------------------------------


def test_i24_after_a_folder_was_removed_the_table_is_stopped_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    with Server.start(tmp_path / "home", 0) as server:
        table = Table(server)
        table.append(1)
        table.published(1)
        table.settled(60)
        folder = Path(table.storage.root)
        folder.rename(tmp_path / "elsewhere")
        assert table.propose(2).status_code == 200, "nobody has looked yet: the commit is in the store"
        until(lambda: table.get("head")["state"] == "stuck", "the publisher has looked")
        refused = table.propose(3)
        assert refused.status_code == 409 and refused.json()["error"]["type"] == "TableNotActive", refused.text
        assert "was published, and is not there" in refused.text
        shutil.rmtree(folder, ignore_errors=True)
        (tmp_path / "elsewhere").rename(folder)
        until(lambda: table.get("head")["state"] == "active", "the next sweep publishes it")
        assert table.append(3)["outcome"] == "ratified"
        assert table.published(2) and table.published(3)
