"""A mutant of every kind is noticed; the whole list is ``python -m tests.mutation``."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest

from tests.mutation.mutants import DECISIONS, LAYER, WRITES, Mutant, mutants
from tests.mutation.runner import ROOT
from tests.mutation.survivors import EXPECTED

ALL = mutants()
SAMPLE = [
    next(one for one in ALL if one.module == "turnstile.delta.core.state_writes" and one.kind == kind)
    for kind in ("clause", "action")
]


def test_every_clause_action_and_branch_is_on_the_list_once() -> None:
    names = Counter(str(mutant) for mutant in ALL)
    assert max(names.values()) == 1
    assert {mutant.module for mutant in ALL} == {*WRITES, *DECISIONS}
    assert {mutant.kind for mutant in ALL} == {"clause", "action", "branch", "operand", "edge"}


def test_no_condition_of_a_write_is_missing_from_the_list() -> None:
    built = {
        ".".join(path.relative_to(LAYER).with_suffix("").parts)
        for path in LAYER.rglob("*.py")
        if re.search(r"\b(Clause|new_row)\(", path.read_text()) and path.name != "plan.py"
    }
    assert built == set(WRITES)


def test_every_survivor_is_a_mutant_and_has_a_reason() -> None:
    assert EXPECTED.keys() <= {str(mutant) for mutant in ALL}
    assert all(reason for reason in EXPECTED.values())


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which has not imported what is to be changed."""
    asked = [sys.executable, "-m", "tests.mutation", *arguments]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutant", SAMPLE, ids=str)
def test_a_mutant_is_noticed(mutant: Mutant) -> None:
    done = command("--only", str(mutant))
    assert "killed 1 of 1" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("module", sorted({*WRITES, *DECISIONS}))
def test_i1_to_i11_every_mutant_is_noticed_or_has_a_reason_to_survive(module: str) -> None:
    done = command("--only", module.removeprefix("turnstile.") + ":")
    assert done.returncode == 0, done.stdout + done.stderr
