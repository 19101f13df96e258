"""A server's first commit of a table is not written where the table's log goes on after what its
HEAD knows (I1, I4)."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.delta_table import TABLE, Table, adopted, publish, repair, restored, with_metadata
from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorage
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import OutcomeUnknown, StorageFault


@pytest.fixture
def table() -> Table:
    return with_metadata()


def server(table: Table) -> Ratifier:
    """A process that has just started."""
    return Ratifier(table.world, looks=True)


def next_commit(table: Table, label: str = "new", version: int | None = 0) -> CommitRequest:
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    version = table.head.latest + 1 if version == 0 else version
    return CommitRequest(TABLE, version, base=table.head.latest, content=delta.append(label, stamp))


@pytest.mark.parametrize("version", [0, None], ids=["named", "ticket"])
def test_i1_i4_a_head_behind_its_log_takes_no_commit_until_the_log_is_adopted(
    version: int | None, table: Table
) -> None:
    lost = restored(table)
    before = table.row
    ratifier = server(table)
    for _ in range(3):
        answer = ratifier.commit(next_commit(table, version=version))
        assert isinstance(answer, Refused) and answer.kind == "TableNotActive"
        assert answer.details["state"] == "behind" and "repair" in answer.remedy
        assert str(table.head.latest + 1) in answer.message
    assert table.row == before, "nothing changes"
    repair(table)
    adopted(table, lost)
    taken = ratifier.commit(next_commit(table, version=version))
    assert isinstance(taken, Ratified) and taken.version == table.head.latest


def test_without_the_look_it_is_acknowledged_which_is_what_it_is_for(table: Table) -> None:
    restored(table)
    assert isinstance(Ratifier(table.world).commit(next_commit(table)), Ratified)


def test_a_table_is_looked_at_once_for_each_process(table: Table) -> None:
    ratifier = server(table)
    storage = table.world.storages
    assert isinstance(ratifier.commit(next_commit(table, "first")), Ratified)
    looks = list(storage.requests)
    reads = list(table.world.refs.requests)
    for label in ("second", "third"):
        assert isinstance(ratifier.commit(next_commit(table, label)), Ratified)
    assert storage.requests == looks
    assert table.world.refs.requests[len(reads) :] == ["write", "write"]


def test_the_first_look_is_one_request_to_the_lake_and_one_read(table: Table) -> None:
    def cost(ratifier: Ratifier) -> tuple[int, int]:
        lake = len(table.world.storages.requests)
        refs = len(table.world.refs.requests)
        assert isinstance(ratifier.commit(next_commit(table, f"{lake}-{refs}")), Ratified)
        return len(table.world.storages.requests) - lake, len(table.world.refs.requests) - refs

    plain = cost(Ratifier(table.world))
    looked = cost(server(table))
    assert (looked[0] - plain[0], looked[1] - plain[1]) == (1, 1)


def test_i3_a_replay_is_answered_by_a_head_behind_its_log(table: Table) -> None:
    request = next_commit(table, "mine")
    first = table.ratifier.commit(request)
    assert isinstance(first, Ratified)
    backup = dict(table.row)
    table.mixed(2)
    publish(table)
    table.world.refs.rows[backup["key"]] = backup
    again = server(table).commit(request)
    assert isinstance(again, Ratified) and again.replayed and again.version == first.version
    assert isinstance(server(table).commit(next_commit(table, "other")), Refused)


def test_i1_a_version_that_another_process_ratifies_and_publishes_during_the_look_is_no_sign(table: Table) -> None:
    ratifier = server(table)
    other = Ratifier(table.world)
    request = next_commit(table, "late")
    real = ratifier.preparer._first_look
    assert real is not None
    overtaken: list[int] = []
    has_next = real._has_next

    def overtaking(head: object) -> bool:
        if len(overtaken) < 2:
            overtaken.append(1)
            assert isinstance(other.commit(next_commit(table, f"winner-{len(overtaken)}")), Ratified)
            publish(table)
        return has_next(head)  # type: ignore[arg-type]

    real._has_next = overtaking  # type: ignore[method-assign]
    assert isinstance(ratifier.commit(request), Conflict)
    assert len(overtaken) == 2


def test_i3_a_lake_that_does_not_answer_leaves_the_outcome_open_and_is_asked_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratifier = server(table)

    def fails(_storage: FakeStorage, path: str) -> None:
        raise StorageFault(f"{path} cannot be read")

    with monkeypatch.context() as broken:
        broken.setattr(FakeStorage, "stat", fails)
        with pytest.raises(OutcomeUnknown):
            ratifier.commit(next_commit(table))
    assert isinstance(ratifier.commit(next_commit(table)), Ratified)


def test_the_logs_of_several_tables_are_looked_at_together_and_their_heads_not_read_again(table: Table) -> None:
    ratifier = server(table)
    ratifier.preparer.look([table.head, msgspec.structs.replace(table.head, table_id="other")])
    reads = len(table.world.refs.requests)
    looks = len(table.world.storages.requests)
    ratifier.heads.remember(table.head)
    assert isinstance(ratifier.commit(next_commit(table)), Ratified)
    assert table.world.refs.requests[reads:] == ["write"] and table.world.storages.requests[looks:] == []


@pytest.mark.parametrize("fails", [False, True])
def test_i1_i4_a_look_at_several_logs_leaves_one_that_goes_on_to_its_first_commit(
    table: Table, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    restored(table)
    ratifier = server(table)

    def broken(_storage: FakeStorage, path: str) -> None:
        raise StorageFault(f"{path} cannot be read")

    with monkeypatch.context() as lake:
        if fails:
            lake.setattr(FakeStorage, "stat", broken)
        ratifier.preparer.look([table.head, msgspec.structs.replace(table.head, table_id="other")])
    answer = ratifier.commit(next_commit(table))
    assert isinstance(answer, Refused) and answer.kind == "TableNotActive"
