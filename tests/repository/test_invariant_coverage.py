"""Every invariant has tests that name it, and the page of invariants says what the code says."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.support.repository import ROOT

DOMAIN = ROOT / "layers/turnstile"
PAGE = (ROOT / "docs/invariants.md").read_text()
NUMBERS = [f"I{number}" for number in range(1, 26)]
KINDS = ("unit", "simulation", "contract", "functional", "histories")


@functools.cache
def named_tests() -> dict[str, set[str]]:
    """Invariant -> files with a test whose name begins with it (``test_i1_i2_...``, ``test_i1_to_i11_...``)."""
    found: dict[str, set[str]] = defaultdict(set)
    for kind in KINDS:
        for path in (ROOT / "tests" / kind).rglob("test_*.py"):
            for name in re.findall(r"^ *def test_((?:i\d+_|to_)+)", path.read_text(), re.MULTILINE):
                for number in numbers(name):
                    found[number].add(str(path.relative_to(ROOT / "tests")))
    return found


def numbers(name: str) -> Iterator[str]:
    """``i1_i3_`` names two; ``i1_to_i11_`` names a checker of all, which is no test of one of them."""
    if "to_" not in name:
        yield from (number.upper() for number in re.findall(r"i\d+", name))


@functools.cache
def clauses() -> dict[str, set[str]]:
    """Invariant -> ``subject/module: clause`` for every clause in a core."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(DOMAIN.rglob("*.py")):
        place = path.relative_to(DOMAIN).with_suffix("").parts
        if "core" not in place:
            continue
        module = "/".join(part for part in place if part != "core")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Clause":
                name = node.args[0]
                invariant = node.args[1]
                if isinstance(name, ast.Constant) and isinstance(invariant, ast.Constant):
                    found[invariant.value].add(f"{module}: {name.value}")
    return found


@functools.cache
def documented() -> dict[str, set[str]]:
    """The same, as ``docs/invariants.md`` has it."""
    found: dict[str, set[str]] = defaultdict(set)
    for number, section in re.findall(r"^\*\*(I\d+)\*\*\n((?:(?!\*\*I|##).*\n)*)", PAGE, re.MULTILINE):
        named = re.search(r"^\* clauses: ((?:.+\n)(?:  .+\n)*)", section, re.MULTILINE)
        for part in named[1].split(";") if named else ():
            module, _, names = part.partition(":")
            found[number] |= {f"{module.strip()}: {name}" for name in re.findall(r"`([^`]+)`", " ".join(names.split()))}
    return found


@pytest.mark.parametrize("number", NUMBERS)
def test_every_invariant_has_a_test_that_names_it(number: str) -> None:
    assert named_tests()[number], f"no test names {number}"


@pytest.mark.parametrize("number", [number for number in NUMBERS if number not in ("I8", "I12")])
def test_every_invariant_of_the_core_is_checked_in_more_than_one_way(number: str) -> None:
    kinds = {path.split("/")[0] for path in named_tests()[number]}
    assert {"unit", "simulation"} <= kinds, f"{number} is checked by {kinds} only"


def test_the_page_lists_every_invariant() -> None:
    assert re.findall(r"^\* \*\*(I\d+)\.\*\* \S", PAGE, re.MULTILINE) == NUMBERS


@pytest.mark.parametrize("number", NUMBERS)
def test_the_page_names_the_clauses_that_serve_each_invariant(number: str) -> None:
    assert documented()[number] == clauses()[number]


def test_no_clause_cites_an_invariant_that_does_not_exist() -> None:
    assert clauses().keys() <= set(NUMBERS)
