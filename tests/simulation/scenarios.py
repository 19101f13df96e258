"""Every scenario by its name."""

from __future__ import annotations

from typing import Final

from tests.simulation.owners import Owners
from tests.simulation.pasts import Pasts
from tests.simulation.run import TABLES
from tests.simulation.scenario import Scenario

SCENARIOS: Final[dict[str, Scenario]] = {one.name: one for one in (TABLES, Pasts(), Owners())}
