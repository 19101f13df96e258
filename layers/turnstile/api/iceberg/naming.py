"""Names as Iceberg's clients write them: levels of a namespace joined by the unit separator, and warehouses: a catalog
as it is, ``lake``, or as of a moment, ``lake@snapshot:month_end``."""

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


def levels(given: tuple[str, ...], field: str = "namespace") -> Path:
    """The levels of a namespace in a body; raises InvalidRequest."""
    return check_path(given, field)


def name(text: str, field: str = "name") -> str:
    """The name of a table or view; raises InvalidRequest."""
    return check_identifier(text, field)


def warehouse(text: str, field: str = "warehouse") -> tuple[str, AsOf | None]:
    """The catalog that a warehouse or a prefix names, and the moment; None for the present.

    A catalog's name may hold ``@`` and no colon: so the last ``@`` before the first colon is the one that counts.

    Raises:
        InvalidRequest: no name, or a moment that is none.
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
    """The prefix of a catalog as of a moment; only characters that a path segment holds unescaped (RFC 3986, pchar)."""
    return f"{catalog}@{as_of_text(as_of)}"
