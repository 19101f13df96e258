"""Random plans: the fake that the model and the simulation trust answers exactly as the service
does."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.refs import FakeRefs
from tests.support.store.backends import Backend
from tests.support.store.rows import clause, fresh_key, head_row, stored
from turnstile.store.core import writes as plan
from turnstile.store.core.writes import Action, Change, Check, Erase, Insert, Row, Test, Write
from turnstile.store.ports import AllAccepted

NUMBERS = ("latest", "floor", "row_hwm", "pending")
TEXTS = ("state", "metadata", "reason")
ALWAYS = ("latest", "floor", "state", "metadata")
IDS = ("a", "b", "c")
APPS = ("x", "y")

number = st.integers(-2, 4)
text = st.sampled_from(["", "m", "active"])
blob = st.sampled_from([b"", b"0", b"1"])
ids = st.frozensets(st.sampled_from(IDS), min_size=1)
place = st.integers(0, 3)


@st.composite
def rows(draw: st.DrawFn, key: str) -> Row:
    """A HEAD with some optional attributes missing."""
    more: dict[str, Any] = {name: draw(number) for name in ALWAYS[:2]} | {name: draw(text) for name in ALWAYS[2:]}
    for name in {*NUMBERS, *TEXTS} - {*ALWAYS}:
        if draw(st.booleans()):
            more[name] = draw(number if name in NUMBERS else text)
    if draw(st.booleans()):
        more["ids"] = set(draw(ids))
    more["tail"] = draw(st.lists(blob, max_size=3))
    more["apps"] = draw(st.dictionaries(st.sampled_from(APPS), number))
    return head_row(key, **more)


def paths() -> st.SearchStrategy[plan.Path]:
    return st.one_of(
        st.sampled_from([(name,) for name in (*NUMBERS, *TEXTS, "ids", "tail", "apps")]),
        place.map(lambda index: ("tail", index)),
        st.sampled_from([("apps", app) for app in APPS]),
    )


def comparisons() -> st.SearchStrategy[Test]:
    numeric = st.one_of(st.sampled_from([(name,) for name in NUMBERS]), st.just(("apps", "x")))
    return st.one_of(
        st.builds(plan.Below, numeric, number),
        st.builds(plan.AtMost, numeric, number),
        st.builds(plan.AtLeast, numeric, number),
        st.builds(plan.Equals, numeric, number),
        st.builds(plan.Equals, st.sampled_from([(name,) for name in TEXTS]), text),
        st.builds(plan.Equals, place.map(lambda index: ("tail", index)), blob),
        st.builds(plan.Absent, paths()),
        st.builds(plan.Present, paths()),
        st.builds(plan.Lacks, st.just(("ids",)), st.sampled_from(IDS)),
    )


tests_ = comparisons() | st.lists(comparisons(), min_size=1, max_size=3).map(lambda some: plan.Either(tuple(some)))


@st.composite
def actions(draw: st.DrawFn, row: Row) -> tuple[Action, ...]:
    """Actions that do not overlap, and read only what is there, as the core's do."""
    found: list[Action] = []
    for name in NUMBERS:
        source = draw(st.sampled_from([other for other in NUMBERS if other in row]))
        found += draw(
            st.sampled_from(
                [[], [plan.Set((name,), draw(number))], [plan.SetSum((name,), (source,), draw(number))]]
                + ([[plan.Drop((name,))]] if name not in ALWAYS else [])
            )
        )
    for name in ("metadata", "reason"):
        found += draw(st.sampled_from([[], [plan.Set((name,), draw(text))]]))
    found += draw(st.sampled_from([[], [plan.Include(("ids",), draw(ids))], [plan.Exclude(("ids",), draw(ids))]]))
    for app in APPS:
        source = draw(st.sampled_from([("latest",), *((("apps", "x"),) if "x" in row["apps"] else ())]))
        forms: list[list[Action]] = [
            [],
            [plan.Set(("apps", app), draw(number))],
            [plan.SetSum(("apps", app), source, 1)],
            [plan.Drop(("apps", app))],
        ]
        found += draw(st.sampled_from(forms))
    found += draw(list_actions(row["tail"]))
    return tuple(draw(st.permutations(found))) if draw(st.booleans()) and not _drops(found) else tuple(found)


def _drops(found: list[Action]) -> bool:
    return any(isinstance(action, plan.Drop) and len(action.path) == 2 for action in found)


@st.composite
def list_actions(draw: st.DrawFn, tail: list[bytes]) -> list[Action]:
    match draw(st.sampled_from(["none", "append", "whole", "elements"])):
        case "append":
            return [plan.Append(("tail",), tuple(draw(st.lists(blob, min_size=1, max_size=2))))]
        case "whole":
            return [plan.Set(("tail",), draw(st.lists(blob, max_size=2)))]
        case "elements" if tail:
            some = st.sets(st.sampled_from(range(len(tail))))
            gone = draw(some)
            changed = [plan.Set(("tail", index), draw(blob)) for index in sorted(draw(some) - gone)]
            return [*changed, *(plan.Drop(("tail", index)) for index in sorted(gone, reverse=True))]
    return []


@st.composite
def writes(draw: st.DrawFn, key: str, row: Row, exists: bool) -> Write:
    clauses = tuple(clause(test) for test in draw(st.lists(tests_, max_size=2)))
    kind = draw(st.sampled_from(["change"] * 5 + ["insert", "erase"]))
    if kind == "change":
        must = clause(plan.Present(("key",)))
        return Change(key, (must, *clauses), draw(actions(row)) or (plan.Set(("latest",), 1),))
    return Insert(draw(rows(key)), clauses) if kind == "insert" else Erase(key, clauses)


@settings(max_examples=examples(120), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_i2_a_random_write_is_answered_and_applied_alike(service: Backend, data: st.DataObject) -> None:
    fake = FakeRefs()
    real = service.refs()
    key = fresh_key()
    row = data.draw(rows(key))
    exists = data.draw(st.booleans() | st.just(True))
    if exists:
        stored(fake, row)
        stored(real, row)
    for _ in range(2):
        now = fake.rows.get(key, row)
        write = data.draw(writes(key, now, exists))
        assert real.write(write) == fake.write(write)
        assert real.read(key) == fake.rows.get(key)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_i8_a_random_transaction_is_answered_and_applied_alike(service: Backend, data: st.DataObject) -> None:
    fake = FakeRefs()
    real = service.refs()
    planned: list[Write] = []
    for key in [fresh_key() for _ in range(data.draw(st.integers(1, 3)))]:
        row = data.draw(rows(key))
        if data.draw(st.booleans() | st.just(True)):
            stored(fake, row)
            stored(real, row)
        checks = st.builds(Check, st.just(key), st.tuples(st.builds(clause, comparisons())))
        some = data.draw(writes(key, row, True) | checks)
        planned.append(some)
    token = planned[0].key
    answer = fake.transact(planned, token)
    assert real.transact(planned, token) == answer
    keys = [write.key for write in planned]
    assert real.read_many(keys) == {key: fake.rows[key] for key in keys if key in fake.rows}
    if answer == AllAccepted():
        assert real.transact(planned, token) == answer
