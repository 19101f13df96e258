"""Names as Iceberg's clients write them: levels of a namespace joined by the unit separator."""

from __future__ import annotations

from typing import Final

from turnstile.core.catalog_paths import Path
from turnstile.core.names import check_identifier
from turnstile.services.catalog.namespaces import check_path

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
