"""Maintenance by policy, and the runs of its workers (docs/maintenance.md); plans of scans. It
reads all files of a table, so it carries pyarrow."""

from __future__ import annotations

import turnstile.api.starts
from turnstile.api import apps
from turnstile.api.http.env import in_lambda

app = apps.plans()

if in_lambda():
    app.start()  # a bad setting shows at the cold start

turnstile.api.starts.end()
