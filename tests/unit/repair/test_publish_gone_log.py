"""A table whose folder was removed is stopped by the first publication afterwards, so that the next
commit is refused (I24, I11)."""

from __future__ import annotations

import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.delta.core.writes.state import stuck_at
from turnstile.delta.publish import Publisher
from turnstile.delta.repair import Repairer
from turnstile.store.core.names import published_path


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def table(world: FakeWorld) -> Table:
    made = Table(world)
    made.mixed(3)
    Publisher(world).publish(TABLE)
    return made


def remove(world: FakeWorld, table: Table) -> dict[str, tuple[bytes, int]]:
    """The files of the table, which are gone now."""
    gone = {path: file for path, file in world.storages.files.items() if path.startswith(table.location)}
    for path in gone:
        del world.storages.files[path]
    return gone


def test_i24_a_table_whose_folder_is_gone_is_stopped_instead_of_going_on_in_a_log_without_a_past(
    world: FakeWorld, table: Table
) -> None:
    gone = remove(world, table)
    publisher = Publisher(world, looks=True)
    table.mixed(2)
    done = publisher.publish(TABLE)
    assert done.problem is not None and done.problem.stuck and "was published, and is not there" in done.problem.message
    assert (table.head.state, stuck_at(table.head), table.head.floor) == ("stuck", 4, 3)
    assert "folder" in (done.problem.remedy or "")
    assert not table.storage.stat(published_path(4)), "nothing is written into a folder that came to be anew"
    assert publisher.publish(TABLE).problem is not None and table.head.state == "stuck"
    world.storages.files |= gone
    assert publisher.publish(TABLE).problem is None
    assert table.head.state == "active"
    table.check_all_published()


def test_i24_the_newest_published_version_alone_is_looked_for_once_a_batch(
    world: FakeWorld, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.storage.delete(published_path(0))  # a clean-up may have removed it
    looked = list[str]()
    storage = type(table.storage)
    stat = storage.stat
    monkeypatch.setattr(storage, "stat", lambda self, path: looked.append(path) or stat(self, path))
    table.mixed(3)
    assert Publisher(world, looks=True).publish(TABLE).problem is None
    assert looked.count(published_path(3)) == 1 and table.head.floor == table.head.latest
    looked.clear()
    Publisher(world, looks=True).publish(TABLE)
    assert published_path(table.head.floor) not in looked, "there was nothing to publish"


def test_i24_a_version_that_was_cleaned_up_after_the_head_was_read_is_not_taken_for_lost(
    world: FakeWorld, table: Table
) -> None:
    table.mixed(2)

    def another_publishes_and_cleans_up(point: str) -> None:
        if point == "publish.read":
            Publisher(world).publish(TABLE)
            table.storage.delete(published_path(3))

    done = Publisher(world, looks=True, faults=another_publishes_and_cleans_up).publish(TABLE)
    assert done.problem is None and table.head.state == "active"


def test_i24_a_publisher_that_does_not_look_sends_no_request_more(world: FakeWorld, table: Table) -> None:
    remove(world, table)
    table.mixed(1)
    assert Publisher(world).publish(TABLE).problem is None


def test_i24_a_repair_of_a_table_whose_folder_is_gone_says_so_and_publishes_nothing(
    world: FakeWorld, table: Table
) -> None:
    gone = remove(world, table)
    publisher = Publisher(world, looks=True)
    table.mixed(2)
    repairer = Repairer(world, publisher)
    for _ in range(2):
        diagnosis = repairer.diagnose(TABLE)
        assert (diagnosis.finding, diagnosis.version) == ("damaged", 3)
        assert "the table's folder is gone" in diagnosis.message and "folder back" in diagnosis.remedy
        published, diagnosis = repairer.repair(TABLE)
        assert (published.count, diagnosis.finding, table.head.state) == (0, "damaged", "stuck")
    world.storages.files |= gone
    table.storage.delete(published_path(3))
    assert "version 3 is missing" in repairer.diagnose(TABLE).message
    world.storages.files |= gone
    assert repairer.repair(TABLE)[1].finding == "healthy" and table.head.state == "active"


def test_i24_whether_the_log_can_be_looked_at_is_part_of_a_diagnosis(world: FakeWorld, table: Table) -> None:
    table.mixed(1)
    assert Repairer(world, Publisher(world)).diagnose(TABLE).finding == "behind"
