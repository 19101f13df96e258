"""``turnstile doctor``: checks whether a deployment works, from the client's side and from the
service's."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from turnstile_cli import output as out
from turnstile_cli.api import Api
from turnstile_cli.commands.store import checks_of_store
from turnstile_cli.connection import DEFAULT_HOME, Home, Output, Port, Token, Url, connect
from turnstile_cli.errors import CliError, Exit
from turnstile_cli.output import Format
from turnstile_release import version

_SKEW_MS: Final = 60_000
_SLOW_MS: Final = 500
_STYLES: Final = {"ok": "green", "warning": "yellow", "failed": "red"}


@out.report_errors
def doctor(
    home: Home = DEFAULT_HOME,
    port: Port = None,
    token: Token = None,
    url: Url = None,
    *,
    store: Annotated[
        bool,
        typer.Option("--store", help="Let SQLite check the store of --home instead, whether its server runs or not."),
    ] = False,
    output: Output = Format.TEXT,
) -> None:
    """Check a deployment end to end, and name the remedy for each problem.

    It checks answers and their time, versions, the rights of the token, and clocks; for
    administrators also that the stores honour conditional writes, that the lake can be written,
    read and listed, and that every table is published. It writes rows and a file of its own and
    removes them. The exit code is 1 if a check failed.
    """
    if store:
        _print(str(home.absolute()), checks_of_store(home), output)
        return
    with connect(url, home, port, token) as api:
        _print(api.url, [*_seen_from_here(api), _authentication(api), *_seen_from_the_service(api)], output)


def _print(subject: str, checks: list[dict[str, Any]], output: Format) -> None:
    """Prints checks of a service or a home. Raises typer.Exit where one failed."""
    failed = [check for check in checks if check["result"] == "failed"]
    if output is Format.JSON:
        out.emit_json({"url": subject, "ok": not failed, "checks": checks})
    else:
        for check in checks:
            style = _STYLES[check["result"]]
            out.say(f"[{style}]{check['result']:<8}[/{style}] {check['name']:<12} {escape(check['message'])}")
            if check["remedy"]:
                out.say(f"{'':<21} [bold]remedy:[/bold] {escape(check['remedy'])}")
        out.say(f"{len(failed)} of {len(checks)} checks failed" if failed else f"all of {len(checks)} checks passed")
    if failed:
        raise typer.Exit(int(Exit.FAILURE))


def _check(name: str, result: str, message: str, remedy: str = "") -> dict[str, Any]:
    return {"name": name, "result": result, "message": message, "remedy": remedy}


def _seen_from_here(api: Api) -> list[dict[str, Any]]:
    """Whether the service answers, how fast once it is warm, and which version it has. Raises
    CliError if it does not answer."""
    about = api.get("/v1")
    began = time.monotonic()
    api.get("/v1")
    took_ms = round((time.monotonic() - began) * 1000)
    slow = took_ms > _SLOW_MS
    here = version()
    there = str(about.get("version"))
    same = here == there
    return [
        _check(
            "service",
            "warning" if slow else "ok",
            f"{api.url} answers in {took_ms} ms",
            "it is far away, or overloaded: see docs/operations.md, CommitThrottled" if slow else "",
        ),
        _check(
            "version",
            "ok" if same else "warning",
            f"the service has version {there}, this command {here}",
            "" if same else "install the same version: a newer command may know routes that the service lacks",
        ),
    ]


def _authentication(api: Api) -> dict[str, Any]:
    """Whether strangers are kept out: a request without a token."""
    with Api(api.url, "", local=api.local) as stranger:
        try:
            stranger.get("/v1/catalogs")
        except CliError as error:
            if error.status != 401:
                raise
            return _check("strangers", "ok", "a request without a token is refused")
    if api.local:
        return _check("strangers", "ok", "every program of this machine may do everything")
    remedy = "set a token or an issuer: docs/security.md"
    return _check(
        "strangers", "failed", "a request without a token is answered: every caller may do everything", remedy
    )


def _seen_from_the_service(api: Api) -> list[dict[str, Any]]:
    """Its own checks, which only administrators may ask for, and how far its clock is from this
    one."""
    sent_ms = time.time() * 1000
    try:
        answer = api.post("/v1/checks", {})
    except CliError as error:
        if error.status not in (401, 403):
            raise
        is_known = error.status == 403
        text = "this token is known, but none of an administrator" if is_known else "the service wants a bearer token"
        return [_check("rights", "warning" if is_known else "failed", text, "give an administrator's with --token")]
    received_ms = time.time() * 1000
    skew_ms = round(max(sent_ms - answer["now_ms"], answer["now_ms"] - received_ms, 0))
    late = skew_ms > _SKEW_MS
    return [
        _check("rights", "ok", "this token is an administrator's"),
        _check(
            "local clock",
            "failed" if late else "ok",
            f"this machine's clock and the service's are {skew_ms} ms apart",
            "set this machine's clock: commits with a timestamp that is minutes ahead are refused" if late else "",
        ),
        *answer["checks"],
    ]
