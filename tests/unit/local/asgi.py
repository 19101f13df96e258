"""Requests to the emulated stack's gateway as ASGI has them, and a guard that knows one key and one
session."""

from __future__ import annotations

from turnstile_local.guards import Guard, Scope

KEY = "TURNSTILE0123456789ABCDEF"
SESSION = "ASIA0123456789ABCDEF"
GUARD = Guard(KEY, lambda access_key: access_key == SESSION)


def request(path: str, query: str = "", method: str = "GET", **headers: str) -> Scope:
    sent = {"host": "127.0.0.1:8750", **{name.replace("_", "-"): value for name, value in headers.items()}}
    pairs = [(name.encode(), value.encode()) for name, value in sent.items()]
    return {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": pairs}


def signed(key: str) -> str:
    scope = f"{key}/20260101/us-east-1/lambda/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature=00"
