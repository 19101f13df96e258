"""Names of tables as users write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from turnstile_cli.codes import Exit
from turnstile_cli.errors import CliError, usage

if TYPE_CHECKING:
    from turnstile_cli.api import Api

CATALOG = "main"
_LEVEL = re.compile(r"[A-Za-z0-9_@-]{1,255}")


@dataclass(frozen=True)
class TableName:
    """A table's full name. ``namespace`` may have several levels, joined by dots."""

    catalog: str
    namespace: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """``catalog.namespace.table``, or ``namespace.table`` in catalog ``main``; raises a usage error."""
        levels = _levels(text)
        if len(levels) < 2:
            raise usage(f"'{text}' does not name a table", "write namespace.table or catalog.namespace.table")
        if len(levels) == 2:
            levels = [CATALOG, *levels]
        return cls(levels[0], ".".join(levels[1:-1]), levels[-1])

    def __str__(self) -> str:
        return f"{self.catalog}.{self.namespace}.{self.table}"

    @property
    def namespace_path(self) -> str:
        return namespace_path(self.catalog, self.namespace)

    @property
    def path(self) -> str:
        return f"{self.namespace_path}/tables/{quote(self.table, safe='')}"

    def load(self, api: Api) -> dict[str, Any]:
        """The table as the service loads it by name, with the content of inline commits rather than files of it."""
        return api.get(self.path, content="true")

    def table_id(self, api: Api) -> str:
        """The table's id in whatever state the table is; one that recovers cannot be loaded.

        Raises:
            CliError: no such table.
        """
        for found in api.pages(f"{self.namespace_path}/tables", "tables"):
            if found["name"].lower() == self.table.lower():
                return str(found["table_id"])
        raise CliError(
            Exit.NOT_FOUND,
            f"NoSuchTable: there is no table '{self}'",
            remedy="'turnstile tables' lists them",
            type="NoSuchTable",
        )


def catalog_path(catalog: str) -> str:
    """Path of a catalog's namespaces."""
    return f"/v1/catalogs/{quote(catalog, safe='')}/namespaces"


def namespace_path(catalog: str, namespace: str) -> str:
    """Path of a namespace."""
    return f"{catalog_path(catalog)}/{quote(namespace, safe='')}"


def _levels(text: str) -> list[str]:
    levels = text.split(".")
    for level in levels:
        if not _LEVEL.fullmatch(level):
            raise usage(
                f"'{text}' is not a name: '{level}' is not allowed", "names are made of letters, digits, _, @ and -"
            )
    return levels
