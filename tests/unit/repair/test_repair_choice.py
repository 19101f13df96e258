"""HEAD and log hold different commits as one version: both may have been acknowledged, so nothing
happens unchosen (I2, I4).

It comes about when a coordinator loses state and takes commits before its tables have recovered:
the log has commits acknowledged before, the HEAD commits acknowledged since.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import pytest

from tests.support.delta_table import TABLE, Killed, Table, diagnosis, kill_at, publish, repair, restored, with_metadata
from tests.support.fakes import delta
from tests.support.fakes.heads import recount
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import digest_of
from turnstile.delta.core.writes.state import take_back
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.recover import Recoverer
from turnstile.delta.repair import Adopted, Choice, Repairer, Side
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, StorageFault
from turnstile.store.core.evaluate import clone
from turnstile.store.core.names import aside_path, published_path, staged_path
from turnstile.store.faults import no_faults
from turnstile.store.ports import PIECE_BYTES


@pytest.fixture
def table() -> Table:
    return with_metadata()


def commit(table: Table, txn: str, *actions: dict[str, Any]) -> bytes:
    """A commit that is ratified, with any content of the log under its version."""
    version = table.head.latest + 1
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    content = delta.lines(delta.info(txn, stamp), *actions, delta.add(f"{txn}.parquet"))
    assert isinstance(table.ratifier.commit(CommitRequest(TABLE, version, content=content)), Ratified)
    return content


def two_histories(table: Table, commits: int = 2, *actions: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Versions 4 to 10 are published and forgotten; ``commits`` others are ratified from 4 on.
    Returns the HEAD that was lost and their bytes."""
    lost = restored(table)
    contents = [commit(table, f"since-{number}", *actions) for number in range(commits)]
    assert repair(table)[1].finding == "differs"
    return lost, contents


def adopt(table: Table, side: Side, faults: Any = no_faults) -> Adopted:
    """Chooses as the present diagnosis shows the sides."""
    sides = diagnosis(table).sides
    assert sides is not None
    choice = Choice(side, sides.log.version, sides.log.digest)
    return repairer(table, faults).adopt(TABLE, choice)


def repairer(table: Table, faults: Any = no_faults) -> Repairer:
    world = table.world
    return Repairer(world, Publisher(world, faults=faults), Recoverer(world, faults=faults))


def as_before_the_loss(table: Table, lost: dict[str, Any]) -> None:
    """The HEAD is that of the log again."""
    recount(table.head)
    for member in ("latest", "floor", "last_ict", "state", "metadata"):
        assert table.row[member] == lost[member], member
    table.check_all_published()


def aside(table: Table) -> list[bytes]:
    """The copies that were set aside, in the order of versions."""
    files = sorted(table.storage.list("_delta_log/_set_aside/"), key=lambda stat: stat.path)
    return [file[0] for stat in files if (file := table.storage.read(stat.path)) is not None]


def test_both_sides_are_shown_with_version_size_digest_time_and_operation(table: Table) -> None:
    _, contents = two_histories(table)
    found = diagnosis(table)
    assert (found.finding, found.state, found.version) == ("differs", "stuck", 4)
    assert found.sides is not None and found.sides.head is not None
    head = found.sides.head
    log = found.sides.log
    assert (head.version, head.up_to, head.size, head.txn_id) == (4, 5, len(contents[0]), "since-0")
    assert (log.version, log.up_to, log.size) == (4, 10, len(table.ratified[4]))
    assert head.digest == f"{digest_of(contents[0]):016x}" and log.digest == f"{digest_of(table.ratified[4]):016x}"
    for side in (head, log):
        assert side.operation == "WRITE" and side.written and side.in_commit_timestamp and side.txn_id
    assert log.path == published_path(4)


def test_i2_i4_no_finding_advises_to_move_a_file_and_nothing_changes_unchosen(table: Table) -> None:
    two_histories(table)
    before = clone(table.row), dict(table.world.storages.files)
    for _ in range(3):
        found = repair(table)[1]
    assert before == (table.row, table.world.storages.files)
    assert " move" not in found.remedy and "--adopt log" in found.remedy and "--adopt head" in found.remedy


@pytest.mark.parametrize("commits", [1, 2, 40])
def test_i1_i2_the_choice_of_the_log_keeps_every_commit_that_was_published_and_a_copy_of_the_others(
    table: Table, commits: int
) -> None:
    lost, contents = two_histories(table, commits)
    log = table.published()
    done = adopt(table, "log")
    assert (done.published.adopted, done.diagnosis.finding, done.to_remove) == (7, "healthy", ())
    as_before_the_loss(table, lost)
    assert table.published() == log
    assert aside(table) == contents and len(done.set_aside) == commits
    again = table.ratifier.commit(CommitRequest(TABLE, 11, content=delta.append("next", lost["last_ict"] + 9_000)))
    assert isinstance(again, Ratified) and again.version == 11


