"""The functions as they are deployed, called in this process as an HTTP API calls Lambda (payload 2.0), or a schedule.

app = function("commit")          # functions/commit/app.py, as it is deployed
app.use_world(fake_world())
http = Http(app.app)
http.get("/v1/tables/.../commits", start=3).json
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from tests.support.repository import ROOT

Handler = Callable[[Mapping[str, Any], Any], dict[str, Any]]


_FUNCTIONS = ROOT / "functions"


@functools.cache
def function(name: str) -> ModuleType:
    """The ``app`` module of ``functions/<name>``, loaded once (see ``Function``)."""
    return Function(name)


def Function(name: str, **environment: str) -> ModuleType:
    """A fresh ``app`` module of ``functions/<name>`` with variables of its own at import.

    Everybody may ask it unless the variables say who may.

    Every function is its own import root and has modules of the same names (``app``, ``settings``), so they are taken
    out of ``sys.modules`` again once they hold each other.
    """
    root = _FUNCTIONS / name
    before, saved = dict(sys.modules), dict(os.environ)
    sys.path.insert(0, str(root))
    try:
        for local in root.glob("*.py"):
            sys.modules.pop(local.stem, None)
        named = any(name.startswith(("TURNSTILE_TOKEN", "TURNSTILE_OIDC")) for name in environment)
        os.environ.update({"TURNSTILE_AUTHENTICATION": "required" if named else "none", **environment})
        app = importlib.import_module("app")
        _resolve_structs(root)
        return app
    finally:
        sys.path.remove(str(root))
        os.environ.clear()
        os.environ.update(saved)
        for module in list(sys.modules):
            file = getattr(sys.modules[module], "__file__", None) or ""
            if file.startswith(str(root)):
                del sys.modules[module]
        sys.modules.update({module: found for module, found in before.items() if module not in sys.modules})


def _resolve_structs(root: Path) -> None:
    """Let msgspec read the annotations of the folder's Structs while their modules can still be found by name."""
    for module in list(sys.modules.values()):
        if (getattr(module, "__file__", None) or "").startswith(str(root)):
            for value in vars(module).values():
                if isinstance(value, type) and issubclass(value, msgspec.Struct):
                    with contextlib.suppress(TypeError):  # members that only the program itself ever sets
                        msgspec.json.Decoder(value)


class Answer(msgspec.Struct, frozen=True):
    """Status, lower-case headers, raw text, and the parsed JSON (None when there is no body)."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text) if self.text else None

    @property
    def error(self) -> dict[str, Any]:
        """The error object; fails the test when the answer is none."""
        found = self.json["error"]
        assert found["code"] == self.status
        return dict(found)


def event(
    method: str,
    path: str,
    *,
    query: Mapping[str, Any] | str = "",
    json_body: Any = None,
    body: str | bytes | None = None,
    headers: Mapping[str, str] | None = None,
    base64_encoded: bool = False,
) -> dict[str, Any]:
    """The event of one request. ``path`` is as on the wire; bytes or ``json_body`` become the body's text."""
    if json_body is not None:
        body = json.dumps(json_body)
    sent = {"content-type": "application/json", **{name.lower(): value for name, value in (headers or {}).items()}}
    made: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query if isinstance(query, str) else urlencode(query),
        "headers": sent,
        "requestContext": {"http": {"method": method, "path": path}, "requestId": "request-1", "stage": "$default"},
        "isBase64Encoded": base64_encoded,
    }
    if body is not None:
        made["body"] = body.decode() if isinstance(body, bytes) else body
    return made


LIMIT: Final = 6_291_556
"""Bytes of the JSON of an answer that Lambda sends at most; more is a failure for the caller."""


def payload(answered: Mapping[str, Any]) -> int:
    """Bytes of what the runtime of Python 3.13 sends: not limited to ASCII, but U+2028 and U+2029 are escaped."""
    text = json.dumps(answered, ensure_ascii=False)
    return len(text.replace("\u2028", r"\u2028").replace("\u2029", r"\u2029").encode())


class Http:
    """A handler to be asked: ``Http(handler).post("/v1/...", {...}).json``.

    ``token`` is sent as bearer token when given.
    """

    def __init__(self, handler: Handler, token: str = "") -> None:
        self._handler, self._token = handler, token

    def send(self, made: Mapping[str, Any]) -> Answer:
        """Send a ready event."""
        answered = self._handler(made, None)
        assert payload(answered) <= LIMIT  # what Lambda does with it
        headers = {name.lower(): value for name, value in answered["headers"].items()}
        return Answer(answered["statusCode"], headers, answered["body"])

    def call(self, method: str, path: str, **options: Any) -> Answer:
        """Send one request; options as for ``event``."""
        headers = dict(options.pop("headers", None) or {})
        if self._token:
            headers.setdefault("Authorization", f"Bearer {self._token}")
        return self.send(event(method, path, headers=headers, **options))

    def get(self, path: str, **query: Any) -> Answer:
        return self.call("GET", path, query=query)

    def post(self, path: str, json_body: Any = None, **options: Any) -> Answer:
        return self.call("POST", path, json_body=json_body, **options)

    def patch(self, path: str, json_body: Any = None, **options: Any) -> Answer:
        return self.call("PATCH", path, json_body=json_body, **options)

    def delete(self, path: str, **query: Any) -> Answer:
        return self.call("DELETE", path, query=query)


SCHEDULED = {"version": "0", "source": "aws.events", "detail-type": "Scheduled Event", "detail": {}, "resources": []}


class Context:
    """What Lambda says about the time that is left."""

    def __init__(self, remaining_ms: int = 120_000) -> None:
        self._remaining = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._remaining
