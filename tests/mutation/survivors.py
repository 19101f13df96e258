"""Mutants that no test notices, each with the reason why none should."""

from __future__ import annotations

from typing import Final

EXPECTED: Final[dict[str, str]] = {
    "services.catalog.external: drop: clause 'own'": "the row's key holds the table's id already, so it is nobody else's",
}
