"""docs/clients.md shows the matrix of tests/journeys as it is tested."""

from __future__ import annotations

from tests.support.journeys.cells import BEGIN, END, ORIGINS, REFUSED, USES, cell, page
from tests.support.repository import ROOT


def test_the_page_has_the_table_that_the_tests_go_by() -> None:
    text = (ROOT / "docs" / "clients.md").read_text()
    shown = text[text.index(BEGIN) : text.index(END) + len(END)]
    assert shown == page(), "put what tests.support.journeys.cells.page() returns into docs/clients.md"


def test_a_cell_is_what_is_refused_or_works() -> None:
    assert {cell(origin, use) for origin in ORIGINS for use in USES if (origin, use) not in REFUSED} == {"works"}
    assert all(cell(*key) != "works" for key in REFUSED)
