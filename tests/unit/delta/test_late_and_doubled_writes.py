"""Named traps that other coordinators fell into: answers that are lost, late or doubled."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delta_table import Table, inline_request
from tests.support.fakes.heads import floored
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.store.clients import Scripted, error
from turnstile.adapters.dynamo.models import KINDS, to_item
from turnstile.adapters.dynamo.refs import DynamoRefs
from turnstile.delta.core.decide import Conflict, Ratified
from turnstile.delta.core.head import TableHead
from turnstile.delta.identity import Outcomes
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import OutcomeUnknown, Throttled
from turnstile.store.retry import Patience

DAY = 86_400_000


def world(table: Table) -> FakeWorld:
    return table.world


@pytest.fixture
def table() -> Table:
    return Table(fake_world())


def publish(table: Table) -> None:
    assert Publisher(table.world).publish(table.id).problem is None


class Disturbed:
    """refs whose next write goes wrong in one way."""

    def __init__(self, table: Table, how: str) -> None:
        self._plain = table.world.refs
        self._how = how
        self.held: Any = None
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    def write(self, write: Any) -> Any:
        self.writes += 1
        how = self._how
        self._how = ""
        match how:
            case "throttle":
                raise Throttled
            case "answer lost":
                self._plain.write(write)
                raise OutcomeUnknown("no answer")
            case "lands later":
                self.held = write
                raise OutcomeUnknown("no answer")
            case "sent twice by the transport":
                self._plain.write(write)
        return self._plain.write(write)


def ratifier(table: Table, refs: Disturbed, seen: TableHead | None = None) -> Ratifier:
    """A ratifier that has seen the table's HEAD, by default as it is now."""
    plain = table.world
    moved = type(plain)(refs, plain.objs, plain.storages, plain.clock, plain.ids, plain.space)  # type: ignore[arg-type]
    service = Ratifier(moved)
    service.heads.remember(seen or table.head)
    return service


@pytest.mark.parametrize(("sees_winner", "request_made"), [(True, "read"), (False, "write")])
def test_i3_a_lost_commit_is_never_taken_for_a_won_one_and_costs_one_request(
    table: Table, sees_winner: bool, request_made: str
) -> None:
    """A process that has seen the winner reads the HEAD; to another one its write is refused, with
    the HEAD."""
    before = table.head
    table.inline()
    service = ratifier(table, table.world.refs, table.head if sees_winner else before)  # type: ignore[arg-type]
    service.preparer._metadata.get("main", before.metadata)
    table.world.refs.requests.clear()
    answer = service.commit(inline_request(table, 1, "mine"))
    assert isinstance(answer, Conflict) and answer.latest == 1
    assert table.world.refs.requests == [request_made]


class Forgetful:
    """What a process remembers of so many tables that it has forgotten this one."""

    def get(self, key: str) -> None:
        return None

    def put(self, key: str, value: object) -> None:
        return None


@pytest.mark.parametrize("version", [1, None])
def test_i2_a_table_that_is_forgotten_is_decided_by_its_row(table: Table, version: int | None) -> None:
    service = ratifier(table, table.world.refs)  # type: ignore[arg-type]
    service.heads._seen = Forgetful()  # type: ignore[assignment]
    answer = service.commit(inline_request(table, version, "mine", base=0))
    assert isinstance(answer, Ratified) and answer.version == 1


@pytest.mark.parametrize("ict_ahead_ms", [0, 1])
def test_i7_a_ticket_whose_clock_is_behind_costs_one_write_where_the_last_timestamp_was_seen(
    table: Table, ict_ahead_ms: int
) -> None:
    for txn in ("first", "second"):
        request = inline_request(table, None, txn, base=0, ict=table.head.last_ict + ict_ahead_ms)
        table.world.refs.requests.clear()
        assert isinstance(table.ratifier.commit(request), Ratified)
    assert table.world.refs.requests == ["write"]


