"""The scheduled functions: publish changes that the stream lost, and remove unreachable rows and
files."""

from __future__ import annotations

import turnstile.api.starts
from turnstile.api.http.env import in_lambda
from turnstile.api.schedules import ScheduleHandler

handler = ScheduleHandler()
sweep = handler.sweep
collect = handler.collect

if in_lambda():
    _ = handler.services  # a bad setting shows at the cold start

turnstile.api.starts.end()
