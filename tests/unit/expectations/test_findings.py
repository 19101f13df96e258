"""Findings decide by the numbers of a table, as the server's own counts do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes.checked_table import Lake
from turnstile.expectations.core.conditions import expectations_of
from turnstile.expectations.core.findings import TEXT_MAX, Finding, finding_problem, question_of
from turnstile.store.core.errors import InvalidRequest

HOUR_US = 3_600_000_000


def problem(text: str, now_ms: int = 0, **numbers: Any) -> str | None:
    (expectation,) = expectations_of({"turnstile.expect.e": text})
    return finding_problem(expectation.condition, Finding("t", "e", text, **numbers), now_ms)


@pytest.mark.parametrize(
    ("text", "numbers", "expected"),
    [
        ("id > 0", {"rows": 9}, None),
        ("id > 0", {"rows": 9, "broken": 2, "examples": "{}"}, "2 of 9 rows, such as {}"),
        ("row_count = 9", {"rows": 9}, None),
        ("row_count < 9", {"rows": 9}, "the table has 9 rows"),
        ("null_fraction(id) < 0.5", {"rows": 9, "broken": 4}, None),
        ("null_fraction(id) < 0.5", {"rows": 8, "broken": 4}, "it is null in 4 of 8 rows"),
        ("unique(id)", {"rows": 9}, None),
        ("unique(id)", {"rows": 9, "broken": 1, "examples": "{}"}, "1 keys occur more than once, such as {}"),
        ("freshness(ts) < interval 2 hours", {"rows": 0}, "ts has no value"),
    ],
)
def test_the_numbers_of_a_finding_are_compared_with_the_condition(
    text: str, numbers: dict[str, Any], expected: str | None
) -> None:
    assert problem(text, **numbers) == expected


def test_the_age_of_the_newest_value_is_that_of_the_moment_of_the_comparison() -> None:
    text = "freshness(ts) < interval 2 hours"
    assert problem(text, 3_600_000, rows=1, newest_us=0) is None
    assert problem(text, 7_200_000, rows=1, newest_us=0) == "the newest value of ts is 7200 s old"
    assert problem(text, 7_200_000, rows=1, newest_us=HOUR_US) is None


def test_a_question_has_the_paths_of_the_columns_and_the_whole_text() -> None:
    columns = Lake().source().columns
    texts = {"a": "unique(ID)", "b": "null_fraction(id) = 0", "c": "id > 0", "d": "row_count > 0"}
    texts["e"] = "id > 0 OR id < " + "9" * 15
    texts["e"] += " " * (TEXT_MAX - len(texts["e"]))
    texts["f"] = texts["e"] + " "
    found = expectations_of({f"turnstile.expect.{name}": text for name, text in texts.items()})
    questions = [question_of(each, columns) for each in found]
    assert [each and (each.kind, each.columns) for each in questions] == [
        ("unique", [("id",)]),
        ("null_fraction", [("id",)]),
        ("every_row", [("id",)]),
        ("row_count", []),
        ("every_row", [("id",)]),
        None,
    ]
    assert [each.text for each in questions if each] == [*texts.values()][:5]
    (missing,) = expectations_of({"turnstile.expect.e": "unique(nope)"})
    with pytest.raises(InvalidRequest, match="no column"):
        question_of(missing, columns)
