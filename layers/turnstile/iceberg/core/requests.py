"""Bodies of requests. Members that are not listed are skipped, as the specification's readers do; what they say is not
done by anybody, and unknown kinds of updates and requirements are refused."""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.iceberg.core.partition import PartitionSpec, SortOrder
from turnstile.iceberg.core.requirements import AssertViewUuid, TableRequirement
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.updates import TableUpdate, ViewUpdate
from turnstile.iceberg.core.views import ViewVersion

MAX_BODY: Final = 4_500_000
"""Bytes of a body. Lambda gets at most 6 MB, with the body as text within JSON: that is some 4.5 MB of usual JSON."""


class Body(msgspec.Struct, frozen=True, rename="kebab"):
    """Members in kebab-case."""


class Identifier(Body, frozen=True):
    """The full name of a table or view in its catalog."""

    namespace: tuple[str, ...]
    name: str


class CreateNamespace(Body, frozen=True):
    """A namespace to create."""

    namespace: tuple[str, ...]
    properties: dict[str, str] = {}


class UpdateProperties(Body, frozen=True):
    """Properties of a namespace to remove and to set."""

    removals: tuple[str, ...] = ()
    updates: dict[str, str] = {}


class CreateTable(Body, frozen=True):
    """A table to create, now or (``stage_create``) with a later commit."""

    name: str
    schema: Schema
    location: str | None = None
    partition_spec: PartitionSpec | None = None
    write_order: SortOrder | None = None
    stage_create: bool = False
    properties: dict[str, str] = {}


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


class CreateView(Body, frozen=True):
    """A view to create."""

    name: str
    schema: Schema
    view_version: ViewVersion
    location: str | None = None
    properties: dict[str, str] = {}


class CommitView(Body, frozen=True):
    """Changes of a view."""

    updates: tuple[ViewUpdate, ...]
    requirements: tuple[AssertViewUuid, ...] = ()


class Report(Body, frozen=True):
    """A metrics report; only its kind is looked at."""

    report_type: str
