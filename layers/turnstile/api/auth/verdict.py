r"""A judgement as it travels from the gateway's authorizer to the functions: strings in the request context.

    {"name": "alice", "roles": "[\"etl\"]", "admin": "false", "until": "1770000000"}

Strings, because gateways do not agree on how other values arrive. A refusal is no verdict: the context is empty then, and
the function judges the token itself (docs/security.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from turnstile.access.core.principal import Principal
from turnstile.api.auth.judged import Judged


def encode(judged: Judged) -> dict[str, str]:
    """The authorizer's context."""
    principal = judged.principal
    return {
        "name": principal.name,
        "roles": msgspec.json.encode(sorted(principal.roles)).decode(),
        "admin": "true" if principal.admin else "false",
        "until": "" if judged.until is None else str(judged.until),
    }


def decode(request_context: Mapping[str, Any]) -> Judged | None:
    """The verdict in an event's ``requestContext``; None if there is none, or none that this module wrote."""
    authorizer = request_context.get("authorizer")
    context = authorizer.get("lambda") if isinstance(authorizer, Mapping) else None
    if not isinstance(context, Mapping):
        return None
    try:
        told = msgspec.convert(dict(context), dict[str, str])
        name, admin, until = told["name"], told["admin"], told["until"]
        roles = msgspec.json.decode(told["roles"], type=frozenset[str])
    except (msgspec.MsgspecError, KeyError):
        return None
    if not name or admin not in ("true", "false") or (until and not (until.isascii() and until.isdigit())):
        return None
    return Judged(Principal(name, roles, admin == "true"), int(until) if until else None)
