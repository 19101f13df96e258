"""The widths that integers have for those who read them: JSON knows none, and Python's have none."""

from __future__ import annotations

from typing import Final

INT_MAX: Final = 2**31 - 1
"""The largest ``int`` of Java and Iceberg, 32 bits; the smallest is one more below zero."""

LONG_MAX: Final = 2**63 - 1
"""The largest ``long``, 64 bits."""
