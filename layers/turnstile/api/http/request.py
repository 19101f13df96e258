"""The request a view is answering, typed. Held in a context variable, so that concurrent handlers cannot mix theirs."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any
from urllib.parse import parse_qs

import msgspec

from turnstile.access.core.principal import ANONYMOUS, Principal
from turnstile.store.core.errors import InvalidRequest, TooLarge

MAX_BODY = 1024 * 1024
"""Largest request body in bytes: the largest inline commit (256 KiB) survives JSON escaping with room to spare."""

MAX_QUERY = 8 * 1024


class BodyLimit(msgspec.Struct, frozen=True):
    """How large the bodies of an API may be, in bytes, and what whoever sends a larger one can do instead."""

    bytes: int = MAX_BODY
    remedy: str = "stage a large commit as a file instead of sending it inline"


class Request(msgspec.Struct, frozen=True):
    """One HTTP request.

    ``route`` is the matched template (``/v1/tables/{table_id}``), empty when none matched; ``headers`` have lower-case
    names; ``query`` maps each member to all its values; ``correlation`` identifies the request in logs and errors;
    ``principal`` is who asks, as authentication found.
    """

    method: str
    path: str
    route: str
    headers: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: bytes
    correlation: str
    principal: Principal = ANONYMOUS


_current: ContextVar[Request] = ContextVar("turnstile_http_request")
activate = _current.set


def current() -> Request:
    """The request being answered; only meaningful inside a view."""
    return _current.get()


def body_of(event: Mapping[str, Any], limit: BodyLimit | None = None) -> bytes:
    """The body's bytes of a gateway event.

    Args:
        limit: of the API that the event is for; the one of our own by default.

    Raises:
        TooLarge: over ``limit``.
        InvalidRequest: bad base64, or text that is not UTF-8.
    """
    limit, body = limit or BodyLimit(), event.get("body") or ""
    if len(body) > limit.bytes * 4 // 3 + 4:
        raise _too_large(len(body), limit)
    try:
        raw = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode()
    except (binascii.Error, UnicodeError, ValueError):
        raise InvalidRequest("the body is not UTF-8 text", field="body", remedy="send JSON encoded as UTF-8") from None
    if len(raw) > limit.bytes:
        raise _too_large(len(raw), limit)
    return bytes(raw)


def query_of(event: Mapping[str, Any]) -> dict[str, list[str]]:
    """The query's members, decoded once; a member without a value counts as empty."""
    text = str(event.get("rawQueryString") or "")
    if len(text) > MAX_QUERY:
        raise InvalidRequest("the query is too long", field="query", remedy=f"use at most {MAX_QUERY} characters")
    return parse_qs(text, keep_blank_values=True)


def _too_large(size: int, limit: BodyLimit) -> TooLarge:
    return TooLarge(
        f"the body of {size} bytes is over the limit of {limit.bytes}",
        field="body",
        remedy=limit.remedy,
        limit=limit.bytes,
        size=size,
    )
