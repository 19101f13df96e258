"""The rules for names of catalogs, namespaces and tables. The server has them too; held here, no
text that is no name reaches a route of its API."""

from __future__ import annotations

import re
from collections.abc import Iterable

from turnstile_http.errors import ApiError

_NAME = re.compile(r"[A-Za-z0-9_@-]{1,255}")
_BRANCH = re.compile(r"[A-Za-z0-9_-]{1,255}")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def check_name(name: str, what: str) -> str:
    """Returns ``name`` if a catalog, a level of a namespace or a table can have it; raises
    :class:`ApiError` ``InvalidName`` otherwise, without a request. ``what``: the kind of entity,
    for the message.
    """
    if _NAME.fullmatch(name):
        return name
    remedy = "use 1 to 255 letters, digits, '_', '-' or '@'"
    raise ApiError(400, "InvalidName", f"{what} {name[:300]!r} is not a valid name", {"remedy": remedy})


def check_branch_name(name: str) -> str:
    """Returns ``name`` if a branch can have it, without its catalog; raises as
    :func:`check_name`."""
    if _BRANCH.fullmatch(name):
        return name
    remedy = "use 1 to 255 letters, digits, '_' or '-'; leave the catalog's name out"
    raise ApiError(400, "InvalidName", f"{name[:300]!r} is not a valid name of a branch", {"remedy": remedy})


def short_branch_name(catalog: str, name: str) -> str:
    """Returns the name of a branch without its catalog, which may be before it: ``main@dev``."""
    return name.removeprefix(f"{catalog}@")


def dotted_name(levels: Iterable[str]) -> str:
    """The name of a namespace; raises as :func:`check_name`. A level with a dot in it would name
    another namespace."""
    return ".".join([check_name(level, "namespace") for level in levels])


def is_uuid(text: str) -> bool:
    """Whether this is the uuid of a table, in the place of its name."""
    return _UUID.fullmatch(text) is not None
