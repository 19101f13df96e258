"""Which test stands for which answer of Unity's APIs, and the table that is made of it.

    @covers(updateTable=409)                       the test gets this answer; a test that does not, fails
    @covers(loadTable=200, updateTable=(200, 409))

`python -m tests.functional.unity.conformance` runs the suite and writes docs/conformance.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from tests.support.openapi import UNITY
from tests.support.repository import ROOT

FOLDER = ROOT / "tests/functional/unity/conformance"
PAGE = ROOT / "docs/conformance.md"

Seen = tuple[str, int]
"""An operation's id and a status."""

HEAD = """# Conformance

How often the suite in `tests/functional/unity/conformance` shows each answer of the operations in
`openapi/unity.yaml`: cases that passed, by operation and status. A dash: the operation has no such
answer. Every case runs against the real handlers, and every answer is judged by the document member
by member. `.venv/bin/python -m tests.functional.unity.conformance` runs the suite and writes this
page; a test fails when the page is out of date, or an answer of the document has no case.

What deviates from the reference, and why: [compatibility.md](compatibility.md).

"""


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


def page(cases: Counter[Seen]) -> str:
    """docs/conformance.md."""
    answers = documented()
    statuses = sorted({status for _, status in answers})
    lines = [
        "| operation | | " + " | ".join(map(str, statuses)) + " |",
        "| --- | --- | " + " | ".join("---:" for _ in statuses) + " |",
    ]
    for one in UNITY.operations.values():
        cells = [str(cases[one.id, status]) if (one.id, status) in answers else "–" for status in statuses]
        path = one.path.removeprefix("/api/2.1/unity-catalog")
        lines.append(f"| `{one.method} {path}` | {one.id} | " + " | ".join(cells) + " |")
    total = f"{len(UNITY.operations)} operations, {len(answers)} answers, {sum(cases.values())} cases."
    return HEAD + total + "\n\n" + "\n".join(lines) + "\n"
