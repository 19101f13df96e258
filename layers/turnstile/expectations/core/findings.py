"""Expectations that the server cannot check are asked as questions, and a program that reads the
table answers with findings: numbers, by which the server decides. Pure.

    every_row        ``broken`` of the ``rows`` that the branch added do not satisfy the predicate
    row_count        the table has ``rows``
    null_fraction    ``broken`` of its ``rows`` have no value in the column
    unique           ``broken`` keys occur more than once; keys with a null do not count
    freshness        ``newest_us``, the newest value in microseconds since 1970; null: there is none
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from turnstile.expectations.core.conditions import (
    Condition,
    EveryRow,
    Expectation,
    Freshness,
    NullFraction,
    RowCount,
    Unique,
)
from turnstile.expectations.core.measures import age_problem, count_problem, keys_problem, nulls_problem
from turnstile.planning.core.predicates import TableColumns, columns_of
from turnstile.planning.core.sql import predicate_parser

TEXT_MAX: Final = 2_000
"""Characters of an expectation that is asked, and of the examples of a finding."""

Kind = Literal["every_row", "row_count", "null_fraction", "unique", "freshness"]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]

_KINDS: Final[dict[type[Condition], Kind]] = {
    RowCount: "row_count",
    NullFraction: "null_fraction",
    Unique: "unique",
    Freshness: "freshness",
}


class Question(msgspec.Struct, frozen=True):
    """An expectation for a program that reads the table.

    Attributes:
        text: the whole expectation; for ``every_row`` a predicate in Spark's SQL, in which a time
            without a zone is UTC.
        columns: the path of each column that it names.
    """

    kind: Kind
    text: str
    columns: list[tuple[str, ...]]


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The numbers of one table for one expectation: ``table`` by its name without the catalog,
    ``expectation`` by its name, with its ``text``. ``examples``: rows as a message shows them."""

    table: Text
    expectation: Text
    text: Text
    rows: Count
    broken: Count = 0
    newest_us: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    examples: Text = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the expectation."""
        return self.table, self.expectation, self.text


def question_of(expectation: Expectation, columns: TableColumns) -> Question | None:
    """Returns the question for an expectation that fits the columns of its table; None for one
    with a text that is too long to be asked. Raises InvalidRequest for a column that the table has
    not."""
    if len(expectation.text) > TEXT_MAX:
        return None
    condition = expectation.condition
    match condition:
        case NullFraction(column=name) | Freshness(column=name):
            names = [name]
        case Unique(columns=several):
            names = [*several]
        case EveryRow(predicate=text):
            return Question("every_row", expectation.text, sorted(columns_of(predicate_parser(text)(columns))))
        case RowCount():
            names = []
    return Question(_KINDS[type(condition)], expectation.text, [columns.find_column(name).name for name in names])


def finding_problem(condition: Condition, finding: Finding, now_ms: int) -> str | None:
    """Returns how the table of a finding breaks a condition; None if it satisfies it."""
    match condition:
        case EveryRow():
            problem = f"{finding.broken} of {finding.rows} rows, such as {finding.examples}"
            return problem if finding.broken else None
        case RowCount():
            return count_problem(condition, finding.rows)
        case NullFraction():
            return nulls_problem(condition, finding.broken, finding.rows)
        case Unique():
            return keys_problem(finding.broken, finding.examples)
        case Freshness(column=name):
            return age_problem(condition, name, finding.newest_us, now_ms)
