"""Memory for immutable values: the values used last, and the newest one always."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile.store.cache import Lru


def test_the_value_used_longest_ago_goes_first() -> None:
    lru = Lru[str, int](2)
    lru.put("a", 1)
    lru.put("b", 2)
    assert lru.get("a") == 1
    lru.put("c", 3)
    assert (lru.get("a"), lru.get("b"), lru.get("c")) == (1, None, 3)


def test_a_value_put_again_counts_once_and_as_used_now() -> None:
    lru = Lru[str, int](2)
    lru.put("a", 1)
    lru.put("b", 2)
    lru.put("a", 10)
    lru.put("c", 3)
    assert (lru.get("a"), lru.get("b"), lru.get("c")) == (10, None, 3)


def test_a_value_over_the_limit_stays_alone() -> None:
    lru = Lru[str, int](10)
    lru.put("a", 1, 4)
    lru.put("large", 2, 99)
    assert (lru.get("a"), lru.get("large")) == (None, 2)
    lru.put("b", 3, 1)
    assert (lru.get("large"), lru.get("b")) == (None, 3)


def test_what_was_dropped_frees_its_size() -> None:
    lru = Lru[str, int](10)
    lru.put("a", 1, 9)
    lru.drop("a")
    lru.drop("a")
    lru.put("b", 2, 9)
    lru.put("c", 3, 1)
    assert (lru.get("a"), lru.get("b"), lru.get("c")) == (None, 2, 3)


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "get", "drop"]), st.sampled_from("abcd"), st.integers(1, 6)), max_size=40
    )
)
def test_it_keeps_what_a_list_in_order_of_use_keeps(steps: list[tuple[str, str, int]]) -> None:
    limit = 8
    lru = Lru[str, int](limit)
    model: list[tuple[str, int, int]] = []
    for number, (step, key, size) in enumerate(steps):
        found = next((entry for entry in model if entry[0] == key), None)
        if step == "get":
            assert lru.get(key) == (None if found is None else found[1])
            model = [*(entry for entry in model if entry is not found), *([found] if found else [])]
        elif step == "drop":
            lru.drop(key)
            model = [entry for entry in model if entry is not found]
        else:
            lru.put(key, number, size)
            model = [*(entry for entry in model if entry is not found), (key, number, size)]
            while sum(entry[2] for entry in model) > limit:
                model.pop(0)
    assert [lru.get(key) for key in "abcd"] == [{name: value for name, value, _ in model}.get(key) for key in "abcd"]
