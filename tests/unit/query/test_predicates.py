"""The meaning of predicates in path queries, and the names that they reach."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.queries import predicates
from turnstile.catalog.query.core.like import fixed_start, like
from turnstile.catalog.query.core.parser import parse
from turnstile.catalog.query.core.query import Candidate, Predicate, Step, holds
from turnstile.catalog.query.core.reach import reach_of

TABLE = {"name": "Orders", "id": "ab-1", "kind": "table", "format": "delta", "created": 1_000, "managed": True}
KNOWN = Candidate("table", TABLE, whole=True, properties={"region": "eu", "days": "30", "ratio": "0.5", "on": "TRUE"})


def predicate(text: str) -> Predicate:
    where = parse(f"/m/[{text}]").steps[0].where
    assert where is not None
    return where


@pytest.mark.parametrize(
    "text",
    [
        'name = "orders"', 'name in ("x", "ORDERS")', 'name prefix "ORD"', 'name like "%der_"', 'name >= "orders"',
        'name < "Orderz"', 'id = "AB-1"', 'kind = "table"', "created >= 1000", "created < 1001", "managed = true",
        'region = "eu"', 'region != "us"', 'region > "eT"', "days > 7", "days = 30", "days <= 30.0", "ratio < 0.75",
        "ratio = 0.5", "on = true", "on != false", "region exists", "not other exists", 'not other = "x"',
        'region in ("us", "eu")', 'region not in ("us")', 'region = "us" or days = 30', "(days > 7 and days < 40)",
        'region prefix ""', 'days = "30"', 'format = "delta"', 'not `format` = "delta"', "not comment exists",
    ],
)  # fmt: skip
def test_a_predicate_that_holds(text: str) -> None:
    assert holds(predicate(text), KNOWN) is True


@pytest.mark.parametrize(
    "text",
    [
        'name = "order"', 'region = "EU"', 'other != "x"', "other < 5", "region < 5", "region = true", 'days = "30.0"',
        'days < "4" and days > "4"', "other exists", 'other not in ("x") and other exists', 'format = "iceberg"',
        'name like "orders_"', "created > 1000", "managed = false", 'comment like "%"', "on = 1", "days = true",
    ],
)  # fmt: skip
def test_a_predicate_that_does_not_hold(text: str) -> None:
    assert holds(predicate(text), KNOWN) is False


def test_an_attribute_of_another_kind_is_a_property() -> None:
    namespace = Candidate("namespace", {"name": "n", "kind": "namespace"}, whole=True, properties={"format": "delta"})
    assert holds(predicate('format = "delta"'), namespace) is True
    assert holds(predicate('name = "delta"'), namespace) is False


@given(predicates, st.booleans(), st.booleans())
def test_what_is_decided_before_everything_is_known_stays_decided(where: Predicate, whole: bool, has: bool) -> None:
    """Early pruning is sound: knowing more never changes an answer, and knowing everything always
    gives one."""
    attributes = TABLE if whole else {"name": "Orders", "kind": "table"}
    early = holds(where, Candidate("table", attributes, whole=whole, properties=KNOWN.properties if has else None))
    late = holds(where, KNOWN)
    assert late is not None
    assert early in (None, late)
    if whole and has:
        assert early is late


short = st.text(alphabet="ab_%\\-", max_size=6)


@given(predicates, st.sampled_from(["orders", "a", "", "b-1", "zz", "@"]) | st.text("ab-_1", max_size=4))
def test_every_name_for_which_a_predicate_may_hold_is_in_reach(where: Predicate, name: str) -> None:
    held = holds(where, Candidate("table", {**TABLE, "name": name}, whole=True, properties={}))
    assert not held or name in reach_of(Step(None, where))


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ('name = "B"', ["b"], ["a", "ba", "c"]),
        ('name in ("b", "D") and name > "b"', ["d"], ["b", "c"]),
        ('name prefix "Ab"', ["ab", "abz"], ["aa", "ac"]),
        ('name like "ab%c_"', ["abc1", "ab"], ["aa", "b"]),
        ('name >= "b" and name < "d"', ["b", "c", "czz"], ["a", "d"]),
        ('name <= "b"', ["a", "b"], ["b1", "c"]),
        ('name = "a" or name prefix "c"', ["a", "b", "c1"], ["d", "@"]),
        ('name = "a" or name = "c"', ["a", "c"], ["b"]),
        ('(name = "a" or region = "eu") and name < "c"', ["a", "b"], ["c"]),
        ('name = "a" and name = "b"', [], ["a", "b"]),
        ('not name = "a"', ["a", "b"], []),
        ('`name` = "a"', ["a", "b"], []),
        ('name = "a" or (name = "b" and name = "c")', ["a"], ["b"]),
    ],
)
def test_a_predicate_reaches_only_names_that_it_may_hold_for(text: str, inside: list[str], outside: list[str]) -> None:
    reach = reach_of(Step(None, predicate(text)))
    assert [name for name in inside if name not in reach] == []
    assert [name for name in outside if name in reach] == []


@given(short, short)
def test_like_is_what_its_definition_says(text: str, pattern: str) -> None:
    def obvious(text: str, pattern: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "%":
            return any(obvious(text[cut:], pattern[1:]) for cut in range(len(text) + 1))
        if pattern[0] == "\\" and len(pattern) > 1:
            return text[:1] == pattern[1] and obvious(text[1:], pattern[2:])
        return bool(text) and pattern[0] in ("_", text[0]) and obvious(text[1:], pattern[1:])

    assert like(text, pattern) == obvious(text, pattern)
    assert not like(text, pattern) or text.startswith(fixed_start(pattern))


def steps(act: Callable[[], object]) -> int:
    """Lines of ``like`` that ``act`` executes: its work, whatever the machine is doing
    meanwhile."""
    count = 0
    file = like.__code__.co_filename

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != file:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    "patterns",
    [
        pytest.param(["%a" * 400 + "b"], id="text between wildcards"),
        pytest.param(["%a_" * 400 + "b%"], id="one letter open"),
        pytest.param(["%" + "a_" * 400 + "b%"], id="one long run"),
        pytest.param(["%" + "_" * 800 + "b%"], id="only open letters"),
        pytest.param(["%" + "_a" * 300 + "%" + "_a" * 100 + "b_%"], id="a run that fits, then one that does not"),
        pytest.param([f"%a_b{number}%" for number in range(100)], id="many patterns of one text"),
    ],
)
def test_no_pattern_makes_like_slow(patterns: list[str]) -> None:
    text = "a" * 8_000
    length = sum(map(len, patterns))
    assert [like(text, pattern) for pattern in patterns] == [False] * len(patterns)
    # a text of its own, of which nothing is known from before
    assert steps(lambda: [like("a" + text, pattern) for pattern in patterns]) <= 6 * (len(text) + length)
