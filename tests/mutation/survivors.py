"""Mutants that no test notices, each with the reason why none should."""

from __future__ import annotations

from typing import Final

EXPECTED: Final[dict[str, str]] = {}
