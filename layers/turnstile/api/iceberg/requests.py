"""Bodies of requests. Members that are not listed are skipped, as the specification's readers do; what they say is not
done by anybody, and unknown kinds of updates and requirements are refused."""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.api.iceberg.naming import levels, name
from turnstile.catalog.core.paths import Path
from turnstile.iceberg.core.requirements import TableRequirement
from turnstile.iceberg.core.updates import TableUpdate
from turnstile.iceberg.core.values import without_nulls

MAX_BODY: Final = 4_500_000
"""Bytes of a body. Lambda gets at most 6 MB, with the body as text within JSON: that is some 4.5 MB of usual JSON."""


class Body(msgspec.Struct, frozen=True, rename="kebab"):
    """Members in kebab-case."""


class Identifier(Body, frozen=True):
    """The full name of a table or view in its catalog."""

    namespace: tuple[str, ...]
    name: str

    def path(self, field: str) -> Path:
        """The path of ``field``, the member that this is; raises InvalidRequest unless all levels are names."""
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
    """Changes of one table; ``identifier`` is compulsory where several are changed together."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    identifier: Identifier | None = None


class CommitTransaction(Body, frozen=True):
    """Changes of several tables, all or none."""

    table_changes: tuple[CommitTable, ...]


class Rename(Body, frozen=True):
    """A table or view, and what it shall be called."""

    source: Identifier
    destination: Identifier

    def paths(self) -> tuple[Path, Path]:
        """The old and the new path; raises as ``Identifier.path``."""
        return self.source.path("source"), self.destination.path("destination")


class Report(Body, frozen=True):
    """A metrics report; only its kind is looked at."""

    report_type: str


def stripped(raw: bytes) -> bytes:
    """``raw`` without members that are null; ``raw`` itself when it is not JSON, which whoever decodes it says better."""
    if b"null" not in raw:
        return raw
    try:
        return msgspec.json.encode(without_nulls(msgspec.json.decode(raw)))
    except (msgspec.MsgspecError, RecursionError, OverflowError, UnicodeError):
        return raw
