"""The functions as they are deployed, called in this process as an HTTP API calls Lambda (payload
2.0), or a schedule.

app = function("commit")          # functions/commit/app.py, as it is deployed
app.use_world(fake_world())
http = Http(app.app)
http.get("/v1/tables/.../commits", start=3).json
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from tests.support.repository import ROOT
from turnstile.api.auth.settings import read
from turnstile.api.services import Services
from turnstile.api.settings import Settings
from turnstile.store.core.limits import Limits
from turnstile.store.ports import CredentialVendor, World

Handler = Callable[[Mapping[str, Any], Any], dict[str, Any]]


class Function:
    """One sandbox of a function: a fresh module of its ``app.py``, run with variables of its own.

    Every caller may use it unless the variables demand tokens.
    """

    def __init__(self, name: str, **environment: str) -> None:
        spec = importlib.util.spec_from_file_location(f"function_{name}", ROOT / "functions" / name / "app.py")
        assert spec is not None and spec.loader is not None
        self._name = name
        self._module = importlib.util.module_from_spec(spec)
        named = any(variable.startswith(("TURNSTILE_TOKEN", "TURNSTILE_OIDC")) for variable in environment)
        with _environment({"TURNSTILE_AUTHENTICATION": "required" if named else "none", **environment}):
            spec.loader.exec_module(self._module)
            self._auth = read()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    @property
    def _handler(self) -> Any:
        """An object with the services: an app, or the handler of events."""
        return getattr(self._module, "app", None) or self._module.handler

    @property
    def services(self) -> Services:
        services: Services = self._handler.services
        return services

    def use_world(
        self, world: World, *, vendor: CredentialVendor | None = None, limits: Limits | None = None, **settings: Any
    ) -> Services:
        """Let it work on ``world`` from now on, with nothing cached."""
        if self._name == "publish":
            settings.setdefault("table_ms", 20_000)
        made = Settings(auth=lambda: self._auth, **settings)
        limits = limits or msgspec.structs.replace(made.limits, history_ms=made.grace.history_ms)
        self._handler.services = Services(world, msgspec.structs.replace(made, limits=limits), vendor=vendor)
        return self.services


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    saved = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@functools.cache
def function(name: str) -> Function:
    """The sandbox of a function that tests share."""
    return Function(name)


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
    """The event of one request. ``path`` is as on the wire; bytes or ``json_body`` become the
    body's text."""
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
    """Bytes in the form of the runtime of Python 3.13: not limited to ASCII, but U+2028 and U+2029
    are escaped."""
    text = json.dumps(answered, ensure_ascii=False)
    return len(text.replace("\u2028", r"\u2028").replace("\u2029", r"\u2029").encode())


class Http:
    """A handler to be asked: ``Http(handler).post("/v1/...", {...}).json``.

    ``token`` is sent as bearer token when given.
    """

    def __init__(self, handler: Handler, token: str = "") -> None:
        self._handler = handler
        self._token = token

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
    """Lambda's report of the remaining time."""

    def __init__(self, remaining_ms: int = 120_000) -> None:
        self._remaining = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._remaining


def cold_start(
    function: str, report: str, *, python: str = sys.executable, folder: Path | None = None, **variables: str
) -> Any:
    """Runs ``report``, which imports the function's app, in a process of its own with a
    deployment's variables; returns the JSON that it prints last."""
    environment = {
        "PATH": os.environ["PATH"], "AWS_LAMBDA_FUNCTION_NAME": function, "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "POWERTOOLS_SERVICE_NAME": function,
        "TURNSTILE_REFS_TABLE": "refs", "TURNSTILE_OBJS_TABLE": "objs", "TURNSTILE_LAKE_ROOT": "s3://bucket/lake",
        "TURNSTILE_AUTHENTICATION": "required", "TURNSTILE_TOKEN": "token", **variables,
    }  # fmt: skip
    command = [python, "-c", report]
    at = folder or ROOT / "functions" / function
    done = subprocess.run(command, cwd=at, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
