"""Tables as other engines leave them (``tests.support.journeys.foreign``): a table that Delta opens
at its path is imported, and read through the lake. Messages of the import, and reads without Spark:
tests/functional/transfer/test_foreign_tables.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.journeys.foreign import IDS, Foreign, all_foreign
from tests.support.journeys.lakes import Lakes
from tests.support.journeys.places import NAMESPACES

TAKEN = [table for table in all_foreign() if table.takes and not table.refusal]
OTHERS = [table for table in all_foreign() if table not in TAKEN]
QUICK = (
    "plain",
    "superseded feature",
    "mapped without the greatest id",
    "deletion vectors under an old protocol",
    "V2 checkpoints under an old protocol",
    "clustering listed",
)
"""Some of the kinds, which ``make test`` reads by Spark. The others are slow."""


@pytest.fixture(scope="module")
def namespace(lakes: Lakes) -> str:
    """One of their own: DuckDB reads no schema in which one table has a type that it does not
    know."""
    place, _ = lakes.at("up")
    name = place.fresh("foreign")
    place.ask("POST", NAMESPACES, {"name": name})
    return name


def opened(spark: Any, folder: Path) -> list[int] | None:
    """Returns the rows that Delta reads by the path; None where it refuses the table."""
    try:
        return sorted(row.id for row in spark.sql(f"SELECT id FROM delta.`{folder}`").collect())
    except Exception:
        return None


def parameters(tables: list[Foreign]) -> list[Any]:
    """Returns a parameter for each table, slow unless it is in ``QUICK``."""
    return [
        pytest.param(table, id=table.name, marks=() if table.name in QUICK else pytest.mark.slow) for table in tables
    ]


@pytest.mark.parametrize("table", parameters(TAKEN))
def test_a_foreign_table_that_delta_opens_is_imported_and_read_through_the_lake(
    lakes: Lakes, namespace: str, spark: Any, table: Foreign, tmp_path: Path
) -> None:
    place, lake = lakes.at("up")
    folder = tmp_path / "t"
    name = place.fresh("foreign")
    table.write(folder)
    assert opened(spark, folder) == IDS
    place.ask(
        "POST", f"{NAMESPACES}/{namespace}/imports", {"name": name, "location": folder.as_uri(), "dry_run": False}
    )
    full = f"{lake.name}.{namespace}.{name}"
    ids = list(IDS)
    if len(table.commits) == 1 and "old protocol" in table.name:  # features were added, which a writer carries out
        spark.sql(f"INSERT INTO {full} (id) VALUES (3)")
        ids.append(3)
    assert sorted(row.id for row in spark.sql(f"SELECT id FROM {full}").collect()) == ids


@pytest.mark.slow
@pytest.mark.parametrize("table", OTHERS, ids=lambda table: table.name)
def test_what_delta_does_with_the_other_tables_is_what_their_list_says(
    spark: Any, table: Foreign, tmp_path: Path
) -> None:
    table.write(tmp_path / "t")
    assert opened(spark, tmp_path / "t") == (IDS if table.takes else None)
