"""One short URL for everything: the API's own paths go to the deployed HTTP API, the rest to the emulated AWS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from turnstile_local.checkpoint import Checkpoint
from turnstile_local.settings import API_ID, HEALTH, SAVE

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

API_ROOTS: Final = ("/v1", "/api/2.1/unity-catalog", "/api/1.0/unity-control", "/oauth", "/iceberg")
"""First segments that belong to the API. A bucket of one of these names could not be reached by its path."""

_PREFIX: Final = f"/_aws/execute-api/{API_ID}/$default"


class Gateway:
    """ASGI app around the emulator's. ``identity`` is what the health check answers."""

    def __init__(self, emulator: App, identity: dict[str, Any], checkpoint: Checkpoint) -> None:
        self._emulator = emulator
        self._identity = json.dumps(identity).encode()
        self._checkpoint = checkpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            saving = asyncio.create_task(self._checkpoint.keep())
            await self._emulator(scope, receive, send)
            saving.cancel()
            return
        if scope["type"] == "http":
            if scope["path"] in (HEALTH, SAVE):
                if scope["path"] == SAVE and scope["method"] == "POST":
                    self._checkpoint.save_all()
                await self._answer(send)
                return
            if is_api(scope):
                # The raw path goes along: it alone tells an encoded slash from a plain one.
                raw = scope.get("raw_path") or scope["path"].encode()
                scope = {**scope, "path": _PREFIX + scope["path"], "raw_path": _PREFIX.encode() + raw}
            else:
                self._checkpoint.saw(scope["headers"])
        await self._emulator(scope, receive, send)

    async def _answer(self, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(self._identity)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._identity})


def is_api(scope: Scope) -> bool:
    """Whether a request is for the HTTP API: by its path, unless it is signed for an AWS service."""
    path: str = scope["path"]
    if not any(path == root or path.startswith(root + "/") for root in API_ROOTS):
        return False
    return not any(
        name == b"authorization" and value.startswith(b"AWS4-HMAC-SHA256") for name, value in scope["headers"]
    )
