"""Named traps that other coordinators fell into: ratification and its answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delta_table import Table
from tests.support.fakes import delta
from tests.support.fakes.heads import named, recount
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.delta.commits import inline_contents
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.head import MAX_APPS
from turnstile.delta.core.writes.ratify import FORGOTTEN_MAX, named_change
from turnstile.delta.prepare import TimestampAhead
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import STEP, Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import InvalidCommit, NotFound
from turnstile.store.core.limits import Limits

DAY = 86_400_000
BUDGET = 32_768
"""Bytes of a HEAD's row at most, all in all: 32 kB."""


@pytest.fixture
def table() -> Table:
    return Table(fake_world())


def world(table: Table) -> FakeWorld:
    return table.world


def inline(table: Table, version: int | None, txn: str, ict: int | None = None, **more: Any) -> CommitRequest:
    stamp = ict or max(table.world.clock.now_ms(), table.head.last_ict + 1)
    return CommitRequest(table.id, version, content=delta.append(txn, stamp), **more)


def publish(table: Table) -> None:
    assert Publisher(table.world).publish(table.id).problem is None


def test_i1_i2_a_writer_that_was_stalled_until_its_version_was_forgotten_does_not_win_it(table: Table) -> None:
    stalled = named_change(table.key, named(1, "stalled", table.world.clock.now + 10**9), 0)
    table.mixed(9)
    publish(table)
    assert table.head.tail_from > 1
    table.world.refs.write(stalled)
    table.check_all_published()
    name = table.staged_name(1, 77)
    raw = delta.append("stalled", table.world.clock.now_ms())
    table.put(f"_delta_log/_staged_commits/{name}", raw)
    answer = table.ratifier.commit(CommitRequest(table.id, 1, staged=name, size=len(raw)))
    assert isinstance(answer, Conflict) and answer.published == table.head.floor


@pytest.mark.parametrize("days", [0, 20])
def test_i3_a_replay_after_its_entry_left_the_tail_gets_the_same_version(table: Table, days: int) -> None:
    first = inline(table, 1, "mine")
    ticket = inline(table, None, "next", base=0)
    assert isinstance(table.ratifier.commit(first), Ratified) and isinstance(table.ratifier.commit(ticket), Ratified)
    for _ in range(6):
        table.inline()
    publish(table)
    table.world.clock.now += days * DAY
    assert table.head.tail_from > 2
    for request, version in ((first, 1), (ticket, 2)):
        again = table.ratifier.commit(request)
        assert isinstance(again, Ratified) and again.replayed and again.version == version
    table.world.refs.rows[table.key]["state"] = "dropped"
    gone = table.ratifier.commit(first)
    assert isinstance(gone, Ratified) and gone.version == 1


@pytest.mark.parametrize("days", [28.9, 29.1, 29.9, 30.1, 31, 34, 36, 40])
def test_i3_a_proposal_older_than_the_index_remembers_is_not_ratified_twice(table: Table, days: float) -> None:
    ticket = inline(table, None, "next", base=0)
    assert isinstance(table.ratifier.commit(ticket), Ratified)
    for _ in range(6):
        table.inline()
    publish(table)
    table.world.clock.now += int(days * DAY)
    now_s = table.world.clock.now // 1000
    objs = table.world.objs
    objs.rows = {key: obj for key, obj in objs.rows.items() if obj.expires_s is None or obj.expires_s > now_s}
    again = table.ratifier.commit(ticket)
    if days < 30:
        assert isinstance(again, Ratified) and (again.replayed, again.version) == (True, 1)
    else:
        assert isinstance(again, Refused) and again.kind == "ReloadRequired"
    assert table.head.latest == 7


def test_i11_an_unpublished_head_stops_well_below_the_limit_of_a_row(table: Table) -> None:
    answer: object = None
    for number in range(2_000):
        apps = [{"txn": {"appId": f"{number}-{app}", "version": 1}} for app in range(MAX_APPS)]
        stamp = table.world.clock.now_ms()
        raw = delta.lines(delta.info(f"t{number}", stamp, "O" * 64), *apps, delta.add("f", noise="n" * 3_000))
        answer = table.ratifier.commit(CommitRequest(table.id, None, base=0, content=raw))
        if not isinstance(answer, Ratified):
            break
    assert isinstance(answer, Refused) and answer.kind == "BacklogFull" and answer.details["latest"] == number
    recount(table.head)
    assert _bytes(table.row) < BUDGET
    publish(table)
    recount(table.head)
    assert table.head.floor == number and _bytes(table.row) < 2_500


