"""Mutants that no test notices, each with the reason why none should."""

from __future__ import annotations

from typing import Final

EXPECTED: Final[dict[str, str]] = {
    "core.gc_plan: __post_init__: edge self.objs < 25 * HOUR_MS": "25 hours exactly are as good a limit",
}
