"""A table that was restored from a backup behind its own log adopts the published versions, with a
kill at any step (I1 to I7)."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import pytest

from tests.support.delta_table import (
    TABLE,
    Killed,
    Table,
    adopted,
    diagnosis,
    kill_at,
    publish,
    repair,
    restored,
    with_metadata,
)
from tests.support.fakes import delta
from tests.support.fakes.heads import recount
from tests.support.fakes.world import fake_world
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from turnstile.delta.core.decide import Ratified, Refused
from turnstile.delta.core.head import ROWS_UNREAD
from turnstile.delta.identity import Outcomes
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.recover import ADOPTED_MAX, Recoverer, mark_all_restored
from turnstile.delta.repair import Repairer
from turnstile.delta.sweep import Sweeper
from turnstile.store.core.errors import OutcomeUnknown
from turnstile.store.core.evaluate import clone
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import published_path, staged_path
from turnstile.store.faults import POINTS


@pytest.fixture
def table() -> Table:
    return with_metadata()


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
    log = table.published()
    latest = table.head.latest
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
        assert (
            point.endswith("stuck") or visit > 1 or point in ("publish.copied", "publish.unstuck", "recover.taken_back")
        )
    adopted(table, lost)
    requests = len(table.world.refs.requests)
    assert repair(table)[0].adopted == 0
    assert table.world.refs.requests[requests:] == ["read"] * 3  # a healthy table is looked at, and nothing is written


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_i3_i4_a_recovery_whose_nth_write_fails_in_any_way_is_finished_by_the_next_one(how: How) -> None:
    """Killed around the write, or without an answer to one that was, or was not, applied: every
    write in turn."""
    failed = 0
    for at in itertools.count(1):
        table = with_metadata()
        lost = restored(table)
        log = table.published()
        faulty = Faulty(table.world, at, how)
        publisher = Publisher(faulty.world)
        try:
            with suppress(Crash, OutcomeUnknown):
                Repairer(faulty.world, publisher, Recoverer(faulty.world)).repair(TABLE)
        finally:
            recount(table.head)
        if len(faulty.writes) < at:
            break
        failed += 1
        assert table.published() == log
        repair(table)
        adopted(table, lost)
    assert failed > 12


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
    snapshot = MetadataStore(table.world.objs, table.world.space).get("main", table.head.metadata)
    assert snapshot.version == table.head.epoch == 10
    assert snapshot.metadata["configuration"]["delta_note"] == "after the backup"
    late = table.ratifier.commit(CommitRequest(TABLE, None, base=9, content=delta.append("late", 5)))
    assert getattr(late, "because", "") == "metadata"


def test_i2_row_ids_go_on_after_the_published_ones() -> None:
    table = Table(fake_world())
    table.supports("rowTracking")
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
    for _ in range(ADOPTED_MAX * 3 + 5):
        table.ticket(f"t-{table.head.latest}")
    publish(table)
    table.world.refs.rows[table.key] = backup
    done, _ = repair(table)
    assert done.adopted == ADOPTED_MAX * 3 + 5
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


# -- all rows were restored: no commit before the logs have been looked at ---------------------------------------------


@pytest.mark.parametrize("publish_first", [False, True])
def test_i1_i10_after_a_restore_of_all_rows_no_commit_is_accepted_before_the_log_was_looked_at(
    table: Table, publish_first: bool
) -> None:
    """Without the mark the next commit would take version 4, which is published already."""
    lost = restored(table)
    log = table.published()
    assert mark_all_restored(table.world) == 1
    if publish_first:
        Publisher(table.world).publish(TABLE, until_ms=table.world.clock.now)  # no time for anything
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    for version in (table.head.latest + 1, None):
        answer = table.ratifier.commit(CommitRequest(TABLE, version, base=3, content=delta.append("new", stamp)))
        assert isinstance(answer, Refused) and answer.kind == "TableNotActive"
    Sweeper(table.world, Publisher(table.world)).sweep(until_ms=10**15, each_ms=10**15, workers=1)
    adopted(table, lost)
    assert table.published() == log
    again = table.ratifier.commit(CommitRequest(TABLE, 11, content=delta.append("new", lost["last_ict"] + 1_000)))
    assert isinstance(again, Ratified) and again.version == 11


def test_i10_a_table_that_was_not_behind_takes_commits_again_after_the_next_sweep(table: Table) -> None:
    table.mixed(4)
    before = table.head
    assert mark_all_restored(table.world) == 1 == mark_all_restored(table.world)
    Sweeper(table.world, Publisher(table.world)).sweep(until_ms=10**15, each_ms=10**15, workers=1)
    table.check_all_published()
    assert (table.head.state, table.head.latest, table.head.reason) == ("active", before.latest, "")


@pytest.mark.parametrize("state", ["leaving", "dropped", "pinned"])
def test_i10_a_table_that_takes_no_commits_is_left_as_it_is_after_a_restore_of_all_rows(
    table: Table, state: str
) -> None:
    table.row["state"] = state
    before = clone(table.row)
    assert mark_all_restored(table.world) == 0
    assert table.row == before


def test_i1_a_stuck_table_recovers_too_and_one_that_an_operator_stopped_stays_stopped(table: Table) -> None:
    table.row.update({"state": "stuck", "reason": "by hand"})
    assert mark_all_restored(table.world) == 0 and table.head.reason == "by hand"
    table.row.update({"state": "active", "reason": ""})
    lost = restored(table)
    table.row.update({"state": "stuck", "reason": "version 4: it was in the way"})
    assert mark_all_restored(table.world) == 1
    repair(table)
    adopted(table, lost)


def test_i10_a_table_that_is_dropped_meanwhile_stays_dropped(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    write = table.world.refs.write
    refs = table.world.refs

    def late(change: Any) -> Any:
        monkeypatch.setattr(refs, "write", write)
        table.row["state"] = "dropped"
        return write(change)

    monkeypatch.setattr(refs, "write", late)
    assert mark_all_restored(table.world) == 0
    assert table.head.state == "dropped"


def test_a_row_that_cannot_be_parsed_does_not_keep_the_others_from_being_marked(table: Table) -> None:
    table.world.refs.rows["table/zz"] = {"key": "table/zz", "kind": "table"}
    assert mark_all_restored(table.world) == 1
    assert table.head.state == "recovering"


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
