"""The size of an answer within Lambda's limit is counted to the byte."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.functions import LIMIT, payload
from turnstile.store.core.limits import PAGE_BYTES, RESPONSE_BYTES_MAX, PageBudget, escaped_size, response_size

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from('\x00\x01\x1f"\\\n\u2028\u2029\x7f'), max_size=40)
VALUES = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_the_size_is_what_lambda_sends_for_the_body(value: object) -> None:
    body = msgspec.json.encode(value)
    assert escaped_size(body) == response_size(value) == payload({"body": body.decode()}) - payload({"body": ""})


@pytest.mark.parametrize(
    ("text", "each"), [("a", 1), ("é", 2), ("\x7f", 1), ('"', 4), ("\\", 4), ("\x01", 7), ("\n", 3)]
)
def test_a_character_takes_up_to_seven_bytes(text: str, each: int) -> None:
    assert response_size(text * 100) - response_size("") == 100 * each


def test_what_is_counted_leaves_room_for_what_is_around_it() -> None:
    assert PAGE_BYTES < RESPONSE_BYTES_MAX < LIMIT - 250_000


@given(st.lists(st.integers(0, 60), max_size=20))
def test_room_is_never_exceeded_but_by_the_first(sizes: list[int]) -> None:
    budget = PageBudget(100)
    taken = [size for size in sizes if budget.fits(size)]
    assert sum(taken) <= 100
    assert taken[:1] == sizes[:1]
    alone = PageBudget(100)
    assert alone.fits(1000) and not alone.fits(1)
