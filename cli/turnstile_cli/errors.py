"""Errors as a user needs them: what, where, and what to do about it."""

from __future__ import annotations

from typing import Any

from turnstile_cli.codes import Exit


class CliError(Exception):
    """A command that did not succeed.

    Args:
        message: what went wrong, and where.
        remedy: what to do about it.
        type: name of the error for programs, the API's own where it has one.
        details: further members for programs, such as ``field`` or ``latest``.
    """

    def __init__(
        self,
        exit: Exit,
        message: str,
        *,
        remedy: str = "",
        type: str = "Failure",
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.exit = exit
        self.message = message
        self.remedy = remedy
        self.type = type
        self.details = details or {}

    def document(self) -> dict[str, Any]:
        """The error as ``--output json`` prints it, on standard error."""
        told: dict[str, Any] = {"type": self.type, "message": self.message, "exit": int(self.exit)}
        if self.remedy:
            told["remedy"] = self.remedy
        return {"error": {**self.details, **told}}


def usage(message: str, remedy: str = "") -> CliError:
    """An argument that cannot be right."""
    return CliError(Exit.USAGE, message, remedy=remedy, type="Usage")
