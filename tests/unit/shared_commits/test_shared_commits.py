"""Commits of one table that wait in a process share a write, and each gets the answer that it would
get alone (I23)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.delta_table import Table
from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from tests.support.threads import at_once
from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.core.writes.shared import GROUP_COMMITS
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import CommitTurn, Ratifier, WaitingCommit, new_queue
from turnstile.store.core.errors import NotFound, OutcomeUnknown, Throttled
from turnstile.store.ports import Accepted, Rejected
from turnstile.store.queue import Line

PATIENCE_S = 20.0

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def table() -> Table:
    made = Table(fake_world())
    append(made, "first")
    return made


def content(table: Table, txn: str, *more: dict[str, Any]) -> bytes:
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    return delta.lines(delta.info(txn, stamp), delta.add(txn), *more)


def ticket(table: Table, txn: str, *more: dict[str, Any], base: int | None = None) -> CommitRequest:
    return CommitRequest(
        table.id, None, base=table.head.latest if base is None else base, content=content(table, txn, *more)
    )


def named(table: Table, version: int, txn: str, *more: dict[str, Any]) -> CommitRequest:
    return CommitRequest(table.id, version, content=content(table, txn, *more))


def append(table: Table, txn: str) -> None:
    assert isinstance(table.ratifier.commit(ticket(table, txn)), Ratified)


class Server:
    """A process in which commits wait for each other: they are led here one group after the other,
    without threads."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.ratifier = Ratifier(table.world)
        self.ratifier.heads.read(table.id)  # this process has seen the table

    def together(self, *requests: CommitRequest, known: bool = True) -> list[Any]:
        """What becomes of commits that wait in one line; ``known``: the line has the row that its
        last write left."""
        queue = new_queue()
        line = Line[WaitingCommit]()
        waiting = []
        for request in requests:
            prepared = self.ratifier.preparer.prepare(request)
            assert not isinstance(prepared, Ratified | Conflict | Refused)
            waiting.append(WaitingCommit(prepared))
            line, _ = queue._join(self.table.id, waiting[-1])
        line.row = self.table.world.refs.read(self.table.key) if known else None
        self.table.world.refs.requests.clear()
        for each in waiting:
            if not each.is_settled:
                CommitTurn(self.ratifier.preparer, queue, line, each).run()
        return [_outcome(each) for each in waiting]

    @property
    def requests(self) -> list[str]:
        return list(self.table.world.refs.requests)


def _outcome(waiting: WaitingCommit) -> Any:
    try:
        return waiting.outcome()
    except Exception as error:
        return error


@pytest.fixture
def server(table: Table) -> Server:
    return Server(table)


def versions(answers: list[Any]) -> list[int]:
    assert all(isinstance(answer, Ratified) for answer in answers), answers
    return [answer.version for answer in answers]


def test_i1_i23_tickets_that_wait_together_are_versions_of_their_own_in_one_write(table: Table, server: Server) -> None:
    answers = server.together(*(ticket(table, f"t{number}") for number in range(5)))
    assert versions(answers) == [2, 3, 4, 5, 6] and server.requests == ["write"]
    for number, answer in enumerate(answers):
        assert answer.place.entry.txn == f"t{number}" and not answer.replayed
        assert answer.place.version == answer.version and answer.latest == 6
    assert Publisher(table.world).publish(table.id).problem is None and table.head.floor == 6


def test_i23_the_first_commit_of_a_line_is_written_at_once_and_alone(table: Table, server: Server) -> None:
    answers = server.together(*(ticket(table, f"t{number}") for number in range(4)), known=False)
    assert versions(answers) == [2, 3, 4, 5] and server.requests == ["write", "write"]


def test_i1_i23_of_commits_that_name_one_version_one_wins_and_the_others_hear_of_it_without_a_request(
    table: Table, server: Server
) -> None:
    answers = server.together(*(named(table, 2, f"n{number}") for number in range(4)))
    assert server.requests == ["write"] and versions(answers[:1]) == [2]
    for answer in answers[1:]:
        assert isinstance(answer, Conflict) and answer.latest == 2
        assert [winner.entry.txn for winner in answer.winners] == ["n0"]


def test_i2_i23_a_change_of_metadata_wins_and_tickets_of_older_metadata_hear_of_it(
    table: Table, server: Server
) -> None:
    change = named(table, 2, "m", delta.metadata(by="m"))
    answers = server.together(ticket(table, "a"), change, ticket(table, "b"))
    assert versions(answers[1:2]) == [2] and server.requests.count("write") == 1
    assert [(type(answer), answer.because) for answer in answers[::2]] == [(Conflict, "metadata")] * 2


def test_i3_i23_a_commit_that_is_sent_twice_at_the_same_time_is_ratified_once(table: Table, server: Server) -> None:
    request = ticket(table, "a")
    first, second, third = server.together(request, request, ticket(table, "b"))
    assert versions([first, second, third]) == [2, 2, 3] and (first.replayed, second.replayed) == (False, True)


