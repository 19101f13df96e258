"""List elements: removing and replacing some in one write. Every position means the one before the
write; a backend that shifts positions while it goes would leave the wrong commits in the tail
(I4)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.store.backends import MINISTACK, Backend
from tests.support.store.rows import change, fresh_key, head_row, stored
from turnstile.delta.core.head import Entry, TableHead
from turnstile.delta.core.writes.ratify import raise_floor
from turnstile.store.core.evaluate import apply_actions
from turnstile.store.core.writes import Action, Append, Drop, Equals, Row, Set
from turnstile.store.ports import Accepted

SAME = (Equals(("latest",), 5),)


def _letters(count: int) -> list[bytes]:
    return [b"%d" % index for index in range(count)]


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_i4_removing_from_the_front_in_descending_order_leaves_the_rest(backend: Backend, key: str, count: int) -> None:
    refs = backend.refs()
    stored(refs, head_row(key, tail=_letters(count + 3)))
    drops = [Drop(("tail", index)) for index in reversed(range(count))]
    answer = refs.write(change(key, *drops, when=SAME))
    assert answer.row is not None
    assert answer.row["tail"] == _letters(count + 3)[count:]


def test_i4_a_replaced_element_is_the_one_at_its_position_before_the_removals(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key, tail=_letters(6)))
    actions: list[Action] = [Set(("tail", 4), b"stripped"), Drop(("tail", 2)), Drop(("tail", 1)), Drop(("tail", 0))]
    answer = refs.write(change(key, *actions, when=SAME))
    assert answer.row is not None
    assert answer.row["tail"] == [b"3", b"stripped", b"5"]


def test_i4_removals_named_in_ascending_order_mean_positions_before_the_write_too(
    request: pytest.FixtureRequest, backend: Backend, key: str
) -> None:
    """Why ``core/floor.py`` names them in descending order."""
    if backend.name == MINISTACK:
        request.applymarker(pytest.mark.xfail(reason="MiniStack shifts positions while it removes", strict=True))
    refs = backend.refs()
    stored(refs, head_row(key, tail=_letters(6)))
    answer = refs.write(change(key, *(Drop(("tail", index)) for index in range(3)), when=SAME))
    assert answer.row is not None
    assert answer.row["tail"] == [b"3", b"4", b"5"]


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_i4_any_replacements_and_descending_removals_do_the_same_everywhere(
    backend: Backend, data: st.DataObject
) -> None:
    refs = backend.refs()
    key = fresh_key()
    count = data.draw(st.integers(1, 8))
    before = stored(refs, head_row(key, tail=_letters(count)))
    gone = data.draw(st.sets(st.integers(0, count - 1)))
    replaced = data.draw(st.sets(st.integers(0, count - 1))) - gone
    actions: list[Action] = data.draw(st.permutations([Set(("tail", index), b"new") for index in sorted(replaced)]))
    actions += [Drop(("tail", index)) for index in sorted(gone, reverse=True)]
    if not actions:
        return
    answer = refs.write(change(key, *actions, when=SAME))
    assert answer == Accepted(apply_actions(before, actions))


def test_i4_appending_keeps_order_and_takes_several_at_once(backend: Backend, key: str) -> None:
    refs = backend.refs()
    stored(refs, head_row(key, tail=[]))
    for index in range(0, 6, 2):
        refs.write(change(key, Append(("tail",), (b"%d" % index, b"%d" % (index + 1))), when=SAME))
    row = refs.read(key)
    assert row is not None
    assert row["tail"] == _letters(6)


def _long_tail(key: str, *, published: int, waiting: int, apps_each: int) -> Row:
    """A HEAD whose tail holds ``published`` stripped and ``waiting`` inline entries, with streaming
    applications."""
    count = published + waiting
    entries = [
        Entry(txn=f"txn-{index}", ict=2_000 + index, size=10, changed="append", data=b"" if index < published else b"x")
        for index in range(count)
    ]
    return head_row(
        key,
        tail_from=6,
        floor=5 + published,
        latest=5 + count,
        last_ict=2_000 + count,
        tail=[entry.pack() for entry in entries],
        ids={entry.txn for entry in entries},
        apps={f"{index:08x}{app:08x}": 6 + index for index in range(count) for app in range(apps_each)},
        bytes=sum(len(entry.pack()) + 20 for entry in entries),
        pending=5 + count,
    )


@pytest.mark.parametrize("apps_each", [0, 1, 16])
@pytest.mark.parametrize("idle", [True, False])
def test_i5_the_largest_step_of_the_publisher_fits_an_expression(
    backend: Backend, key: str, apps_each: int, idle: bool
) -> None:
    """32 versions at once (``services.publish.STEP``): expressions may have 4 kB and 300
    operators."""
    refs = backend.refs()
    waiting = 32 if idle else 40
    row = stored(refs, _long_tail(key, published=3, waiting=waiting, apps_each=apps_each))
    plan = raise_floor(TableHead.from_row(row), row["floor"] + 32, idle=idle)
    assert refs.write(plan) == Accepted(apply_actions(row, plan.actions))
