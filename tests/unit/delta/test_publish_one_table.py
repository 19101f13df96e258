"""Publishing one table: order, bytes, put-if-absent, verification, the floor and what leaves the
tail."""

from __future__ import annotations

import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes import delta
from tests.support.fakes.heads import recount
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.delta.commits import content_of
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import KEEP_PUBLISHED, tail_by_version
from turnstile.delta.core.writes.ratify import Keep
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher, TableUnread
from turnstile.store.core.errors import NotFound, StorageFault
from turnstile.store.core.names import published_path, staged_path


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def table(world: FakeWorld) -> Table:
    return Table(world)


def test_i4_every_kind_of_commit_is_published_with_exactly_its_ratified_bytes(world: FakeWorld, table: Table) -> None:
    table.mixed(12)
    answer = Publisher(world).publish(TABLE)
    table.check_all_published()
    assert (answer.count, answer.floor, answer.latest, answer.problem) == (12, 12, 12, None)


def test_i4_versions_are_written_in_ascending_order(world: FakeWorld, table: Table) -> None:
    table.mixed(9)
    seen: list[int] = []
    Publisher(world, faults=lambda _: seen.append(len(table.published()))).publish(TABLE)
    assert seen == sorted(seen)
    table.check_all_published()


def test_i4_a_version_that_an_engine_published_with_the_same_bytes_is_fine(world: FakeWorld, table: Table) -> None:
    table.mixed(4)
    for version in (1, 2):
        table.put(published_path(version), table.ratified[version])
    points: list[str] = []
    answer = Publisher(world, faults=points.append).publish(TABLE)
    table.check_all_published()
    assert answer.count == 4
    assert points.count("publish.verified") == 2
    assert points.count("publish.copied") == 2


def test_i4_a_version_that_holds_other_bytes_is_never_overwritten_and_stops_the_table(
    world: FakeWorld, table: Table
) -> None:
    table.mixed(3)
    table.put(published_path(2), b"foreign\n")
    answer = Publisher(world).publish(TABLE)
    assert table.published()[2] == b"foreign\n"
    assert 3 not in table.published()
    head = table.head
    assert (head.state, head.floor) == ("stuck", 1)
    assert answer.problem is not None
    assert answer.problem.stuck
    assert head.reason.startswith("version 2: ")
    assert "repair" in (answer.problem.remedy or "")


def test_a_file_that_a_writer_is_still_writing_does_not_stop_the_table_at_once(world: FakeWorld, table: Table) -> None:
    table.mixed(2)
    table.put(published_path(1), table.ratified[1][:10])
    answer = Publisher(world).publish(TABLE)
    assert answer.problem is not None
    assert not answer.problem.stuck
    assert table.head.state == "active"
    table.put(published_path(1), table.ratified[1])
    Publisher(world).publish(TABLE)
    table.check_all_published()


def test_i11_a_staged_file_that_is_late_is_waited_for_and_one_that_stays_away_stops_the_table(
    world: FakeWorld, table: Table
) -> None:
    name = table.stage()
    table.inline()
    table.storage.delete(staged_path(name))
    publisher = Publisher(world)
    early = publisher.publish(TABLE)
    assert early.problem is not None
    assert early.problem.type == "StorageFault"
    assert not early.problem.stuck
    assert table.head.state == "active"
    world.clock.now += 60_000
    late = publisher.publish(TABLE)
    assert late.problem is not None
    assert late.problem.stuck
    assert table.head.state == "stuck"
    assert table.head.floor == 0
    writes = world.refs.requests.count("write")
    publisher.publish(TABLE)
    assert world.refs.requests.count("write") == writes, "a table known to be stuck is not written again"


def test_i11_a_stuck_table_takes_commits_again_once_the_file_came_back(world: FakeWorld, table: Table) -> None:
    name = table.stage()
    table.inline()
    table.storage.delete(staged_path(name))
    world.clock.now += 60_000
    publisher = Publisher(world)
    publisher.publish(TABLE)
    table.put(staged_path(name), table.ratified[1])
    answer = publisher.publish(TABLE)
    assert (answer.state, answer.floor, answer.problem) == ("active", 2, None)
    table.check_all_published()
    assert "reason" not in table.row
    table.inline()
    publisher.publish(TABLE)
    table.check_all_published()


