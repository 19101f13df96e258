"""The command line: in this process, against a canned service or a running one, and as the program
that is installed."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from click.testing import CliRunner, Result
from typer.main import get_command

from turnstile_cli.main import program

if TYPE_CHECKING:
    from turnstile_local import Stack
    from turnstile_server import Server

Answer = tuple[int, Any]
NO_SUCH_ROUTE: Answer = (404, {"error": {"type": "NoSuchRoute", "message": "there is no such path"}})
TURNSTILE = Path(sys.executable).with_name("turnstile")
"""The installed command."""


@dataclass
class Canned:
    """``answers`` maps ``METHOD /path`` to status and JSON; ``seen`` collects (method, target,
    body, headers)."""

    answers: dict[str, Answer]
    url: str = ""
    seen: list[tuple[str, str, Any, dict[str, str]]] = field(default_factory=list)


@contextmanager
def service(answers: dict[str, Answer]) -> Iterator[Canned]:
    """A service on a port of its own; an answer with status 0 closes the connection without a
    word."""
    canned = Canned(answers)

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            content = self.rfile.read(length)
            body = None
            with suppress(ValueError):  # rows may be no JSON
                body = json.loads(content) if content else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            canned.seen.append((self.command, self.path, body, headers))
            status, told = canned.answers.get(
                f"{self.command} {self.path}",
                canned.answers.get(f"{self.command} {urlsplit(self.path).path}", NO_SUCH_ROUTE),
            )
            if status == 0:
                self.close_connection = True
                return
            content = json.dumps(told).encode() if not isinstance(told, bytes) else told
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    canned.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield canned
    finally:
        server.shutdown()
        server.server_close()


@functools.cache
def _command() -> Any:
    """The program, made once: it has a hundred options."""
    return get_command(program())


def run(*arguments: str, **environment: str) -> Result:
    """One command, with nothing of the caller's environment that could lead it elsewhere."""
    clean = dict.fromkeys(
        ("TURNSTILE_URL", "TURNSTILE_HOME", "TURNSTILE_PORT", "TURNSTILE_TOKEN", "TURNSTILE_LAKE"), None
    )
    return CliRunner().invoke(_command(), list(arguments), env={**clean, **environment})


def ask(service: Server | Stack, *arguments: str, exit: int = 0) -> Any:
    ended = run(*arguments, "--output", "json", TURNSTILE_HOME=str(service.home))
    assert ended.exit_code == exit, ended.output
    (line,) = (ended.stdout if exit in (0, 6) else ended.stderr).splitlines()
    return json.loads(line)


def show(service: Server | Stack, *arguments: str) -> str:
    ended = run(*arguments, TURNSTILE_HOME=str(service.home))
    assert ended.exit_code == 0, ended.output
    return ended.stdout


class Program:
    """The installed command in a process of its own, with a home and further variables."""

    def __init__(self, home: Path, **variables: str) -> None:
        self.home = home
        self._variables = variables

    @property
    def environment(self) -> dict[str, str]:
        """An environment without the caller's settings, and with an AWS and a proxy that do not
        answer."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TURNSTILE_", "AWS_"))}
        nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "HTTP_PROXY": "http://x:1"}
        return {**clean, **nowhere, **self._variables, "TURNSTILE_HOME": str(self.home)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TURNSTILE, *arguments],
            env=self.environment, cwd=self.home.parent, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--output", "json")
        assert done.returncode == 0, done.stderr
        (line,) = done.stdout.splitlines()
        return json.loads(line)
