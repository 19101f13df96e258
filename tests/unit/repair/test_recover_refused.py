"""What a recovery never adopts, and tables that have nothing to recover from (I1, I2, I3, I4, I7,
I10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delta_table import TABLE, Table, adopted, diagnosis, publish, repair, restored, with_metadata
from tests.support.fakes import delta
from tests.support.fakes.heads import recount
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.delta.core.decide import Ratified
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.recover import Recoverer
from turnstile.delta.repair import Diagnosis
from turnstile.store.core.errors import NotFound, StorageFault, Throttled
from turnstile.store.core.evaluate import clone
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import published_path


@pytest.fixture
def table() -> Table:
    return with_metadata()


def stays_stuck(table: Table, version: int, finding: str) -> Diagnosis:
    """The table takes no commits, says so, and its log is as it was; asking again changes
    nothing."""
    log = table.published()
    for _ in range(2):
        done, found = repair(table)
        assert done.problem is not None and done.problem.stuck and done.problem.version == version
        assert (found.state, found.finding, found.version) == ("stuck", finding, version)
        assert table.head.latest == version - 1 and table.published() == log
        recount(table.head)
    return found


def test_i2_i4_a_published_version_that_differs_from_a_ratified_one_is_not_adopted(table: Table) -> None:
    """A table restored from a backup behind its own log, on which writers went on before it was
    repaired."""
    restored(table)
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    mine = delta.append("after-the-restore", stamp)
    assert isinstance(table.ratifier.commit(CommitRequest(TABLE, 4, content=mine)), Ratified)
    log = table.published()
    for _ in range(2):
        done, found = repair(table)
        assert done.problem is not None and done.problem.stuck and done.adopted == 0
        assert (found.state, found.finding, found.version) == ("stuck", "differs", 4)
        assert found.facts["published_txn_id"] != "after-the-restore" == found.facts["txn_id"]
    assert table.published() == log and table.head.latest == 4


def test_i7_two_histories_are_not_mixed(table: Table) -> None:
    """The foreign version was moved away, the ratified one published: the old history cannot go on
    top of it."""
    restored(table)
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    assert isinstance(
        table.ratifier.commit(CommitRequest(TABLE, 4, content=delta.append("after-the-restore", stamp))), Ratified
    )
    repair(table)
    table.storage.delete(published_path(4))
    publish(table)
    assert table.head.state == "active"
    found = stays_stuck(table, 5, "foreign")
    assert "timestamp" in found.message
    for version in range(5, 11):
        table.storage.delete(published_path(version))
    done, found = repair(table)
    assert (done.problem, found.finding, found.state, found.latest) == (None, "healthy", "active", 4)


def test_i1_a_gap_in_what_is_published_is_not_jumped_over(table: Table) -> None:
    lost = restored(table)
    missing = table.ratified[6]
    table.storage.delete(published_path(6))
    found = stays_stuck(table, 6, "gap")
    assert found.facts["published_to"] == 10
    table.put(published_path(6), missing)
    assert diagnosis(table).finding == "ahead"
    repair(table)
    adopted(table, lost)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty"),
        (b'{"add":{}}\n', "commitInfo"),
        (b"garbage\n", "JSON"),
        (delta.append("ahead", 9_000_000_000_000), "clock"),
        (delta.append("old", 5), "timestamp"),
    ],
)
def test_i4_i7_a_published_file_that_is_no_commit_of_the_table_stops_it(
    table: Table, content: bytes, says: str
) -> None:
    table.mixed(3)
    publish(table)
    table.put(published_path(4), content)
    assert says in stays_stuck(table, 4, "foreign").message
    table.storage.delete(published_path(4))
    assert diagnosis(table).finding == "behind"
    done, found = repair(table)
    assert (done.problem, found.finding, found.state) == (None, "healthy", "active")


def test_i10_a_table_that_left_the_catalog_after_the_backup_is_not_taken_back(table: Table) -> None:
    table.mixed(2)
    publish(table)
    released = delta.version_zero("left", table.world.clock.now_ms()).replace(b'"catalogManaged"', b'"other"')
    table.put(published_path(3), released)
    assert "catalogManaged" in stays_stuck(table, 3, "foreign").message


@pytest.mark.parametrize("evicted", [False, True])
def test_i3_a_transaction_that_is_a_version_already_is_not_adopted_as_another(table: Table, evicted: bool) -> None:
    table.ticket("mine")
    table.mixed(8 if evicted else 1)
    publish(table)
    head = table.head
    assert (head.tail_from > 1) is evicted
    table.put(published_path(head.latest + 1), delta.append("mine", max(table.world.clock.now_ms(), head.last_ict + 1)))
    assert "version 1 already" in stays_stuck(table, head.latest + 1, "foreign").message


def test_i2_row_ids_that_were_assigned_before_are_not_adopted(table: Table) -> None:
    table.row["row_hwm"] = table.row["tail_hwm"] = 9
    domain = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":4}', "removed": False}
    table.put(
        published_path(1), delta.append("low", table.world.clock.now_ms()) + delta.lines({"domainMetadata": domain})
    )
    assert "row ids" in stays_stuck(table, 1, "foreign").message


# -- when nothing is to be done -------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["leaving", "dropped"])
def test_i10_a_table_that_is_not_in_use_does_not_recover(table: Table, state: str) -> None:
    restored(table)
    publish(table)
    table.row["state"] = state
    before = clone(table.row)
    assert repair(table)[0].adopted == 0
    assert table.row == before


def test_a_table_that_an_operator_stopped_stays_stopped(table: Table) -> None:
    restored(table)
    publish(table)
    table.row.update({"state": "stuck", "reason": "an operator stopped it"})
    assert repair(table)[1].finding == "healthy"
    assert (table.head.state, table.head.reason) == ("stuck", "an operator stopped it")


def test_i6_a_table_that_goes_on_meanwhile_is_not_taken_for_a_restored_one(table: Table) -> None:
    """Between a look at the HEAD and one at the log, the next version was ratified and published as
    ever."""
    table.mixed(2)
    publish(table)
    read = table.world.refs.read
    left = [1, 2]

    def reads(key: str) -> Any:
        row = read(key)
        if left:
            left.pop()
            table.inline()
            publish(table)
        return row

    table.world.refs.read = reads  # type: ignore[method-assign]
    assert diagnosis(table).finding == "healthy"
    left[:] = [1]
    assert not Recoverer(table.world).begin(TABLE)
    assert table.head.state == "active"


def test_i6_storage_that_fails_during_a_recovery_leaves_it_for_the_next_one(table: Table) -> None:
    lost = restored(table)
    publish(table)
    assert Recoverer(table.world).begin(TABLE)
    storage = type(table.storage)
    read = storage.read

    def fails(self: Any, path: str, *more: Any, **named: Any) -> Any:
        if path == published_path(6):
            raise StorageFault("no answer")
        return read(self, path, *more, **named)

    storage.read = fails  # type: ignore[method-assign]
    try:
        done, found = repair(table)
        assert done.problem is not None and not done.problem.stuck
        assert (found.finding, found.state, table.head.latest) == ("unreadable", "recovering", 5)
    finally:
        storage.read = read  # type: ignore[method-assign]
    repair(table)
    adopted(table, lost)


def test_a_table_that_does_not_exist_cannot_recover() -> None:
    world: FakeWorld = fake_world()
    with pytest.raises(NotFound):
        Recoverer(world).begin(TABLE)


def test_i11_a_row_without_room_is_left_to_the_publisher(table: Table) -> None:
    restored(table)
    publish(table)
    assert Recoverer(table.world).begin(TABLE)
    table.row["bytes"] = 30_000
    with pytest.raises(Throttled):
        Recoverer(table.world).advance(table.head)
    assert table.head.state == "recovering"


@pytest.mark.parametrize(("beyond", "is_adopted"), [(0, True), (1, False)])
def test_i7_a_published_version_may_be_ahead_of_the_clock_as_far_as_a_proposal(
    table: Table, beyond: int, is_adopted: bool
) -> None:
    table.mixed(3)
    publish(table)
    table.world.clock.step = 0
    stamp = table.world.clock.now_ms() + Limits().clock_skew_ms + beyond
    table.put(published_path(4), delta.append("ahead", stamp))
    if is_adopted:
        repair(table)
        assert table.head.latest == 4
    else:
        assert "clock" in stays_stuck(table, 4, "foreign").message
