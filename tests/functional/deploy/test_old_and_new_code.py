"""Two releases work on one store while it is upgraded, and after a rollback (I22, ADR 48)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.support.store.releases import NewerRelease, act, create_table, open_world
from turnstile.adapters.sqlite.database import Database
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import KNOWN
from turnstile.store.ports import World

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"


class Release(Protocol):
    """Carries out commands with the code of one release."""

    def __call__(self, do: str, table: str = "", **more: Any) -> dict[str, Any]: ...


class Both:
    """Both releases, and the store that they share."""

    def __init__(self, world: World, newer: Release) -> None:
        self.world = world
        self.newer = newer
        self.older: Release = partial(act, world)

    def row(self, table: str) -> dict[str, Any]:
        row = self.world.refs.read(self.world.space.table(table))
        assert row is not None
        return row

    def is_published(self, table: str, version: int) -> bool:
        return self.world.storages.open(self.row(table)["location"]).stat(published_path(version)) is not None


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    path = tmp_path / "turnstile.db"
    database = Database(path)
    world = open_world(database)
    for table in (ONE, TWO):
        create_table(world, table, tmp_path / "lake")
    with NewerRelease(path, tmp_path / "newer") as newer:
        assert newer("code")["known"] == KNOWN + 1
        assert newer("code")["file"].startswith(str(tmp_path))
        yield Both(world, newer)
    database.close()


def test_i22_an_older_publisher_keeps_what_newer_code_added_to_a_commit(both: Both) -> None:
    for version in range(1, 7):
        release = both.older if version % 3 == 0 else both.newer
        assert release("commit", ONE, version=version, txn=f"t{version}")["decision"] == "Ratified"
    published = both.older("publish", ONE)
    assert (published["floor"], published["latest"], published["problem"]) == (6, 6, None)
    seen = both.newer("read", ONE)
    assert seen["origins"] == {"t4": "newer", "t5": "newer", "t6": ""}
    assert seen["bytes"][0] == seen["bytes"][1]
    assert all(both.is_published(ONE, version) for version in range(7))


def test_i22_older_code_refuses_a_row_of_a_newer_format_and_goes_on_with_the_others(both: Both) -> None:
    for table in (ONE, TWO):
        assert both.newer("commit", table, version=1, txn="first")["decision"] == "Ratified"
    both.newer("raise format", ONE)
    before = both.row(ONE)
    assert both.older("commit", ONE, version=2, txn="second")["refused"] == "NewerFormat"
    assert both.older("publish", ONE)["refused"] == "NewerFormat"
    assert both.older("read", ONE)["refused"] == "NewerFormat"
    swept = both.older("sweep")
    assert [table["table_id"] for table in swept["unreadable"]] == [ONE]
    assert both.row(ONE) == before
    assert not both.is_published(ONE, 1)
    assert both.is_published(TWO, 1)
    assert both.older("commit", TWO, version=2, txn="second")["decision"] == "Ratified"


def test_i22_the_newer_release_goes_on_with_what_the_older_one_refused(both: Both) -> None:
    assert both.older("commit", ONE, version=1, txn="first")["decision"] == "Ratified"
    both.newer("raise format", ONE)
    assert both.older("commit", ONE, version=2, txn="second")["refused"] == "NewerFormat"
    assert both.newer("commit", ONE, version=2, txn="second") == {"decision": "Ratified", "version": 2}
    published = both.newer("publish", ONE)
    assert (published["floor"], published["problem"]) == (2, None)
    assert both.row(ONE)["format"] == KNOWN + 1


def test_i22_after_a_rollback_the_older_release_goes_on_where_no_row_needs_the_newer_one(both: Both) -> None:
    assert both.newer("commit", ONE, version=1, txn="before")["decision"] == "Ratified"
    assert both.newer("publish", ONE)["floor"] == 1
    for version in range(2, 8):
        assert both.older("commit", ONE, version=version, txn=f"t{version}")["decision"] == "Ratified"
    assert both.older("commit", ONE, version=7, txn="t7") == {"decision": "Ratified", "version": 7}
    assert both.older("publish", ONE)["floor"] == 7
    seen = both.older("read", ONE)
    assert seen["bytes"][0] == seen["bytes"][1]
