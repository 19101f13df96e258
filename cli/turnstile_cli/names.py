"""Names of tables, and moments of a catalog's past, as users write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from turnstile_cli.errors import CliError, Exit, usage

if TYPE_CHECKING:
    from turnstile_cli.api import Api

Table = Annotated[str, typer.Argument(metavar="TABLE", help="catalog.namespace.table, or namespace.table in 'main'.")]
CATALOG: Final = "main"
_LEVEL: Final = re.compile(r"[A-Za-z0-9_@-]{1,255}")


@dataclass(frozen=True)
class TableName:
    """A table's full name. ``namespace`` may have several levels, joined by dots."""

    catalog: str
    namespace: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """``catalog.namespace.table``, or ``namespace.table`` in catalog ``main``; raises a usage
        error."""
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
        """The table as the service loads it by name, without writing files for its inline
        commits."""
        return api.get(self.path, content="true")

    def table_id(self, api: Api) -> str:
        """Returns the id of a Delta table, also of one that cannot be loaded because it recovers.
        Raises CliError for an Iceberg table, and if there is none."""
        for row in api.pages(f"{self.namespace_path}/tables", "tables"):
            if row["name"].lower() == self.table.lower():
                return str(row["table_id"])
        entry = api.get(f"{self.path}/entry")
        raise CliError(
            Exit.NOT_FOUND,
            f"NoSuchTable: '{self}' is no Delta table (its format: {entry['format']})",
            remedy="use a client of Iceberg's API (docs/iceberg.md)",
            type="NoSuchTable",
        )


@dataclass(frozen=True)
class NamespaceName:
    """A namespace's full name. ``namespace`` may have several levels, joined by dots."""

    catalog: str
    namespace: str

    @classmethod
    def parse(cls, text: str) -> NamespaceName:
        """``catalog.namespace`` with all levels, or one name alone: a namespace at the top of
        catalog ``main``; raises a usage error."""
        catalog, *levels = _levels(text)
        return cls(catalog, ".".join(levels)) if levels else cls(CATALOG, catalog)

    def __str__(self) -> str:
        return f"{self.catalog}.{self.namespace}"

    @property
    def parent(self) -> str:
        """The namespace that it is in; empty at the catalog's top."""
        return self.namespace.rpartition(".")[0]

    @property
    def name(self) -> str:
        """The last level."""
        return self.namespace.rpartition(".")[2]

    @property
    def path(self) -> str:
        return namespace_path(self.catalog, self.namespace)


def namespaces_path(catalog: str) -> str:
    """Path of the namespaces of a catalog."""
    return f"/v1/catalogs/{quote(catalog, safe='')}/namespaces"


def namespace_path(catalog: str, namespace: str) -> str:
    """Path of a namespace."""
    return f"{namespaces_path(catalog)}/{quote(namespace, safe='')}"


def _levels(text: str) -> list[str]:
    levels = text.split(".")
    for level in levels:
        if not _LEVEL.fullmatch(level):
            raise usage(
                f"'{text}' is not a name: '{level}' is not allowed", "names are made of letters, digits, _, @ and -"
            )
    return levels


MOMENT_WORDS: Final = "head:ID, seq:NUMBER of the log, time:2026-11-01T00:00:00Z (or ms since 1970) or snapshot:NAME"
"""No angle brackets: help is rendered as Markdown, which takes them for HTML and shows nothing."""

AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of", help=f"The state at a moment: {MOMENT_WORDS}. Short: commit/..., a number, a snapshot's name."
    ),
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment_text(text: str) -> str:
    """The moment in the service's form, for the shorter forms that users may write.

    A snapshot whose name is a number, contains a colon or begins with ``commit/`` must be written
    ``snapshot:NAME``.
    """
    if text.startswith("commit/"):
        return f"head:{text}"
    if text.isascii() and text.isdigit():
        return f"seq:{text}"
    return text if ":" in text else f"snapshot:{text}"


def moment_query(text: str | None) -> dict[str, Any]:
    """The moment as a query parameter; empty for None."""
    return {} if text is None else {"as_of": moment_text(text)}


def moment_body(text: str) -> dict[str, Any]:
    """The moment as request bodies have it; raises CliError if ``text`` is not one."""
    kind, _, value = moment_text(text).partition(":")
    if kind == "head" and value:
        return {"head": value if value.startswith("commit/") else f"commit/{value}"}
    if kind == "seq" and value.isdigit():
        return {"seq": int(value)}
    if kind == "time":
        return {"time": int(value) if value.isdigit() else _ms(value)}
    if kind == "snapshot" and value:
        return {"snapshot": value}
    raise usage(f"'{text}' names no moment", f"write {MOMENT_WORDS}")


def _ms(value: str) -> int:
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise usage(f"'{value}' is not a time with its zone", "write 2026-11-01T00:00:00Z, or ms since 1970")
    return (time - _EPOCH) // timedelta(milliseconds=1)
