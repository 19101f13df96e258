"""Named traps that other coordinators fell into: a refusal that was believed although an attempt
before it was lost (I3).

The adapter repeats a write after its answer was lost. When that one is refused, the first may still
be on its way: the answer must still be true when the write lands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.support.delta_table import Table, inline_request
from tests.support.fakes import delta
from tests.support.fakes.heads import floored
from tests.support.fakes.world import fake_world
from turnstile.catalog.describe import Describer
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.core.writes.state import drop_head, leave_head, mark_purging, mark_stuck, restore_head
from turnstile.delta.identity import Outcomes
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import OutcomeUnknown, StorageFault, Throttled
from turnstile.store.core.limits import ROW_BUDGET
from turnstile.store.core.writes import Change, Write
from turnstile.store.ports import Accepted, Rejected, World

Happens = Callable[[Table], object]


@pytest.fixture
def table() -> Table:
    return Table(fake_world())


class Late:
    """refs with a first write that is delayed while ``happens``; it is sent again at once, as the
    adapter does, and lands when the test says so. ``then`` is the fate of every further write.
    """

    def __init__(self, table: Table, happens: Happens, then: Exception | None = None) -> None:
        self._table = table
        self._happens = happens
        self._then = then
        self.held: Write | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table.world.refs, name)

    def write(self, write: Write) -> Accepted | Rejected:
        if self.held is not None and self._then is not None:
            raise self._then
        first = self.held is None
        if first:
            self.held = write
            self._happens(self._table)
        answer = self._table.world.refs.write(write)
        return msgspec.structs.replace(answer, uncertain=True) if first and isinstance(answer, Rejected) else answer

    def lands(self) -> None:
        assert self.held is not None
        self._table.world.refs.write(self.held)


def ratifier(table: Table, refs: Any, objs: Any = None) -> Ratifier:
    plain = table.world
    service = Ratifier(World(refs, objs or plain.objs, plain.storages, plain.clock, plain.ids, plain.space))
    service.heads.remember(table.head)
    return service


def _stuck(table: Table) -> object:
    return table.world.refs.write(mark_stuck(table.head, 1, "its file was lost", table.world.clock.now_ms()))


def _leaving(table: Table) -> object:
    return table.world.refs.write(leave_head(table.head, "export", table.world.clock.now_ms()))


def _dropped(table: Table) -> object:
    return table.world.refs.write(drop_head(table.key, table.world.clock.now_ms()))


def _full(table: Table) -> None:
    table.row["bytes"] += ROW_BUDGET - 10


def _described(table: Table) -> None:
    table.row["metadata"] = "another"


def _stuck_no_more(table: Table) -> None:
    table.row.update(state="active")
    table.row.pop("reason", None)


def _active_again(table: Table) -> None:
    _stuck_no_more(table)
    table.row.update(bytes=0, metadata="metadata/m")


@pytest.mark.parametrize("version", [1, None])
@pytest.mark.parametrize("happens", [_stuck, _leaving, _dropped, _described])
def test_i3_a_refusal_that_may_pass_leaves_a_lost_attempt_unknown(
    table: Table, happens: Happens, version: int | None
) -> None:
    refs = Late(table, happens)
    with pytest.raises(OutcomeUnknown, match="answer"):
        ratifier(table, refs).commit(inline_request(table, version, "mine", base=0, etag="metadata/m"))
    _active_again(table)
    refs.lands()
    assert table.head.latest == 1 and "mine" in table.head.ids, "or the test shows nothing"


@pytest.mark.parametrize("happens", [_stuck, _leaving, _dropped])
def test_i3_the_same_refusal_is_raised_when_nothing_was_lost(table: Table, happens: Happens) -> None:
    happens(table)
    answer = table.ratifier.commit(inline_request(table, 1, "mine"))
    assert isinstance(answer, Refused) and answer.kind == "TableNotActive"


@pytest.mark.parametrize("then", [Throttled("later"), StorageFault("away")])
def test_i3_a_lost_attempt_is_not_forgotten_when_its_spilled_form_fails(table: Table, then: Exception) -> None:
    refs = Late(table, _full, then)
    with pytest.raises(OutcomeUnknown):
        ratifier(table, refs).commit(inline_request(table, 1, "mine"))
    _active_again(table)
    refs.lands()
    assert table.head.latest == 1


def test_i3_a_full_row_says_nothing_of_a_lost_attempt(table: Table) -> None:
    request = inline_request(table, 1, "mine")
    refs = Late(table, _full)
    with pytest.raises(OutcomeUnknown):
        ratifier(table, refs).commit(request)


def test_i3_a_gap_says_nothing_of_a_lost_attempt_for_the_versions_between_may_come_first(table: Table) -> None:
    refs = Late(table, lambda _: None)
    with pytest.raises(OutcomeUnknown):
        ratifier(table, refs).commit(inline_request(table, 2, "mine", ict=table.head.last_ict + 60_000))
    table.inline()
    refs.lands()
    assert table.head.latest == 2


@pytest.mark.parametrize("version", [1, None])
def test_i3_a_conflict_is_final_whatever_was_lost(table: Table, version: int | None) -> None:
    def happens(table: Table) -> None:
        table.inline()
        table.row["epoch"] = 1  # as if it had changed metadata: tickets from before it lose

    refs = Late(table, happens)
    answer = ratifier(table, refs).commit(inline_request(table, version, "mine", base=0))
    assert isinstance(answer, Conflict)
    refs.lands()
    assert "mine" not in table.head.ids


def test_i3_a_timestamp_that_came_too_late_is_final_whatever_was_lost(table: Table) -> None:
    refs = Late(table, lambda one: one.row.update(last_ict=one.row["last_ict"] + 60_000))
    answer = ratifier(table, refs).commit(inline_request(table, 1, "mine"))
    assert isinstance(answer, Refused) and answer.kind == "TimestampNotIncreasing"
    refs.lands()
    assert table.head.latest == 0


def test_i3_row_ids_that_others_have_are_final_whatever_was_lost(table: Table) -> None:
    table.supports("rowTracking")
    refs = Late(table, lambda one: one.row.update(row_hwm=9))
    content = delta.lines(
        delta.info("mine", table.world.clock.now_ms()),
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": '{"rowIdHighWaterMark":5}',
                "removed": False,
            }
        },
        delta.add("x", baseRowId=0, defaultRowCommitVersion=1),
    )
    answer = ratifier(table, refs).commit(CommitRequest(table.id, 1, content=content))
    assert isinstance(answer, Refused) and answer.kind == "InvalidCommit"
    refs.lands()
    assert table.head.latest == 0


@pytest.mark.parametrize("version", [1, None])
def test_i3_an_attempt_that_landed_before_its_answer_was_lost_is_a_replay(table: Table, version: int | None) -> None:
    refs = Late(table, lambda one: refs.lands())
    answer = ratifier(table, refs).commit(inline_request(table, version, "mine", base=0))
    assert isinstance(answer, Ratified) and answer.replayed and answer.version == 1


@pytest.mark.parametrize("fault", [Throttled("later"), StorageFault("away")])
def test_i3_what_the_identity_index_cannot_tell_is_unknown_and_not_refused(table: Table, fault: Exception) -> None:
    """The proposal is its own replay; "nothing was applied" would be a lie."""
    request = inline_request(table, 1, "mine")
    assert isinstance(table.ratifier.commit(request), Ratified)
    for _ in range(5):
        table.inline()
    table.world.refs.rows[table.key] = floored(table.row)
    assert table.head.tail_from > 1

    class Away:
        def __getattr__(self, name: str) -> Any:
            raise fault

    with pytest.raises(OutcomeUnknown):
        ratifier(table, Late(table, lambda _: None), Away()).commit(request)


def test_i3_a_dropped_table_may_come_back_so_what_was_lost_stays_open(table: Table) -> None:
    refs = Late(table, _dropped)
    with pytest.raises(OutcomeUnknown):
        ratifier(table, refs).commit(inline_request(table, 1, "mine"))
    found = Outcomes(table.world)
    assert found.of(table.id, txn="mine", version=1).outcome == "open"
    table.world.refs.write(restore_head(table.key, "main.default.t", 9))
    refs.lands()
    assert found.of(table.id, txn="mine", version=1).version == 1


def test_i3_nothing_is_open_at_a_dropped_table_that_cannot_come_back(table: Table) -> None:
    _dropped(table)
    found = Outcomes(table.world)
    assert found.of(table.id, txn="mine", version=1).outcome == "open"
    assert found.of(table.id, txn="mine").outcome == "open"
    purging = mark_purging(table.head)
    assert isinstance(purging, Change) and isinstance(table.world.refs.write(purging), Accepted)
    assert found.of(table.id, txn="mine", version=1).outcome == "never"
    assert found.of(table.id, txn="mine").outcome == "never"
    assert isinstance(table.world.refs.write(restore_head(table.key, "main.default.t", 9)), Rejected)


def test_i3_a_version_that_is_taken_is_never_also_at_a_dropped_table(table: Table) -> None:
    table.inline()
    _dropped(table)
    assert Outcomes(table.world).of(table.id, txn="mine", version=1).outcome == "never"


def _describing(table: Table, happens: Happens) -> tuple[Describer, Late]:
    plain = table.world
    snapshots = MetadataStore(plain.objs, plain.space)
    table.row["metadata"] = snapshots.put("main", table.id, DeltaMetadata(0, {}, {}, {}), 1)
    refs = Late(table, happens)
    world = World(refs, plain.objs, plain.storages, plain.clock, plain.ids, plain.space)  # type: ignore[arg-type]
    return Describer(world, snapshots), refs


def test_i3_a_description_that_a_stuck_table_refused_may_land_later(table: Table) -> None:
    describer, refs = _describing(table, _stuck)
    before = table.head
    with pytest.raises(OutcomeUnknown):
        describer.describe(before, lambda _, old: msgspec.structs.replace(old, timestamp=7))
    _stuck_no_more(table)
    refs.lands()
    assert table.head.metadata != before.metadata


def test_i3_a_description_that_landed_is_a_success_whatever_the_table_is_now(table: Table) -> None:
    def lands_and_is_dropped(table: Table) -> None:
        refs.lands()
        _dropped(table)

    describer, refs = _describing(table, lands_and_is_dropped)
    before = table.head
    after = describer.describe(before, lambda _, old: msgspec.structs.replace(old, timestamp=7))
    assert after.metadata == table.head.metadata != before.metadata
