"""The form of the code: one statement, one assignment; docstrings and comments end at
column 100."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.repository import ROOT, docstrings_in, statements, syntax_tree, tracked

PACKAGES: Final = (
    "layers", "functions", "server", "http_client", "spark_client", "python_client", "cli", "infra", "tests",
    "benchmarks",
)  # fmt: skip
COLUMNS: Final = 100
"""Of prose."""
CODE_COLUMNS: Final = 120
SEVERAL_TARGETS: Final = re.compile(r"^[^=\n]*,[^=\n]*=(?!=)", re.MULTILINE)
"""Occurs in a text that assigns several values to several names. A text without it is not
parsed."""


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def parallel_assignments(text: str) -> Iterator[int]:
    """Yields the lines of assignments of several values to several names, without swaps."""
    if not SEVERAL_TARGETS.search(text):
        return
    for node in statements(syntax_tree(text)):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                if not {ast.unparse(target) for target in targets} & {ast.unparse(value) for value in values}:
                    yield node.lineno


def wide_prose(text: str) -> Iterator[int]:
    """Yields the lines of docstrings and comments that pass column 100, without rulers, tables and
    directives."""
    lines = text.splitlines()
    if all(len(line) <= COLUMNS for line in lines):
        return
    for docstring in docstrings_in(syntax_tree(text)):
        for number in range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1):
            line = lines[number - 1]
            is_table = re.search(r"\S {2,}\S|={20}", line)
            if len(line) > COLUMNS and " " in line.strip() and not is_table:
                yield number
    for number, line in enumerate(lines, 1):
        is_comment = re.match(r"\s*#:? \w", line) and not re.search(r"noqa|type:|pragma|fmt:|https?://", line)
        if is_comment and len(line) > COLUMNS:
            yield number


@pytest.mark.parametrize("package", PACKAGES)
def test_a_statement_has_one_assignment(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules(package)
        for line in parallel_assignments(path.read_text())
    ]
    assert not found, "write one assignment a line:\n" + "\n".join(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_and_comments_end_at_column_100(package: str) -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path in modules(package) for line in wide_prose(path.read_text())]
    assert not found, "break these lines:\n" + "\n".join(found)


def test_a_line_ends_at_column_120_with_its_directives() -> None:
    """Ruff's E501 does not count directives, such as ``noqa`` and ``type: ignore``."""
    found = [
        f"{name}:{number}"
        for name in tracked()
        if name.endswith(".py")
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if len(line) > CODE_COLUMNS
    ]
    assert not found, "break these lines:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "expected"), [("a, b = c, d", [1]), ("a, b = b, a", []), ("a, b = c()", []), ("a = b\nx, y = 1, 2", [2])]
)
def test_parallel_assignments_are_found(text: str, expected: list[int]) -> None:
    assert list(parallel_assignments(text)) == expected


def test_wide_prose_is_found() -> None:
    assert list(wide_prose(f'"""{"word " * 25}"""\n# {"word " * 25}\n# {"-" * 110}\n')) == [1, 2]
