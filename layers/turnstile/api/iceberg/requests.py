"""Bodies of requests. Unknown members are skipped, as the specification requires; unknown kinds of updates and requirements
are refused. The bodies that create and replace are those of the operations (``iceberg.tables``, ``iceberg.views``)."""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.api.iceberg.naming import levels, name
from turnstile.catalog.core.paths import Path
from turnstile.iceberg.core.metadata import without_nulls
from turnstile.iceberg.core.requirements import TableRequirement
from turnstile.iceberg.core.updates import TableUpdate

MAX_BODY: Final = 4_500_000
"""Bytes of a body. Lambda accepts 6 MB with the body as text within JSON, which is about 4.5 MB of usual JSON."""


class Body(msgspec.Struct, frozen=True, rename="kebab"):
    """Members in kebab-case."""


class Identifier(Body, frozen=True):
    """The full name of a table or view in its catalog."""

    namespace: tuple[str, ...]
    name: str

    def path(self, field: str) -> Path:
        """The path; raises InvalidRequest, naming the member ``field``, unless all levels are names."""
        return (*levels(self.namespace, f"{field}.namespace"), name(self.name, f"{field}.name"))


class CreateNamespace(Body, frozen=True):
    """A namespace to create."""

    namespace: tuple[str, ...]
    properties: dict[str, str] = {}


class UpdateProperties(Body, frozen=True):
    """Properties of a namespace to remove and to set."""

    removals: tuple[str, ...] = ()
    updates: dict[str, str] = {}


class RegisterTable(Body, frozen=True):
    """A table that exists in storage."""

    name: str
    metadata_location: str
    overwrite: bool = False


class CommitTable(Body, frozen=True):
    """Changes of one table; ``identifier`` is compulsory in a transaction."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    identifier: Identifier | None = None


class CommitTransaction(Body, frozen=True):
    """Changes of several tables, all or none."""

    table_changes: tuple[CommitTable, ...]


class Rename(Body, frozen=True):
    """A table or view, and its new name."""

    source: Identifier
    destination: Identifier

    def paths(self) -> tuple[Path, Path]:
        """The old and the new path; raises as ``Identifier.path``."""
        return self.source.path("source"), self.destination.path("destination")


class Report(Body, frozen=True):
    """A metrics report; only its kind is read."""

    report_type: str


def without_null_members(raw: bytes) -> bytes:
    """Returns ``raw`` without members that are null; ``raw`` itself when it is not JSON, which its decoder then refuses."""
    if b"null" not in raw:
        return raw
    try:
        return msgspec.json.encode(without_nulls(msgspec.json.decode(raw)))
    except (msgspec.MsgspecError, RecursionError, OverflowError, UnicodeError):
        return raw
