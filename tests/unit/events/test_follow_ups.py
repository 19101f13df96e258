"""Follow-ups: each action is asked for after enough publications, for ranges of versions without a
gap, whatever fails (I17)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from tests.support.delta_table import TABLE, Killed, Table, kill_at, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import LOSSES, Faulty, How
from turnstile.catalog.core.follow_ups import COMMITS_MAX, FollowUpRule, follow_ups_of
from turnstile.catalog.core.policies import EffectivePolicy, Level, policy_of
from turnstile.delta.core.head import TableHead
from turnstile.delta.publish import Publisher
from turnstile.events import follow_ups as module
from turnstile.events.append import Appender
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.core.follow_ups import (
    HELD_MS,
    ActionState,
    Due,
    FollowUpState,
    after_begin,
    after_end,
    due,
    with_rules,
)
from turnstile.events.deliver import Deliverer, NotDelivered
from turnstile.events.follow_ups import Followed, FollowUps, FollowUpTarget
from turnstile.maintenance.core.due import pause_ms
from turnstile.maintenance.work import OutOfTime
from turnstile.store.core.errors import OutcomeUnknown

DBT = FollowUpRule("dbt", 3)
CACHE = FollowUpRule("cache", 1)

# -- rules -------------------------------------------------------------------------------------------------------------


def test_rules_are_read_as_people_write_them() -> None:
    assert follow_ups_of("dbt after 3 commits, cache on publish") == (DBT, CACHE)
    assert follow_ups_of(" DBT  AFTER 1 COMMIT ") == (FollowUpRule("dbt", 1),)
    assert follow_ups_of(f"dbt after {COMMITS_MAX} commits")[0].commits == COMMITS_MAX


@pytest.mark.parametrize(
    "text",
    [
        "", "dbt", "dbt after commits", "dbt after 0 commits", f"dbt after {COMMITS_MAX + 1} commits",
        "dbt on publish,",
        "dbt on publish, dbt after 2 commits", "https://x on publish", "dbt after -1 commits", "dbt after 3",
        "x" * 2000,
        ", ".join(f"a{n} on publish" for n in range(11)),
    ],
)  # fmt: skip
def test_what_is_no_rule_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="as in dbt after 10 commits"):
        follow_ups_of(text)


def test_ten_rules_are_the_most() -> None:
    assert len(follow_ups_of(", ".join(f"a{n} on publish" for n in range(10)))) == 10


# -- what is due -------------------------------------------------------------------------------------------------------


def test_i17_an_action_is_due_when_enough_was_published_since_it_acknowledged() -> None:
    state = FollowUpState({"dbt": ActionState(10), "cache": ActionState(12)})
    assert due(state, (DBT, CACHE), {"dbt", "cache"}, 12, 0) == []
    assert due(state, (DBT, CACHE), {"dbt", "cache"}, 13, 0) == [Due("dbt", 11, 13), Due("cache", 13, 13)]
    assert due(state, (DBT, CACHE), {"cache"}, 13, 0) == [Due("cache", 13, 13)], "the deployment names no other"


def test_a_rule_that_is_new_counts_from_the_newest_publication() -> None:
    state = with_rules(FollowUpState(), (DBT, CACHE), 40)
    assert due(state, (DBT, CACHE), {"dbt", "cache"}, 40, 0) == [Due("cache", 40, 40)]
    assert due(state, (DBT, CACHE), {"dbt"}, 42, 0) == [Due("dbt", 40, 42)]


def test_what_is_remembered_of_an_action_goes_with_its_rule() -> None:
    state = FollowUpState({"dbt": ActionState(10), "old": ActionState(3)})
    assert with_rules(state, (DBT,), 40) == FollowUpState({"dbt": ActionState(10)})


def test_i17_what_is_being_asked_for_stays_the_same_until_it_is_acknowledged() -> None:
    jobs = [Due("dbt", 11, 13)]
    state = after_begin(FollowUpState({"dbt": ActionState(10)}), jobs, 5_000)
    assert state.held_until_ms == 5_000 + HELD_MS
    assert due(state, (DBT,), {"dbt"}, 99, 6_000) == jobs
    failed = after_end(state, jobs, {"dbt": "answered 500"}, 7_000)
    assert failed.failing
    assert failed.actions["dbt"] == ActionState(10, 13, 0, 1, "answered 500", 7_000 + pause_ms(1))
    assert due(failed, (DBT,), {"dbt"}, 99, 7_000 + pause_ms(1) - 1) == []
    assert due(failed, (DBT,), {"dbt"}, 99, 7_000 + pause_ms(1)) == jobs
    again = after_end(failed, jobs, {"dbt": "answered 500"}, 9_000)
    assert (again.actions["dbt"].failures, again.actions["dbt"].again_ms) == (2, 9_000 + pause_ms(2))
    done = after_end(again, jobs, {}, 10_000)
    assert done == FollowUpState({"dbt": ActionState(13, done_ms=10_000)})
    assert not done.failing
    assert due(done, (DBT,), {"dbt"}, 99, 10_000) == [Due("dbt", 14, 99)]


# -- on a table --------------------------------------------------------------------------------------------------------


class Action:
    """An action that keeps what it gets, and fails while ``fails`` says so."""

    most = 1

    def __init__(self, name: str) -> None:
        self.name = name
        self.fails = ""
        self.got: list[CloudEvent] = []
        self.before: Callable[[], None] = lambda: None

    def send(self, events: Sequence[CloudEvent]) -> None:
        self.before()
        if self.fails:
            raise NotDelivered(self.fails)
        self.got += events

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return [(event.data["first_version"], event.data["version"]) for event in self.got]


class Site:
    """A table with rules, and two actions."""

    def __init__(self, rules: str = "dbt after 3 commits, cache on publish") -> None:
        self.world = fake_world()
        self.table = Table(self.world)
        self.dbt = Action("dbt")
        self.cache = Action("cache")
        self.rules = rules

    def follow_ups(self, world: FakeWorld | None = None, **more: Any) -> FollowUps:
        return FollowUps(world or self.world, self.policy, [self.dbt, self.cache], **more)

    def policy(self, _: TableHead) -> EffectivePolicy:
        properties = {"turnstile.maintenance.follow-ups": self.rules}
        return policy_of([Level("table", "main.default.t", properties)])

    def publish(self, commits: int = 1) -> None:
        for _ in range(commits):
            self.table.inline()
        Publisher(self.world).publish(TABLE)

    def follow(self, **more: Any) -> Followed:
        return self.follow_ups(**more).follow(TABLE)


@pytest.fixture
def site() -> Site:
    return Site()


def test_i17_actions_are_asked_for_ranges_without_a_gap(site: Site) -> None:
    outcomes = []
    for _ in range(9):
        site.publish()
        outcomes.append(site.follow().outcome)
    assert set(outcomes) == {"done"}
    assert site.cache.ranges == [(version, version) for version in range(1, 10)]
    assert site.dbt.ranges == [(1, 3), (4, 6), (7, 9)]
    assert site.follow().outcome == "nothing due"


def test_an_action_gets_which_versions_of_which_table_it_is_for(site: Site) -> None:
    site.publish(4)
    site.follow()
    (event,) = site.cache.got
    assert (event.type, event.subject, event.source) == ("turnstile.table.follow-up", TABLE, "/v1/catalogs/main")
    assert event.id == f"{TABLE}/follow-up/cache/4-4"
    assert event.data == {"name": site.table.head.name, "action": "cache", "first_version": 4, "version": 4}


def test_a_table_without_rules_costs_one_read_and_has_no_row(site: Site) -> None:
    site.rules = "none"
    site.publish()
    assert site.follow() == Followed(TABLE, "nothing due")
    assert not [key for key in site.world.refs.rows if "follow-up" in key]


@pytest.mark.parametrize("point", ["follow-ups.begun", "follow-ups.asked"])
def test_i17_after_a_crash_the_same_versions_are_asked_for_under_the_same_id(site: Site, point: str) -> None:
    site.publish(3)
    site.follow()
    site.publish()
    with pytest.raises(Killed):
        site.follow(faults=kill_at(point))
    before = [event.id for event in site.cache.got]
    site.publish(5)
    assert site.follow().outcome == "busy", "whoever died may still be at work"
    site.world.clock.now += HELD_MS
    assert site.follow().outcome == "done"
    assert site.cache.ranges[-1] == (4, 4)
    assert site.follow().outcome == "done"
    assert site.cache.ranges[-1] == (5, 9)
    assert len(set(before)) == len(before)


def test_i17_an_action_that_fails_is_asked_again_and_holds_up_no_other(site: Site) -> None:
    site.dbt.fails = "answered 503"
    site.publish(3)
    site.follow()
    site.publish(3)
    followed = site.follow()
    assert (followed.outcome, dict(followed.failures)) == ("failed", {"dbt": "answered 503"})
    assert followed.actions == ("cache",)
    follow_ups = site.follow_ups()
    assert follow_ups.failing() == (TABLE,)
    assert follow_ups.follow(TABLE).outcome == "nothing due", "it has a pause"
    site.dbt.fails = ""
    site.world.clock.now += pause_ms(1)
    assert follow_ups.follow(TABLE).outcome == "done"
    assert follow_ups.failing() == ()
    assert site.dbt.ranges == [(3, 6)]


def test_i17_a_frozen_holder_asks_again_with_the_same_id_and_notes_nothing(site: Site) -> None:
    site.publish(3)

    def freeze() -> None:
        site.cache.before = lambda: None
        site.world.clock.now += HELD_MS + 1
        site.publish(2)
        assert site.follow().outcome == "done"

    site.cache.before = freeze
    assert site.follow().outcome == "busy"
    assert [event.id for event in site.cache.got] == [f"{TABLE}/follow-up/cache/3-3"] * 2
    assert site.follow_ups().state(TABLE).actions["cache"].version == 3


@pytest.mark.parametrize("how", LOSSES)
@pytest.mark.parametrize("nth", range(4))
def test_i17_a_lost_answer_of_the_store_leaves_no_gap(site: Site, how: How, nth: int) -> None:
    site.publish()
    site.follow()
    for _ in range(3):
        site.publish()
        with contextlib.suppress(OutcomeUnknown):
            site.follow(world=Faulty(site.world, nth, how).world)
        site.world.clock.now += HELD_MS
    site.follow()
    site.world.clock.now += HELD_MS
    site.follow()
    covered = [version for first, last in dict.fromkeys(site.cache.ranges) for version in range(first, last + 1)]
    assert covered == list(range(1, 5))


def test_of_two_requests_at_once_one_asks(site: Site) -> None:
    site.publish(3)
    outcomes = []
    site.cache.before = lambda: outcomes.append(site.follow().outcome)
    outcomes.append(site.follow().outcome)
    assert outcomes == ["busy", "done"]
    assert site.cache.ranges == [(3, 3)]


def test_a_loser_of_the_row_asks_for_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.publish(3)

    def other_first(*arguments: Any) -> list[Due]:
        monkeypatch.undo()
        assert site.follow().outcome == "done"
        return due(*arguments)

    monkeypatch.setattr(module, "due", other_first)
    assert site.follow().outcome == "busy"
    assert site.cache.ranges == [(3, 3)]


@pytest.mark.parametrize("state", ["stuck", "leaving", "recovering"])
def test_a_table_that_is_not_active_is_left_alone(site: Site, state: str) -> None:
    site.publish(3)
    site.table.row["state"] = state
    assert site.follow().outcome == "nothing due"
    assert site.cache.got == []


def test_what_changes_nothing_writes_nothing(site: Site) -> None:
    site.rules = "dbt after 3 commits"
    site.publish()
    writes: list[str] = []
    write = site.world.refs.write
    site.world.refs.write = lambda given: (writes.append(given.key), write(given))[1]  # type: ignore[method-assign]
    for _ in range(3):
        assert site.follow().outcome == "nothing due"
    assert len(writes) == 1, "the rule is noted once"
    site.follow_ups()._note(TABLE, failing=False)
    assert len(writes) == 1
    site.rules = "none"
    site.publish(5)
    writes.clear()
    assert site.follow().outcome == "nothing due"
    assert writes == [], "what was noted of a rule stays until there is another one"


def test_what_is_remembered_of_a_dropped_table_goes(site: Site) -> None:
    site.publish()
    site.follow()
    site.table.row["state"] = "dropped"
    assert site.follow().outcome == "nothing due"
    assert site.follow_ups().state(TABLE) == FollowUpState()


def test_what_is_remembered_goes_with_the_table(site: Site) -> None:
    site.cache.fails = "down"
    site.publish()
    site.follow()
    assert site.follow_ups().failing() == (TABLE,)
    del site.world.refs.rows[site.table.key]
    assert site.follow().outcome == "nothing due"
    assert not site.follow_ups().failing()
    assert site.follow_ups().state(TABLE) == FollowUpState()


def test_a_bounded_number_of_failing_tables_is_remembered(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAILING_MAX", 2)
    site.cache.fails = "down"
    for number in range(1, 5):
        table = Table(site.world, table_id(number))
        table.inline()
        Publisher(site.world).publish(table.id)
        site.follow_ups().follow(table.id)
    assert site.follow_ups().failing() == (table_id(1), table_id(2))


# -- by the event log --------------------------------------------------------------------------------------------------


def deliver(site: Site, **more: Any) -> Any:
    target = FollowUpTarget(site.follow_ups(), **more)
    return Deliverer(site.world, target).deliver("main", go_on=lambda: True)


def test_i17_what_was_published_is_followed_by_the_events_and_a_held_table_comes_again(site: Site) -> None:
    appender = Appender(site.world)
    outcomes = list[Followed]()
    site.publish(3)
    appender.append([site.table.key])
    assert not deliver(site, record=outcomes.append).error
    assert (site.cache.ranges, [each.outcome for each in outcomes]) == ([(3, 3)], ["done"])
    site.publish()
    appender.append([site.table.key])
    with pytest.raises(Killed):
        site.follow(faults=kill_at("follow-ups.begun"))
    held = deliver(site)
    assert "comes again" in held.error
    site.world.clock.now += max(HELD_MS, held.again_ms)
    assert not deliver(site).error
    assert site.cache.ranges == [(3, 3), (4, 4)]


def test_a_batch_of_which_not_all_had_a_turn_comes_again(site: Site) -> None:
    target = FollowUpTarget(site.follow_ups(), go_on=lambda: False)
    event = CloudEvent("1", "/v1/catalogs/main", "turnstile.table.published", TABLE, {"version": 1})
    with pytest.raises(OutOfTime):
        target.send([event])
    target.send([msgspec.structs.replace(event, type="turnstile.table.ratified")])
