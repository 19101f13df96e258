"""HTTP API events (payload 2.0) for Chalice, which reads payload 1.0, and its answers back.

An HTTP API decodes every escape of ``rawPath`` except ``%25``; a function URL decodes none. Decoding a parameter once
is therefore right for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnstile.api.http.request import Request


def path_of(event: Mapping[str, Any]) -> str:
    """The path below the stage; extra leading slashes count as one, as the gateway's own routing has it."""
    path = "/" + str(event.get("rawPath") or "").lstrip("/")
    stage = str(event.get("requestContext", {}).get("stage") or "$default")
    prefix = f"/{stage}/"
    return path[len(prefix) - 1 :] if stage != "$default" and path.startswith(prefix) else path


def method_of(event: Mapping[str, Any]) -> str:
    """The request's method in capitals."""
    return str(event.get("requestContext", {}).get("http", {}).get("method") or "GET").upper()


def to_chalice(request: Request, params: Mapping[str, str], method: str) -> dict[str, Any]:
    """The event Chalice routes by. Body and query stay in ``Request``; views read them there, typed."""
    return {
        "requestContext": {"resourcePath": request.route, "httpMethod": method, "path": request.path},
        "multiValueQueryStringParameters": None,
        "headers": {},
        "pathParameters": dict(params),
        "body": None,
        "stageVariables": None,
    }


def to_gateway(answer: Mapping[str, Any], *, head: bool = False) -> dict[str, Any]:
    """Chalice's answer in payload 2.0; HEAD keeps status and headers only."""
    body = "" if head or answer["statusCode"] == 204 else str(answer.get("body") or "")
    return {
        "statusCode": answer["statusCode"],
        "headers": dict(answer.get("headers") or {}),
        "body": body,
        "isBase64Encoded": False,
    }