def test_i3_what_the_log_holds_is_recognised_when_it_is_proposed_again_and_what_was_taken_back_is_new(
    table: Table,
) -> None:
    _, contents = two_histories(table)
    adopt(table, "log")
    replay = table.ratifier.commit(CommitRequest(TABLE, 10, content=table.ratified[10]))
    assert isinstance(replay, Ratified) and replay.replayed and replay.version == 10
    assert table.head.ids.isdisjoint({"since-0", "since-1"})
    stamp = table.head.last_ict + 1
    once_more = table.ratifier.commit(CommitRequest(TABLE, 11, content=delta.append("since-0", stamp)))
    assert isinstance(once_more, Ratified) and not once_more.replayed and once_more.version == 11
    assert contents


def test_i2_metadata_and_epoch_are_those_of_the_log_again(table: Table) -> None:
    lost, _ = two_histories(table, 2, delta.metadata(delta_note="since the loss"))
    assert table.head.epoch == 5
    adopt(table, "log")
    as_before_the_loss(table, {**lost, "metadata": table.row["metadata"]})
    snapshot = MetadataStore(table.world.objs, table.world.space).get("main", table.head.metadata)
    assert snapshot.metadata["configuration"]["delta_note"] == "after the backup"
    assert snapshot.version == table.head.epoch == 10


def test_i2_the_metadata_of_the_floor_is_read_from_the_log_where_only_taken_back_commits_changed_it(
    table: Table,
) -> None:
    table.mixed(3)
    publish(table)
    known = table.head.metadata
    table.put(published_path(4), delta.append("published", table.head.last_ict + 1))
    commit(table, "since", delta.metadata(delta_note="since the loss"))
    assert repair(table)[1].finding == "differs"
    adopt(table, "log")
    store = MetadataStore(table.world.objs, table.world.space)
    before = store.get("main", known)
    after = store.get("main", table.head.metadata)
    assert (after.metadata, after.protocol, after.domains) == (before.metadata, before.protocol, before.domains)
    assert table.head.epoch == after.version == 3 and table.head.latest == 4


def test_i2_row_ids_go_on_after_those_of_the_log(table: Table) -> None:
    table.supports("rowTracking")
    table.row["row_hwm"] = table.row["tail_hwm"] = 9
    marks = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":9}', "removed": False}
    domain = delta.lines({"domainMetadata": marks})
    stamp = table.world.clock.now_ms()
    placed = delta.lines({"domainMetadata": {**marks, "configuration": '{"rowIdHighWaterMark":11}'}})
    table.put(published_path(1), delta.append("published", stamp) + placed)
    raw = delta.append("since", stamp, rows=5) + domain
    assert isinstance(table.ratifier.commit(CommitRequest(TABLE, None, base=0, content=raw)), Ratified)
    assert table.head.row_hwm == 14
    repair(table)
    adopt(table, "log")
    assert (table.head.latest, table.head.row_hwm, table.head.state) == (1, 11, "active")


def test_i3_a_streaming_application_of_a_commit_taken_back_counts_as_seen_at_the_floor(table: Table) -> None:
    table.mixed(3)
    publish(table)
    table.put(published_path(4), delta.append("published", table.head.last_ict + 1))
    raw = delta.append("batch", table.head.last_ict + 1, app="query")
    assert isinstance(table.ratifier.commit(CommitRequest(TABLE, 4, content=raw)), Ratified)
    repair(table)
    adopt(table, "log")
    assert set(table.head.apps.values()) <= {3}


@pytest.mark.parametrize("version", [4, 5])
def test_a_staged_commit_whose_content_is_gone_is_taken_back_without_a_copy(table: Table, version: int) -> None:
    lost = restored(table)
    for number in range(2):
        name = table.stage()
        if number + 4 == version:
            table.storage.delete(f"_delta_log/_staged_commits/{name}")
    for known in (4, 5):
        table.ratified[known] = table.published()[known]
    table.world.clock.now += 60_000
    assert repair(table)[1].finding == "differs"
    sides = diagnosis(table).sides
    assert sides is not None and sides.head is not None and (sides.head.digest is None) is (version == 4)
    adopt(table, "log")
    as_before_the_loss(table, lost)
    assert len(aside(table)) == 1