def test_i7_a_ticket_that_a_later_timestamp_overtook_is_written_in_the_other_form(table: Table) -> None:
    seen_ms = table.head.last_ict
    assert isinstance(table.ratifier.commit(inline_request(table, None, "seen", base=0, ict=seen_ms + 1)), Ratified)
    other = Ratifier(table.world)
    assert isinstance(other.commit(inline_request(table, None, "later", base=0, ict=seen_ms + 500)), Ratified)
    table.world.refs.requests.clear()
    answer = table.ratifier.commit(inline_request(table, None, "overtaken", base=0, ict=seen_ms + 100))
    assert isinstance(answer, Ratified)
    assert answer.place is not None
    assert answer.place.ict == seen_ms + 501
    assert table.world.refs.requests == ["write", "write"]


@pytest.mark.parametrize("version", [1, None])
@pytest.mark.parametrize("how", ["answer lost", "sent twice by the transport"])
def test_i3_a_write_that_landed_and_is_repeated_is_not_a_conflict(table: Table, how: str, version: int | None) -> None:
    refs = Disturbed(table, how)
    service = ratifier(table, refs)
    request = inline_request(table, version, "mine", base=0)
    if how == "answer lost":
        with pytest.raises(OutcomeUnknown):
            service.commit(request)
    answer = service.commit(request)
    assert isinstance(answer, Ratified) and answer.replayed and answer.version == 1 and table.head.latest == 1


def test_i3_a_throttle_is_neither_an_acceptance_nor_a_conflict(table: Table) -> None:
    with pytest.raises(Throttled):
        ratifier(table, Disturbed(table, "throttle")).commit(inline_request(table, 1, "mine"))
    assert table.head.latest == 0 and Outcomes(table.world).of(table.id, txn="mine", version=1).outcome == "open"


@pytest.mark.parametrize("code", ["TransactionConflictException", "ThrottlingException"])
def test_i3_a_clash_with_a_transaction_on_the_row_is_neither_an_acceptance_nor_a_conflict(
    table: Table, code: str
) -> None:
    """Through the real adapter: it is tried again, the same write, and ends as "not applied", or as
    accepted."""
    request = inline_request(table, 1, "mine")
    before = table.head
    assert isinstance(Ratifier(table.world).commit(request), Ratified)
    row = to_item(KINDS["table"], table.row)
    for outcomes, says in (((error(code),), Throttled), ((error(code), error(code), {"Attributes": row}), None)):
        client = Scripted(*outcomes)
        patience = Patience(deadline_s=60 if says is None else 0.3, first_s=0.001, longest_s=0.002)
        refs = DynamoRefs(client, "refs", realm="test", patience=patience)
        service = ratifier(table, refs, before)  # type: ignore[arg-type]
        service.preparer._metadata.get("main", table.head.metadata)
        if says is not None:
            with pytest.raises(says):
                service.commit(request)
        else:
            answer = service.commit(request)
            assert isinstance(answer, Ratified) and answer.version == 1
        assert len(client.asked) > 2 and all(asked == client.asked[0] for asked in client.asked)


@pytest.mark.parametrize("version", [1, None])
def test_i3_a_write_that_lands_after_its_proposal_was_sent_again_changes_nothing(
    table: Table, version: int | None
) -> None:
    refs = Disturbed(table, "lands later")
    service = ratifier(table, refs)
    request = inline_request(table, version, "mine", base=0)
    with pytest.raises(OutcomeUnknown):
        service.commit(request)
    assert Outcomes(table.world).of(table.id, txn="mine", version=version).outcome == "open"
    assert isinstance(service.commit(request), Ratified)
    table.world.refs.write(refs.held)
    assert [entry.txn for entry in table.head.tail] == ["mine"]
    for _ in range(5):
        table.inline()
    table.world.refs.rows[table.key] = floored(table.row)
    assert table.head.tail_from > 2
    table.world.refs.write(refs.held)
    assert table.head.latest == 6 and "mine" not in table.head.ids


@pytest.mark.parametrize("version", [1, 2])
def test_i3_a_write_that_lands_after_a_final_refusal_is_refused_too(table: Table, version: int) -> None:
    refs = Disturbed(table, "lands later")
    service = ratifier(table, refs)
    request = inline_request(table, 1, "mine")
    with pytest.raises(OutcomeUnknown):
        service.commit(request)
    for _ in range(version):
        table.inline()
    assert isinstance(service.commit(request), Conflict)
    table.world.refs.write(refs.held)
    assert "mine" not in [entry.txn for entry in table.head.tail] and table.head.latest == version