def test_i2_a_staged_file_that_was_changed_after_ratification_is_not_published(world: FakeWorld, table: Table) -> None:
    name = table.stage()
    table.put(staged_path(name), table.ratified[1] + b"more")
    answer = Publisher(world).publish(TABLE)
    assert answer.problem is not None
    assert answer.problem.stuck
    assert table.published() == {0: table.ratified[0]}


def test_i4_a_staged_file_that_is_gone_after_an_engine_published_it_is_no_loss(world: FakeWorld, table: Table) -> None:
    name = table.stage()
    table.put(published_path(1), table.ratified[1])
    table.storage.delete(staged_path(name))
    Publisher(world).publish(TABLE)
    table.check_all_published()


def test_i3_identities_are_in_the_index_before_they_leave_the_tail(world: FakeWorld, table: Table) -> None:
    """A crash between the two finds the identity twice; the other order would find it nowhere."""
    table.mixed(8)
    order: list[str] = []
    Publisher(world, faults=order.append).publish(TABLE)
    last = len(order) - 1 - order[::-1].index("publish.floor")
    assert order.index("publish.identities") < last
    head = table.head
    assert len(head.tail) == KEEP_PUBLISHED
    assert all(not entry.data and not entry.obj for entry in head.tail)
    recount(head)


def test_i3_an_inline_commit_has_one_entry_in_the_index_which_its_transaction_and_its_name_lead_to(
    world: FakeWorld, table: Table
) -> None:
    staged = table.stage()
    for _ in range(1 + KEEP_PUBLISHED):
        table.inline()
    of_txn = {place.version: (place.entry.txn, place.name) for place in tail_by_version(table.head)}
    Publisher(world).publish(TABLE)
    assert table.head.tail_from == 3
    entries = [id for _, id in world.objs.rows if id.startswith("identity/")]
    assert len(entries) == 2 + 1, "of a staged commit two, of an inline one one"
    index = IdentityIndex(world.objs, world.space, world.clock, 30)
    for version in (1, 2):
        for identity in of_txn[version]:
            assert index.recall("main", TABLE, [identity]) == version
    assert of_txn[1][1] == staged
    other = of_txn[2][1].replace(f"{2:020d}", f"{3:020d}")
    assert index.recall("main", TABLE, [staged.replace(f"{1:020d}", f"{2:020d}")]) is None, "another staged file"
    assert index.recall("main", TABLE, [other]) == 2, "no writer makes such a name: it says whose transaction it is"


@pytest.mark.parametrize("kind", ["staged", "inline", "ticket"])
def test_i3_a_replay_long_after_publication_gets_the_same_version(kind: str, world: FakeWorld, table: Table) -> None:
    now = world.clock.now_ms()
    content = delta.append("replayed", now)
    if kind == "staged":
        name = table.staged_name(1, 7)
        table.put(staged_path(name), content)
        request = CommitRequest(TABLE, 1, staged=name, size=len(content))
    elif kind == "inline":
        request = CommitRequest(TABLE, 1, content=content)
    else:
        request = CommitRequest(TABLE, None, base=0, content=content)
    first = table.ratifier.commit(request)
    assert isinstance(first, Ratified)
    table.ratified[1] = content
    table.mixed(9)
    Publisher(world).publish(TABLE)
    table.check_all_published()
    assert table.head.tail_from > 1
    if kind == "staged":
        table.storage.delete(staged_path(table.staged_name(1, 7)))
    world.clock.now += 10 * 86_400_000
    again = table.ratifier.commit(request)
    assert isinstance(again, Ratified)
    assert (again.version, again.replayed) == (1, True)
    assert table.head.latest == 10


def test_i5_progress_is_kept_every_few_versions(world: FakeWorld, table: Table) -> None:
    for _ in range(10):
        table.stage()
    floors: list[int] = []
    publisher = Publisher(
        world, step=4, faults=lambda point: floors.append(table.head.floor) if point == "publish.floor" else None
    )
    publisher.publish(TABLE)
    assert floors == [4, 8, 10]
    table.check_all_published()


