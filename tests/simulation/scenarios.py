"""Every scenario by its name, and what is planted in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.simulation.crowded import CROWDED_MISTAKES, Crowded
from tests.simulation.frozen import Frozen
from tests.simulation.frozen_mistakes import FROZEN_MISTAKES
from tests.simulation.mistakes import MISTAKES
from tests.simulation.owner_mistakes import OWNER_MISTAKES
from tests.simulation.owners import Owners
from tests.simulation.past_mistakes import PAST_MISTAKES
from tests.simulation.pasts import Pasts
from tests.simulation.run import TABLES
from tests.simulation.scenario import Scenario

SCENARIOS: Final[dict[str, Scenario]] = {one.name: one for one in (TABLES, Crowded(), Pasts(), Frozen(), Owners())}

PLANTED: Final[dict[str, Mapping[str, tuple[Callable[[], Any], str]]]] = {
    TABLES.name: MISTAKES,
    Crowded.name: CROWDED_MISTAKES,
    Pasts.name: PAST_MISTAKES,
    Frozen.name: FROZEN_MISTAKES,
    Owners.name: OWNER_MISTAKES,
}
