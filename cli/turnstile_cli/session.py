"""Which service a command talks to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnstile_cli.api import Api
from turnstile_cli.codes import Exit
from turnstile_cli.errors import CliError, usage

if TYPE_CHECKING:
    from turnstile_local import Stack

_SENDABLE: Final = re.compile(r"[\x20-\x7e]*")


def connect(url: str | None, home: Path, port: int | None, token: str | None) -> Api:
    """The service at ``--url``, else the stack that runs in ``--home``, else whatever listens on ``--port``.

    ``token`` None takes the stack's own. Raises CliError when there is nothing to talk to, or no header could carry the
    token.
    """
    if token and not _SENDABLE.fullmatch(token):
        raise usage(
            "the token has characters that no header can carry: not ASCII, or a line break",
            remedy="give --token, or TURNSTILE_TOKEN, exactly as the token was told",
        )
    if url:
        if not url.startswith(("http://", "https://")):
            raise CliError(
                Exit.USAGE, f"--url {url} is not an address", remedy="write http:// or https://", type="Usage"
            )
        return Api(url, token or "", local=False)
    stack = running(home)
    if stack is not None and port in (None, 0, stack.port):
        return Api(stack.url, stack.token if token is None else token, home=stack.home)
    if port:
        return Api(f"http://127.0.0.1:{port}", token or "")
    raise CliError(
        Exit.UNREACHABLE,
        f"no stack is running in {home.absolute()}",
        remedy="start it with 'turnstile up', or name its folder with --home or its address with --url",
        type="NotRunning",
    )


def running(home: Path) -> Stack | None:
    """The stack that runs in ``home``, if any."""
    from turnstile_local import Stack
    from turnstile_local.errors import NotRunning

    try:
        return Stack.attach(home)
    except NotRunning:
        return None
