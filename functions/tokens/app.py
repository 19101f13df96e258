"""The token endpoint, and its clients (docs/security.md)."""

from __future__ import annotations

from turnstile.api import apps
from turnstile.api.http.env import in_lambda

app = apps.tokens()

if in_lambda():
    _ = app.services  # a bad setting shows at the cold start
