"""The console of a deployment: this folder is the function's code, and it serves the files beside
this module.

It reads no table and holds no secret: its page calls the API with the token of the user that has
logged in.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import turnstile.api.starts
from turnstile.api.console import Site, read_settings, to_gateway
from turnstile.api.http import env

site = Site(
    Path(__file__).parent / "site",
    read_settings(required=env.text("TURNSTILE_AUTHENTICATION", "required") != "none"),
)


def serve(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """Answers a request of the HTTP API, payload 2.0, whose stage is ``$default``."""
    headers = {str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()}
    method = str(event["requestContext"]["http"]["method"]).upper()
    path = "/" + str(event.get("rawPath") or "").lstrip("/")
    return to_gateway(site.answer(method, path, headers), head=method == "HEAD")


turnstile.api.starts.end()
