"""Typed variables of the environment, read when a function starts, so that a bad deployment fails
at once."""

from __future__ import annotations

import os


class BadSetting(ValueError):
    """An environment variable is missing or has the wrong form; the message names it."""


def text(name: str, default: str | None = None) -> str:
    """Returns the variable, which is compulsory without ``default``. All of these raise
    BadSetting."""
    value = os.environ.get(name) or default
    if value is None:
        raise BadSetting(f"{name} is not set")
    return value


def integer(name: str, default: int, least: int, most: int) -> int:
    """Returns the variable as a whole number between ``least`` and ``most``."""
    value = os.environ.get(name)
    try:
        number = int(value) if value else default
    except ValueError:
        raise BadSetting(f"{name} must be a whole number, not {value!r}") from None
    if not least <= number <= most:
        raise BadSetting(f"{name} must be between {least} and {most}, not {number}")
    return number


def flag(name: str, *, default: bool = False) -> bool:
    """The variable as ``true`` or ``false``."""
    value = (os.environ.get(name) or str(default)).lower()
    if value not in ("true", "false"):
        raise BadSetting(f"{name} must be true or false, not {value!r}")
    return value == "true"


def in_lambda() -> bool:
    """Whether the function runs deployed: then everything is opened at the cold start, and a bad
    setting shows."""
    return bool(text("AWS_LAMBDA_FUNCTION_NAME", ""))


def starts_ahead() -> bool:
    """Whether no request waits for this start: Lambda makes a snapshot of it, or keeps it ready."""
    return _start() != "on-demand"


def starts_as_snapshot() -> bool:
    """Whether Lambda makes a snapshot of this start, from which several sandboxes go on."""
    return _start() == "snap-start"


def _start() -> str:
    return os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
