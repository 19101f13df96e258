"""Exit codes, and errors for users: cause, place, and remedy."""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class Exit(IntEnum):
    """The exit code of a command."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNREACHABLE = 5
    UNKNOWN = 6
    STORE = 7


MEANINGS = {
    Exit.OK: "done",
    Exit.FAILURE: "failure: a fault of the server",
    Exit.USAGE: "usage: an option or a name that cannot be right",
    Exit.NOT_FOUND: "not found: catalog, namespace, table, file",
    Exit.REFUSED: "refused: conflict, permission or a bad request; nothing changed",
    Exit.UNREACHABLE: "the server is not running or cannot be reached",
    Exit.UNKNOWN: "unknown outcome: the same command again shows it",
    Exit.STORE: "the store cannot be used: damaged, gone, locked, full, denied or unreachable",
}

EPILOG = "Exit codes\n\n" + "\n".join(f"- **{code.value}** {meaning}" for code, meaning in MEANINGS.items())
"""For ``--help``."""


class CliError(Exception):
    """A command failed.

    Args:
        message: the cause, and the place.
        remedy: the advice for the user.
        type: name of the error for programs, the API's own if it has one.
        details: further members for programs, such as ``field`` or ``latest``.
        status: HTTP status of the answer with the error; 0 without one.
    """

    def __init__(
        self,
        exit: Exit,
        message: str,
        *,
        remedy: str = "",
        type: str = "Failure",
        details: dict[str, Any] | None = None,
        status: int = 0,
    ) -> None:
        super().__init__(message)
        self.exit = exit
        self.message = message
        self.remedy = remedy
        self.type = type
        self.details = details or {}
        self.status = status

    def document(self) -> dict[str, Any]:
        """The error as ``--output json`` prints it, on standard error."""
        error: dict[str, Any] = {"type": self.type, "message": self.message, "exit": int(self.exit)}
        if self.remedy:
            error["remedy"] = self.remedy
        return {"error": {**self.details, **error}}


def usage(message: str, remedy: str = "") -> CliError:
    """An argument that cannot be right."""
    return CliError(Exit.USAGE, message, remedy=remedy, type="Usage")
