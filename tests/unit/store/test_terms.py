"""No end that a clock ahead has written holds anything up (ADR 64): each has a longest term, and
counts as over beyond it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, get_args

import msgspec
import pytest

from tests.support.fakes.heads import empty_row, named
from tests.support.fakes.world import fake_world
from turnstile.access.core.client_rows import Client
from turnstile.adapters.dynamo.models import KINDS
from turnstile.api.doctor.clocks import ENDS, Ahead, ahead
from turnstile.api.doctor.clocks import KINDS as KINDS_LOOKED_AT
from turnstile.catalog.changes.retry import PriorityClaim
from turnstile.catalog.core.follow_ups import FollowUpRule
from turnstile.catalog.core.location_rows import Location, Reader
from turnstile.catalog.core.policies import policy_of
from turnstile.catalog.core.rows import CatalogHead, swept_ahead
from turnstile.coordination.core.rows import Task, Updateable
from turnstile.delta.core.decide import Refused, decide
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.journal_rows import JournalRow, expire_entry
from turnstile.delta.core.reservations import Register, Reservation
from turnstile.delta.core.undecided import GroupRow, is_late
from turnstile.delta.core.writes.ratify import unreserved_clause
from turnstile.events import follow_ups
from turnstile.events.core.deliveries import EventDelivery
from turnstile.events.core.follow_ups import ActionState, FollowUpState
from turnstile.events.core.follow_ups import due as due_follow_ups
from turnstile.gc import collector
from turnstile.gc.core import Grace, Place, idle_since
from turnstile.maintenance import work
from turnstile.maintenance.core.candidates import RunHistory, held_up, runs_task
from turnstile.maintenance.core.pins import is_live
from turnstile.maintenance.work import LastAttempt
from turnstile.store.core.evaluate import accepts
from turnstile.store.core.rows import TASK, Space, StoredAs, StoredRow, attributes
from turnstile.store.core.terms import SLACK_MS, is_over
from turnstile.store.core.writes import Change, Row

NOW: Final = 1_800_000_000_000
DAY: Final = 86_400_000

PAST: Final = [
    "created",
    "changed_at",
    "at",
    "since",
    "joined_at",
    "shown_at",
    "settled",
    "beat_ms",
    "modified_ms",
    "ratified_ms",
    "done_ms",
    "began",
    "ended",
]
"""Times at which something happened. A row that is older than it should be, or younger, is kept for
longer, and delays nothing."""

LOGICAL: Final = ["ict", "last_ict", "tail_ict"]
"""In-commit timestamps: they increase with any clock (I7)."""

KEPT: Final = ["request expires", "fleet-moves expires"]
"""When a row is removed: one that stays for longer holds nothing up."""

COUNTS: Final = [
    "apps",
    "attempt",
    "below",
    "begun",
    "bytes",
    "chunk",
    "changes",
    "count",
    "digest",
    "done",
    "epoch",
    "end",
    "failures",
    "first",
    "floor",
    "hwm",
    "index",
    "last",
    "latest",
    "life",
    "moves",
    "number",
    "owned",
    "pass_for",
    "pending",
    "place",
    "port",
    "readable_from",
    "revision",
    "rewound",
    "row_hwm",
    "rows",
    "seq",
    "sent",
    "size",
    "status",
    "succeeded",
    "tail_from",
    "tail_hwm",
    "taken_back",
    "version",
    "wanted",
    "abandoned",
    "next",
    "pending",
]


def head_row(**members: Any) -> Row:
    return {**empty_row(5), **members}


def catalog_row(**members: Any) -> Row:
    return {**CatalogHead("k", "main", "commit/1", 1, ("commit/1",), 1, 1).to_row(), **members}


def numbers(struct: type[msgspec.Struct]) -> list[str]:
    return [field.name for field in msgspec.structs.fields(struct) if field.type in (int, int | None)]


def packed_in(row: type[StoredRow]) -> list[type[msgspec.Struct]]:
    types = (part for field in msgspec.structs.fields(row) for part in get_args(field.type))
    return [part for part in types if isinstance(part, type) and issubclass(part, msgspec.Struct)]


IN_TASKS: Final = (Task, LastAttempt, RunHistory, ActionState, FollowUpState, Place)
"""Rows that are packed into updateable objects."""

OTHERS: Final = {"RunHistory": {"day", "spent_bytes", "spent_dpu_ms"}}


def test_every_number_that_a_row_keeps_is_an_end_with_a_longest_term_or_is_none() -> None:
    """A change that adds one says which: its end goes into ``api.doctor.clocks``, and gets a case
    below."""
    rows = [row for row in StoredRow.__subclasses__() if row.__module__.startswith("turnstile.") and row.kind in KINDS]
    members = [
        (row.kind, name) for row in rows for name, each in attributes(row).items() if each.stored_as is StoredAs.NUMBER
    ]
    structs = [*(struct for row in rows for struct in packed_in(row)), *IN_TASKS]
    members += [(struct.__name__, name) for struct in structs for name in numbers(struct)]
    known = {*PAST, *LOGICAL, *COUNTS}
    unknown = [
        (of, name)
        for of, name in members
        if (of, name) not in ENDS
        and name not in known
        and f"{of} {name}" not in KEPT
        and name not in OTHERS.get(of, ())
    ]
    assert unknown == [], "state the longest term of each in turnstile/api/doctor/clocks.py, or list it here"
    assert set(ENDS) - set(members) == set(), "there is no such member"


ENABLED: Final = msgspec.structs.replace(policy_of(()).policy, enabled=True)


def stands_in_head(until_ms: int) -> bool:
    head = TableHead.from_row(head_row(reserved_by="other", reserved_until=until_ms))
    proposal = named(6, "t", ratified_ms=NOW)
    answer = decide(head, proposal)
    refused = isinstance(answer, Refused) and "reserved" in answer.message
    clause = unreserved_clause(proposal)
    assert accepts(head.to_row(), Change("k", (clause,), ())) is not refused, "the write agrees with the decision (I18)"
    return refused


def stands_as_turn(until_ms: int) -> bool:
    world = fake_world()
    world.clock.now = NOW
    return PriorityClaim(world).held_by_other(catalog_row(turn="other", turn_until=until_ms))


def transaction(until_ms: int) -> bool:
    row = JournalRow("k", "i", "open", 1, "o", {}, {}, "", "", 1, until_ms)
    return not accepts(row.to_row(), expire_entry("k", NOW))


def stands_as_action(until_ms: int) -> bool:
    state = FollowUpState({"a": ActionState(1, again_ms=until_ms, failures=1)})
    return not due_follow_ups(state, [FollowUpRule("a", 1)], ["a"], 5, NOW)


def delivery(held_ms: int, pause_ms: int) -> bool:
    row = EventDelivery("k", "c", "t", 1, "l", 0, 0, 0, 1, "", held_ms, pause_ms, 1)
    return row.due_ms(NOW, alone=False) > NOW


def stands_in_place(place: Place) -> bool:
    """Whether tables that have changed within the month count as idle."""
    begun = place.start_run(NOW)
    return idle_since(begun, Grace()) > NOW or begun.began_ms > NOW


STANDS: Final[dict[tuple[str, str], Callable[[int], bool]]] = {
    ("catalog", "turn_until"): stands_as_turn,
    ("catalog", "swept"): lambda ms: not swept_ahead({"swept": ms}, NOW) and ms > NOW,
    ("table", "reserved_until"): stands_in_head,
    ("transaction", "until"): transaction,
    ("group", "deadline"): lambda ms: not is_late(GroupRow("k", "open", "t", b"", 1, ms, 1), NOW),
    ("event-delivery", "held_until_ms"): lambda ms: delivery(ms, 0),
    ("event-delivery", "pause_until_ms"): lambda ms: delivery(0, ms),
    ("client", "former_until"): lambda ms: (
        len(Client("k", "c", "", False, "s", "", 1, 1, former="f", former_until=ms).hashes(NOW)) == 2
    ),
    ("Reservation", "until"): lambda ms: Reservation("h", "i", 1, until=ms).is_live(NOW),
    ("Reader", "until"): lambda ms: is_live(Reader("h", "p", 0, 1, ms), NOW, 60_000),
    ("Task", "until"): lambda ms: Task(1, ms).running(NOW),
    ("LastAttempt", "again_ms"): lambda ms: LastAttempt(again_ms=ms, failures=1).pauses(NOW),
    ("RunHistory", "again_ms"): lambda ms: bool(held_up(ENABLED, RunHistory(again_ms=ms, failures=1), NOW)),
    ("ActionState", "again_ms"): stands_as_action,
    ("FollowUpState", "held_until_ms"): lambda ms: FollowUpState(held_until_ms=ms).is_held(NOW),
    ("Place", "began_ms"): lambda ms: stands_in_place(Place("x", ms, 0)),
    ("Place", "before_ms"): lambda ms: stands_in_place(Place("x", 1, ms)),
}


def test_every_end_has_a_case() -> None:
    assert set(STANDS) == set(ENDS)


@pytest.mark.parametrize("end", sorted(ENDS), ids=" ".join)
@pytest.mark.parametrize("days", [1, 9, 40, 20_000])
def test_i11_an_end_that_a_clock_ahead_has_written_is_over(end: tuple[str, str], days: int) -> None:
    assert not STANDS[end](NOW + ENDS[end] + SLACK_MS + days * DAY)


@pytest.mark.parametrize("end", sorted(end for end, longest_ms in ENDS.items() if longest_ms), ids=" ".join)
def test_an_end_within_its_longest_term_stands(end: tuple[str, str]) -> None:
    assert STANDS[end](NOW + ENDS[end]) and STANDS[end](NOW + 1_000)
    assert not STANDS[end](NOW - 70_000)


def task_row(id: str, result: bytes = b"", *, until_ms: int = 0) -> Row:
    return updateable_row(id, Task(1, until_ms, result=result).pack())


def updateable_row(id: str, payload: bytes) -> Row:
    return Updateable(Space("realm").updateable(f"{TASK.name}/{id}"), TASK.name, "t", payload, 1, 1).to_row()


def gc_row(place: Place) -> Row:
    return task_row(collector.TASK, msgspec.json.encode({"items": 3, "place": msgspec.to_builtins(place)}))


def follow_ups_row(state: FollowUpState) -> Row:
    return updateable_row(follow_ups._row("t"), state.pack())


SHOWN: Final[dict[tuple[str, str], tuple[str, Callable[[int], Row]]]] = {
    ("catalog", "turn_until"): ("turn_until", lambda ms: catalog_row(turn="other", turn_until=ms)),
    ("catalog", "swept"): ("swept", lambda ms: catalog_row(swept=ms)),
    ("table", "reserved_until"): ("reserved_until", lambda ms: head_row(reserved_by="h", reserved_until=ms)),
    ("transaction", "until"): (
        "until",
        lambda ms: JournalRow("k", "i", "open", 1, "o", {}, {}, "", "", 1, ms).to_row(),
    ),
    ("group", "deadline"): ("deadline", lambda ms: GroupRow("k", "open", "t", b"", 1, ms, 1).to_row()),
    ("event-delivery", "held_until_ms"): (
        "held_until_ms",
        lambda ms: EventDelivery("k", "c", "t", 1, "l", 0, 0, 0, 1, "", ms, 0, 1).to_row(),
    ),
    ("event-delivery", "pause_until_ms"): (
        "pause_until_ms",
        lambda ms: EventDelivery("k", "c", "t", 1, "l", 0, 0, 0, 1, "", 0, ms, 1).to_row(),
    ),
    ("client", "former_until"): (
        "former_until",
        lambda ms: Client("k", "c", "", False, "s", "", 1, 1, former="f", former_until=ms).to_row(),
    ),
    ("Reservation", "until"): (
        "reservation i",
        lambda ms: Register("k", 1, 1, (Reservation("h", "i", 1, until=ms),), 1).to_row(),
    ),
    ("Reader", "until"): ("reader h", lambda ms: Location("k", 1, 0, readers=(Reader("h", "p", 0, 1, ms),)).to_row()),
    ("Task", "until"): ("task's lease", lambda ms: task_row("any", until_ms=ms)),
    ("LastAttempt", "again_ms"): (
        "pause of light work",
        lambda ms: task_row(work._task("t"), msgspec.msgpack.encode(LastAttempt(again_ms=ms, failures=1))),
    ),
    ("RunHistory", "again_ms"): (
        "pause of runs by policy",
        lambda ms: task_row(runs_task("t"), RunHistory(again_ms=ms, failures=1).pack()),
    ),
    ("ActionState", "again_ms"): (
        "pause of follow-up a",
        lambda ms: follow_ups_row(FollowUpState({"a": ActionState(1, again_ms=ms, failures=1)})),
    ),
    ("FollowUpState", "held_until_ms"): (
        "turn of follow-ups",
        lambda ms: follow_ups_row(FollowUpState(held_until_ms=ms)),
    ),
    ("Place", "began_ms"): ("begin of gc's round", lambda ms: gc_row(Place("x", ms, 0))),
    ("Place", "before_ms"): ("begin of gc's round before", lambda ms: gc_row(Place("x", 1, ms))),
}
"""How ``doctor`` names each end, and a row that has it."""


@pytest.mark.parametrize("end", sorted(ENDS), ids=" ".join)
def test_an_operator_is_shown_every_end_that_a_clock_ahead_has_written(end: tuple[str, str]) -> None:
    member, row_of = SHOWN[end]
    row = row_of(NOW + ENDS[end] + DAY)
    assert row["kind"] in KINDS_LOOKED_AT
    (found,) = ahead(row, NOW)
    assert found == Ahead(row["key"], member, DAY)
    assert list(ahead(row_of(NOW + ENDS[end]), NOW)) == list(ahead(row, NOW + DAY)) == []


def test_an_operator_is_shown_that_a_clock_was_ahead_when_a_row_was_changed() -> None:
    (found,) = ahead(catalog_row(changed_at=NOW + DAY), NOW)
    assert found == Ahead("k", "changed_at", DAY)


@pytest.mark.parametrize("id", ["follow-ups", "follow-up.t", "maintain.t", "rewrite.t", "collect", "other"])
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode(["t"]),
        Task(1, 0, result=b"\xc1").pack(),
        Task(1, 0, result=b'{"place":{"after":"\xff\xfe"}}').pack(),
        Task(1, 0, failure="text").pack().replace(b"text", b"\xff\xfe\xfd\xfc"),
    ],
)
def test_a_payload_of_another_form_is_passed(id: str, payload: bytes) -> None:
    assert list(ahead(updateable_row(id, payload), NOW)) == []


@pytest.mark.parametrize("longest_ms", [0, 1_000, DAY])
def test_an_end_is_over_from_its_own_time_on_and_beyond_its_longest_term(longest_ms: int) -> None:
    latest = NOW + longest_ms + SLACK_MS
    assert [is_over(at, NOW, longest_ms) for at in (NOW - 1, NOW, NOW + 1)] == [True, True, False]
    assert [is_over(at, NOW, longest_ms) for at in (latest, latest + 1)] == [False, True]
