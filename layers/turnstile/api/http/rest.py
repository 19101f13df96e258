"""Events of a private API, which is a REST API of the gateway: payload 1.0, and an authorizer that
answers with a policy.

An event is converted into the event that an HTTP API would send for the same request (payload 2.0),
so that all other code knows one form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

_VERDICT: Final = ("name", "roles", "admin", "until")
"""Members of the authorizer's context (``auth.verifier.to_context``); the gateway adds some of its
own."""


def as_http_api(event: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the event that an HTTP API sends for the request. The path has no stage before it,
    and several values of a header are one line, as an HTTP API joins them. Members that only the
    gateway writes are taken from ``requestContext`` alone.
    """
    context = event.get("requestContext") or {}
    authorizer = context.get("authorizer") or {}
    verdict = {name: authorizer[name] for name in _VERDICT if name in authorizer}
    return {
        "version": "2.0",
        "rawPath": event.get("path") or "",
        "rawQueryString": urlencode(_several(event, "queryStringParameters"), doseq=True),
        "headers": {name: ",".join(map(str, values)) for name, values in _several(event, "headers").items()},
        "body": event.get("body"),
        "isBase64Encoded": bool(event.get("isBase64Encoded")),
        "requestContext": {
            "http": {"method": event["httpMethod"]},
            "requestId": context.get("requestId"),
            "stage": "$default",
            **({"authorizer": {"lambda": verdict}} if verdict else {}),
        },
    }


def _several(event: Mapping[str, Any], name: str) -> dict[str, list[Any]]:
    """The values of each header, or member of the query: all of them, where the event has all."""
    every = event.get(f"multiValue{name[0].upper()}{name[1:]}")
    return dict(every) if every else {key: [value] for key, value in (event.get(name) or {}).items()}


def policy(event: Mapping[str, Any], context: Mapping[str, str]) -> dict[str, Any]:
    """Returns the authorizer's answer to a REST API: every request with this token may go on to its
    function. It is kept beside the token, so it is for all paths of the stage."""
    api, _, _ = str(event.get("methodArn") or "").partition("/")
    stage = str(event.get("methodArn") or "").split("/")[1:2]
    statement = {"Action": "execute-api:Invoke", "Effect": "Allow", "Resource": "/".join([api, *stage, "*"])}
    return {
        "principalId": context.get("name") or "unknown",
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": dict(context),
    }
