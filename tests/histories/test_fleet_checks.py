"""The checks of a campaign of failures find planted losses, duplicates and changes (I3, I4,
I21)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.histories.changes import Answers, check_log
from tests.histories.lags import LagWatch
from tests.support.delta_table import Table
from tests.support.fakes.world import fake_world
from turnstile.store.core.names import published_path


class Log:
    """A lake of one table, whose HEAD and files the test sets."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.table = Table(fake_world())
        (folder / "_delta_log").mkdir()
        self.id = self.table.head.table_id
        self.row: dict[str, Any] = self.table.world.refs.rows[self.table.world.space.table(self.id)]
        self.watch = LagWatch(self.table.world, {self.id: folder})

    def publish(self, version: int) -> None:
        (self.root / published_path(version)).write_text(str(version))

    def ratify(self, latest: int) -> None:
        self.row["latest"] = latest

    def look(self) -> None:
        self.watch._look()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_a_lag_is_never_too_short(log: Log) -> None:
    log.look()
    before_ms = log.watch._seen[log.id].looked_ms
    log.ratify(2)
    log.publish(1)
    log.look()
    log.publish(2)
    with log.watch:
        pass
    first, second = log.watch.lags()
    assert (first.version, second.version) == (1, 2) and not log.watch.problems
    assert first.ratified_ms == second.ratified_ms == before_ms
    assert 0 <= first.ms <= second.ms


def test_i4_a_version_that_is_published_before_its_predecessor_is_found(log: Log) -> None:
    log.ratify(2)
    log.publish(2)
    log.look()
    assert log.watch.problems == [f"{log.id}: version 2 was published before 1"]


def test_i4_a_version_that_is_published_twice_is_found(log: Log) -> None:
    log.ratify(1)
    log.publish(1)
    with log.watch:
        log.look()
        (log.root / "again").write_text("1")
        (log.root / "again").replace(log.root / published_path(1))
    assert log.watch.problems == [f"{log.id}: version 1 was published twice, or is gone"]


class Server:
    """Answers with a log, by pages of two."""

    def __init__(self, *messages: str, first: int = 1) -> None:
        self._commits = [{"seq": first + n, "message": message} for n, message in enumerate(messages)][::-1]

    def get(self, url: str) -> httpx.Response:
        start = int(url.partition("&start=")[2] or 0)
        page: dict[str, Any] = {"commits": self._commits[start : start + 2]}
        if start + 2 < len(self._commits):
            page["next"] = str(start + 2)
        return httpx.Response(200, json=page, request=httpx.Request("GET", f"http://server{url}"))


def created(*names: str) -> list[str]:
    return [f"create namespace '{name}'" for name in names]


ANSWERS = Answers(acknowledged=["a", "b"], unknown=["c", "d"], refused=["e"])


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("abd", None),
        ("bacd", None),
        ("ad", "b was acknowledged and is in the log 0 times"),
        ("abab", "a was acknowledged and is in the log 2 times"),
        ("abcc", "c is in the log 2 times"),
        ("abe", "e was refused, and is in the log"),
    ],
)
def test_i3_i21_a_log_that_disagrees_with_the_answers_is_found(names: str, problem: str | None) -> None:
    server: Any = Server(*created(*names))
    problems = check_log(server, ANSWERS)
    assert problems[:1] == ([] if problem is None else [problem])


def test_i21_a_gap_of_the_log_and_an_answer_that_no_client_should_get_are_found() -> None:
    server: Any = Server(*created("a", "b"))
    server._commits[0]["seq"] = 7
    problems = check_log(server, Answers(acknowledged=["a"], others=["500 oops"]))
    assert problems == ["an answer: 500 oops", "the numbers of the log have a gap"]
