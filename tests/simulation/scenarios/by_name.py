"""Every scenario by its name, and what is planted in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.simulation.engine.run import TABLES
from tests.simulation.mistakes.frozen import FROZEN_MISTAKES
from tests.simulation.mistakes.owners import OWNER_MISTAKES
from tests.simulation.mistakes.pasts import PAST_MISTAKES
from tests.simulation.mistakes.tables import MISTAKES
from tests.simulation.scenarios.crowded import CROWDED_MISTAKES, Crowded
from tests.simulation.scenarios.frozen import Frozen
from tests.simulation.scenarios.owners import Owners
from tests.simulation.scenarios.pasts import Pasts
from tests.simulation.scenarios.scenario import Scenario

SCENARIOS: Final[dict[str, Scenario]] = {one.name: one for one in (TABLES, Crowded(), Pasts(), Frozen(), Owners())}

PLANTED: Final[dict[str, Mapping[str, tuple[Callable[[], Any], str]]]] = {
    TABLES.name: MISTAKES,
    Crowded.name: CROWDED_MISTAKES,
    Pasts.name: PAST_MISTAKES,
    Frozen.name: FROZEN_MISTAKES,
    Owners.name: OWNER_MISTAKES,
}
