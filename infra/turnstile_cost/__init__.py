"""The price of a deployment: counted requests, capacity units, bytes and milliseconds, times the
prices of one dated file.

``model`` has the counts, ``prices.json`` the prices. A test counts every step through the real
services and fails when the model differs.
"""

from turnstile_cost.model import (
    Idle,
    Messages,
    Prices,
    Usage,
    Workload,
    commits,
    dollars,
    firehose,
    idle,
    messages,
    most_metrics,
    prices,
    round_days,
    warmth,
    watching,
)

__all__ = [
    "Idle",
    "Messages",
    "Prices",
    "Usage",
    "Workload",
    "commits",
    "dollars",
    "firehose",
    "idle",
    "messages",
    "most_metrics",
    "prices",
    "round_days",
    "warmth",
    "watching",
]
