"""Method and path of a gateway's event, payload 2.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Event = Mapping[str, Any]


def path_of(event: Event) -> str:
    """Returns the path below the stage; extra leading slashes count as one, as in the gateway's own
    routing."""
    path = "/" + str(event.get("rawPath") or "").lstrip("/")
    stage = str(event.get("requestContext", {}).get("stage") or "$default")
    return path.removeprefix(f"/{stage}") if stage != "$default" and path.startswith(f"/{stage}/") else path


def method_of(event: Event) -> str:
    """Returns the method in capitals."""
    return str(event.get("requestContext", {}).get("http", {}).get("method") or "GET").upper()
