"""A table that was restored from a backup behind its own log adopts what is published, whatever dies (I1 to I7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes import delta
from tests.fakes.heads import recount
from tests.fakes.refs import clone
from tests.fakes.world import FakeWorld, fake_world
from tests.unit.publish_kit import TABLE, Killed, Table, kill_at
from turnstile.core.content import read_content
from turnstile.core.decision import Ratified, Refused
from turnstile.core.errors import NotFound, StorageFault, Throttled
from turnstile.core.head import ROWS_UNREAD
from turnstile.core.metadata import first_snapshot
from turnstile.core.plan import Row
from turnstile.services.faults import POINTS, no_faults
from turnstile.services.limits import Limits
from turnstile.services.metadata import Snapshots
from turnstile.services.outcome import Outcomes
from turnstile.services.paths import published_path, staged_path
from turnstile.services.proposing import CommitRequest
from turnstile.services.publish import Published, Publisher
from turnstile.services.recover import AT_ONCE, Recoverer
from turnstile.services.repair import Diagnosis, Repairer
from turnstile.services.sweep import Sweeper

RECOVER_POINTS = [point for point in POINTS if point.startswith("recover.")]


@pytest.fixture
def table() -> Table:
    """Version 0 with its metadata snapshot."""
    made = Table(fake_world())
    snapshot = first_snapshot(read_content(made.ratified[0], first_version=True))
    made.row["metadata"] = Snapshots(made.world.objs, made.world.space).put("main", TABLE, snapshot, 1)
    return made


def publish(table: Table) -> Published:
    return Publisher(table.world).publish(TABLE)


def repair(table: Table, faults: Callable[[str], None] = no_faults, **more: Any) -> tuple[Published, Diagnosis]:
    world = table.world
    limits = more.pop("limits", None)
    publisher = Publisher(world, limits, faults=faults, **more)
    return Repairer(world, publisher, Recoverer(world, limits, faults=faults)).repair(TABLE)


def diagnosis(table: Table) -> Diagnosis:
    return Repairer(table.world, Publisher(table.world)).diagnose(TABLE)


def alter(table: Table, **configuration: str) -> int:
    """A commit that changes the table's properties."""
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    version = table.head.latest + 1
    content = delta.lines(delta.info(f"alter-{version}", stamp, "SET TBLPROPERTIES"), delta.metadata(**configuration))
    answer = table.ratifier.commit(CommitRequest(TABLE, version, content=content))
    return table._ratified(answer, content, "")


def restored(table: Table, before: int = 3, after: int = 6) -> Row:
    """A backup after ``before`` commits, ``after`` more that are published, and the backup is restored. Returns the HEAD
    that was lost."""
    table.mixed(before)
    backup = clone(table.row)
    table.mixed(after)
    alter(table, delta_note="after the backup")
    publish(table)
    table.check_all_published()
    lost = clone(table.row)
    table.world.refs.rows[table.key] = backup
    return lost


def adopted(table: Table, lost: Row) -> None:
    """The table is as good as it was before the restore."""
    table.check_all_published()
    recount(table.head)
    for member in ("latest", "floor", "last_ict", "metadata", "epoch", "state"):
        assert table.row[member] == lost[member], member
    assert table.row.get("row_hwm") == lost.get("row_hwm")
    assert "reason" not in table.row


def test_i1_i2_i4_what_is_published_after_the_backup_is_adopted_in_order(table: Table) -> None:
    lost = restored(table)
    log = table.published()
    assert diagnosis(table).finding == "behind"  # the restored HEAD does not know that its tail is published
    done, found = repair(table)
    assert (done.adopted, done.count, done.problem) == (7, 3, None)
    assert (found.finding, found.state) == ("healthy", "active")
    adopted(table, lost)
    assert table.published() == log


def test_the_diagnosis_says_what_is_not_in_the_head_and_changes_nothing(table: Table) -> None:
    restored(table)
    publish(table)
    before = clone(table.row), dict(table.world.objs.rows), dict(table.world.storages.files)
    found = diagnosis(table)
    assert (found.finding, found.version, found.facts["published_to"]) == ("ahead", 4, 10)
    assert found.facts["published_path"] == published_path(4)
    assert found.facts["published_size"] == len(table.ratified[4])
    assert before == (table.row, table.world.objs.rows, table.world.storages.files)


