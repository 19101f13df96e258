"""docs/compatibility.md counts the cases of the suite, which has one for every answer that
openapi/unity.yaml describes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from tests.support.conformance.cases import PAGE, counted, documented, filled
from tests.support.repository import ROOT


@pytest.fixture(scope="module")
def collected() -> str:
    """The line of the page as the suite's tests make it, in a process that collects all of them."""
    command = [sys.executable, "-m", "tests.functional.unity.conformance", "--collect"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_the_page_is_up_to_date(collected: str) -> None:
    assert PAGE.read_text() == filled(PAGE.read_text(), collected), (
        "run: .venv/bin/python -m tests.functional.unity.conformance"
    )


def test_every_answer_that_is_described_has_a_case(collected: str) -> None:
    assert "no case" not in collected


def test_an_answer_without_a_case_would_be_seen() -> None:
    cases = Counter(dict.fromkeys(documented(), 1))
    assert "no case" not in counted(cases)
    del cases["updateTable", 409]
    assert "no case: updateTable 409" in counted(cases)
