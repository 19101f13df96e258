"""Policies: parsing, refusals, and the nearest level that sets a member holds for a table."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile.catalog.core.policies import (
    PREFIX,
    SETTINGS,
    WEEK_MS,
    Level,
    check_policies,
    policy_of,
    problem_of,
)
from turnstile.catalog.core.windows import DAY_MS, MINUTE_MS, open_until, opens_at, windows_of
from turnstile.store.core.errors import InvalidRequest

NAMES = [setting.name for setting in SETTINGS]


def level(kind: Any, name: str, **values: str) -> Level:
    return Level(kind, name, {PREFIX + key.replace("_", "-"): value for key, value in values.items()})


def test_by_default_nothing_is_done_and_nothing_is_removed() -> None:
    policy = policy_of([]).policy
    assert (policy.enabled, policy.vacuum) == (False, False)
    assert {value.source for value in policy_of([]).values} == {"default"}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("enabled", "on", True), ("enabled", "TRUE", True), ("enabled", "off", False),
        ("target-file-size", "128mb", 128 * 2**20), ("target-file-size", "1.5 GB", 3 * 2**29),
        ("target-file-size", "4096", 4096),
        ("target-file-size", "1k", 1024), ("target-file-size", "2t", 2**41), ("target-file-size", "1024b", 1024),
        ("small-file-ratio", "0", 0.0), ("small-file-ratio", "1", 1.0), ("min-small-files", "2", 2),
        ("min-commits", "1", 1),
        ("retention", "interval 7 days", WEEK_MS), ("retention", "2 weeks", 2 * WEEK_MS), ("retention", "168", WEEK_MS),
        ("retention", "none", None), ("vacuum-interval", "1", 3_600_000), ("vacuum-interval", "1.5", 5_400_000),
        ("windows", "none", None), ("budget-bytes", "0", 0), ("budget-bytes", "None", None),
        ("budget-dpu-hours", "2.5", 2.5),
        ("deleted-row-ratio", " 0.2 ", 0.2), ("min-bytes", "1", 1),
    ],
)  # fmt: skip
def test_values_are_written_as_users_of_delta_know_them(name: str, text: str, value: Any) -> None:
    attribute = next(setting.attribute for setting in SETTINGS if setting.name == name)
    assert getattr(policy_of([Level("table", "t", {PREFIX + name: text})]).policy, attribute) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("enabled", "yes"), ("enabled", ""), ("target-file-size", "1023"), ("target-file-size", "-1"),
        ("target-file-size", "1xb"),
        ("target-file-size", "99999999t"), ("small-file-ratio", "1.1"), ("small-file-ratio", "-0.1"),
        ("small-file-ratio", "nan"),
        ("min-small-files", "1"), ("min-small-files", "2.0"), ("min-commits", "0"), ("retention", "167"),
        ("retention", "6 days"),
        ("retention", "a while"), ("vacuum-interval", "59 minutes"), ("vacuum-interval", "9999999999"),
        ("windows", "always"),
        ("budget-bytes", "much"), ("budget-dpu-hours", "-1"), ("retain", "7 days"), ("", "x"), ("vacuum", "none"),
        ("min-commits", "1_0"), ("min-commits", "１"), ("min-bytes", "0"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name_where_it_is_set_and_passed_over_in_a_log(name: str, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_policies({PREFIX + name: text})
    assert refused.value.field == f"properties.{PREFIX}{name}" and name in refused.value.message
    effective = policy_of([level("catalog", "main", enabled="true"), Level("table", "main.a.t", {PREFIX + name: text})])
    assert [(bad.name, bad.source, bad.set_on) for bad in effective.ignored] == [(PREFIX + name, "table", "main.a.t")]
    assert effective.policy == policy_of([level("catalog", "main", enabled="true")]).policy
    check_policies({PREFIX + name: text}, {PREFIX + name: text})  # it was there before the rule
    with pytest.raises(InvalidRequest):
        check_policies({PREFIX + name: text}, {PREFIX + name: text + "x"})


def test_properties_of_other_names_are_not_judged() -> None:
    others = {"turnstile.maintenances.enabled": "x", "turnstile.allowed-maintenance": "y", "owner": "z"}
    check_policies(others)
    assert policy_of([Level("table", "t", others)]) == policy_of([])


def test_every_default_can_be_set() -> None:
    for setting in SETTINGS:
        assert problem_of(PREFIX + setting.name, setting.default) == ""


@given(
    st.lists(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["true", "none", "5", "nonsense"])), max_size=5)
)
@settings(max_examples=examples(200))
def test_the_nearest_value_that_can_be_read_holds(stack: list[dict[str, str]]) -> None:
    levels = [
        Level("namespace", f"level{index}", {PREFIX + name: value for name, value in values.items()})
        for index, values in enumerate(stack)
    ]
    effective = policy_of(levels)
    for setting in SETTINGS:
        said = [
            (values[setting.name], f"level{index}")
            for index, values in enumerate(stack)
            if setting.name in values and not problem_of(PREFIX + setting.name, values[setting.name])
        ]
        value = next(each for each in effective.values if each.name == setting.name)
        assert (value.value, value.set_on) == (said[-1] if said else (setting.default, ""))
        assert getattr(effective.policy, setting.attribute) == setting.read(value.value)


# -- windows -----------------------------------------------------------------------------------------------------------

MONDAY_MS = 4 * DAY_MS
"""1970-01-05."""
HOUR_MS = 60 * MINUTE_MS


@pytest.mark.parametrize(
    ("text", "hours", "until"),
    [
        ("22:00-06:00", 22, 30), ("22:00-06:00", 21.9, None), ("22:00-06:00", 29.9, 30), ("22:00-06:00", 30, None),
        ("mon 22:00-06:00", 3, None), ("mon 22:00-06:00", 27, 30), ("sun", -1, 0), ("sun", 0, None),
        ("sat-sun", -30, 0),
        ("tue-wed 00:00-24:00", 25, 72), ("fri-mon", 23, 24), ("10:00-12:00, 12:00-13:00", 10, 13),
        ("mon,10:00-11:00", 1, 24),
        ("10:00-10:00", 10, 7 * 24 + 10),
    ],
)  # fmt: skip
def test_a_window_is_open_until_the_end_of_what_follows_without_a_gap(
    text: str, hours: float, until: float | None
) -> None:
    now_ms = int(MONDAY_MS + hours * HOUR_MS)
    assert open_until(windows_of(text), now_ms) == (None if until is None else MONDAY_MS + until * HOUR_MS)


def test_the_next_window_is_named() -> None:
    assert opens_at(windows_of("wed 10:00-11:00, thu"), MONDAY_MS) == MONDAY_MS + 58 * HOUR_MS
    assert opens_at(windows_of("mon 10:00-11:00"), MONDAY_MS + 10 * HOUR_MS) == MONDAY_MS + (7 * 24 + 10) * HOUR_MS


@given(st.integers(0, 10**13), st.sampled_from(["mon-fri 22:00-06:00, sat-sun", "01:30-01:31", "fri-mon 23:59-00:01"]))
@settings(max_examples=examples(200))
def test_a_window_is_open_up_to_its_end_and_opens_when_it_says(now_ms: int, text: str) -> None:
    windows = windows_of(text)
    until = open_until(windows, now_ms)
    if until is None:
        begins = opens_at(windows, now_ms)
        assert (
            begins is not None and open_until(windows, begins) is not None and open_until(windows, begins - 1) is None
        )
    else:
        assert until > now_ms and open_until(windows, until - 1) == until
        assert open_until(windows, until) is None or until - now_ms >= 7 * DAY_MS


def test_a_text_of_windows_may_be_so_long() -> None:
    assert len(windows_of("mon" + ",mon" * 249 + " ")) == 250
    with pytest.raises(ValueError, match="windows of time"):
        windows_of("mon" + ",mon" * 249 + "  ")


@pytest.mark.parametrize(
    "text", ["", " ", "mon-", "10-11", "24:00-25:00", "24:00-01:00", "10:00-24:01", "mon22:00-23:00", "mon,,tue",
             "mon " * 400]
)  # fmt: skip
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="windows of time"):
        windows_of(text)