def test_work_stops_when_the_time_is_up_and_what_was_done_is_kept(world: FakeWorld, table: Table) -> None:
    table.mixed(12)
    world.clock.step = 10
    answer = Publisher(world).publish(TABLE, until_ms=world.clock.now + 150)
    assert 0 < answer.floor < 12
    assert answer.behind == 12 - answer.floor
    assert answer.problem is None
    assert table.head.floor == answer.floor
    assert table.head.pending is not None
    table.check_prefix()
    Publisher(world).publish(TABLE)
    table.check_all_published()


def test_i11_a_floor_write_that_races_a_ratification_keeps_pending(world: FakeWorld, table: Table) -> None:
    """The last floor write would clear ``pending``; a commit that is ratified just before it must
    not be forgotten."""
    table.mixed(2)
    came: list[int] = []

    def ratify_once(point: str) -> None:
        if point in ("publish.copied", "publish.verified") and len(table.published()) == 3 and not came:
            came.append(table.inline())

    publisher = Publisher(world, faults=ratify_once)
    original = publisher._copy
    seen_pending: list[object] = []

    def copy_and_look(head, run):  # type: ignore[no-untyped-def]
        seen_pending.append(table.row.get("pending"))
        return original(head, run)

    publisher._copy = copy_and_look  # type: ignore[method-assign]
    publisher.publish(TABLE)
    assert came == [3]
    assert seen_pending == [2, 3], "after the first floor write pending still names the newcomer"
    table.check_all_published()


def test_i11_pending_that_outlived_its_work_is_cleared(world: FakeWorld, table: Table) -> None:
    table.inline()
    Publisher(world).publish(TABLE)
    table.row["pending"] = 1
    answer = Publisher(world).publish(TABLE)
    assert answer.count == 0
    table.check_all_published()


def test_i11_a_backlog_that_lost_its_pending_is_published_whole(world: FakeWorld, table: Table) -> None:
    table.mixed(7)
    del table.row["pending"]
    assert Publisher(world, step=2).publish(TABLE).count == 7
    table.check_all_published()


def test_a_table_with_nothing_to_publish_costs_one_read_and_no_write(world: FakeWorld, table: Table) -> None:
    table.mixed(3)
    Publisher(world).publish(TABLE)
    world.refs.requests.clear()
    answer = Publisher(world).publish(TABLE)
    assert (answer.count, answer.lag_ms, answer.behind) == (0, 0, 0)
    assert world.refs.requests == ["read"]


def test_the_lag_is_how_long_the_oldest_version_had_been_ratified(world: FakeWorld, table: Table) -> None:
    table.inline()
    world.clock.now += 60_000
    table.inline()
    world.clock.now += 5_000
    answer = Publisher(world).publish(TABLE)
    assert 65_000 <= answer.lag_ms < 66_000


def test_i5_two_publishers_at_once_are_harmless(world: FakeWorld, table: Table) -> None:
    """The second one does everything while the first is between copying and raising the floor."""
    table.mixed(9)
    entered: list[str] = []

    def interrupt(point: str) -> None:
        if point == "publish.identities" and not entered:
            entered.append(point)
            Publisher(world, step=2).publish(TABLE)
            table.mixed(3)

    Publisher(world, faults=interrupt).publish(TABLE)
    table.check_all_published()
    recount(table.head)


def test_i10_a_publisher_that_was_held_up_looks_again_before_it_copies(world: FakeWorld, table: Table) -> None:
    """Meanwhile the versions were published and cleaned out of the log: they must not come back."""
    table.mixed(6)
    held: list[str] = []

    def hold(point: str) -> None:
        if point == "publish.read" and not held:
            held.append(point)
            Publisher(world).publish(TABLE)
            for version in range(5):
                table.storage.delete(published_path(version))
            world.clock.now += 3_600_000

    answer = Publisher(world, faults=hold).publish(TABLE)
    assert sorted(table.published()) == [5, 6]
    assert (answer.floor, answer.latest) == (6, 6)


