"""The memory of requests with rows: what a request takes, it gives back."""

from __future__ import annotations

import pytest

from turnstile.ingest.budget import ByteBudget
from turnstile.store.core.errors import Throttled


def test_a_request_that_grows_several_times_takes_its_largest_size_and_gives_it_back() -> None:
    budget = ByteBudget(100, 60)
    for _ in range(5):
        with budget.share_of("ann") as share:
            for size in (10, 40, 20, 60):
                share.grow(size)
            with budget.share_of("ben") as other, pytest.raises(Throttled):
                other.grow(41)
    with budget.share_of("ann") as share:
        share.grow(60)
        with pytest.raises(Throttled):
            share.grow(61)


def test_a_refused_request_keeps_what_it_had_until_it_ends() -> None:
    budget = ByteBudget(100, 60)
    with budget.share_of("ann") as first:
        first.grow(50)
        with pytest.raises(Throttled):
            first.grow(70)
        with budget.share_of("ann") as second, pytest.raises(Throttled):
            second.grow(20)
        with budget.share_of("ann") as second:
            second.grow(10)
