"""Relative paths below a table, checked once for every storage."""

from __future__ import annotations

from turnstile.store.core.errors import InvalidRequest


def check_path(path: str) -> str:
    """``path`` if it stays below its table: no empty, ``.`` or ``..`` segment, no NUL, no backslash.

    Raises:
        InvalidRequest: otherwise (I10: nothing outside the table's own location is ever touched).
    """
    if "\0" in path or "\\" in path or any(segment in ("", ".", "..") for segment in path.split("/")):
        raise InvalidRequest(
            f"path {path!r} does not name a file below the table",
            field="path",
            remedy="use a relative path with forward slashes and without '.' or '..'",
        )
    return path


def check_prefix(prefix: str) -> str:
    """As ``check_path`` for the beginning of a path: it may be empty, end with a slash or in the middle of a name."""
    folder = prefix.rpartition("/")[0]
    if folder:
        check_path(folder)
    elif prefix.startswith("/"):
        check_path(prefix)
    return prefix
