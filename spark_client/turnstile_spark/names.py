"""Names and paths as Spark writes them: names that are paths, and texts that are one location."""

from __future__ import annotations

import re

#: Schemas that do not exist: ``delta.`/path` `` is a path. Spark looks such a name up in the
#: current catalog first.
_PATH_SCHEMAS = frozenset(("delta", "tahoe", "iceberg"))
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*:)?/")


def is_path(levels: list[str], name: str) -> bool:
    """Whether this is a path in the place of a table's name, as in ``delta.`/path` ``."""
    return len(levels) == 1 and levels[0].lower() in _PATH_SCHEMAS and _ABSOLUTE.match(name) is not None


def location_key(location: str) -> str:
    """A table's location, or the path of its log, in one of the ways in which it may be written:
    ``file:/a``, ``file:///a``, ``/a``, ``/a/``, ``/a/_delta_log`` are equal."""
    scheme, _, rest = location.removesuffix("/").removesuffix("/_delta_log").rpartition(":")
    rest = "/" + rest.strip("/")
    return rest if scheme in ("", "file") else f"{scheme}:{rest}"


def bucket_of(location: str) -> str:
    """The bucket of a location in S3; empty for others."""
    match = re.match(r"s3a?:/+([^/]+)", location)
    return match[1] if match else ""


def quoted_table(catalog: str, namespace: str, table: str) -> str:
    """The whole name of a table, as SQL has it. ``namespace``: its levels joined by dots."""
    return quoted_name(catalog, *namespace.split("."), table)


def quoted_name(*parts: str) -> str:
    """A name of several parts, as SQL has it."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
