"""Processes of a server are killed while clients write (I1 to I6, I11): what was acknowledged
stays, is published with its bytes, and the server is back by itself, or as soon as it is
started."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.histories.killing import needs_proc
from tests.support.clients.deaths import WORKERS, Writer, kill, pids_of
from tests.support.server import alive
from tests.support.stack import Table, eventually, until
from turnstile_server import Server
from turnstile_server.home import Home, is_locked

pytestmark = needs_proc


@pytest.mark.parametrize("name", ["http", "background", "light-work"])
def test_i1_to_i11_a_killed_process_is_replaced_and_nothing_that_was_acknowledged_is_lost(
    tmp_path: Path, name: str
) -> None:
    with Server.start(tmp_path / "home", 0, workers=WORKERS) as server:
        writers = [Writer(server) for _ in range(2)]
        main = server.pids[0]
        for _ in range(3):
            for writer in writers:
                writer.more()
            kill(server, name)
            for writer in writers:
                writer.more()
        for writer in writers:
            writer.stop()
            writer.check()
        assert server.pids[0] == main and alive(main), "it was never the whole server"
        if name == "http":
            assert sum(writer.unanswered for writer in writers) > 0, "no client noticed"


def test_a_worker_that_is_killed_again_at_once_is_replaced_again(tmp_path: Path) -> None:
    """Two deaths within seconds are no crash at the start: an operator, or the kernel short of
    memory, may kill twice."""
    with Server.start(tmp_path / "home", 0, workers=WORKERS) as server, server.client() as api:
        for _ in range(4):
            kill(server, "http")
            eventually(lambda: _answers(api), what="it answers")


def _answers(api: httpx.Client) -> bool:
    try:
        return api.get("/v1/catalogs").status_code == 200
    except httpx.TransportError:
        return False


def test_i1_to_i11_when_the_main_process_is_killed_all_end_and_the_next_start_has_everything(tmp_path: Path) -> None:
    server = Server.start(tmp_path / "home", 0, workers=WORKERS)
    writers = [Writer(server) for _ in range(2)]
    for _ in range(3):
        for writer in writers:
            writer.more()
        pids = server.pids
        runtime = Path(server.state.runtime)
        os.kill(pids[0], signal.SIGKILL)
        until(lambda: not any(map(alive, pids)), "its processes have ended")  # noqa: B023 - waited for here
        until(lambda: not is_locked(Home.at(server.home).lock), "the lock of the home is free")  # noqa: B023
        server = Server.start(server.home, workers=WORKERS)
        assert not runtime.exists() and Path(server.state.runtime).exists()
        assert server.fresh and server.port == writers[0].table.api.base_url.port
        for writer in writers:
            writer.more()
    for writer in writers:
        writer.stop()
        writer.check()
    server.stop()


@pytest.mark.slow  # a quarter of a minute of silence
def test_a_background_that_hangs_makes_the_server_unready_and_not_unhealthy(tmp_path: Path) -> None:
    with Server.start(tmp_path / "home", 0, workers=WORKERS) as server, server.client() as api:
        assert api.get("/readyz").status_code == 200
        (pid,) = pids_of(server, "background")
        os.kill(pid, signal.SIGSTOP)
        try:
            answer = eventually(lambda: (answer := api.get("/readyz")).status_code == 503 and answer, seconds=60)
            assert answer.json()["problems"] == ["publishing has given no sign of life"]
            assert api.get("/healthz").status_code == 200
            table = Table(server)
            assert table.append(1)["outcome"] == "ratified", "commits are answered meanwhile"
        finally:
            os.kill(pid, signal.SIGCONT)
        until(lambda: api.get("/readyz").status_code == 200, "it is ready again")
        assert table.published(1)
