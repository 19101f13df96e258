"""The part of the matrix that needs a Spark session: every cell with ``turnstile up``, and some
tables in each other way of running."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.journeys.cells import ORIGINS, RUNNING, USES
from tests.support.journeys.judging import Tables, judge
from tests.support.journeys.lakes import Lakes
from tests.support.journeys.origins import BY_SPARK as MAKING_BY_SPARK
from tests.support.journeys.origins import PLAIN as MAKING
from tests.support.journeys.places import Journey
from tests.support.journeys.uses import BY_SPARK as USING_BY_SPARK
from tests.support.journeys.uses import PLAIN as USING

CELLS = [(origin, use) for origin in ORIGINS for use in USES if origin in MAKING_BY_SPARK or use in USING_BY_SPARK]
ELSEWHERE = [
    ("client", "spark_writes"),
    ("client", "java_appends"),
    ("imported", "java_reads"),
    ("spark_sql", "client_reads"),
    ("spark_sql", "duckdb_reads"),
]
"""The cells for the other ways of running: tables that the two clients make and read. Spark reads
its own tables. Those that Spark makes, and those of Delta's Java clients, are slow: a client's
table that Spark writes shows that Spark and the server understand each other in that way. On
DynamoDB's API and with a token this is slow too: the emulated deployment has both."""


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables()


CASES = [("up", *cell) for cell in CELLS]
CASES += [(running, *cell) for running in RUNNING if running != "up" for cell in ELSEWHERE]


def _is_slow(running: str, origin: str, use: str) -> bool:
    """A table of a DataFrame is one of SQL for all but Spark's reads and rewrites. For Spark's
    writes tables that were created by an API are alike."""
    if running == "up":
        return (origin == "spark_dataframe" and use not in ("spark_reads", "spark_optimizes")) or (
            origin in ("v1", "unity", "imported") and use == "spark_writes"
        )
    if running in ("dynamodb", "serve") and use == "spark_writes":
        return True
    return origin in MAKING_BY_SPARK or use.startswith("java")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id="-".join(case), marks=pytest.mark.slow if _is_slow(*case) else ()) for case in CASES],
)
def test_a_table_that_came_to_be_in_one_way_is_used_in_another(
    lakes: Lakes, spark: Any, tables: Tables, case: tuple[str, str, str]
) -> None:
    running, origin, use = case
    place, lake = lakes.at(running)

    def make() -> Journey:
        return MAKING_BY_SPARK[origin](place, spark, lake) if origin in MAKING_BY_SPARK else MAKING[origin](place)

    journey = tables.of(running, origin, use, make)
    judge(
        origin, use, lambda: USING_BY_SPARK[use](journey, spark, lake) if use in USING_BY_SPARK else USING[use](journey)
    )