@pytest.mark.parametrize("step", [2, 32])
@pytest.mark.parametrize("visit", [1, 2, 4, 7])
@pytest.mark.parametrize("point", [point for point in POINTS if point.startswith(("publish.", "recover."))])
def test_i4_i6_i11_a_recovery_killed_at_any_point_is_finished_by_the_next_one(
    table: Table, point: str, visit: int, step: int
) -> None:
    lost = restored(table)
    log, latest = table.published(), table.head.latest
    try:
        repair(table, kill_at(point, visit), step=step)
    except Killed:
        recount(table.head)
        assert table.head.latest >= latest and table.published() == log
        if table.head.state == "recovering":  # nobody needs to ask again
            world = table.world
            Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + 600_000, each_ms=600_000, workers=1)
        else:
            repair(table)
    else:
        assert point.endswith("stuck") or visit > 1 or point in ("publish.copied", "publish.unstuck")
    adopted(table, lost)
    requests = len(table.world.refs.requests)
    assert repair(table)[0].adopted == 0
    assert table.world.refs.requests[requests:] == ["read"] * 3  # a healthy table is looked at, and nothing is written


def test_i10_a_recovering_table_takes_no_commit(table: Table) -> None:
    restored(table)
    with pytest.raises(Killed):
        repair(table, kill_at("recover.adopted", 2))
    head = table.head
    assert (head.state, head.latest, head.floor) == ("recovering", 5, 5)
    stamp = max(table.world.clock.now_ms(), head.last_ict + 1)
    for version in (6, None):
        answer = table.ratifier.commit(CommitRequest(TABLE, version, base=5, content=delta.append("new", stamp)))
        assert isinstance(answer, Refused) and answer.kind == "TableNotActive"


def test_i3_what_was_acknowledged_before_the_restore_is_recognised_after_it(table: Table) -> None:
    table.mixed(2)
    backup = clone(table.row)
    asked: dict[int, CommitRequest] = {}
    for version in range(3, 11):
        stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
        content = delta.append(f"mine-{version}", stamp)
        name = table.staged_name(version, version)
        match version % 3:
            case 0:
                table.put(staged_path(name), content)
                asked[version] = CommitRequest(TABLE, version, staged=name, size=len(content))
            case 1:
                asked[version] = CommitRequest(TABLE, None, base=2, content=content)
            case _:
                asked[version] = CommitRequest(TABLE, version, content=content, inline_name=name)
        assert isinstance(table.ratifier.commit(asked[version]), Ratified)
    publish(table)
    table.world.refs.rows[table.key] = backup
    index = {key: obj for key, obj in table.world.objs.rows.items() if obj.type == "identity"}
    for key in index:  # restored to the same moment, which is the worst case
        del table.world.objs.rows[key]
    repair(table)
    assert table.head.latest == 10 and table.head.tail_from > 3
    staged = asked[3].staged
    assert Outcomes(table.world).of(TABLE, name=staged).version == 3
    table.storage.delete(staged_path(staged))
    for version, request in asked.items():
        again = table.ratifier.commit(request)
        assert isinstance(again, Ratified) and again.replayed and again.version == version


def test_i6_metadata_and_epoch_are_those_of_the_newest_version(table: Table) -> None:
    restored(table)
    repair(table)
    snapshot = Snapshots(table.world.objs, table.world.space).get("main", table.head.metadata)
    assert snapshot.version == table.head.epoch == 10
    assert snapshot.metadata["configuration"]["delta_note"] == "after the backup"
    late = table.ratifier.commit(CommitRequest(TABLE, None, base=9, content=delta.append("late", 5)))
    assert getattr(late, "because", "") == "metadata"


def test_i2_row_ids_go_on_after_the_published_ones() -> None:
    table = Table(fake_world())
    table.row["row_hwm"] = table.row["tail_hwm"] = 9
    backup = clone(table.row)
    marks = delta.lines({"domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}',
                                            "removed": False}})  # fmt: skip
    raw = delta.append("tracked", table.world.clock.now_ms(), rows=5) + marks
    assert isinstance(table.ratifier.commit(CommitRequest(TABLE, None, base=0, content=raw)), Ratified)
    assert table.head.row_hwm == 14
    publish(table)
    table.world.refs.rows[table.key] = backup
    repair(table)
    assert (table.head.latest, table.head.row_hwm) == (1, 14)