def test_i3_i23_a_commit_that_was_ratified_long_ago_is_found_and_spoils_nothing(table: Table, server: Server) -> None:
    request = ticket(table, "old")
    assert versions([table.ratifier.commit(request)]) == [2]
    for number in range(8):
        append(table, f"later{number}")
    assert Publisher(table.world).publish(table.id).problem is None and table.head.tail_from > 3
    again, other = server.together(request, ticket(table, "other"))
    assert versions([again, other]) == [2, 11] and again.replayed


def test_i23_a_group_that_another_process_overtook_is_judged_again_by_the_row_that_refused(
    table: Table, server: Server
) -> None:
    requests = [named(table, 2, "n"), ticket(table, "a"), ticket(table, "b")]
    _before_write(table, lambda: append(table, "other"))
    answers = server.together(*requests)
    assert isinstance(answers[0], Conflict) and answers[0].latest == 2
    assert versions(answers[1:]) == [3, 4] and server.requests.count("write") == 3  # one of them the other's


def test_i10_i23_a_group_of_a_table_that_left_meanwhile_changes_nothing(table: Table, server: Server) -> None:
    requests = [ticket(table, "a"), ticket(table, "b")]
    _before_write(table, lambda: table.world.refs.rows[table.key].update(state="leaving"))
    answers = server.together(*requests)
    assert [answer.kind for answer in answers] == ["TableNotActive"] * 2 and table.head.latest == 1


def test_i23_a_group_of_a_table_that_is_gone_is_reported(table: Table, server: Server) -> None:
    requests = [ticket(table, "a"), ticket(table, "b")]
    _before_write(table, lambda: table.world.refs.rows.pop(table.key))
    assert all(isinstance(answer, NotFound) for answer in server.together(*requests))


def test_i11_i23_a_full_row_refuses_what_does_not_fit_and_takes_what_does(table: Table, server: Server) -> None:
    fat = [delta.add("f" * 6_000)]
    answers = server.together(*(ticket(table, f"t{number}", *fat) for number in range(40)))
    assert len({answer.version for answer in answers if isinstance(answer, Ratified)}) == 40
    assert Publisher(table.world).publish(table.id).problem is None and table.head.floor == 41


def test_i3_i23_a_lost_answer_is_unknown_to_all_of_its_group_and_to_no_other(table: Table, server: Server) -> None:
    def lost(write: Any) -> Any:
        real(write)
        raise OutcomeUnknown("no answer")

    real = table.world.refs.write
    apps = {"txn": {"appId": "query", "version": 1}}
    requests = [ticket(table, "a", apps), ticket(table, "c", apps), ticket(table, "b")]
    table.world.refs.write = lost  # type: ignore[method-assign]
    queue_answers = _with_write_restored(table, real, lambda: server.together(*requests), after=1)
    first, second, third = queue_answers
    assert isinstance(first, OutcomeUnknown) and isinstance(third, OutcomeUnknown) and first is not third
    assert isinstance(second, Conflict)
    again = server.together(requests[0], requests[2])
    assert versions(again) == [2, 3] and all(answer.replayed for answer in again)


def test_i3_i23_a_refusal_after_a_lost_answer_is_reported_only_if_it_excludes_the_lost_write(
    table: Table, server: Server
) -> None:
    real = table.world.refs.write

    def refused_uncertain(write: Any) -> Any:
        table.world.refs.write = real  # type: ignore[method-assign]
        append(table, "other")
        table.world.refs.rows[table.key].update(state="leaving")
        answer = real(write)
        assert isinstance(answer, Rejected)
        return Rejected(answer.row, uncertain=True)

    requests = [named(table, 2, "n"), ticket(table, "a")]
    table.world.refs.write = refused_uncertain  # type: ignore[method-assign]
    conflict, unknown = server.together(*requests)
    assert isinstance(unknown, OutcomeUnknown), "the table may be active again before the first write arrives"
    assert isinstance(conflict, OutcomeUnknown), "the state comes before the version"


def test_i23_a_throttled_group_fails_and_what_did_not_take_part_goes_on(table: Table, server: Server) -> None:
    real = table.world.refs.write

    def throttled(write: Any) -> Any:
        table.world.refs.write = real  # type: ignore[method-assign]
        raise Throttled("too fast")

    apps = {"txn": {"appId": "query", "version": 1}}
    requests = [ticket(table, "a", apps), ticket(table, "b"), ticket(table, "c", apps)]
    table.world.refs.write = throttled  # type: ignore[method-assign]
    first, second, third = server.together(*requests)
    assert isinstance(first, Throttled) and isinstance(second, Throttled) and first is not second
    assert versions([third]) == [2]


