"""The console's files, which ``make console`` builds from ``console/`` into ``site``
(docs/decisions/0039-console.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SITE: Final = Path(__file__).parent / "site"
