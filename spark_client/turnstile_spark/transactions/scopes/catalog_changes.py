"""Held changes of the catalog in a transaction, and their effect on names. Pure.

They are members of the transaction's request (``POST /v1/catalogs/{catalog}/transactions``), in
their order. A table is created, renamed or dropped once in a transaction, as on the server: a row
takes part in a write once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from turnstile_http.errors import ApiError


@dataclass(frozen=True, slots=True)
class Name:
    """A name of a table. ``namespace``: its levels, joined by dots. Compared as the server compares
    names."""

    namespace: str
    table: str

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace.casefold(), self.table.casefold()

    def __str__(self) -> str:
        return f"{self.namespace}.{self.table}"


@dataclass(frozen=True, slots=True)
class MovedTable:
    """A table that is renamed, or dropped (``new`` None)."""

    table_id: str
    old: Name
    new: Name | None

    def body(self) -> dict[str, Any]:
        at = {"namespace": self.old.namespace, "table": self.old.table}
        if self.new is None:
            return {"change": "drop_table", **at}
        return {"change": "rename_table", **at, "name": self.new.table, "to_namespace": self.new.namespace}


@dataclass(frozen=True, slots=True)
class NewNamespace:
    """A namespace that is created."""

    name: str
    comment: str | None = None
    properties: dict[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        comment = {} if self.comment is None else {"comment": self.comment}
        return {"change": "create_namespace", "name": self.name, "properties": self.properties, **comment}


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that is created: its version 0 is written where the server staged it, and it has no
    name on the server yet."""

    table_id: str
    name: Name

    def body(self) -> dict[str, Any]:
        at = {"namespace": self.name.namespace, "name": self.name.table}
        return {"change": "create_table", **at, "table_id": self.table_id}


Change = MovedTable | NewTable | NewNamespace


class CatalogChanges:
    """The changes of one transaction so far, in their order."""

    def __init__(self) -> None:
        self._changes: list[Change] = []

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, change: Change) -> None:
        """Holds a change. Requires that the caller has checked it against the present names."""
        self._changes.append(change)

    def go_back(self, count: int) -> None:
        """Drops all but the first ``count``."""
        del self._changes[count:]

    def bodies(self) -> list[dict[str, Any]]:
        """The changes as members of the request."""
        return [change.body() for change in self._changes]

    def moves(self, table_id: str) -> bool:
        """Whether the table is renamed or dropped."""
        return any(isinstance(c, MovedTable) and c.table_id == table_id for c in self._changes)

    def new_tables(self) -> list[NewTable]:
        """The tables that are created."""
        return [change for change in self._changes if isinstance(change, NewTable)]

    def is_freed(self, name: Name) -> bool:
        """Whether the table that the server has under this name is renamed or dropped."""
        return any(isinstance(c, MovedTable) and c.old.key == name.key for c in self._changes)

    def origin(self, name: Name) -> Name:
        """The server's name for the table that ``name`` leads to in the transaction; for a created
        table its name to be. Raises :class:`ApiError` ``NoSuchTable`` if a table was dropped or
        renamed and no other has its name.
        """
        for change in reversed(self._changes):
            if isinstance(change, NewTable) and change.name.key == name.key:
                return change.name
            if not isinstance(change, MovedTable):
                continue
            if change.new is not None and change.new.key == name.key:
                return change.old  # a table is moved once: it had this name before the transaction
            if change.old.key == name.key:
                raise ApiError(404, "NoSuchTable", f"'{name}' was dropped or renamed in this transaction")
        return name

    def tables(self, namespace: str, before: Iterable[str]) -> list[str]:
        """The tables of a namespace, given those that the server has in it."""
        names = {name.casefold(): name for name in before}
        for change in self._changes:
            if isinstance(change, NewTable) and change.name.namespace.casefold() == namespace.casefold():
                names[change.name.table.casefold()] = change.name.table
            if isinstance(change, MovedTable):
                if change.old.namespace.casefold() == namespace.casefold():
                    names.pop(change.old.table.casefold(), None)
                if change.new is not None and change.new.namespace.casefold() == namespace.casefold():
                    names[change.new.table.casefold()] = change.new.table
        return sorted(names.values())

    def namespace(self, name: str) -> NewNamespace | None:
        """The namespace of this name, if it is created in the transaction."""
        created = (c for c in self._changes if isinstance(c, NewNamespace))
        return next((c for c in created if c.name.casefold() == name.casefold()), None)

    def namespaces(self) -> list[str]:
        """The names of the created namespaces."""
        return [c.name for c in self._changes if isinstance(c, NewNamespace)]
