"""HTTP requests to the service, with its refusals turned into exit codes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from turnstile_cli.codes import Exit
from turnstile_cli.errors import CliError

TIMEOUT: Final = httpx.Timeout(35.0, connect=5.0)
"""Seconds; longer than the gateway's own limit, so that the service gives up first and says what it knows."""

PAUSES: Final = (0.5, 2.0)
"""Seconds to wait before a change is sent again."""

AGAIN: Final = "run the same command again, it finds out"
"""What to do when a change got no answer and making it twice is harmless."""

_EXITS: Final = {404: Exit.NOT_FOUND}


class Api:
    """The service at ``url``. ``home`` is the folder of the embedded stack, if it is one of this machine."""

    def __init__(self, url: str, token: str, *, home: Path | None = None, local: bool = True) -> None:
        self.url = url.rstrip("/")
        self.home = home
        self.local = local
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT, trust_env=not local)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """The answer's JSON object; raises CliError."""
        return self._ask("GET", path, query=query)

    def post(self, path: str, body: dict[str, Any], *, unanswered: str = AGAIN) -> dict[str, Any]:
        """The answer's JSON object; raises CliError, with ``unanswered`` as its remedy if there is no answer."""
        return self._ask("POST", path, body=body, unanswered=unanswered)

    def delete(self, path: str) -> None:
        """Delete what the path names; raises CliError."""
        self._ask("DELETE", path)

    def change(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a change of a catalog; raises CliError.

        It is sent with an ``Idempotency-Key``, so the service makes it once, and sent again when its answer is lost or the
        service cannot say what became of it.
        """
        headers = {"idempotency-key": str(uuid.uuid4())}
        for pause in PAUSES:
            try:
                return self._ask(method, path, body=body, headers=headers)
            except CliError as error:
                if error.exit is not Exit.UNKNOWN:
                    raise
                time.sleep(pause)
        return self._ask(method, path, body=body, headers=headers)

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer's JSON object; raises CliError."""
        return self._ask("PATCH", path, body=body)

    def pages(self, path: str, member: str, **query: Any) -> Iterator[dict[str, Any]]:
        """The items of every page; ``query`` goes with each."""
        asked = query
        while True:
            page = self.get(path, **asked)
            yield from page[member]
            following = page.get("next_page_token")
            if not following:
                return
            asked = {**query, "page_token": following}

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        unanswered: str = AGAIN,
    ) -> dict[str, Any]:
        try:
            answer = self._http.request(method, path, params=query or None, json=body, headers=headers)
        except httpx.ConnectError as error:
            raise self._unreachable(error) from error
        except httpx.HTTPError as error:
            if method == "GET":
                raise self._unreachable(error) from error
            raise CliError(
                Exit.UNKNOWN,
                f"{method} {self.url}{path}: no answer ({type(error).__name__}); it may or may not have happened",
                remedy=unanswered,
                type="NoAnswer",
            ) from error
        return self._judge(answer)

    def _unreachable(self, error: Exception) -> CliError:
        remedy = "start it with 'turnstile up'" if self.local else "check --url and the network"
        return CliError(Exit.UNREACHABLE, f"{self.url} cannot be reached: {error}", remedy=remedy, type="Unreachable")

    def _foreign(self, answer: httpx.Response) -> CliError:
        """Somebody answered, and not Turnstile: a login page, a proxy, another service."""
        kind = answer.headers.get("content-type", "no content type")
        return CliError(
            Exit.FAILURE,
            f"{answer.request.method} {answer.request.url} was answered with status {answer.status_code} by something that is "
            f"not Turnstile: {kind}, {answer.text[:100]!r}",
            remedy="check --url: it is the output Url of the stack, without /v1",
            type="NotTurnstile",
        )

    def _judge(self, answer: httpx.Response) -> dict[str, Any]:
        told = _json(answer)
        if answer.is_success:
            if told is None:
                raise self._foreign(answer)
            return told
        error = (told or {}).get("error")
        error = error if isinstance(error, dict) else _bare(answer)
        kind = str(error.get("type", "HttpError"))
        refused = Exit.REFUSED if answer.status_code < 500 else Exit.FAILURE
        exit_code = Exit.UNKNOWN if kind == "CommitStateUnknown" else _EXITS.get(answer.status_code, refused)
        request = answer.request
        raise CliError(
            exit_code,
            f"{kind}: {error.get('message', '')} ({request.method} {request.url.path}, status {answer.status_code})",
            remedy=str(error.get("remedy", "")),
            type=kind,
            details={name: value for name, value in error.items() if name not in ("type", "message", "remedy")},
        )


def _bare(answer: httpx.Response) -> dict[str, Any]:
    """An error that a gateway in front told in words of its own."""
    if answer.status_code == 401:
        return {"type": "NotAuthenticated", "message": "a bearer token is required", "remedy": "give it with --token"}
    return {"message": answer.text[:500] or "empty answer"}


def _json(answer: httpx.Response) -> dict[str, Any] | None:
    """The answer's JSON object; None if it is none."""
    if answer.status_code == httpx.codes.NO_CONTENT:
        return {}
    try:
        told = answer.json()
    except ValueError:
        return None
    return told if isinstance(told, dict) else None
