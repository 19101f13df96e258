"""A killed stack reports its losses, and no table takes a commit before its published versions are
known (I1, I2, I3)."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.support.stack import Table, eventually
from turnstile_local import Stack
from turnstile_local.home import Layout

pytestmark = [pytest.mark.stack, pytest.mark.slow]
BEHIND = 2
AHEAD = 9
"""The version that the tables on disk have, and the one that was acknowledged and published before
the kill."""


class Hammer:
    """A client that proposes commits from before the stack is back until ``stop``: the next
    version, and a named one."""

    def __init__(self, url: str, table: Table) -> None:
        self._url = url
        self._table = table
        self._over = threading.Event()
        self.ratified: list[int] = []
        self.closed = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        version = BEHIND + 1
        while not self._over.is_set():
            for wanted in (None, version):
                try:
                    answer = self._table.propose(wanted, base=BEHIND) if wanted is None else self._table.propose(wanted)
                except httpx.TransportError:
                    time.sleep(0.01)
                    continue
                self.closed += answer.status_code == 503
                if answer.status_code == 200:
                    self.ratified.append(answer.json()["commit"]["version"])
                    version = self.ratified[-1] + 1

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def kill(stack: Stack) -> None:
    os.kill(stack.state.pid, signal.SIGKILL)
    assert stack._process is not None
    stack._process.wait()


@pytest.mark.parametrize("scheme", ["file", "s3"])
def test_i1_i2_i3_nothing_that_was_published_is_lost_or_overwritten_by_a_kill(tmp_path: Path, scheme: str) -> None:
    lake = "s3://lake/warehouse" if scheme == "s3" else None
    stack = Stack.start(tmp_path / "home", port=0, lake=lake)
    assert not stack.state.was_killed and len(stack.notices) == 1 and stack.notices[0].startswith("NOT DURABLE")
    layout = Layout.at(stack.home)
    table = Table(stack, "survivor")
    for version in range(1, BEHIND + 1):
        table.append(version)
    table.published(BEHIND)
    written = time.time()
    eventually(
        lambda: layout.tables.stat().st_mtime > written, what="a pause of two seconds is followed by a checkpoint"
    )
    kept = tmp_path / "checkpoint.json"
    shutil.copy2(layout.tables, kept)
    for version in range(BEHIND + 1, AHEAD + 1):
        table.append(version, f"mine-{version}")
    log = {version: table.published(version) for version in range(AHEAD + 1)}
    kill(stack)
    shutil.copy2(kept, layout.tables)  # what a checkpoint may have written since is lost as well

    hammer = Hammer(stack.url, table)
    try:
        with Stack.start(stack.home, port=stack.port) as again:
            assert again.fresh and again.state.was_killed and again.state.recovering == 1
            lost = again.notices[1]
            assert lost.startswith("STATE WAS LOST") and "1 tables are 'recovering'" in lost
            assert abs(again.state.lost_since - kept.stat().st_mtime * 1000) < 1
            eventually(lambda: hammer.ratified, what="the table takes commits again")
            hammer.stop()
            assert hammer.closed, "the API was closed until the table had been stopped"
            assert min(hammer.ratified) == AHEAD + 1 and len(set(hammer.ratified)) == len(hammer.ratified)
            for version in range(BEHIND + 1, AHEAD + 1):
                replay = table.propose(version, f"mine-{version}").json()
                assert (replay["outcome"], replay["commit"]["version"]) == ("replayed", version)
            assert {version: table.storage.version(version) for version in log} == log
            assert table.get("head")["state"] == "active"
            table.published(max(hammer.ratified))
    finally:
        hammer.stop()
    with Stack.start(stack.home, port=0) as third:
        assert not third.state.was_killed and len(third.notices) == 1, "an orderly stop loses nothing"
        assert Layout.at(third.home).running.exists()
    assert not layout.running.exists() and not layout.recovery_marker.exists()


def test_i1_a_start_that_is_killed_before_the_tables_were_stopped_is_made_up_for_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnstile_local import launch

    stack = Stack.start(tmp_path / "home", port=0)
    layout = Layout.at(stack.home)
    table = Table(stack)
    table.append(1)
    eventually(lambda: table.id in layout.tables.read_text())
    kill(stack)

    def died(url: str, keys: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(launch, "open_api", died)
        with pytest.raises(KeyboardInterrupt):
            Stack.start(stack.home, port=0)
    assert layout.recovery_marker.exists() and not layout.running.exists(), (
        "it stopped in order, but did not come so far"
    )
    with Stack.start(stack.home, port=0) as again:
        assert again.state.was_killed and "STATE WAS LOST" in again.notices[1]
        assert not layout.recovery_marker.exists()
        with again.client() as api:
            assert api.get("/v1/catalogs").status_code == 200