def test_i11_a_deployment_may_ask_for_a_shorter_backlog(table: Table) -> None:
    small = Ratifier(table.world, Limits(backlog_bytes=4_000))
    told = []
    for number in range(40):
        stamp = table.world.clock.now_ms()
        raw = delta.lines(delta.info(f"t{number}", stamp), delta.add("f", noise="n" * 500))
        told.append(small.commit(CommitRequest(table.id, number + 1, content=raw)))
        assert table.head.bytes <= 4_000
    accepted = [answer for answer in told if isinstance(answer, Ratified)]
    assert 5 < len(accepted) < 30
    refused = told[len(accepted)]
    assert isinstance(refused, Refused) and refused.kind == "BacklogFull"
    publish(table)
    again = small.commit(CommitRequest(table.id, len(accepted) + 1, content=raw))
    assert isinstance(again, Ratified)


@pytest.mark.parametrize("published_every", [10**9, 40, 7, 1])
def test_i11_many_streaming_applications_keep_the_head_within_its_budget(table: Table, published_every: int) -> None:
    """Short commits, each of two applications that nobody saw before: the most that ``apps`` can
    hold beside the tail."""
    answer: object = None
    for number in range(700):
        raw = delta.lines(
            {"commitInfo": {"txnId": f"{number}", "inCommitTimestamp": table.world.clock.now_ms()}},
            *[{"txn": {"appId": f"{number}-{app}", "version": 1}} for app in range(MAX_APPS)],
        )
        name = table.staged_name(number + 1, number)
        table.put(f"_delta_log/_staged_commits/{name}", raw)
        answer = table.ratifier.commit(CommitRequest(table.id, number + 1, staged=name, size=len(raw)))
        assert _bytes(table.row) < BUDGET
        if not isinstance(answer, Ratified):
            break
        if number % published_every == published_every - 1:
            publish(table)
            recount(table.head)
            assert len(table.head.apps) <= FORGOTTEN_MAX
    if published_every == 10**9:
        assert isinstance(answer, Refused) and answer.kind == "BacklogFull"
        assert len(table.head.apps) == MAX_APPS * table.head.latest
    else:
        assert isinstance(answer, Ratified) and answer.version == 700


def test_i11_applications_cannot_make_the_head_grow() -> None:
    assert MAX_APPS * STEP <= FORGOTTEN_MAX
    assert BUDGET * 100 < 4 * 1024 * 1024, "the HEADs of a hundred tables fit one transaction"


def test_i3_a_commit_with_many_applications_counts_as_unread_and_cannot_be_a_ticket(table: Table) -> None:
    apps = [{"txn": {"appId": str(app), "version": 1}} for app in range(MAX_APPS + 1)]
    raw = delta.lines(delta.info("many", table.world.clock.now_ms()), *apps, delta.add("f"))
    with pytest.raises(InvalidCommit):
        table.ratifier.commit(CommitRequest(table.id, None, base=0, content=raw))
    assert isinstance(table.ratifier.commit(CommitRequest(table.id, 1, content=raw)), Ratified)
    assert table.head.epoch == 1 and not table.head.apps


def _bytes(value: Any) -> int:
    if isinstance(value, dict):
        return sum(len(str(key)) + _bytes(one) + 1 for key, one in value.items())
    if isinstance(value, (list, set, frozenset)):
        return sum(_bytes(one) + 1 for one in value)
    return len(value) if isinstance(value, (bytes, str)) else 12


def test_i11_a_large_append_is_not_starved_by_small_ones(table: Table) -> None:
    for number in range(117):
        table.ticket(f"small-{number}")
    large = delta.lines(
        delta.info("large", 5), *[delta.add(f"{number:064x}{number * 7919:064x}") for number in range(800)]
    )
    answer = table.ratifier.commit(CommitRequest(table.id, None, base=0, content=large))
    assert isinstance(answer, Ratified) and answer.version == 118 and answer.place is not None
    assert answer.place.entry.obj and not answer.place.entry.data


def test_i4_a_loser_sees_the_winners_content_before_it_is_published(table: Table) -> None:
    table.inline()
    table.inline(size=9_000)
    table.ticket("third")
    conflict = table.ratifier.commit(inline(table, 1, "mine"))
    assert isinstance(conflict, Conflict) and conflict.published == 0
    contents = inline_contents(table.world, "main", conflict.winners, 1_000_000)
    assert contents == {version: table.ratified[version] for version in (1, 2, 3)}


