"""A mutant of every kind is noticed; the whole list is ``python -m tests.mutation``."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.mutation.mutants import DECISIONS, WRITES, Mutant, mutants
from tests.mutation.runner import failing_without, judge
from tests.mutation.survivors import EXPECTED

ALL = list(enumerate(mutants()))
SAMPLE = [
    next(pair for pair in ALL if pair[1].module == module and pair[1].kind == kind)
    for module, kind in (("turnstile.core.ratify", "clause"), ("turnstile.core.decide", "branch"))
]


def name(value: object) -> str:
    return str(value) if isinstance(value, Mutant) else ""


def test_every_clause_action_and_branch_is_on_the_list_once() -> None:
    names = Counter(str(mutant) for _, mutant in ALL)
    assert max(names.values()) == 1
    assert {mutant.module for _, mutant in ALL} == {*WRITES, *DECISIONS}
    assert {mutant.kind for _, mutant in ALL} == {"clause", "action", "branch", "edge"}


def test_every_survivor_is_a_mutant_and_has_a_reason() -> None:
    assert EXPECTED.keys() <= {str(mutant) for _, mutant in ALL}
    assert all(reason for reason in EXPECTED.values())


@pytest.mark.parametrize(("number", "mutant"), SAMPLE, ids=name)
def test_a_mutant_is_noticed(number: int, mutant: Mutant) -> None:
    assert judge(number, mutant, wide=False).killer


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_without_a_mutant_nothing_fails() -> None:
    assert failing_without(ALL) == ""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("number", "mutant"), ALL, ids=name)
def test_i1_to_i11_every_mutant_is_noticed_or_has_a_reason_to_survive(number: int, mutant: Mutant) -> None:
    assert bool(judge(number, mutant).killer) != (str(mutant) in EXPECTED)
