"""Hints at the feed: one after a commit, and no other one while the background looks again by
itself (I11)."""

from __future__ import annotations

from turnstile_server.background import LOOK_S
from turnstile_server.world import HINT_S, sparing


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_commits_that_follow_closely_share_a_hint() -> None:
    clock = Clock()
    hints = list[str]()
    committed = sparing(hints.append, clock)
    committed(1)
    assert hints == [""]
    clock.now_s += HINT_S / 2
    committed(3)
    assert hints == [""]
    clock.now_s += HINT_S / 2
    committed(1)
    assert hints == ["", ""]


def test_i11_a_commit_without_a_hint_is_found_by_the_look_that_follows_the_hinted_one() -> None:
    assert LOOK_S > HINT_S
