"""The rules for names in a lake. The server has them too; held here, no text that is no name reaches a route of its API."""

from __future__ import annotations

import re
from collections.abc import Iterable

from turnstile_spark.errors import ApiError

_NAME = re.compile(r"[A-Za-z0-9_@-]{1,255}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Schemas that do not exist: ``delta.`/path` `` is a path. Spark looks such a name up in the current catalog first.
_PATH_SCHEMAS = frozenset(("delta", "tahoe", "iceberg"))
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)?/")


def checked(name: str, what: str) -> str:
    """Returns ``name`` if a catalog, a level of a namespace or a table can have it; raises :class:`ApiError`
    ``InvalidName`` otherwise, without asking the server. ``what`` it is the name of."""
    if _NAME.fullmatch(name):
        return name
    remedy = "use 1 to 255 letters, digits, '_', '-' or '@'"
    raise ApiError(400, "InvalidName", f"{what} {name[:300]!r} is not a valid name", {"remedy": remedy})


def dotted(levels: Iterable[str]) -> str:
    """The name of a namespace; raises as :func:`checked`. A level with a dot in it would name another namespace."""
    return ".".join([checked(level, "namespace") for level in levels])


def is_path(levels: list[str], name: str) -> bool:
    """Whether this is a path in the place of a table's name, as in ``delta.`/path` ``."""
    return len(levels) == 1 and levels[0].lower() in _PATH_SCHEMAS and _ABSOLUTE.match(name) is not None


def is_uuid(text: str) -> bool:
    """Whether this is the uuid of a table, in the place of its name."""
    return _UUID.fullmatch(text) is not None


def location_key(location: str) -> str:
    """A table's location, or the path of its log, in one of the ways in which it may be written: ``file:/a``, ``file:///a``,
    ``/a``, ``/a/``, ``/a/_delta_log`` are equal."""
    scheme, _, rest = location.removesuffix("/").removesuffix("/_delta_log").rpartition(":")
    rest = "/" + rest.strip("/")
    return rest if scheme in ("", "file") else f"{scheme}:{rest}"
