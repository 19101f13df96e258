"""Storage locations in one spelling, so that two spellings cannot be two owners (I10).

Paths are taken literally. A path with a second meaning (``..``, escapes, queries) is refused.
Whether a file system folds case or follows links cannot be seen here: operators must avoid both.
"""

from __future__ import annotations

import re
from typing import Final

from turnstile.store.core.errors import InvalidRequest

MAX_LENGTH: Final = 1024
"""Bytes in UTF-8: S3's limit for a key, and well below DynamoDB's 2 kB for a row key."""

MAX_DEPTH: Final = 40
"""Path components: an import writes one row for each of them in one transaction of at most 100."""

BRANCHES_FOLDER: Final = "_branches"
"""The folder below a table's location with the logs and files of its branches. Delta's tools leave
folders alone whose names begin with an underscore."""

_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
_FORM: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//[^/]*)?(/.*)?")
_NAME: Final = r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?"
_BUCKET: Final = (re.compile(_NAME), "bucket in lower case, without user, port or blank")
_CONTAINER: Final = (re.compile(f"{_NAME}@{_NAME}"), "container@account in lower case")
_HOST: Final = (re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?::[0-9]{1,5})?"), "host or host:port")
_AUTHORITIES: Final = {
    **dict.fromkeys(("s3", "gs"), _BUCKET),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), _CONTAINER),
}
"""The form of the authority, by scheme. Clients ignore user and port of a bucket's URL, the case of
a host and a dot at its end: with them one location would have many spellings, and an owner under
each. Other schemes are only registered, never opened, so their ports and cases stay as they are.
"""

_UNCLEAR: Final = re.compile(r"[\x00-\x1f\x7f\\%?#*]")


def _refusal(location: str, why: str, remedy: str) -> InvalidRequest:
    shown = location if len(location) <= 200 else location[:200] + "..."
    return InvalidRequest(f"location {shown!r} {why}", field="location", remedy=remedy)


def of_path(text: str) -> str:
    """Returns the location that clients of Unity Catalog mean by ``text``: an absolute path without
    a scheme is one of a file system."""
    return f"file://{text}" if text.startswith("/") else text


def normalise(location: str) -> str:
    """Returns ``location`` in its one spelling: ``s3://bucket/prefix`` or ``file:///path``, no
    slash at the end.

    ``s3a`` and ``s3n`` are ``s3``; ``file:/x`` is ``file:///x``; empty components and trailing
    slashes go. Raises InvalidRequest for no scheme, or a path that may mean another one.
    """
    match = _FORM.fullmatch(location)
    if match is None:
        raise _refusal(location, "is not an absolute URL", "write s3://bucket/path or file:///path")
    scheme = match[1].lower()
    scheme = _SCHEMES.get(scheme, scheme)
    authority = (match[2] or "//")[2:]
    if scheme == "file" and authority not in {"", "localhost"}:
        raise _refusal(location, f"names a host ({authority})", "write file:///path with three slashes")
    if scheme != "file" and not authority:
        raise _refusal(location, "names no bucket", f"write {scheme}://bucket/path")
    path = match[3] or ""
    form, description = _AUTHORITIES.get(scheme, _HOST)
    if scheme != "file" and not form.fullmatch(authority):
        why = f"names no place that is clear: {authority[:100]!r}"
        raise _refusal(location, why, f"write {scheme}://, then {description}")
    if _UNCLEAR.search(location):
        raise _refusal(location, "holds a character with a special meaning", "avoid % ? # * \\ and control characters")
    components = [component for component in path.split("/") if component]
    if any(component in {".", ".."} for component in components):
        raise _refusal(location, "holds '.' or '..'", "write the path without them")
    if len(components) > MAX_DEPTH:
        raise _refusal(location, f"is more than {MAX_DEPTH} folders deep", "use a shorter path")
    normal = "/".join((f"{scheme}://{'' if scheme == 'file' else authority}", *components))
    if len(normal.encode()) > MAX_LENGTH:
        raise _refusal(location, f"is longer than {MAX_LENGTH} bytes", "use a shorter path")
    return normal


def ancestors(location: str) -> tuple[str, ...]:
    """Everything a normalised location lies strictly below, outermost first: ``s3://b``,
    ``s3://b/x`` for ``s3://b/x/y``; ``file://`` is the root of a file system."""
    scheme, _, rest = location.partition("://")
    parts = rest.split("/")
    return tuple(f"{scheme}://" + "/".join(parts[:end]) for end in range(1, len(parts)))


def is_root(location: str) -> bool:
    """Whether a normalised location is a whole bucket or file system."""
    return not ancestors(location)


def overlap(first: str, second: str) -> bool:
    """Whether two normalised locations are equal, or one lies below the other."""
    return first == second or first in ancestors(second) or second in ancestors(first)


def location_after_move(location: str, old: str, new: str) -> str | None:
    """Where a normalised location is after all below ``old`` has come to be below ``new``; None if
    it is neither ``old`` nor below."""
    if location == old:
        return new
    return new + location.removeprefix(old) if location.startswith(f"{old}/") else None


def branch_location(location: str, name: str) -> str:
    """Returns the location of a branch's table in the folder ``name``, of a table at
    ``location``."""
    return f"{location}/{BRANCHES_FOLDER}/{name}"


def split_location(location: str) -> tuple[str, str]:
    """Returns the location of the catalog's table and the folder of the branch's, the reverse of
    ``branch_location``; of another location itself, and an empty folder."""
    if not is_of_branch(location):
        return location, ""
    root, _, name = location.rpartition(f"/{BRANCHES_FOLDER}/")
    return root, f"{BRANCHES_FOLDER}/{name}"


def is_of_branch(location: str) -> bool:
    """Whether ``branch_location`` made a location."""
    return location.rpartition("/")[0].endswith(f"/{BRANCHES_FOLDER}")