@pytest.mark.parametrize("back", [0, 1, 5_000])
def test_i7_timestamps_that_are_equal_or_go_back_are_refused(table: Table, back: int) -> None:
    table.inline()
    answer = table.ratifier.commit(inline(table, 2, "mine", table.head.last_ict - back))
    assert isinstance(answer, Refused) and answer.kind == "TimestampNotIncreasing" and table.head.latest == 1


def test_i7_a_clock_years_ahead_cannot_poison_the_table(table: Table) -> None:
    for version in (1, None):
        with pytest.raises(TimestampAhead):
            table.ratifier.commit(inline(table, version, "mine", table.world.clock.now + 3_000 * DAY, base=0))
    assert table.head.latest == 0
    near = inline(table, 1, "near", table.world.clock.now + 4 * 60_000)
    assert isinstance(table.ratifier.commit(near), Ratified)
    table.world.clock.now -= DAY  # another server's clock is behind: a replay stays a replay
    again = table.ratifier.commit(near)
    assert isinstance(again, Ratified) and again.replayed
    with pytest.raises(TimestampAhead):
        table.ratifier.commit(inline(table, 2, "other", table.head.last_ict + 1))


def test_i2_an_append_that_meets_a_schema_change_is_reported(table: Table) -> None:
    base = table.head.latest
    table.world.refs.rows[table.key]["epoch"] = 1
    table.world.refs.rows[table.key]["latest"] = 1
    answer = table.ratifier.commit(inline(table, None, "mine", base=base))
    assert isinstance(answer, Conflict) and answer.because == "metadata"


def test_i3_an_append_that_meets_its_own_streaming_transaction_is_reported(table: Table) -> None:
    def batch(txn: str, base: int) -> object:
        raw = delta.append(txn, table.world.clock.now_ms(), app="query")
        return table.ratifier.commit(CommitRequest(table.id, None, base=base, content=raw))

    assert isinstance(batch("batch-1", 0), Ratified)
    restarted = batch("batch-1-of-a-restarted-driver", 0)
    assert isinstance(restarted, Conflict) and restarted.because == "application"
    for _ in range(8):
        table.inline()
    publish(table)
    assert table.head.tail_from > 1 and not table.head.apps
    late = batch("batch-1-of-a-driver-that-slept", 0)
    assert isinstance(late, Conflict) and late.because == "application"


def test_i4_a_staged_file_that_is_missing_or_cut_short_is_never_ratified(table: Table) -> None:
    name = table.staged_name(1, 1)
    with pytest.raises(NotFound):
        table.ratifier.commit(CommitRequest(table.id, 1, staged=name, size=10))
    raw = delta.append("mine", table.world.clock.now_ms())
    table.put(f"_delta_log/_staged_commits/{name}", raw[:-7])
    with pytest.raises(InvalidCommit):
        table.ratifier.commit(CommitRequest(table.id, 1, staged=name, size=len(raw)))
    assert table.head.latest == 0


def test_i3_a_collected_staged_file_is_looked_for_in_the_tail_before_the_index(table: Table) -> None:
    """An entry that moves from the tail to the index between the two looks is found by one of
    them."""
    name = table.stage()
    size = len(table.ratified[1])
    table.mixed(2)
    publish(table)
    table.mixed(6)
    assert table.head.tail_from == 1
    publish_at_the_first_read(table)
    table.storage.delete(f"_delta_log/_staged_commits/{name}")
    again = table.ratifier.commit(CommitRequest(table.id, 1, staged=name, size=size))
    assert isinstance(again, Ratified) and again.replayed and again.version == 1
    assert table.head.tail_from > 1


def publish_at_the_first_read(table: Table) -> None:
    """The publisher works right after somebody read the HEAD or the index."""
    done = []

    def then_publish(plain: Any) -> Any:
        def reads(*args: Any) -> Any:
            answer = plain(*args)
            if not done:
                done.append(True)
                Publisher(table.world).publish(table.id)
            return answer

        return reads

    table.world.refs.read = then_publish(table.world.refs.read)  # type: ignore[method-assign]
    table.world.objs.get_many = then_publish(table.world.objs.get_many)  # type: ignore[method-assign]
