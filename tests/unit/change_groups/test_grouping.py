"""The answer to a change of a group, and the changes that may join one (I21)."""

from __future__ import annotations

import pytest

from turnstile.catalog.core.grouping import (
    GROUP_BYTES,
    GROUP_CHANGES,
    GROUP_ROWS,
    Completion,
    Judgement,
    Swap,
    completion_of,
    joins,
)
from turnstile.store.ports import TRANSACT_MAX

JUDGED = (Judgement.UNCHANGED, Judgement.REFUSED)


@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("swap", Swap)
def test_i21_a_change_that_was_put_off_gets_no_answer(swap: Swap, real: bool) -> None:
    assert completion_of(Judgement.POSTPONED, swap, real=real) is Completion.NOTHING


@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("judgement", [Judgement.CHANGES, *JUDGED])
def test_i21_an_accepted_swap_makes_every_state_of_the_group_real(judgement: Judgement, real: bool) -> None:
    assert completion_of(judgement, Swap.ACCEPTED, real=real) is Completion.OUTCOME


@pytest.mark.parametrize("swap", [Swap.LOST, Swap.FAILED, Swap.UNKNOWN, Swap.NONE])
@pytest.mark.parametrize("judgement", JUDGED)
def test_i21_a_refusal_counts_only_in_a_state_that_was_real(judgement: Judgement, swap: Swap) -> None:
    assert completion_of(judgement, swap, real=True) is Completion.OUTCOME
    assert completion_of(judgement, swap, real=False) is Completion.NOTHING


@pytest.mark.parametrize("real", [True, False])
def test_i21_a_commit_whose_swap_was_not_accepted(real: bool) -> None:
    assert completion_of(Judgement.CHANGES, Swap.LOST, real=real) is Completion.NOTHING
    assert completion_of(Judgement.CHANGES, Swap.FAILED, real=real) is Completion.ERROR
    assert completion_of(Judgement.CHANGES, Swap.UNKNOWN, real=real) is Completion.ERROR


def test_the_first_change_always_joins() -> None:
    rows = [str(number) for number in range(GROUP_ROWS + 1)]
    assert joins(rows, {"0"}, 0, GROUP_BYTES)


def test_a_row_takes_part_once() -> None:
    assert not joins(["a", "b"], {"b"}, 1, 0)
    assert joins(["a"], {"b"}, 1, 0)
    assert joins([], {"b"}, 1, 0)


def test_a_group_is_bounded() -> None:
    assert GROUP_ROWS + 1 == TRANSACT_MAX
    assert joins([], set(), GROUP_CHANGES - 1, 0)
    assert not joins([], set(), GROUP_CHANGES, 0)
    assert joins([], set(), 1, GROUP_BYTES - 1)
    assert not joins([], set(), 1, GROUP_BYTES)
    taken = {str(number) for number in range(GROUP_ROWS - 1)}
    assert joins(["x"], taken, 1, 0)
    assert not joins(["x", "y"], taken, 1, 0)
