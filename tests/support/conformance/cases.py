"""Which test stands for which answer of Unity's APIs, and the line of the page that counts them.

    @covers(updateTable=409)                       the test gets this answer; a test that does not, fails
    @covers(loadTable=200, updateTable=(200, 409))

`python -m tests.functional.unity.conformance` runs the suite and writes their number into
docs/compatibility.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.support.openapi import UNITY
from tests.support.repository import ROOT

FOLDER = ROOT / "tests/functional/unity/conformance"
PAGE = ROOT / "docs/compatibility.md"
BEGIN = "<!-- conformance: made by tests/functional/unity/conformance -->\n"
END = "<!-- conformance: end -->"

Seen = tuple[str, int]
"""An operation's id and a status."""


def covers(**answers: int | tuple[int, ...]) -> pytest.MarkDecorator:
    """Mark a test with the answers it is a case of: operation ids with one status or several."""
    pairs = {
        (id, status)
        for id, statuses in answers.items()
        for status in ((statuses,) if isinstance(statuses, int) else statuses)
    }
    for id, status in pairs:
        assert status in UNITY.operations[id].responses, f"{id} {status} is not in openapi/unity.yaml"
    return pytest.mark.covers(pairs)


def promised(item: pytest.Item) -> set[Seen]:
    """The answers that a test is a case of."""
    return {pair for mark in item.iter_markers("covers") for pair in mark.args[0]}


def count(items: Iterable[pytest.Item]) -> Counter[Seen]:
    """Cases by answer."""
    return Counter(pair for item in items for pair in promised(item))


def documented() -> set[Seen]:
    """Every answer that openapi/unity.yaml describes."""
    return {(one.id, status) for one in UNITY.operations.values() for status in one.responses}


def counted(cases: Counter[Seen]) -> str:
    """Returns the line of the page, and a line for each answer without a case."""
    answers = documented()
    missing = "".join(f"no case: {id} {status}\n" for id, status in sorted(answers) if not cases[id, status])
    return f"{len(UNITY.operations)} operations, {len(answers)} answers, {sum(cases.values())} cases.\n{missing}"


def filled(page: str, line: str) -> str:
    """Returns the page with this line between its markers."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}{line}{END}{rest.split(END)[1]}"
