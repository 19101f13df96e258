"""How many examples the longest properties try: few enough for every run, ``TURNSTILE_EXAMPLES`` times as many on request.

``make test-core EXAMPLES=10`` sets it. Seeds of the simulation have their own knob, ``TURNSTILE_SEEDS``.
"""

from __future__ import annotations

import os


def examples(usual: int) -> int:
    """``usual`` times what the environment asks for, and at least one."""
    return max(1, round(usual * float(os.environ.get("TURNSTILE_EXAMPLES", "1"))))
