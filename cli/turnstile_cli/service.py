"""Commands that talk to the service: the options that find it, in one place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from turnstile_cli.options import DEFAULT_HOME, Format, Home, Output, Port, Token, Url
from turnstile_cli.output import reporting
from turnstile_cli.session import connect


def talking(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is the connected Api, and which gets the options that say how to connect.

    The command keeps its other parameters; ``output`` is passed on as a keyword.
    """

    @reporting
    @functools.wraps(command)
    def run(*, home: Home, port: Port, token: Token, url: Url, output: Output, **arguments: Any) -> None:
        with connect(url, home, port, token) as api:
            command(api, output=output, **arguments)

    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in ("api", "output")
    ]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, default, annotation in (
            ("home", DEFAULT_HOME, Home), ("port", None, Port), ("token", None, Token), ("url", None, Url),
            ("output", Format.TEXT, Output),
        )
    ]  # fmt: skip
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *shared)}
    del run.__wrapped__  # type: ignore[attr-defined]
    return run
