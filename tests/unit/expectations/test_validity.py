"""Properties that are set on namespaces and Iceberg tables, and the tables that they are about."""

from __future__ import annotations

import json

import pytest

from tests.support.fakes.rows import column
from turnstile.expectations.core.conditions import Condition, EveryRow, Freshness, NullFraction, RowCount, Unique
from turnstile.expectations.core.validity import check_of_iceberg_table, check_of_namespace, is_about
from turnstile.planning.core.predicates import TableColumns
from turnstile.store.core.errors import InvalidRequest

SCHEMA = json.dumps({"type": "struct", "fields": [column("id", "long"), column("s", "string")]})
COLUMNS = TableColumns({"schemaString": SCHEMA, "partitionColumns": [], "configuration": {}})
COMMITS = {"turnstile.expect.a": "id > 0", "turnstile.expect.a.on": "commit"}


@pytest.mark.parametrize(
    ("condition", "about"),
    [
        (EveryRow("ID > 0 AND s IS NULL"), True),
        (EveryRow("id > 0 OR other > 0"), False),
        (EveryRow("id LIKE 'x%'"), True),
        (RowCount((("<", 5.0),)), True),
        (NullFraction("s", "<", 0.5), True),
        (NullFraction("other", "<", 0.5), False),
        (Unique(("id", "s")), True),
        (Unique(("id", "other")), False),
        (Freshness("other", "<", 1), False),
        (Freshness("id", "<", 1), True),
    ],
)
def test_a_condition_is_about_the_tables_that_have_all_of_its_columns(condition: Condition, about: bool) -> None:
    assert is_about(condition, COLUMNS) == about


def test_a_namespace_has_expectations_of_any_columns() -> None:
    check_of_namespace({"turnstile.expect.a": "anything > 0 AND b LIKE 'x%'", "turnstile.expect.b": "unique(c)"})
    check_of_namespace({**COMMITS, "turnstile.expect.a.on": "promote"})
    with pytest.raises(InvalidRequest, match=r"expectation 'a' \(f\(x\) > 0\)") as refusal:
        check_of_namespace({"turnstile.expect.a": "f(x) > 0"})
    assert refusal.value.field == "properties"


def test_commits_are_checked_by_properties_of_delta_tables_alone() -> None:
    with pytest.raises(InvalidRequest, match=r"'turnstile\.expect\.a\.on' is commit.*not of a namespace") as refusal:
        check_of_namespace(COMMITS)
    assert "set both properties on Delta tables" in str(refusal.value.remedy)
    with pytest.raises(InvalidRequest, match="not of an Iceberg table") as refusal:
        check_of_iceberg_table(COMMITS, COLUMNS)
    assert refusal.value.remedy == "remove it: promotions of branches check the expectation"
    check_of_iceberg_table({"turnstile.expect.a": "id > 0"}, COLUMNS)
    with pytest.raises(InvalidRequest, match="no column 'other'"):
        check_of_iceberg_table({"turnstile.expect.a": "other > 0"}, COLUMNS)