def test_i3_i23_an_error_after_a_lost_answer_is_no_outcome(table: Table, server: Server) -> None:
    real = table.world.refs.write
    failures = [OutcomeUnknown("no answer"), Throttled("too fast")]

    def refused_uncertain(write: Any) -> Any:
        table.world.refs.write = failing  # type: ignore[method-assign]
        append_with(real)
        answer = real(write)
        return Rejected(answer.row, uncertain=True)

    def append_with(write: Any) -> None:
        table.world.refs.write = write  # type: ignore[method-assign]
        append(table, f"other{len(failures)}")
        table.world.refs.write = failing  # type: ignore[method-assign]

    def failing(_: Any) -> Any:
        raise failures.pop()

    for text in ("too fast", "no answer"):
        requests = [ticket(table, f"a{len(failures)}"), ticket(table, f"b{len(failures)}")]
        table.world.refs.write = refused_uncertain  # type: ignore[method-assign]
        answers = server.together(*requests)
        assert [type(answer) for answer in answers] == [OutcomeUnknown] * 2
        assert all(text in answer.message for answer in answers)
        assert ["an answer was lost, and then" in answer.message for answer in answers] == [text == "too fast"] * 2


def test_i3_i23_what_was_lost_once_stays_so(table: Table, server: Server) -> None:
    """Two refusals, the first one of a write that was sent twice; the third attempt meets a table
    that takes no commits for now."""
    real = table.world.refs.write
    refusals = [True, False]

    def refused(write: Any) -> Any:
        if not refusals:
            table.world.refs.rows[table.key].update(state="leaving")
            return real(write)
        table.world.refs.write = real  # type: ignore[method-assign]
        append(table, f"other{len(refusals)}")
        table.world.refs.write = refused  # type: ignore[method-assign]
        answer = real(write)
        return Rejected(answer.row, uncertain=refusals.pop(0))

    requests = [ticket(table, "a"), ticket(table, "b")]
    table.world.refs.write = refused  # type: ignore[method-assign]
    assert [type(answer) for answer in server.together(*requests)] == [OutcomeUnknown] * 2


def test_i1_a_store_that_accepts_and_shows_another_row_is_an_internal_error(table: Table, server: Server) -> None:
    other = table.world.refs.read(table.key)
    requests = [ticket(table, "a"), ticket(table, "b")]
    table.world.refs.write = lambda _: Accepted(other)  # type: ignore[method-assign]
    assert all("not the newest" in str(answer) for answer in server.together(*requests))


def test_i23_a_commit_that_meets_change_after_change_gets_the_error_of_contention(table: Table) -> None:
    server = Server(table)
    real = table.world.refs.write

    def overtaken(write: Any) -> Any:
        table.world.refs.write = real  # type: ignore[method-assign]
        append(table, f"other{table.head.latest}")
        table.world.refs.write = overtaken  # type: ignore[method-assign]
        return real(write)

    requests = [ticket(table, "a"), ticket(table, "b")]
    table.world.refs.write = overtaken  # type: ignore[method-assign]
    answers = server.together(*requests)
    assert [answer.kind for answer in answers] == ["ConcurrentChange"] * 2
    assert table.head.latest == 1 + server.ratifier.preparer.attempts


def test_i6_i23_threads_of_one_process_share_writes_and_none_is_lost(table: Table) -> None:
    """Real threads, a store that takes a while: far fewer writes than commits."""
    real = table.world.refs.write
    writers = 16
    each = 6
    ratifier = Ratifier(table.world)
    mutex = threading.Lock()

    def slow(write: Any) -> Any:
        time.sleep(0.002)
        with mutex:
            return real(write)

    table.world.refs.write = slow  # type: ignore[method-assign]
    requests = [[ticket(table, f"w{writer}.{number}") for number in range(each)] for writer in range(writers)]
    table.world.refs.requests.clear()

    def write(mine: list[CommitRequest]) -> list[Any]:
        return [ratifier.commit(request) for request in mine]

    groups: Any = at_once([_call(write, mine) for mine in requests])
    answers = [answer for group in groups for answer in group]
    assert sorted(versions(answers)) == list(range(2, 2 + writers * each))
    assert table.world.refs.requests.count("write") < writers * each / 2
    assert sorted(place.entry.txn for place in (answer.place for answer in answers)) == sorted(
        f"w{writer}.{number}" for writer in range(writers) for number in range(each)
    )


def test_i23_a_line_takes_no_more_than_a_condition_holds(table: Table, server: Server) -> None:
    answers = server.together(*(ticket(table, f"t{number}") for number in range(GROUP_COMMITS + 5)))
    assert versions(answers) == list(range(2, GROUP_COMMITS + 7)) and server.requests == ["write", "write"]


def _call(function: Callable[[Any], Any], argument: Any) -> Callable[[], Any]:
    return lambda: function(argument)


def _before_write(table: Table, happens: Callable[[], object]) -> None:
    """Something happens before the next write."""
    real = table.world.refs.write

    def write(write: Any) -> Accepted | Rejected:
        table.world.refs.write = real  # type: ignore[method-assign]
        happens()
        return real(write)

    table.world.refs.write = write  # type: ignore[method-assign]


def _with_write_restored(table: Table, real: Any, run: Callable[[], list[Any]], after: int) -> list[Any]:
    """Runs with a broken ``write``, which is whole again after so many calls."""
    broken = table.world.refs.write
    calls = 0

    def write(write: Any) -> Any:
        nonlocal calls
        calls += 1
        return broken(write) if calls <= after else real(write)

    table.world.refs.write = write  # type: ignore[method-assign]
    try:
        return run()
    finally:
        table.world.refs.write = real  # type: ignore[method-assign]