@pytest.mark.parametrize("visit", [1, 2, 5])
@pytest.mark.parametrize(
    "point", ["recover.taken_back", "recover.described", "recover.adopted", "recover.ended", "publish.floor"]
)
def test_i4_i11_a_choice_killed_at_any_point_is_finished_by_the_next_sweep_or_choice(
    table: Table, point: str, visit: int
) -> None:
    lost, contents = two_histories(table)
    log = table.published()
    with suppress(Killed):
        adopt(table, "log", kill_at(point, visit))
    recount(table.head)
    assert table.published() == log and aside(table) == contents
    if table.head.state == "stuck":
        adopt(table, "log")
    repair(table)
    as_before_the_loss(table, lost)


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_i2_i4_a_choice_whose_nth_write_fails_in_any_way_is_made_by_the_next_one(how: How) -> None:
    failed = 0
    for at in itertools.count(1):
        table = with_metadata()
        lost, contents = two_histories(table)
        log = table.published()
        sides = diagnosis(table).sides
        assert sides is not None
        choice = Choice("log", sides.log.version, sides.log.digest)
        faulty = Faulty(table.world, at, how)
        with suppress(Crash, OutcomeUnknown, StorageFault):
            Repairer(faulty.world, Publisher(faulty.world), Recoverer(faulty.world)).adopt(TABLE, choice)
        recount(table.head)
        if len(faulty.writes) < at:
            break
        failed += 1
        assert table.published() == log
        repairer(table).adopt(TABLE, choice)
        as_before_the_loss(table, lost)
        assert aside(table) == contents
    assert failed > 5


