"""How properties are tried, and how many examples: few enough for every run, ``TURNSTILE_EXAMPLES``
times as many on request.

``make test-core EXAMPLES=10`` sets it, and ``make test-quick`` a part of one. Seeds of the
simulation have their own knob, ``TURNSTILE_SEEDS``.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_FACTOR = float(os.environ.get("TURNSTILE_EXAMPLES", "1"))


def examples(usual: int) -> int:
    """``usual`` times what the environment asks for, and at least one."""
    return max(1, round(usual * _FACTOR))


def load_profile() -> None:
    """Sets what every property has by default, and leaves what hypothesis is set to otherwise.

    How long an example takes, or its making, says how busy the machine is, and never fails a
    property.
    """
    usual = settings.default
    assert usual is not None
    settings.register_profile(
        "turnstile",
        usual,
        max_examples=examples(usual.max_examples),
        deadline=None,
        suppress_health_check={*usual.suppress_health_check, HealthCheck.too_slow},
    )
    settings.load_profile("turnstile")
