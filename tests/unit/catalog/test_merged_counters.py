"""Counters and bounds that many change at once: every change counts, none conflicts."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalog import LAKE, complete, fakes, fresh
from tests.support.threads import at_once
from turnstile.catalog.core.merges import Merge, apply_merges
from turnstile.catalog.services import build
from turnstile.store.core.errors import InvalidRequest, NotFound

numbers = st.integers(-(2**40), 2**40)


@given(numbers, st.lists(st.tuples(st.sampled_from(["add", "min", "max"]), numbers), max_size=8), st.randoms())
def test_merges_of_one_kind_give_the_same_in_any_order(start: int, steps: list[tuple[str, int]], order: object) -> None:
    for op in ("add", "min", "max"):
        merges = [Merge(op, value) for _, value in steps]  # type: ignore[arg-type]
        results = []
        for _ in range(2):
            order.shuffle(merges)  # type: ignore[attr-defined]
            properties = {"n": str(start)}
            for merge in merges:
                properties = apply_merges(properties, {"n": merge})
            results.append(properties)
        values = [merge.value for merge in merges]
        expected = {"add": start + sum(values), "min": min([start, *values]), "max": max([start, *values])}[op]
        assert results == [{"n": str(expected)}] * 2


def test_what_is_not_there_begins_with_the_value_and_the_rest_stays() -> None:
    after = apply_merges({"k": "v"}, {"rows": Merge("add", 5), "low": Merge("min", 3), "high": Merge("max", -1)})
    assert after == {"k": "v", "rows": "5", "low": "3", "high": "-1"}


@pytest.mark.parametrize(
    ("stored", "value"),
    [("many", 1), ("1.5", 1), ("", 1), (str(2**63 - 1), 1), ("0", 2**63), ("1_0", 1), (" 1", 1), ("1\n", 1), ("٣", 1),
     ("9" * 5_000, 1)],
)  # fmt: skip
def test_what_is_no_number_or_too_large_is_refused_and_named(stored: str, value: int) -> None:
    with pytest.raises(InvalidRequest) as refused:
        apply_merges({"n": stored}, {"n": Merge("add", value)})
    assert refused.value.field == "merge.n"
    assert refused.value.remedy


def test_a_whole_number_may_have_a_sign() -> None:
    for stored, after in (("+5", "6"), ("-5", "-4"), ("007", "8")):
        assert apply_merges({"n": stored}, {"n": Merge("add", 1)}) == {"n": after}


def test_counters_changed_by_many_at_once_lose_nothing() -> None:
    """Eight sandboxes add, bound from below and from above; none of them has read the number."""
    services = fresh()
    services.namespaces.create("main", ("n",), properties={"size": "1487", "min": "3"})

    def run(thread: int) -> None:
        box = build(services.world, lake_root=LAKE, pause=time.sleep)
        for step in range(5):
            number = thread * 5 + step
            box.namespaces.update(
                "main",
                ("n",),
                merge={"size": Merge("add", number), "min": Merge("min", -number), "max": Merge("max", number)},
            )

    assert at_once([partial(run, thread) for thread in range(8)]) == [None] * 8
    stored = fresh(services.world).namespaces.get("main", ("n",)).entity.properties
    assert stored == {"size": str(1487 + sum(range(40))), "min": "-39", "max": "39"}
    complete(fakes(services))


def test_a_merge_needs_its_object_and_one_meaning() -> None:
    services = fresh()
    with pytest.raises(NotFound):
        services.namespaces.update("main", ("nothing",), merge={"n": Merge("add", 1)})
    clashes: tuple[dict[str, Any], ...] = ({"set": {"n": "1"}}, {"unset": ["n"]})
    for more in clashes:
        with pytest.raises(InvalidRequest, match="merged as well"):
            services.namespaces.update("main", ("default",), merge={"n": Merge("add", 1)}, **more)
