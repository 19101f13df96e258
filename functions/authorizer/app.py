"""The gateway's authorizer: from a bearer token to a verdict, which the gateway keeps beside the
token for five minutes.

It adds a verdict or adds none; it never refuses. A refusal of the gateway's would be a 403 without
a body that any client understands, and it would be kept. So a request without a verdict goes on to
its function, which judges the token with the same code and refuses it in the shape of its API
(docs/decisions/0011-authentication.md).
"""

from __future__ import annotations

import turnstile.api.starts  # isort: split

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger

from turnstile.api.auth.bearer import Open, authentication
from turnstile.api.auth.verifier import to_context
from turnstile.api.http.env import BadSetting, in_lambda
from turnstile.store.core.errors import TurnstileError

logger = Logger(service="authorizer")
tokens = authentication()
if isinstance(tokens, Open):
    raise BadSetting("TURNSTILE_AUTHENTICATION is none: there is nothing to judge")


def authorize(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """Judge the identity source, which is the ``Authorization`` header; it is also the key under
    which the answer is cached. A REST API has another name for it, and expects a policy."""
    if "methodArn" in event:
        from turnstile.api.http.rest import policy

        return policy(event, _verdict(str(event.get("authorizationToken") or "")))
    sources = event.get("identitySource") or [""]
    return {"isAuthorized": True, "context": _verdict(str(sources[0]))}


def _verdict(authorization: str) -> dict[str, str]:
    """The verdict on a header's value; empty where there is none."""
    try:
        verified = tokens.verify(authorization)
    except TurnstileError as refusal:
        logger.info("no verdict", extra={"type": refusal.type, "reason": refusal.message})
        return {}
    except Exception:
        logger.exception("no verdict")
        return {}
    logger.info("verdict", extra={"principal": verified.principal.name})
    return to_context(verified)


if in_lambda():
    tokens.prepare()

turnstile.api.starts.end()
