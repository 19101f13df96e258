"""Exit codes, the same for every command."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What the shell is told."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNREACHABLE = 5
    UNKNOWN = 6


MEANINGS = {
    Exit.OK: "done",
    Exit.FAILURE: "failure: a fault of the service or of the stack",
    Exit.USAGE: "usage: an option or a name that cannot be right",
    Exit.NOT_FOUND: "not found: catalog, namespace, table, file",
    Exit.REFUSED: "refused: conflict, permission or a bad request; nothing changed",
    Exit.UNREACHABLE: "the stack is not running or cannot be reached",
    Exit.UNKNOWN: "unknown outcome: the same command again finds out",
}

EPILOG = "Exit codes\n\n" + "\n".join(f"- **{code.value}** {meaning}" for code, meaning in MEANINGS.items())
"""For ``--help``."""