@pytest.mark.parametrize("side", ["log", "head"])
def test_i4_large_commits_of_both_sides_are_compared_and_copied_piece_by_piece(
    table: Table, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.mixed(3)
    publish(table)
    size = PIECE_BYTES + 100_000
    stamp = table.head.last_ict + 1
    mine = delta.lines(delta.info("since", stamp), delta.add("a.parquet", note="m" * size))
    theirs = delta.lines(delta.info("before", stamp), delta.add("a.parquet", note="t" * size))
    name = table.staged_name(4, 1)
    table.put(staged_path(name), mine)
    assert isinstance(table.ratifier.commit(CommitRequest(TABLE, 4, staged=name, size=len(mine))), Ratified)
    table.put(published_path(4), theirs)
    held = []
    read = type(table.storage).read
    monkeypatch.setattr(type(table.storage), "read", lambda *args, **more: held.append(read(*args, **more)) or held[-1])
    assert repair(table)[1].finding == "differs"
    sides = diagnosis(table).sides
    assert sides is not None and sides.head is not None
    assert (sides.head.digest, sides.log.digest) == (f"{digest_of(mine):016x}", f"{digest_of(theirs):016x}")
    if side == "log":  # an adoption itself reads as much as a ratification does
        assert max(len(file[0]) for file in held if file) <= PIECE_BYTES
    done = adopt(table, side)
    if side == "head":
        assert max(len(file[0]) for file in held if file) <= PIECE_BYTES
    monkeypatch.undo()
    assert len(done.set_aside) == 1 and aside(table) == [mine if side == "log" else theirs]
    assert table.head.latest == 4 and (table.head.state == "active") is (side == "log")


def test_a_listing_that_fails_is_a_finding(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    two_histories(table)

    def away(*_: object, **__: object) -> None:
        raise StorageFault("it is away")

    monkeypatch.setattr("turnstile.delta.repair.with_later", away)
    assert diagnosis(table).finding == "unreadable"
    table.row.update({"floor": 3, "latest": 3, "tail": table.row["tail"][:3], "state": "active"})
    table.put(published_path(4), b"not a commit\n")
    assert diagnosis(table).finding == "unreadable"


# -- what was shown is what is chosen from -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other", [{"version": 5}, {"version": 3}, {"digest": None}, {"digest": "0123456789abcdef"}], ids=str
)
@pytest.mark.parametrize("side", ["log", "head"])
def test_i2_a_choice_between_other_sides_than_the_present_ones_is_refused_and_changes_nothing(
    table: Table, side: Side, other: dict[str, Any]
) -> None:
    two_histories(table)
    sides = diagnosis(table).sides
    assert sides is not None
    before = clone(table.row), dict(table.world.storages.files)
    choice = Choice(**{"side": side, "version": sides.log.version, "digest": sides.log.digest, **other})
    with pytest.raises(StateConflict, match="contradict each other at version 4") as refused:
        repairer(table).adopt(TABLE, choice)
    assert refused.value.type == "ConcurrentChange" and "choose again" in str(refused.value.remedy)
    assert before == (table.row, table.world.storages.files)


def test_a_choice_where_there_is_none_any_more_is_a_plain_repair(table: Table) -> None:
    table.mixed(2)
    done = repairer(table).adopt(TABLE, Choice("log", 1, None))
    assert (done.diagnosis.finding, done.set_aside, done.to_remove) == ("healthy", (), ())
    table.check_all_published()


@pytest.mark.parametrize("meanwhile", ["dropped", "ratified", "published"])
def test_i2_i5_i10_nothing_is_taken_back_from_a_head_that_changed_meanwhile(table: Table, meanwhile: str) -> None:
    two_histories(table)
    stale = table.head
    match meanwhile:
        case "dropped":
            table.row["state"] = "dropped"
        case "ratified":
            table.row["state"] = "active"
            table.storage.delete(published_path(4))
            commit(table, "meanwhile")
            table.row["state"] = "stuck"
        case _:
            table.storage.delete(published_path(4))
            publish(table)
            table.row.update({"state": "stuck", "latest": stale.latest})
    before = clone(table.row)
    recoverer = Recoverer(table.world)
    assert recoverer.take_back(stale).latest >= stale.latest
    assert table.row == before


def test_i24_nothing_is_taken_back_where_the_newest_published_commit_is_gone(table: Table) -> None:
    two_histories(table)
    before = clone(table.row)
    table.storage.delete(published_path(table.head.floor))
    with pytest.raises(StorageFault, match=published_path(table.head.floor)):
        Recoverer(table.world).take_back(table.head)
    assert table.row == before


@pytest.mark.parametrize("state", ["active", "leaving", "dropped", "pinned"])
def test_i10_nothing_is_taken_back_from_a_table_that_was_not_stopped(table: Table, state: str) -> None:
    two_histories(table)
    table.row["state"] = state
    with pytest.raises(ValueError, match=state):
        take_back(table.head, "m", 1)
    if state == "leaving":
        with pytest.raises(StateConflict, match="leaving"):
            adopt(table, "log")


# -- the HEAD stays ----------------------------------------------------------------------------------------------------


def test_i4_the_choice_of_the_head_names_the_files_that_its_operator_has_to_remove(table: Table) -> None:
    _, contents = two_histories(table)
    table.put("_delta_log/00000000000000000010.checkpoint.parquet", b"state of the log")
    table.put("_delta_log/00000000000000000010.crc", b"{}")
    log = table.published()
    row = clone(table.row)
    done = adopt(table, "head")
    assert table.row == row and table.published() == log, "the service itself removes nothing"
    assert done.to_remove[0].startswith("_delta_log/00000000000000000010")
    assert {path[11:31] for path in done.to_remove} == {f"{version:020d}" for version in range(4, 11)}
    assert len(done.to_remove) == 9 == len(done.set_aside)
    for path in done.to_remove:
        file = table.storage.read(path)
        assert file is not None and file[0] in aside(table)
        table.storage.delete(path)
    found = repair(table)[1]
    assert (found.finding, found.state, table.head.latest) == ("healthy", "active", 5)
    assert [table.published()[version] for version in (4, 5)] == contents


def test_i4_files_after_the_head_that_cannot_be_adopted_can_be_set_aside(table: Table) -> None:
    table.mixed(3)
    publish(table)
    table.put(published_path(4), b"not a commit\n")
    found = repair(table)[1]
    assert (found.finding, found.state) == ("foreign", "stuck") and "--adopt head" in found.remedy
    assert found.sides is not None and found.sides.head is None and found.sides.log.txn_id is None
    with pytest.raises(StateConflict, match="cannot be adopted"):
        adopt(table, "log")
    done = adopt(table, "head")
    assert done.to_remove == (published_path(4),) and aside(table) == [b"not a commit\n"]
    table.storage.delete(published_path(4))
    assert repair(table)[1].finding == "healthy"


def test_a_gap_is_shown_as_the_side_of_the_log_without_a_file(table: Table) -> None:
    restored(table)
    table.storage.delete(published_path(6))
    found = repair(table)[1]
    assert found.sides is not None
    log = found.sides.log
    assert (found.finding, log.version, log.up_to, log.digest) == ("gap", 6, 10, None)
    done = adopt(table, "head")
    assert len(done.to_remove) == 4


def test_i4_a_copy_that_holds_other_bytes_stops_the_choice(table: Table) -> None:
    _, contents = two_histories(table, 1)
    name = next(place for place in (table.head.tail) if place.txn == "since-0")
    path = adopted_path(table, contents[0])
    table.put(path, b"other bytes")
    before = clone(table.row)
    with pytest.raises(StorageFault, match="holds other bytes"):
        adopt(table, "log")
    assert table.row == before and name


def adopted_path(table: Table, content: bytes) -> str:
    from turnstile.delta.core.head import tail_by_version

    place = next(place for place in tail_by_version(table.head) if place.version == 4)
    return aside_path(place.name, f"{digest_of(content):016x}")
