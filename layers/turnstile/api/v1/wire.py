"""Structs of the API's answers (docs/api.md). Members that are UNSET do not appear in the JSON."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.catalog.load import Loaded
from turnstile.delta.commits import Listing
from turnstile.delta.core.content import read_content
from turnstile.delta.core.head import Positioned, TableHead
from turnstile.delta.identity import Outcome
from turnstile.store.core.names import inline_unique, staged_file


class Commit(msgspec.Struct, frozen=True):
    """One ratified commit. ``size`` is absent where nobody knows it any more (a published ticket); ``content`` is
    there only where it is promised."""

    version: int
    timestamp: int
    name: str
    modified: int
    kind: Literal["staged", "inline"]
    txn_id: str
    operation: str
    changed: str
    published: bool
    size: int | UnsetType = UNSET
    content: str | UnsetType = UNSET


class Committed(msgspec.Struct, frozen=True):
    """The answer to an accepted proposal."""

    outcome: Literal["ratified", "replayed"]
    commit: Commit
    latest: int
    etag: str


class CommitList(msgspec.Struct, frozen=True):
    """Ratified commits a table still carries."""

    commits: list[Commit]
    latest: int
    floor: int
    etag: str


class Head(msgspec.Struct, frozen=True):
    """A HEAD as operators see it."""

    table_id: str
    name: str
    state: str
    latest: int
    floor: int
    timestamp: int
    etag: str
    location: str
    tail: list[Commit]
    bytes: int
    row_id_high_water_mark: int | None
    reason: str | UnsetType = UNSET


class TableMetadata(msgspec.Struct, frozen=True):
    """A table's protocol, schema and properties as of ``version``, the last one that changed them."""

    id: str
    protocol: dict[str, Any]
    schema: msgspec.Raw
    partition_columns: list[str]
    properties: dict[str, str]
    comment: str | None
    domains: dict[str, Any]
    version: int


class LoadedTable(msgspec.Struct, frozen=True):
    """Everything a reader needs of a table, in one consistent view."""

    name: str
    table_id: str
    location: str
    format: str
    state: str
    etag: str
    created: int
    metadata: TableMetadata
    latest: int
    floor: int
    commits: list[Commit]


class OutcomeAnswer(msgspec.Struct, frozen=True):
    """What became of a proposal."""

    outcome: Literal["ratified", "never", "open"]
    latest: int
    version: int | UnsetType = UNSET


def commit(place: Positioned, *, size: int | None = None, content: bytes | None = None) -> Commit:
    """A commit of a tail. ``size`` where it was learnt elsewhere; a ticket's own is not known from the row."""
    entry = place.entry
    if size is None and content is not None:
        size = len(content)
    if size is None and not entry.ticket:
        size = entry.size
    return Commit(
        version=place.version,
        timestamp=place.ict,
        name=place.name,
        modified=place.modified,
        kind="inline" if entry.inline else "staged",
        txn_id=entry.txn,
        operation=entry.operation,
        changed=entry.changed,
        published=place.published,
        size=UNSET if size is None else size,
        content=UNSET if content is None else content.decode(),
    )


def published_commit(version: int, raw: bytes, *, whole: bool, size: int, staged: str, with_content: bool) -> Commit:
    """A commit that no tail has any more, from its published bytes. ``staged`` is its staged name, if it had one."""
    said = read_content(raw, whole=whole)
    return Commit(
        version=version,
        timestamp=said.ict,
        name=staged or staged_file(version, inline_unique(said.txn)),
        modified=said.ict,
        kind="staged" if staged else "inline",
        txn_id=said.txn,
        operation=said.operation,
        changed=said.changed,
        published=True,
        size=size,
        content=raw.decode() if with_content and whole else UNSET,
    )


def commits(listing: Listing) -> list[Commit]:
    """The listing's commits, ascending."""
    return [
        commit(place, size=listing.sizes.get(place.version), content=listing.contents.get(place.version))
        for place in listing.places
    ]


def commit_list(listing: Listing) -> CommitList:
    """The answer of the ratified-commits operation."""
    head = listing.head
    return CommitList(commits=commits(listing), latest=head.latest, floor=head.floor, etag=head.metadata)


def head(row: TableHead, tail: list[Commit]) -> Head:
    """The answer of the head operation."""
    return Head(
        table_id=row.table_id,
        name=row.name,
        state=row.state,
        latest=row.latest,
        floor=row.floor,
        timestamp=row.last_ict,
        etag=row.metadata,
        location=row.location,
        tail=tail,
        bytes=row.bytes,
        row_id_high_water_mark=row.row_hwm,
        reason=row.reason or UNSET,
    )


def outcome(found: Outcome) -> OutcomeAnswer:
    """The answer of the outcome operation."""
    version = UNSET if found.version is None else found.version
    return OutcomeAnswer(outcome=found.outcome, latest=found.latest, version=version)


def loaded_table(loaded: Loaded) -> LoadedTable:
    """The answer of load by name; also of whatever answers "as load"."""
    row, snapshot = loaded.head, loaded.snapshot
    said = snapshot.metadata
    return LoadedTable(
        name=row.name,
        table_id=row.table_id,
        location=row.location,
        format="delta",
        state=row.state,
        etag=row.metadata,
        created=row.created,
        metadata=TableMetadata(
            id=str(said.get("id") or ""),
            protocol=snapshot.protocol,
            schema=msgspec.Raw(said["schemaString"].encode()),
            partition_columns=list(said.get("partitionColumns") or []),
            properties=dict(said.get("configuration") or {}),
            comment=said.get("description"),
            domains=snapshot.domains,
            version=snapshot.version,
        ),
        latest=row.latest,
        floor=row.floor,
        commits=commits(loaded.listing),
    )
