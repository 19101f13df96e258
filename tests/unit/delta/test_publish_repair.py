"""Repair says exactly what is where, never overwrites, and lets a mended table take commits again (I2, I4, I11)."""

from __future__ import annotations

import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.world import fake_world
from turnstile.delta.publish import Publisher
from turnstile.delta.repair import Repairer
from turnstile.store.core.errors import NotFound, StorageFault
from turnstile.store.core.locations import published_path, staged_path


def repairer(table: Table) -> Repairer:
    return Repairer(table.world, Publisher(table.world))


def test_i4_a_foreign_version_is_told_apart_and_published_over_once_it_is_moved_away() -> None:
    table = Table(fake_world())
    table.mixed(3)
    foreign = table.ratified[1].replace(b"s-1", b"x-1")
    table.put(published_path(2), foreign)
    done, found = repairer(table).repair(TABLE)
    assert done.problem is not None
    assert (found.state, found.finding, found.version, found.floor) == ("stuck", "differs", 2, 1)
    assert found.facts["published_size"] == len(foreign)
    assert found.facts["published_txn_id"].startswith("x-1")
    assert table.published()[2] == foreign
    table.storage.delete(published_path(2))
    done, found = repairer(table).repair(TABLE)
    assert (done.state, found.finding, found.state) == ("active", "healthy", "active")
    table.check_all_published()


def test_i11_a_lost_staged_file_is_named_and_its_return_heals_the_table() -> None:
    table = Table(fake_world())
    name = table.stage()
    table.storage.delete(staged_path(name))
    table.world.clock.now += 60_000
    _, found = repairer(table).repair(TABLE)
    assert (found.state, found.finding) == ("stuck", "missing")
    assert found.facts["staged_path"] == staged_path(name)
    assert found.facts["staged_size"] is None
    assert found.facts["ratified_size"] == len(table.ratified[1])
    table.put(staged_path(name), table.ratified[1] + b" ")
    assert repairer(table).repair(TABLE)[1].finding == "changed"
    table.put(staged_path(name), table.ratified[1])
    assert repairer(table).repair(TABLE)[1].finding == "healthy"
    table.check_all_published()


def test_a_diagnosis_changes_nothing() -> None:
    table = Table(fake_world())
    table.mixed(2)
    before = dict(table.world.refs.rows), dict(table.world.storages.files)
    found = repairer(table).diagnose(TABLE)
    assert (found.finding, found.version) == ("behind", 1)
    assert before == (table.world.refs.rows, table.world.storages.files)
    table.row["state"] = "dropped"
    assert repairer(table).diagnose(TABLE).finding == "not in use"
    with pytest.raises(NotFound):
        repairer(table).diagnose("00000000-0000-4000-8000-000000000000")


def test_storage_that_cannot_be_read_is_not_taken_for_a_loss() -> None:
    table = Table(fake_world())
    table.stage()
    storage = type(table.storage)
    original = storage.read, storage.stat

    def fails(self, path, limit=None):  # type: ignore[no-untyped-def]
        raise StorageFault("no answer")

    storage.read = storage.stat = fails  # type: ignore[method-assign]
    try:
        done, found = repairer(table).repair(TABLE)
    finally:
        storage.read, storage.stat = original  # type: ignore[method-assign]
    assert found.finding == "unreadable"
    assert done.problem is not None
    assert not done.problem.stuck
    assert table.head.state == "active"
