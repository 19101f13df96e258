"""Retries end at their deadline, and no pause is longer than it may be."""

from __future__ import annotations

import pytest

from turnstile.store.retry import Patience, Retries

PATIENCE = Patience(deadline_s=1.0, first_s=0.1, longest_s=0.3)


@pytest.mark.parametrize(("jitter", "pauses"), [(0.5, [0.05, 0.1, 0.15, 0.15]), (0.0, [0.0] * 4)])
def test_pauses_double_up_to_the_longest(jitter, pauses):
    slept: list[float] = []
    retries = Retries(PATIENCE, now=lambda: 0.0, sleep=slept.append, jitter=lambda: jitter)
    assert all(retries.pause() for _ in pauses)
    assert slept == pytest.approx(pauses)


def test_no_attempt_starts_after_the_deadline_and_nothing_is_waited_for_in_vain():
    now = [5.0]
    slept = list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds + 0.2  # what an attempt takes

    retries = Retries(PATIENCE, now=lambda: now[0], sleep=sleep, jitter=lambda: 0.99)
    while retries.pause():
        assert now[0] - 0.2 < 6.0
    assert sum(slept) + 0.2 * len(slept) + 0.297 >= 1.0
