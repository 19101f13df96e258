"""Every invariant has tests that name it, and the page of invariants names modules that exist."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.support.repository import ROOT
from tests.support.store.clauses import clauses

PAGE = (ROOT / "docs/invariants.md").read_text()
NUMBERS = [f"I{number}" for number in range(1, 30)]
KINDS = ("unit", "simulation", "contract", "functional", "histories")


@functools.cache
def named_tests() -> dict[str, set[str]]:
    """Invariant -> files with a test whose name begins with it (``test_i1_i2_...``,
    ``test_i1_to_i11_...``)."""
    found: dict[str, set[str]] = defaultdict(set)
    for kind in KINDS:
        for path in (ROOT / "tests" / kind).rglob("test_*.py"):
            for name in re.findall(r"^ *def test_((?:i\d+_|to_)+)", path.read_text(), re.MULTILINE):
                for number in numbers(name):
                    found[number].add(str(path.relative_to(ROOT / "tests")))
    return found


def numbers(name: str) -> Iterator[str]:
    """``i1_i3_`` names two; ``i1_to_i11_`` names a checker of all, which is no test of one of
    them."""
    if "to_" not in name:
        yield from (number.upper() for number in re.findall(r"i\d+", name))


@pytest.mark.parametrize("number", NUMBERS)
def test_every_invariant_has_a_test_that_names_it(number: str) -> None:
    assert named_tests()[number], f"no test names {number}"


@pytest.mark.parametrize("number", [number for number in NUMBERS if number not in ("I8", "I12")])
def test_every_invariant_of_the_core_is_checked_in_more_than_one_way(number: str) -> None:
    kinds = {path.split("/")[0] for path in named_tests()[number]}
    assert {"unit", "simulation"} <= kinds, f"{number} is checked by {kinds} only"


def test_the_page_lists_every_invariant() -> None:
    assert re.findall(r"^\* \*\*(I\d+)\.\*\* \S", PAGE, re.MULTILINE) == NUMBERS


def test_the_modules_of_the_page_exist() -> None:
    named = re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`", PAGE.partition("by other means")[2])
    assert len(named) > 50
    assert [
        name
        for name in named
        if not any(
            (ROOT / part / f"{name}.py").exists() or (ROOT / part / name).is_dir()
            for part in ("layers/turnstile", "layers", "python_client")
        )
    ] == []


def test_no_clause_cites_an_invariant_that_does_not_exist() -> None:
    assert clauses().keys() <= set(NUMBERS)
