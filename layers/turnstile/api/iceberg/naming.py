"""Names as Iceberg's clients write them: levels of a namespace joined by the unit separator; warehouses, which are a
catalog, ``lake``, or its past, ``lake@snapshot:month_end``."""

from __future__ import annotations

from typing import Final

from turnstile.catalog.core.paths import Path, check_path
from turnstile.catalog.history.core import GRAMMAR, AsOf, as_of_text, parse_as_of
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import check_identifier

SEPARATOR: Final = "\x1f"


def namespace(text: str) -> Path:
    """The levels of a namespace in a path or query; raises InvalidRequest."""
    return check_path(tuple(text.split(SEPARATOR)))


def levels(names: tuple[str, ...], field: str = "namespace") -> Path:
    """The levels of a namespace in a body; raises InvalidRequest."""
    return check_path(names, field)


def name(text: str, field: str = "name") -> str:
    """The name of a table or view; raises InvalidRequest."""
    return check_identifier(text, field)


def warehouse(text: str, field: str = "warehouse") -> tuple[str, AsOf | None]:
    """Returns the catalog that a warehouse or a prefix names, and the time in its past; None for the present.

    A catalog's name may have ``@`` but no colon: the last ``@`` before the first colon is the separator.

    Raises:
        InvalidRequest: not a name, or not a time.
    """
    before, colon, _ = text.partition(":")
    if not colon:
        return check_identifier(text, field), None
    catalog, at, _ = before.rpartition("@")
    if not at:
        raise InvalidRequest(
            f"{field} {text[:100]!r} names no catalog",
            field=field,
            remedy=f"write lake, or lake@ and {GRAMMAR}",
        )
    return check_identifier(catalog, field), parse_as_of(text[len(catalog) + 1 :], field)


def prefix(catalog: str, as_of: AsOf) -> str:
    """The prefix of a catalog's past, in characters that a path segment has unescaped (RFC 3986, pchar)."""
    return f"{catalog}@{as_of_text(as_of)}"