def test_a_dropped_table_is_left_alone_and_a_leaving_one_is_published(world: FakeWorld, table: Table) -> None:
    table.mixed(2)
    table.row["state"] = "dropped"
    answer = Publisher(world).publish(TABLE)
    assert (answer.count, answer.state) == (0, "dropped")
    assert sorted(table.published()) == [0]
    table.row["state"] = "leaving"
    Publisher(world).publish(TABLE)
    assert sorted(table.published()) == [0, 1, 2]
    assert table.head.state == "leaving"


def test_i10_being_stuck_never_revives_a_dropped_or_leaving_table(world: FakeWorld, table: Table) -> None:
    table.mixed(1)
    table.put(published_path(1), b"foreign\n")
    table.row["state"] = "leaving"
    answer = Publisher(world).publish(TABLE)
    assert answer.problem is not None
    assert not answer.problem.stuck
    assert table.head.state == "leaving"


def test_a_fault_of_storage_is_reported_and_progress_is_kept(world: FakeWorld, table: Table) -> None:
    table.mixed(3)
    publisher = Publisher(world)
    storage = type(table.storage)
    original = storage.put_if_absent

    def failing(self, path, content):  # type: ignore[no-untyped-def]
        if path == published_path(3):
            raise StorageFault("no answer")
        return original(self, path, content)

    storage.put_if_absent = failing  # type: ignore[method-assign]
    try:
        answer = publisher.publish(TABLE)
    finally:
        storage.put_if_absent = original  # type: ignore[method-assign]
    assert answer.problem is not None
    assert (answer.problem.version, answer.problem.stuck, answer.floor) == (3, False, 2)
    publisher.publish(TABLE)
    table.check_all_published()


def test_a_store_that_does_not_answer_differs_from_a_table_that_does_not_exist(world: FakeWorld) -> None:
    with pytest.raises(NotFound):
        Publisher(world).publish(TABLE)

    def unreachable(key: str) -> None:
        raise ConnectionError("refs")

    world.refs.read = unreachable  # type: ignore[method-assign, assignment]
    with pytest.raises(TableUnread):
        Publisher(world).publish(TABLE)


def test_i2_the_content_of_a_published_entry_is_what_the_log_holds(world: FakeWorld, table: Table) -> None:
    table.mixed(4)
    before = table.head
    Publisher(world).publish(TABLE)
    for place in tail_by_version(table.head):
        assert content_of(world, table.head, place) == table.ratified[place.version]
    for id in [key for key in world.objs.rows if key[1].startswith("inline/")]:
        world.objs.delete(*id)
    for place in tail_by_version(before):  # a reader that still holds the HEAD from before publication
        assert content_of(world, before, place) == table.ratified[place.version]


def test_i4_what_is_ratified_meanwhile_is_left_for_the_next_call_where_the_caller_says_so() -> None:
    table = Table(fake_world())
    table.inline()
    late = iter([table.inline])

    def ratify_once(step: str) -> None:
        if step == "publish.copied":
            next(late, lambda: None)()

    first = Publisher(table.world, faults=ratify_once).publish(TABLE, meanwhile=False)
    assert (first.floor, first.latest, first.behind) == (1, 2, 1)
    assert Publisher(table.world).publish(TABLE).floor == 2


@pytest.mark.parametrize(("is_ticket", "kept"), [(False, 0), (True, 5)])
def test_i3_as_many_published_entries_stay_in_the_tail_as_the_publisher_is_given(is_ticket: bool, kept: int) -> None:
    table = Table(fake_world())
    for number in range(8):
        table.ticket(f"t{number}") if is_ticket else table.inline()
    Publisher(table.world, keep=Keep(named=0, tickets=5)).publish(TABLE)
    assert len(table.head.tail) == kept and table.head.floor == 8


def test_i3_a_tail_without_entries_keeps_as_many_as_one_of_named_commits() -> None:
    head = Table(fake_world()).head
    assert not head.tail and Keep(named=1, tickets=2).of(head) == 1
