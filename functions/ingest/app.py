"""Rows over HTTP (docs/rows.md). It writes data files, so it carries pyarrow."""

from __future__ import annotations

import turnstile.api.starts
from turnstile.api import apps
from turnstile.api.http.env import in_lambda

app = apps.ingest()

if in_lambda():
    app.start()  # a bad setting shows at the cold start

turnstile.api.starts.end()
