"""Every way in which a table comes to be without Spark, with every way in which it is used without Spark, in every way of running."""

from __future__ import annotations

import pytest

from tests.support.journeys.cells import OF_SPARK, ORIGINS, REFUSED, RUNNING, USES
from tests.support.journeys.origins import PLAIN as ORIGINS_PLAIN
from tests.support.journeys.places import Journey, Place
from tests.support.journeys.uses import ENDS
from tests.support.journeys.uses import PLAIN as USES_PLAIN

PLACES = {"up": "up", "serve": "serve", "dynamodb": "dynamodb", "stack": "emulated"}
_tables: dict[tuple[str, str], Journey] = {}


def journey_of(place: Place, running: str, origin: str, use: str) -> Journey:
    """The table of an origin at a place; one of its own for a use that ends it."""
    if use in ENDS:
        return ORIGINS_PLAIN[origin](place)
    if (running, origin) not in _tables:
        _tables[running, origin] = ORIGINS_PLAIN[origin](place)
    return _tables[running, origin]


def judged(journey: Journey, origin: str, use: str) -> None:
    """The cell is what the table of cells says."""
    refused = REFUSED.get((origin, use))
    if refused is None:
        USES_PLAIN[use](journey)
        return
    with pytest.raises(Exception) as error:
        USES_PLAIN[use](journey)
    assert not isinstance(error.value, AssertionError), error.value
    assert refused.words in str(error.value)


@pytest.mark.parametrize("use", USES_PLAIN)
@pytest.mark.parametrize("origin", ORIGINS_PLAIN)
@pytest.mark.parametrize("running", PLACES)
def test_a_table_that_came_to_be_in_one_way_is_used_in_another(
    request: pytest.FixtureRequest, running: str, origin: str, use: str
) -> None:
    place = request.getfixturevalue(PLACES[running])
    judged(journey_of(place, running, origin, use), origin, use)


def test_the_table_of_cells_has_all_that_is_tried() -> None:
    assert {*ORIGINS} - OF_SPARK == {*ORIGINS_PLAIN}
    assert {*USES} - OF_SPARK == {*USES_PLAIN}
    assert {*RUNNING} == {*PLACES}
    assert all(origin in ORIGINS and use in USES for origin, use in REFUSED)
