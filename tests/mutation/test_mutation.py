"""A mutant of every kind is noticed; the whole list is ``python -m tests.mutation``."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest

from tests.mutation import modules
from tests.mutation.modules import LAYER, MODULES, SURVIVORS, Mutated, nearest
from tests.mutation.mutants import mutants
from tests.support.repository import ROOT

ALL = mutants()
SAMPLED = "turnstile.coordination.core.rows"
"""A module whose nearest tests take seconds: all of them run once without any mutant."""
SAMPLE = [
    str(next(mutant for mutant in ALL if (mutant.module, mutant.kind) == (SAMPLED, kind)))
    for kind in ("clause", "action")
]


def test_every_clause_action_and_branch_is_on_the_list_once() -> None:
    names = Counter(str(mutant) for mutant in ALL)
    assert max(names.values()) == 1
    assert {mutant.module for mutant in ALL} == set(MODULES)
    assert {mutant.kind for mutant in ALL} == {
        *("clause", "action", "branch", "operand", "edge"),
        *("check", "sum", "term", "member"),
    }


@pytest.mark.parametrize(
    "mutant",
    [
        "turnstile.delta.prepare: _decide: sum self._limits.identity_days - 1",
        "turnstile.api.unity.credentials: _free: term claim.marker and own",
        "turnstile.iceberg.commits: _change: member access=before.access",
        "turnstile.iceberg.append_merger: _new_manifests: check _require(entry[manifests.SEQUENCE] == ",
    ],
)
def test_a_table_that_was_overlooked_once_is_on_the_list(mutant: str) -> None:
    """Mistakes that a reviewer planted, and no test found."""
    assert any(str(one).startswith(mutant) for one in ALL)


def test_no_condition_of_a_write_is_missing_from_the_list() -> None:
    building = {
        ".".join(path.relative_to(LAYER).with_suffix("").parts)
        for path in LAYER.rglob("*.py")
        if re.search(r"(?<!class )\b(Clause|new_row)\(", path.read_text())
    } - {"turnstile.store.core.writes"}  # which defines them
    assert building == {module for module, mutated_in in MODULES.items() if mutated_in.writes}


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_tests_that_are_near(module: str) -> None:
    assert nearest(module)


def test_a_pattern_that_matches_no_test_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(modules.MODULES, "m", Mutated(("unit/*/test_*.py", "unit/test_gone_*.py")))
    with pytest.raises(LookupError, match="test_gone_"):
        nearest("m")


def test_every_survivor_is_a_mutant_and_has_a_reason() -> None:
    assert SURVIVORS.keys() <= {str(mutant) for mutant in ALL}
    assert all(SURVIVORS.values())


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which has not imported what is to be changed."""
    command = [sys.executable, "-m", "tests.mutation", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(300)
def test_mutants_are_noticed() -> None:
    done = command("--only", *SAMPLE)
    assert f"killed {len(SAMPLE)} of {len(SAMPLE)}" in done.stdout, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("module", sorted(MODULES))
def test_i1_to_i11_every_mutant_is_noticed_or_has_a_reason_to_survive(module: str) -> None:
    done = command("--only", module + ":")
    assert done.returncode == 0, done.stdout + done.stderr
