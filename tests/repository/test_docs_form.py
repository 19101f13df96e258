"""The form of the pages: prose ends at column 100, no cell is a paragraph, and all have a bounded
size (docs/style.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.repository import ROOT

PAGES: Final = sorted(
    path
    for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    if "decisions" not in path.parts
)
COLUMNS: Final = 100
CELL_WORDS: Final = 40
MOST_WORDS: Final = 50_000
"""Of all pages but the decisions and CONTRIBUTING.md, as ``wc -w`` counts them."""


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Yields number and text of the lines outside of code, tables and targets of links."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*(```|~~~)", line):
            is_code = not is_code
        elif not is_code and not re.match(r"\s*(\||\[[^]]+\]:|<)", line):
            yield number, line


def is_wide(line: str) -> bool:
    """Whether a line passes the last column although it has a blank before it, outside of code and
    links."""
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", lambda part: "x" * len(part[0]), line.lstrip(" *-"))
    return len(line) > COLUMNS and " " in text


def wide_cells(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("|"):
            for cell in re.split(r"(?<!\\)\|", line.strip("|")):
                if len(cell.split()) > CELL_WORDS:
                    yield f"{len(cell.split())} words: {cell.strip()[:60]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_ends_at_column_100(page: Path) -> None:
    wide = [f"line {number}: {line[:60]}" for number, line in prose(page.read_text()) if is_wide(line)]
    assert not wide, "break these lines:\n" + "\n".join(wide)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_cell_of_a_table_is_a_paragraph(page: Path) -> None:
    found = list(wide_cells(page.read_text()))
    assert not found, f"more than {CELL_WORDS} words; move the rest below the table:\n" + "\n".join(found)


def test_the_pages_have_at_most_fifty_thousand_words() -> None:
    words = {path: len(path.read_text().split()) for path in PAGES if path.name != "CONTRIBUTING.md"}
    longest = ", ".join(f"{path.name} {words[path]}" for path in sorted(words, key=lambda path: -words[path])[:5])
    assert sum(words.values()) <= MOST_WORDS, (
        f"{sum(words.values())} words: say a thing on one page and link to it, move reasons and measurements to a "
        f"decision, or shorten what you changed; the longest pages: {longest}"
    )


def test_wide_lines_and_cells_are_found() -> None:
    assert is_wide("word " * 21)
    assert not is_wide("`" + "x " * 60 + "`")
    assert list(wide_cells("| a | " + "word " * 41 + "|")) != []
    assert [number for number, _ in prose("a\n```\nb\n```\n| c |\nd")] == [1, 6]
