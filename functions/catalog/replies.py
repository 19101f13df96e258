"""Answers of the catalog's operations (docs/api.md). Members that are UNSET do not appear in the JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.catalog.core.entities import Catalog, Table
from turnstile.catalog.core.paths import dotted
from turnstile.catalog.listing import Page, version_in
from turnstile.catalog.namespaces import NamedNamespace
from turnstile.delta.publish import Problem, Published
from turnstile.delta.repair import Diagnosis
from turnstile.store.core.writes import Row


class CatalogAnswer(msgspec.Struct, frozen=True):
    """A catalog; ``created`` in ms."""

    name: str
    created: int


class Catalogs(msgspec.Struct, frozen=True):
    """All catalogs."""

    catalogs: list[CatalogAnswer]


class NamespaceAnswer(msgspec.Struct, frozen=True):
    """A namespace under its full dotted name; ``created`` in ms; ``head`` whose it was, if it was asked for as of a
    moment."""

    name: str
    comment: str | None
    properties: dict[str, str]
    created: int
    head: str | UnsetType = UNSET


class Namespaces(msgspec.Struct, frozen=True):
    """A page of namespaces; ``head`` as for one."""

    namespaces: list[NamespaceAnswer]
    next_page_token: str | UnsetType = UNSET
    head: str | UnsetType = UNSET


class TableAnswer(msgspec.Struct, frozen=True):
    """A table in a listing; ``created`` in ms; ``version`` where it is known: as of a snapshot, and of a clone."""

    name: str
    table_id: str
    format: str
    location: str
    created: int
    version: int | UnsetType = UNSET


class Tables(msgspec.Struct, frozen=True):
    """A page of tables; ``head`` as for namespaces."""

    tables: list[TableAnswer]
    next_page_token: str | UnsetType = UNSET
    head: str | UnsetType = UNSET


class HeadAnswer(msgspec.Struct, frozen=True):
    """A table's HEAD as operators list it."""

    table_id: str
    name: str
    state: str
    latest: int
    floor: int
    location: str


class Heads(msgspec.Struct, frozen=True):
    """A page of HEADs, by table id."""

    tables: list[HeadAnswer]
    next_page_token: str | UnsetType = UNSET


class PublishAnswer(msgspec.Struct, frozen=True):
    """What publishing now did; ``problem`` why it stopped early."""

    published: int
    floor: int
    latest: int
    state: str
    problem: Problem | UnsetType = UNSET


class RepairAnswer(msgspec.Struct, frozen=True):
    """What a repair did: versions published and adopted, and how the table stands now; ``problem`` why it stopped."""

    published: int
    adopted: int
    diagnosis: Diagnosis
    problem: Problem | UnsetType = UNSET


def catalog(entity: Catalog) -> CatalogAnswer:
    """A catalog."""
    return CatalogAnswer(entity.name, entity.created)


def namespace(found: NamedNamespace, head: str | UnsetType = UNSET) -> NamespaceAnswer:
    """A namespace."""
    entity = found.entity
    return NamespaceAnswer(dotted(*found.name), entity.comment, entity.properties, entity.created, head)


def namespaces(page: Page[NamedNamespace], *, told: bool) -> Namespaces:
    """A page of namespaces; whether its HEAD is to be told."""
    return Namespaces([namespace(found) for found in page.items], page.next_token or UNSET, _head(page, told=told))


def tables(page: Page[Table], *, told: bool) -> Tables:
    """A page of tables; whether its HEAD is to be told."""
    found = [_table(one, version_in(page.versions, one)) for one in page.items]
    return Tables(found, page.next_token or UNSET, _head(page, told=told))


def _table(one: Table, version: int | None) -> TableAnswer:
    known = UNSET if version is None else version
    return TableAnswer(one.name, one.table_id, one.format, one.location, one.created, known)


def _head(page: Page[Any], *, told: bool) -> str | UnsetType:
    return page.head if told else UNSET


def head(row: Row) -> HeadAnswer:
    """One HEAD."""
    members: dict[str, Any] = {name: row[name] for name in HeadAnswer.__struct_fields__}
    return HeadAnswer(**members)


def published(done: Published) -> PublishAnswer:
    """The answer of publish now."""
    return PublishAnswer(done.count, done.floor, done.latest, done.state, done.problem or UNSET)


def repaired(done: Published, diagnosis: Diagnosis) -> RepairAnswer:
    """The answer of a repair."""
    return RepairAnswer(done.count, done.adopted, diagnosis, done.problem or UNSET)
