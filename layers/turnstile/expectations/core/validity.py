"""Whether properties that are set are expectations of their table or namespace. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from turnstile.expectations.core.conditions import (
    PREFIX,
    Condition,
    EveryRow,
    Expectation,
    Freshness,
    NullFraction,
    Unique,
    expectations_of,
)
from turnstile.planning.core.files import AnyColumns
from turnstile.planning.core.predicates import NoSuchColumn, TableColumns
from turnstile.planning.core.sql import predicate_parser
from turnstile.store.core.errors import InvalidRequest
from turnstile_predicates.predicates import has_unknown


def check_of_table(properties: Mapping[str, str], columns: TableColumns) -> list[Expectation]:
    """Returns the expectations among the properties of a table. Raises InvalidRequest for one with
    a text, column or type that does not fit the table. Call it when an expectation is set."""
    found = expectations_of(properties)
    for expectation in found:
        try:
            _check_condition(expectation.condition, columns)
        except InvalidRequest as error:
            raise _of(expectation, error) from None
    return found


def check_of_iceberg_table(properties: Mapping[str, str], columns: TableColumns) -> None:
    """As ``check_of_table``; commits of Iceberg tables are not checked."""
    _refuse_commits(check_of_table(properties, columns), "an Iceberg table")


def check_of_namespace(properties: Mapping[str, str]) -> None:
    """Raises InvalidRequest for a property of a namespace that no table could have, or with ``on``
    = ``commit``. Call it when an expectation is set."""
    found = expectations_of(properties)
    for expectation in found:
        if isinstance(expectation.condition, EveryRow):
            try:
                predicate_parser(expectation.condition.predicate)(AnyColumns())
            except InvalidRequest as error:
                raise _of(expectation, error) from None
    _refuse_commits(found, "a namespace")


def is_about(condition: Condition, columns: TableColumns) -> bool:
    """Whether a table has all columns that a condition names."""
    try:
        _check_condition(condition, columns)
    except NoSuchColumn:
        return False
    except InvalidRequest:
        return True
    return True


def _refuse_commits(expectations: Sequence[Expectation], of: str) -> None:
    for expectation in expectations:
        if expectation.at_commit:
            problem = f"property '{PREFIX}{expectation.name}.on' is commit, and commits are checked by properties of "
            remedy = "remove it: promotions of branches check the expectation"
            if of == "a namespace":
                remedy += "; or set both properties on Delta tables"
            raise InvalidRequest(f"{problem}Delta tables, not of {of}", field="properties", remedy=remedy)


def _check_condition(condition: Condition, columns: TableColumns) -> None:
    match condition:
        case EveryRow(predicate=text):
            if has_unknown(predicate_parser(text)(columns)):
                problem = "it compares values whose order is not known, or that no value of the column equals"
                raise InvalidRequest(problem, remedy="compare a column of numbers, texts, dates or times")
        case NullFraction(column=name) | Freshness(column=name):
            columns.find_column(name)
        case Unique(columns=names):
            for name in names:
                columns.find_column(name)


def _of(expectation: Expectation, error: InvalidRequest) -> InvalidRequest:
    problem = f"expectation '{expectation.name}' ({expectation.text[:200]}): {error.public_message}"
    return InvalidRequest(problem, field="properties", remedy=error.remedy)
