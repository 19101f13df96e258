"""Full names in a catalog, and the index keys made of them.

A key is the full name with its levels folded to one case and joined by NUL, which sorts before
every character of a name. So a subtree is one contiguous range that directly follows its root.
Names are compared by their keys, and entities keep them as written; two names that differ only in
case are one name (I9).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.locations import normalise
from turnstile.store.core.names import branched_catalog, check_name, plain

Path = tuple[str, ...]
"""Levels of a full name without the catalog: the parts of a namespace, then perhaps a table."""

MAX_LEVELS: Final = 10

_OTHER: Final = re.compile(r"[^A-Za-z0-9_@-]")
_NUL: Final = "\x00"
_AFTER_NUL: Final = "\x01"


def fold(name: str) -> str:
    """Returns the form in which names are compared."""
    return name.casefold()


def key_of(path: Iterable[str]) -> str:
    """Returns the index key of a full name; the empty path is the catalog's root and has the empty
    key."""
    return _NUL.join(fold(level) for level in path)


def path_of(key: str) -> Path:
    """Returns the full name of a key, folded."""
    return tuple(key.split(_NUL)) if key else ()


def below(key: str) -> tuple[str, str | None]:
    """Returns the range ``[start, stop)`` of keys strictly below ``key``."""
    return (key + _NUL, key + _AFTER_NUL) if key else ("\x02", None)


def past_subtree(key: str) -> str:
    """Returns the smallest key that sorts after ``key`` and everything below it."""
    return key + _AFTER_NUL


def child_key(parent: str, key: str) -> str:
    """Returns the direct child of ``parent`` that is ``key`` or an ancestor of it."""
    start = len(parent) + 1 if parent else 0
    end = key.find(_NUL, start)
    return key if end < 0 else key[:end]


def is_below(key: str, root: str) -> bool:
    """Whether ``key`` lies strictly below ``root``."""
    return not root or key.startswith(root + _NUL)


def dotted_name(*levels: str) -> str:
    """Returns a full name for people: ``main.sales.orders``."""
    return ".".join(levels)


def stored_name(*levels: str) -> str:
    """Returns a full name that can be taken apart at its dots: as ``dotted_name``, with levels that
    are no identifiers in a form that names nothing else."""
    return ".".join(plain(level) for level in levels)


def check_path(path: Path, field: str = "namespace") -> Path:
    """Returns ``path`` with its levels in their normal form if it can name a namespace; raises
    InvalidRequest. Levels may be all that Iceberg's clients can name: the other APIs check theirs
    when they read a request.
    """
    if not 1 <= len(path) <= MAX_LEVELS:
        raise InvalidRequest(
            f"{field} has {len(path)} levels", field=field, remedy=f"use 1 to {MAX_LEVELS} levels: a.b.c"
        )
    return tuple(check_name(level, field) for level in path)


def managed_location(root: str, catalog: str, namespace: Path, table_id: str) -> str:
    """Returns ``<root>/<catalog>/<namespace>/<uuid>``. The namespace is one component (``a.b``;
    every character that no identifier has is ``_``), so every managed table of a root lies at the
    same depth under a uuid of its own: no two are equal, none lies below another (I10).
    """
    return f"{managed_folder(root, catalog, namespace)}/{table_id}"


def managed_folder(root: str, catalog: str, namespace: Path) -> str:
    """Returns the folder of the new managed tables of a namespace."""
    folder = dotted_name(*(_OTHER.sub("_", level) for level in namespace))
    return f"{normalise(root)}/{branched_catalog(catalog)}/{folder}"
