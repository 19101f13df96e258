"""The catalog, and operations for operators (docs/api.md)."""

from __future__ import annotations

from turnstile.api import apps
from turnstile.api.http.env import in_lambda

app = apps.catalog()

if in_lambda():
    _ = app.services  # a bad setting shows at the cold start
