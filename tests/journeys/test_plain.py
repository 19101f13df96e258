"""Every way in which a table comes to be without Spark, with every way in which it is used without
Spark, in every way of running."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.journeys.cells import OF_SPARK, ORIGINS, REFUSED, RUNNING, USES
from tests.support.journeys.judging import Tables, judge
from tests.support.journeys.origins import PLAIN as MAKING
from tests.support.journeys.uses import PLAIN as USING


def cells() -> Iterator[Any]:
    """Every cell of a server; of the other ways of running every ninth is tried in each run."""
    for (r, running), (o, origin), (u, use) in itertools.product(*map(enumerate, (RUNNING, MAKING, USING))):
        is_quick = running == "up" or (r + o + u) % 9 == 0
        yield pytest.param(running, origin, use, marks=[] if is_quick else pytest.mark.slow)


CELLS = list(cells())


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables()


@pytest.mark.parametrize(("running", "origin", "use"), CELLS)
def test_a_table_that_came_to_be_in_one_way_is_used_in_another(
    request: pytest.FixtureRequest, tables: Tables, running: str, origin: str, use: str
) -> None:
    place = request.getfixturevalue(running)
    journey = tables.of(running, origin, use, lambda: MAKING[origin](place))
    judge(origin, use, lambda: USING[use](journey))


def test_the_table_of_cells_has_all_that_is_tried() -> None:
    assert {*ORIGINS} - OF_SPARK == {*MAKING}
    assert {*USES} - OF_SPARK == {*USING}
    assert all(origin in ORIGINS and use in USES for origin, use in REFUSED)
