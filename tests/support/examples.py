"""How many examples properties try: few enough for every run, ``TURNSTILE_EXAMPLES`` times as many on request.

``make test-core EXAMPLES=10`` sets it, and ``make test-quick`` a part of one. Seeds of the simulation have their own knob,
``TURNSTILE_SEEDS``.
"""

from __future__ import annotations

import os

from hypothesis import settings

_FACTOR = float(os.environ.get("TURNSTILE_EXAMPLES", "1"))


def examples(usual: int) -> int:
    """``usual`` times what the environment asks for, and at least one."""
    return max(1, round(usual * _FACTOR))


def scale_defaults() -> None:
    """The same for properties that say no number; whatever else hypothesis is set to stays."""
    usual = settings.default
    if usual is not None and _FACTOR != 1:
        settings.register_profile("scaled", usual, max_examples=examples(usual.max_examples))
        settings.load_profile("scaled")
