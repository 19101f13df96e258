"""gc removes lost and published staged files after their grace, and no file above the floor
(I10)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import DAY, check_reachable, collect, days, everything, names
from turnstile.delta.commits import materialise
from turnstile.delta.core.decide import Conflict, Ratified
from turnstile.delta.core.head import Entry, tail_by_version
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.gc.core import StagedFile, decided_at, due, staged_candidates, staged_since, version_of
from turnstile.gc.kinds import staged
from turnstile.store.core.errors import InvalidCommit, NotFound
from turnstile.store.core.evaluate import clone
from turnstile.store.core.names import published_path, staged_path


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def table(world: FakeWorld) -> Table:
    return Table(world)


def staged_files(table: Table) -> set[str]:
    return {stat.path.removeprefix("_delta_log/_staged_commits/") for stat in table.storage.list(staged_path(""))}


def test_i10_losers_and_published_winners_go_after_their_grace(world: FakeWorld, table: Table) -> None:
    losers = [table.stage(lose=True)]
    winners = [table.stage() for _ in range(6)]
    losers.append(table.stage(lose=True))  # of version 7, which is open still
    Publisher(world).publish(TABLE)
    days(world, 0.9)
    assert collect(world, "staged").items == ()
    days(world, 0.2)
    report = collect(world, "staged")
    assert {item.id for item in report.items} == {f"{TABLE}/{name}" for name in [losers[0], *winners[:3]]}
    assert (report.deleted, report.complete, report.problems) == (4, True, ())
    assert report.bytes == report.freed > 0
    assert staged_files(table) == {losers[1], *winners[3:]}, "the tail's three and the open version's stay"
    check_reachable(table)


def test_i10_a_staged_file_above_the_floor_is_never_removed_however_old(world: FakeWorld, table: Table) -> None:
    """Ratified and unpublished, open, or of a version far ahead: all may be needed yet."""
    kept = [table.stage(), table.stage(), table.stage(lose=True)]
    table.put(staged_path(table.staged_name(99, 1)), b"early")
    days(world, 400)
    assert collect(world, "staged").items == ()
    assert set(kept) <= staged_files(table)
    Publisher(world).publish(TABLE)
    table.check_all_published()


def test_i10_age_counts_from_when_a_version_was_decided_not_from_when_the_file_was_written(
    world: FakeWorld, table: Table
) -> None:
    loser = table.stage(lose=True)
    days(world, 30)
    table.stage()
    Publisher(world).publish(TABLE)
    days(world, 0.5)
    assert collect(world, "staged").items == ()
    days(world, 0.6)
    report = collect(world, "staged")
    assert [item.id for item in report.items] == [f"{TABLE}/{loser}"]
    assert DAY <= report.items[0].age_ms < 1.2 * DAY


def test_i10_a_loser_that_was_written_after_the_decision_has_its_own_grace(world: FakeWorld, table: Table) -> None:
    table.stage()
    Publisher(world).publish(TABLE)
    days(world, 5)
    late = table.staged_name(1, 77)
    table.put(staged_path(late), b"late")
    days(world, 0.5)
    assert collect(world, "staged").items == ()
    days(world, 0.6)
    assert [item.id for item in collect(world, "staged").items] == [f"{TABLE}/{late}"]


def test_i10_a_winner_counts_from_when_it_left_the_tail_not_from_when_an_engine_published_it(
    world: FakeWorld, table: Table
) -> None:
    """While the publisher was away for days readers were given the staged names; some of them still
    hold them."""
    winners = [table.stage() for _ in range(6)]
    for version in range(1, 7):
        table.put(published_path(version), table.ratified[version])
    days(world, 9)
    Publisher(world).publish(TABLE)
    assert collect(world, "staged").items == ()
    assert set(winners) <= staged_files(table)
    days(world, 1.1)
    assert len(collect(world, "staged").items) == 3


def test_i3_a_staged_file_collected_before_it_is_proposed_could_not_have_become_a_version(
    world: FakeWorld, table: Table
) -> None:
    late = table.stage(lose=True)
    size = table.storage.stat(staged_path(late)).size  # type: ignore[union-attr]
    table.stage()
    Publisher(world).publish(TABLE)
    answer = table.ratifier.commit(CommitRequest(TABLE, 1, staged=late, size=size))
    assert isinstance(answer, Conflict)
    days(world, 2)
    assert collect(world, "staged").deleted == 1
    with pytest.raises(NotFound):
        table.ratifier.commit(CommitRequest(TABLE, 1, staged=late, size=size))
    assert table.head.latest == 1


def test_i3_a_replay_of_a_commit_whose_staged_file_was_collected_gets_the_same_version(
    world: FakeWorld, table: Table
) -> None:
    first = table.stage()
    size = len(table.ratified[1])
    table.mixed(8)
    Publisher(world).publish(TABLE)
    days(world, 2)
    collect(world, "staged")
    assert first not in staged_files(table)
    answer = table.ratifier.commit(CommitRequest(TABLE, 1, staged=first, size=size))
    assert isinstance(answer, Ratified)
    assert (answer.version, answer.replayed) == (1, True)


def test_i10_dropped_and_recovering_tables_are_left_alone(world: FakeWorld, table: Table) -> None:
    for _ in range(5):
        table.stage()
    Publisher(world).publish(TABLE)
    days(world, 2)
    for state in ("dropped", "recovering"):
        table.row["state"] = state
        assert collect(world, "staged").items == ()
    table.row["state"] = "active"
    assert collect(world, "staged", dry_run=True).items


def test_i10_a_table_dropped_between_look_and_removal_keeps_its_files(world: FakeWorld, table: Table) -> None:
    for _ in range(5):
        table.stage()
    Publisher(world).publish(TABLE)
    days(world, 2)
    original = world.refs.read

    def drop_first(key: str):  # type: ignore[no-untyped-def]
        table.row["state"] = "dropped"
        return original(key)

    world.refs.read = drop_first  # type: ignore[method-assign]
    files = staged_files(table)
    report = collect(world, "staged")
    assert report.deleted == 0
    assert report.problems
    assert staged_files(table) == files


def test_i10_a_file_that_lost_is_not_ratified_as_a_later_version(world: FakeWorld, table: Table) -> None:
    """gc goes by the version in a name: once that is published, the file may be removed at any
    moment."""
    loser = table.stage(lose=True)
    size = table.storage.stat(staged_path(loser)).size  # type: ignore[union-attr]
    table.ticket("winner")
    before = everything(world)
    with pytest.raises(InvalidCommit, match="is named for version 1, and version 2 is proposed") as refused:
        table.ratifier.commit(CommitRequest(TABLE, 2, staged=loser, size=size, any_name=True))
    assert refused.value.field == "staged.name"
    assert everything(world) == before


def test_i3_a_replay_is_answered_though_it_asks_for_a_version_above_its_name(world: FakeWorld, table: Table) -> None:
    first = table.stage()
    again = CommitRequest(TABLE, 2, staged=first, size=len(table.ratified[1]), any_name=True)
    answer = table.ratifier.commit(again)
    assert isinstance(answer, Ratified)
    assert (answer.version, answer.replayed, table.head.latest) == (1, True, 1)


@pytest.mark.parametrize("published", [False, True])
def test_i10_a_file_that_a_row_carries_since_the_look_is_kept(world: FakeWorld, table: Table, published: bool) -> None:
    """Such a row is of an earlier release, which took any name; its commit may be all that there is
    of that version."""
    loser = table.stage(lose=True)
    table.ticket("winner")
    Publisher(world).publish(TABLE)
    days(world, 2)
    original = world.refs.read

    def ratified_first(key: str):  # type: ignore[no-untyped-def]
        row = table.row
        if row["latest"] == 1:
            entry = Entry(txn="again", ict=row["last_ict"] + 1, size=1, changed="append", name=loser)
            row |= {"tail": [*row["tail"], entry.pack()], "latest": 2, "ids": row["ids"] | {"again"}, "pending": 2}
            row |= {"floor": 2} if published else {}
        return original(key)

    world.refs.read = ratified_first  # type: ignore[method-assign]
    report = collect(world, "staged")
    assert (report.deleted, len(report.problems)) == (0, 1)
    assert "carries one of these commits" in report.problems[0].message
    assert loser in staged_files(table)


def test_i10_a_row_that_fell_back_since_the_look_keeps_what_it_may_need_again(world: FakeWorld, table: Table) -> None:
    """A backup was restored meanwhile: the floor is lower than the version of a file that was about
    to go."""
    for _ in range(6):
        table.stage()
    Publisher(world).publish(TABLE)
    days(world, 2)
    restored = clone(table.row)
    original = world.refs.read

    def fall_back(key: str):  # type: ignore[no-untyped-def]
        table.row.update(restored | {"floor": 2, "latest": 2, "tail": [], "tail_from": 3, "ids": frozenset()})
        return original(key)

    world.refs.read = fall_back  # type: ignore[method-assign]
    files = staged_files(table)
    report = collect(world, "staged")
    assert (report.deleted, staged_files(table)) == (0, files)
    assert "behind where it was" in report.problems[0].message


def test_i10_what_log_cleanup_took_is_judged_by_the_next_version_and_a_hole_is_left_alone(
    world: FakeWorld, table: Table
) -> None:
    for _ in range(8):
        table.stage()
    Publisher(world).publish(TABLE)
    days(world, 2)
    for version in range(4):
        table.storage.delete(published_path(version))
    assert len(collect(world, "staged", dry_run=True).items) == 5
    table.storage.delete(published_path(5))
    report = collect(world, "staged", dry_run=True)
    assert {item.id.removeprefix(f"{TABLE}/")[:20].lstrip("0") for item in report.items} == {"1", "2", "3", "4"}
    assert len(report.problems) == 1


def test_a_dry_run_changes_nothing_and_names_exactly_what_the_run_then_removes(world: FakeWorld, table: Table) -> None:
    table.stage(lose=True)
    table.mixed(9)
    Publisher(world).publish(TABLE)
    days(world, 3)
    before = everything(world)
    dry = collect(world, "staged", dry_run=True)
    assert everything(world) == before
    assert (dry.deleted, dry.freed) == (0, 0)
    assert dry.bytes > 0
    real = collect(world, "staged")
    assert names(real) == names(dry)
    assert real.deleted == len(dry.items)
    assert collect(world, "staged").items == ()


def test_nothing_is_looked_up_for_files_that_are_too_young_to_go(
    world: FakeWorld, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(6):
        table.stage()
    Publisher(world).publish(TABLE)
    looked_up: list[str] = []
    get_many = world.objs.get_many
    monkeypatch.setattr(world.objs, "get_many", lambda space, ids: looked_up.extend(ids) or get_many(space, ids))
    days(world, 0.9)
    collect(world, "staged")
    assert looked_up == []
    days(world, 0.2)
    assert collect(world, "staged").deleted == len(looked_up) == 3


def test_one_unreadable_table_does_not_keep_the_others_garbage(world: FakeWorld, table: Table) -> None:
    other = Table(world, "22222222-1111-4111-8111-111111111111")
    for _ in range(5):
        other.stage()
    Publisher(world).publish(other.id)
    days(world, 2)
    table.row["tail"] = [b"not an entry"]
    report = collect(world, "staged")
    assert report.deleted == 2
    assert [problem.id for problem in report.problems] == [TABLE]


files = st.builds(
    StagedFile,
    name=st.builds(lambda version, mark: f"{version:020d}.{mark:04d}.json", st.integers(0, 9), st.integers(0, 5)),
    size_bytes=st.integers(0, 9),
    modified_ms=st.integers(0, 100),
)


@given(st.lists(files), st.integers(0, 9), st.frozensets(files.map(lambda file: file.name)))
def test_i10_no_candidate_is_above_the_floor_or_in_the_tail(
    some: list[StagedFile], floor: int, carried: frozenset[str]
) -> None:
    for file in staged_candidates(some, floor, carried):
        version = version_of(file)
        assert version is not None
        assert version <= floor
        assert file.name not in carried


@given(files, st.dictionaries(st.integers(0, 9), st.integers(0, 100)), st.one_of(st.none(), st.integers(0, 200)))
def test_i10_nothing_is_unreachable_before_it_was_written_decided_and_out_of_the_tail(
    file: StagedFile, published: dict[int, int], left: int | None
) -> None:
    version = version_of(file)
    assert version is not None
    since = staged_since(file, published, left)
    decided = decided_at(version, published)
    assert (since is None) == (decided is None)
    if since is not None and decided is not None:
        assert since == max(file.modified_ms, decided, left or 0)


def test_names_that_are_no_staged_commits_are_no_garbage(world: FakeWorld, table: Table) -> None:
    table.put(staged_path("readme.txt"), b"keep")
    table.put(staged_path("00000000000000000000.json"), b"keep")
    table.mixed(5)
    Publisher(world).publish(TABLE)
    days(world, 9)
    report = collect(world)
    assert report.problems == () and report.deleted > 0
    assert {"readme.txt", "00000000000000000000.json"} <= staged_files(table)


def test_i10_a_materialised_inline_commit_goes_like_any_published_winner(world: FakeWorld, table: Table) -> None:
    for _ in range(6):
        table.inline()
    materialise(world, table.head, tail_by_version(table.head))
    days(world, 5)
    Publisher(world).publish(TABLE)
    days(world, 0.9)
    assert collect(world, "staged").items == (), "readers were given the name until the floor passed it"
    days(world, 0.2)
    report = collect(world, "staged")
    assert {item.id.removeprefix(f"{TABLE}/") for item in report.items} == {table.names[v] for v in (1, 2, 3)}
    check_reachable(table)


def test_i10_when_a_version_was_decided_is_its_own_files_time_else_the_next_ones() -> None:
    published = {4: 40, 5: 50, 7: 70}
    assert decided_at(5, published) == 50
    assert decided_at(3, published) == 40, "log cleanup took its own: the next one was published later"
    assert decided_at(6, published) is None, "a hole"
    assert decided_at(8, published) is None, "nothing later"
    assert decided_at(1, {}) is None


def test_i11_when_a_version_was_decided_is_found_without_going_through_the_log() -> None:
    """A table with a staged commit a second has 86,400 files to judge, and as many versions: gc was
    busy with it for hours."""

    class Log(dict[int, int]):
        steps = 0

        def __iter__(self) -> Iterator[int]:
            for version in super().__iter__():
                Log.steps += 1
                yield version

    log = Log({version: version * 10 for version in range(1_000, 2_000)})
    assert [decided_at(version, log) for version in (5, 1_500, 2_500)] == [10_000, 15_000, None]
    assert Log.steps <= 3


def test_i11_files_of_one_table_without_number_are_judged_a_part_a_run(
    world: FakeWorld, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "FILES_MAX", 10)
    table.mixed(3)
    Publisher(world).publish(TABLE)
    for number in range(25):
        table.put(staged_path(f"{1:020d}.made-up-{number:02d}.json"), b"x")
    days(world, 9)
    left = []
    for _ in range(4):
        assert collect(world).problems == ()
        left.append(sum("made-up" in name for name in staged_files(table)))
    assert left[-1] == 0, left
    assert all(before - after <= 10 for before, after in pairwise([25, *left]))


def test_i10_an_item_is_due_from_its_last_moment_of_grace_on() -> None:
    assert due("staged", "x", 1, since=100, now=109, grace=10) is None
    item = due("staged", "x", 1, since=100, now=110, grace=10)
    assert item is not None
    assert (item.unreachable_since, item.age_ms) == (100, 10)
