"""The scheduled function that does light work on Delta tables: checkpoints, version checksums, log
compaction files."""

from __future__ import annotations

import turnstile.api.starts
from turnstile.api.http.env import in_lambda
from turnstile.api.light_work import LightWorkHandler

handler = LightWorkHandler()
maintain = handler.maintain

if in_lambda():
    _ = handler.services  # a bad setting shows at the cold start

turnstile.api.starts.end()
