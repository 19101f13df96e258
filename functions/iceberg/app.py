"""The Iceberg REST catalog (docs/iceberg.md)."""

from __future__ import annotations

import turnstile.api.starts
from turnstile.api import apps
from turnstile.api.http.env import in_lambda

app = apps.iceberg()

if in_lambda():
    app.start()  # a bad setting shows at the cold start

turnstile.api.starts.end()
