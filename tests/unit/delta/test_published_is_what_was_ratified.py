"""Named traps that other coordinators fell into: publication, the floor, gc."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes import delta
from tests.support.fakes.heads import accepts, recount
from tests.support.fakes.world import fake_world
from tests.support.gc import check_reachable, collect, days
from turnstile.delta.commits import ContentMissing, content_of
from turnstile.delta.core.decide import Conflict, Ratified
from turnstile.delta.core.head import TableHead, tail_by_version
from turnstile.delta.core.writes.ratify import raise_floor
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher, publish_version
from turnstile.delta.repair import Repairer
from turnstile.delta.sweep import Sweeper
from turnstile.store.core.evaluate import apply_actions, clone
from turnstile.store.core.names import LOG, published_path, staged_path


@pytest.fixture
def table() -> Table:
    return Table(fake_world())


def publish(table: Table, **more: Any) -> Any:
    return Publisher(table.world, **more).publish(table.id)


def test_i5_a_publication_that_did_not_happen_never_raises_the_floor(table: Table) -> None:
    """A premature claim would delete the only record of a commit."""
    table.mixed(3)
    lost = table.stage()
    table.mixed(2)
    table.storage.delete(staged_path(lost))
    done = publish(table, patience_ms=10**9)
    assert done.problem is not None and table.head.floor == 3 and table.head.pending is not None
    assert [place.version for place in tail_by_version(table.head)][-3:] == [4, 5, 6]
    with pytest.raises(ValueError, match="floor"):
        raise_floor(table.head, 7, idle=False)


def test_i4_what_an_engine_published_by_itself_counts_only_with_the_ratified_bytes(table: Table) -> None:
    table.mixed(4)
    table.put(published_path(1), table.ratified[1])
    table.put(published_path(2), table.ratified[2] + b" ")
    done = publish(table)
    assert done.problem is not None and table.head.floor == 1 and table.head.state == "stuck"
    assert table.published()[2] == table.ratified[2] + b" "  # never overwritten


def test_i11_a_floor_write_that_races_a_ratification_does_not_clear_pending(table: Table) -> None:
    table.mixed(3)
    planned = [raise_floor(table.head, 3, idle=idle) for idle in (True, False)]
    table.mixed(1)
    assert not accepts(table.row, planned[0])
    after = apply_actions(table.row, planned[1].actions)
    recount(TableHead.from_row(after))
    assert accepts(table.row, planned[1]) and TableHead.from_row(after).pending == 4


def test_i11_a_table_whose_stream_records_all_expired_is_published_by_the_sweeper() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(3)]
    for table in tables:
        table.mixed(5)
    blocked = tables[1]
    blocked.storage.delete(staged_path(blocked.names[1]))
    Sweeper(world, Publisher(world)).sweep(until_ms=10**15, each_ms=10**15, workers=1)
    for table in (tables[0], tables[2]):
        table.check_all_published()
    assert blocked.head.floor == 0


def test_i4_i10_a_publisher_that_was_held_up_brings_back_nothing(table: Table) -> None:
    """The log was cleaned up while it slept: a version below the floor must not come back, nor
    differ if it does."""
    table.mixed(6)
    sleeper = Publisher(table.world)
    read = table.world.refs.read

    def reads(key: str) -> Any:
        row = read(key)
        table.world.refs.read = read  # type: ignore[method-assign]
        publish(table)
        days(table.world, 40)
        for version in range(1, 4):
            table.storage.delete(published_path(version))
        return row

    table.world.refs.read = reads  # type: ignore[method-assign]
    assert sleeper.publish(table.id).problem is None
    assert sorted(table.published()) == [0, 4, 5, 6]
    assert table.head.floor == 6


def test_i5_two_publishers_with_the_same_head_leave_the_floor_right(table: Table) -> None:
    table.mixed(8)
    head = table.head
    first = raise_floor(head, 5, idle=False)
    second = raise_floor(head, 8, idle=True)
    for place in tail_by_version(head):
        publish_version(table.world, head, place)
    table.world.refs.write(second)
    assert not accepts(table.row, first)
    recount(table.head)
    assert table.head.floor == 8


def test_i10_a_listing_of_the_log_does_not_see_staged_commits(table: Table) -> None:
    table.stage()
    table.stage(lose=True)
    assert [stat.path for stat in table.storage.list(LOG)] == [published_path(0)]


def test_i10_a_staged_file_is_not_collected_before_it_is_proposed(table: Table) -> None:
    early = table.stage(lose=True)
    raw = table.storage.read(staged_path(early))
    assert raw is not None
    days(table.world, 90)
    collect(table.world, "staged")
    assert table.storage.stat(staged_path(early)) is not None
    request = CommitRequest(table.id, 1, staged=early, size=len(raw[0]))
    assert isinstance(table.ratifier.commit(request), Ratified)
    table.ratified[1] = raw[0]
    publish(table)
    collect(table.world, "staged")
    assert table.storage.stat(staged_path(early)) is not None  # decided just now, however old the file is
    check_reachable(table)


def test_i10_a_staged_commit_that_is_ratified_and_not_published_stays_however_old(table: Table) -> None:
    table.mixed(8)
    days(table.world, 400)
    assert collect(table.world).deleted == 0
    check_reachable(table)
    publish(table)
    table.check_all_published()


def test_i10_a_location_that_another_table_owns_by_now_is_not_purged(table: Table) -> None:
    table.mixed(4)
    publish(table)
    table.world.refs.rows[table.key]["state"] = "dropped"
    table.own(table_id(9))
    days(table.world, 30)
    before = dict(table.world.storages.files)
    report = collect(table.world, "dropped")
    assert report.deleted == 0 and table.world.storages.files == before and report.problems


def test_i1_i4_a_head_restored_behind_its_own_log_never_overwrites_it(table: Table) -> None:
    table.mixed(3)
    restored = clone(table.row)
    table.mixed(3)
    publish(table)
    before = table.published()
    table.world.refs.rows[table.key] = restored
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    won_twice = table.ratifier.commit(CommitRequest(table.id, 4, content=delta.append("again", stamp)))
    assert isinstance(won_twice, Ratified)  # the row cannot know; storage does
    done = publish(table)
    assert done.problem is not None and done.problem.stuck and done.problem.version == 4
    assert table.published() == before and table.head.state == "stuck" and table.head.floor == 3


def test_i1_i2_i3_a_table_restored_from_backup_behind_its_own_log_takes_it_up_again(table: Table) -> None:
    table.mixed(3)
    backup = clone(table.row)
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    acknowledged = CommitRequest(table.id, 4, content=delta.append("acknowledged", stamp))
    table._ratified(table.ratifier.commit(acknowledged), acknowledged.content or b"", "")
    table.mixed(6)
    publish(table)
    log = table.published()
    table.world.refs.rows[table.key] = backup
    done, found = Repairer(table.world, Publisher(table.world)).repair(table.id)
    assert (done.adopted, found.finding, found.state) == (7, "healthy", "active")
    assert table.published() == log
    table.check_all_published()
    replay = table.ratifier.commit(acknowledged)
    assert isinstance(replay, Ratified) and replay.replayed and replay.version == 4
    assert table.inline() == 11


def test_i10_a_recovering_table_takes_nothing_and_keeps_everything(table: Table) -> None:
    table.mixed(6)
    publish(table)
    table.world.refs.rows[table.key]["state"] = "recovering"
    days(table.world, 400)
    assert collect(table.world, "staged").deleted == 0
    refused = table.ratifier.commit(CommitRequest(table.id, 7, content=delta.append("x", table.world.clock.now_ms())))
    assert getattr(refused, "kind", "") == "TableNotActive"


def test_i4_content_that_is_gone_is_said_to_be_gone(table: Table) -> None:
    name = table.stage()
    table.storage.delete(staged_path(name))
    with pytest.raises(ContentMissing):
        content_of(table.world, table.head, tail_by_version(table.head)[0])


def test_i2_a_loser_whose_winner_is_not_published_yet_rebases_on_the_row_alone(table: Table) -> None:
    name = table.stage(lose=True)
    table.mixed(3)
    raw = table.storage.read(staged_path(name))
    assert raw is not None
    conflict = table.ratifier.commit(CommitRequest(table.id, 1, staged=name, size=len(raw[0])))
    assert isinstance(conflict, Conflict) and [place.version for place in conflict.winners] == [3, 2, 1]
    assert all(
        content_of(table.world, table.head, place) == table.ratified[place.version] for place in conflict.winners
    )
