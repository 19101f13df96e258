"""Names in a catalog as index keys.

A key is the full name, levels folded to one case and joined by NUL, which sorts before every character a name may
hold: so a subtree is one contiguous range that follows directly after its root. Names are compared by their keys and
kept as written in the entities; two names that differ by case only are one name (I9).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.locations import normalise
from turnstile.store.core.names import check_identifier

Path = tuple[str, ...]
"""Levels of a full name without the catalog: namespace levels, then perhaps a table."""

MAX_LEVELS: Final = 10

_NUL: Final = "\x00"
_AFTER_NUL: Final = "\x01"


def fold(name: str) -> str:
    """The form in which names are compared."""
    return name.casefold()


def key_of(path: Iterable[str]) -> str:
    """The index key of a full name; the empty path is the catalog's root, the empty key."""
    return _NUL.join(fold(level) for level in path)


def path_of(key: str) -> Path:
    """The full name of a key, folded."""
    return tuple(key.split(_NUL)) if key else ()


def below(key: str) -> tuple[str, str | None]:
    """The range ``[start, stop)`` of keys strictly below ``key``."""
    return (key + _NUL, key + _AFTER_NUL) if key else ("\x02", None)


def past_subtree(key: str) -> str:
    """The smallest key that is neither ``key`` nor below it, nor before it."""
    return key + _AFTER_NUL


def child_key(parent: str, key: str) -> str:
    """The ancestor-or-self of ``key`` that is a direct child of ``parent``."""
    start = len(parent) + 1 if parent else 0
    end = key.find(_NUL, start)
    return key if end < 0 else key[:end]


def is_below(key: str, root: str) -> bool:
    """Whether ``key`` lies strictly below ``root``."""
    return not root or key.startswith(root + _NUL)


def dotted(*levels: str) -> str:
    """A full name for people: ``main.sales.orders``."""
    return ".".join(levels)


def check_path(path: Path, field: str = "namespace") -> Path:
    """``path`` if it can name a namespace; raises InvalidRequest."""
    if not 1 <= len(path) <= MAX_LEVELS:
        raise InvalidRequest(
            f"{field} has {len(path)} levels", field=field, remedy=f"use 1 to {MAX_LEVELS} levels: a.b.c"
        )
    for level in path:
        check_identifier(level, field)
    return path


def managed_location(root: str, catalog: str, namespace: Path, table_id: str) -> str:
    """Where a managed table lives: ``<root>/<catalog>/<namespace>/<uuid>``.

    The namespace is one component (``a.b``; names hold no dots), so every managed table of a root lies at the same
    depth under a uuid of its own: no two are equal, none lies below another (I10).
    """
    return f"{normalise(root)}/{catalog}/{dotted(*namespace)}/{table_id}"