def test_i11_streaming_applications_come_back_with_the_versions_that_named_them(table: Table) -> None:
    backup = clone(table.row)
    raw = delta.append("batch", table.world.clock.now_ms(), app="query")
    assert isinstance(table.ratifier.commit(CommitRequest(TABLE, 1, content=raw)), Ratified)
    publish(table)
    table.world.refs.rows[table.key] = backup
    repair(table)
    again = delta.append("batch-again", table.world.clock.now_ms(), app="query")
    answer = table.ratifier.commit(CommitRequest(TABLE, None, base=0, content=again))
    assert getattr(answer, "because", "") == "application"


def test_i2_a_version_too_large_to_be_read_whole_is_adopted_as_unread(table: Table) -> None:
    table.row["row_hwm"] = table.row["tail_hwm"] = 9
    backup = clone(table.row)
    raw = delta.lines(delta.info("large", table.world.clock.now_ms()), *(delta.add(f"{n}") for n in range(50)))
    table.put(published_path(1), raw)
    table.world.refs.rows[table.key] = backup
    repair(table, limits=Limits(staged_bytes=1_000))
    head = table.head
    assert (head.latest, head.epoch, head.row_hwm, head.state) == (1, 1, ROWS_UNREAD, "active")


def test_i11_more_versions_than_fit_the_row_are_adopted_without_overflowing_it(table: Table) -> None:
    backup = clone(table.row)
    for _ in range(AT_ONCE * 3 + 5):
        table.ticket(f"t-{table.head.latest}")
    publish(table)
    table.world.refs.rows[table.key] = backup
    done, _ = repair(table)
    assert done.adopted == AT_ONCE * 3 + 5
    table.check_all_published()
    recount(table.head)
    assert len(table.head.tail) <= 3


def test_a_recovery_that_runs_out_of_time_is_carried_on_later(table: Table) -> None:
    lost = restored(table)
    publisher = Publisher(table.world)
    publisher.publish(TABLE)
    assert Recoverer(table.world).begin(TABLE)
    now = table.world.clock.now
    done = publisher.publish(TABLE, until_ms=now + 6)
    assert 0 < done.adopted < 7 and done.problem is None and done.state == "recovering"
    publisher.publish(TABLE)
    adopted(table, lost)


@pytest.mark.parametrize("point", ["recover.begun", "recover.described", "recover.adopted", "recover.ended"])
def test_i1_two_recoveries_at_once_adopt_every_version_once(table: Table, point: str) -> None:
    lost = restored(table)
    other = Repairer(table.world, Publisher(table.world))
    begun = []

    def interrupted(reached: str) -> None:
        if reached == point and not begun:
            begun.append(True)
            other.repair(TABLE)

    done, _ = repair(table, interrupted)
    assert begun and done.problem is None
    adopted(table, lost)


# -- what is never adopted ------------------------------------------------------------------------------------------


def stays_stuck(table: Table, version: int, finding: str) -> Diagnosis:
    """The table takes no commits, says so, and its log is as it was; asking again changes nothing."""
    log = table.published()
    for _ in range(2):
        done, found = repair(table)
        assert done.problem is not None and done.problem.stuck and done.problem.version == version
        assert (found.state, found.finding, found.version) == ("stuck", finding, version)
        assert table.head.latest == version - 1 and table.published() == log
        recount(table.head)
    return found


def test_i2_i4_a_published_version_that_differs_from_a_ratified_one_is_not_adopted(table: Table) -> None:
    """A table restored from a backup behind its own log, on which writers went on before it was repaired."""
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
    """The foreign version was moved away, the ratified one published: the old history cannot go on top of it."""
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
    """Between a look at the HEAD and one at the log, the next version was ratified and published as ever."""
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

    def fails(self: Any, path: str, limit: int | None = None) -> Any:
        if path == published_path(6):
            raise StorageFault("no answer")
        return read(self, path, limit)

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
