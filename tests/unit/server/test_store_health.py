"""``/readyz``: the checks of the store, their cost, and the answer to callers without a token."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.delta_table import Table
from tests.support.fakes.world import fake_world
from turnstile.adapters import opening
from turnstile.adapters.sqlite.database import Database
from turnstile.store.core.errors import StoreCause, StoreUnavailable
from turnstile.store.core.writes import Insert, new_row
from turnstile_server.settings import ServerSettings
from turnstile_server.store import health
from turnstile_server.store.health import (
    SAYS,
    SILENT,
    StoreProbe,
    leave_store,
    look,
    note_damage,
    require_store,
    watch_file,
)
from turnstile_server.world import OpenStore, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[OpenStore]:
    settings = ServerSettings(str(tmp_path))
    require_store(settings)
    opened = open_store(settings, create=False)
    yield opened
    opened.close()


def _database(store: OpenStore) -> Database:
    assert store.database is not None
    return store.database


def _cause(call: Callable[[], object]) -> StoreCause:
    with pytest.raises(StoreUnavailable) as refusal:
        call()
    return refusal.value.cause


def test_a_start_in_the_home_of_an_emulated_deployment_says_that_its_tables_are_not_served(tmp_path: Path) -> None:
    settings = ServerSettings(str(tmp_path))
    (tmp_path / "state").mkdir()
    assert require_store(settings) == ()
    (tmp_path / "stack.json").write_text("{}")
    for _ in range(2):  # as long as no table is here
        leave_store(settings)
        (notice,) = require_store(settings)
        assert str(tmp_path / "state") in notice and "starts empty" in notice and "docs/migration.md" in notice
    opened = open_store(settings, create=False)
    table = Table(fake_world())
    opened.world.refs.write(Insert(table.row | {"key": opened.world.space.table(table.id)}, (new_row("I2"),)))
    opened.close()
    leave_store(settings)
    assert require_store(settings) == ()


def test_a_look_at_a_store_that_is_well_leaves_no_change_that_others_hear_of(store: OpenStore) -> None:
    changes = _database(store).changes("publish")
    for _ in range(3):
        look(store)
    assert _database(store).changes("publish") == changes


def test_a_look_at_a_store_in_tables_writes_and_leaves_nothing() -> None:
    world = fake_world()
    look(OpenStore(world, None))
    assert (world.refs.rows, world.objs.rows) == ({}, {})


def test_a_look_finds_a_disk_that_has_next_to_nothing_left(store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1, f_frsize=4096))
    assert _cause(lambda: look(store)) is StoreCause.FULL


def test_a_look_finds_that_no_write_is_taken_though_reads_are(store: OpenStore) -> None:
    def refused() -> None:
        raise StoreUnavailable(StoreCause.FULL, "the disk is full")

    _database(store).touch = refused  # type: ignore[method-assign]
    assert _cause(lambda: look(store)) is StoreCause.FULL


def test_a_look_finds_what_another_process_noted_and_a_new_start_looks_again(store: OpenStore) -> None:
    database = _database(store)
    note_damage(database.path, "page 7 is damaged")
    assert _cause(lambda: look(store)) is StoreCause.DAMAGED
    stop = threading.Event()
    stop.set()
    watch_file(database, stop)
    again = Database(database.path, create=False)
    look(OpenStore(store.world, again))
    again.close()


def test_the_file_is_looked_at_while_the_server_runs_and_damage_is_noted(
    store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "CHECK_FIRST_S", 0.0)
    database = _database(store)
    with database.path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(bytes(size - 4096))
    watch_file(database, threading.Event())
    assert database.damage is not None
    assert health._noted_damage(database.path) == database.damage


# -- the probe ---------------------------------------------------------------------------------------------------------


def test_however_often_it_is_asked_one_look_stands_for_a_while() -> None:
    looks: list[None] = []
    probe = StoreProbe(lambda: looks.append(None), every_s=3600)
    assert [probe.problem() for _ in range(20)] == [None] * 20
    assert len(looks) == 1


def test_what_is_wrong_is_reported_by_its_cause_and_nothing_of_the_inside() -> None:
    for cause in StoreCause:

        def fails(cause: StoreCause = cause) -> None:
            raise StoreUnavailable(cause, "/secret/path is broken")

        assert StoreProbe(fails).problem() == SAYS[cause]

    def breaks() -> None:
        raise RuntimeError("secret")

    assert StoreProbe(breaks).problem() == SAYS[StoreCause.FAILED]


def test_a_store_that_does_not_answer_holds_up_one_thread_and_no_request() -> None:
    begun = threading.Event()
    may_end = threading.Event()
    looks: list[None] = []

    def hangs() -> None:
        looks.append(None)
        begun.set()
        may_end.wait()

    probe = StoreProbe(hangs, every_s=0, wait_s=0.01)
    assert [probe.problem() for _ in range(5)] == [SILENT] * 5
    assert begun.is_set() and len(looks) == 1
    may_end.set()


def test_it_is_ready_again_when_the_store_is() -> None:
    broken = [True]

    def maybe() -> None:
        if broken[0]:
            raise StoreUnavailable(StoreCause.GONE, "gone")

    probe = StoreProbe(maybe, every_s=0)
    assert probe.problem() == SAYS[StoreCause.GONE]
    broken[0] = False
    assert probe.problem() is None


def test_a_process_that_forks_leaves_no_client_of_aws_to_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that share a connection read each other's answers."""
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    kept = [one for one in vars(opening).values() if hasattr(one, "cache_clear")]
    opening.forget_clients()
    opening.s3("http://127.0.0.1:1")
    opening.dynamodb("http://127.0.0.1:1")
    opening.sts()
    assert sum(one.cache_info().currsize for one in kept) >= 3
    health.forget_connections()
    assert [one.__name__ for one in kept if one.cache_info().currsize] == []
