"""Paths of files in the logs of branches' tables, and in the logs of the catalog's tables. Pure.

The log of a branch's table lies two folders below the location of the catalog's table
(``BRANCHES_FOLDER``), and names its files relative to that folder. So a branch has no absolute
paths that the log of the catalog's table has not: a lake that moves takes it along.

Sources: Delta protocol, "Add File and Remove File" (a path is a URI reference, RFC 2396), "Deletion
Vector Descriptor Schema" (a path below a prefix).
"""

from __future__ import annotations

from typing import Any, Final

from turnstile.delta.core.named_files import VECTOR_ID_CHARACTERS, is_absolute

Action = dict[str, Any]

_UP: Final = "../.."


def below_branch(body: Action) -> Action:
    """Returns an ``add`` or ``remove`` action of the catalog's table for the log of a branch's."""
    moved = {**body, "path": branch_path(body["path"])}
    vector = body.get("deletionVector")
    if vector is not None:
        moved["deletionVector"] = branch_vector(vector)
    return moved


def branch_path(path: str) -> str:
    """Returns the path of a file of the catalog's table for the log of a branch's."""
    return path if is_absolute(path) else f"{_UP}/{path}"


def branch_vector(vector: Action) -> Action:
    """Returns a deletion vector of the catalog's table for the log of a branch's."""
    return _with_prefix(vector, lambda prefix: f"{_UP}/{prefix}" if prefix else _UP)


class BranchPaths:
    """Paths of a branch's table for the log of the catalog's. ``folder``: that of the branch's
    table, relative to the catalog's."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def relocate(self, body: Action) -> Action:
        """Returns an ``add`` or ``remove`` action with the paths of the catalog's table."""
        moved = {**body, "path": self._path(str(body["path"]))}
        if body.get("deletionVector") is not None:
            moved["deletionVector"] = _with_prefix(body["deletionVector"], self._prefix)
        return moved

    def is_of_branch(self, body: Action) -> bool:
        """Whether the branch wrote a file."""
        path = str(body["path"])
        return not is_absolute(path) and not path.startswith(f"{_UP}/")

    def _path(self, path: str) -> str:
        if is_absolute(path):
            return path
        return path.removeprefix(f"{_UP}/") if path.startswith(f"{_UP}/") else f"{self._folder}/{path}"

    def _prefix(self, prefix: str) -> str:
        if prefix == _UP or prefix.startswith(f"{_UP}/"):
            return prefix[len(_UP) + 1 :]
        return f"{self._folder}/{prefix}" if prefix else self._folder


def _with_prefix(vector: Action, change: Any) -> Action:
    if vector["storageType"] != "u":
        return dict(vector)
    text = str(vector["pathOrInlineDv"])
    id = text[-VECTOR_ID_CHARACTERS:]
    return {**vector, "pathOrInlineDv": change(text[:-VECTOR_ID_CHARACTERS]) + id}
