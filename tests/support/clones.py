"""Common parts of tests of clones: a cloner of both kinds of tables, commits to Delta tables, and
the conditions that clones rely on."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.support.catalog import head_of
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld
from turnstile.catalog.clone.cloner import CloneAuthorizer, Cloner, CloneResult
from turnstile.catalog.clone.delta import DeltaCopier
from turnstile.catalog.core.entities import TABLE, IcebergTable
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import PINNED
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.iceberg.clones import copiers
from turnstile.iceberg.context import Context
from turnstile.iceberg.files import MetadataFiles
from turnstile.iceberg.tables import CreateTable, Tables
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.names import published_path

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "type": "long", "required": True}],
}


def anyone(_now: Tree, _source: Path, _kind: str | None, _to: Path, *, past: bool) -> None:
    """Rights are tested elsewhere."""


def cloner(services: CatalogServices, authorize: CloneAuthorizer = anyone, owner: str = "") -> Cloner:
    """Makes the clones of one request."""
    files = MetadataFiles(services.world.storages, services.world.ids)
    delta_tables = DeltaCopier(services.world, services.metadata, services.publisher)
    return Cloner(services, {TABLE: delta_tables, **copiers(services, files)}, authorize, owner=owner)


def path(name: str) -> Path:
    return tuple(name.split(".")) if name else ()


def clone(services: CatalogServices, source: str, to: str, **moment: Any) -> CloneResult:
    """A clone in ``main``; ``moment`` as ``AsOf`` has it."""
    return cloner(services).clone("main", path(source), path(to), AsOf(**moment) if moment else None)


def commit(world: FakeWorld, table_id: str, *actions: dict[str, Any]) -> int:
    """A commit of the next version: an append, unless ``actions`` say otherwise. Its version."""
    version = head_of(world, table_id).latest + 1
    now = world.clock.now_ms()
    content = delta.lines(delta.info(f"c-{version}-{now}", now), *(actions or (delta.add(f"{version}-{now}.parquet"),)))
    answer = Ratifier(world).commit(CommitRequest(table_id, version, content=content))
    assert isinstance(answer, Ratified), answer
    return answer.version


def held(world: FakeWorld, location: str) -> frozenset[str]:
    """The clones that need a location."""
    return frozenset(world.refs.rows.get(world.space.location(location), {}).get("clones", ()))


def check_shown(world: FakeWorld, table_id: str, version: int) -> None:
    """I10: a Delta clone still has the log that it shows."""
    head = head_of(world, table_id)
    assert (head.state, head.latest, head.floor, head.tail) == (PINNED, version, version, ())
    storage = world.storages.open(head.location)
    assert all(storage.stat(published_path(number)) is not None for number in range(version + 1))
    assert world.objs.get(world.space.objs(head.catalog), head.metadata) is not None


def iceberg_table(services: CatalogServices, name: str) -> IcebergTable:
    """A new Iceberg table, whose location holds one data file."""
    *namespace, table = name.split(".")
    files = MetadataFiles(services.world.storages, services.world.ids)
    context = Context(services, services.committer, files, OPERATOR, lambda: None)
    request = msgspec.convert({"name": table, "schema": SCHEMA}, CreateTable)
    entity = Tables(context).create("main", tuple(namespace), request).entity
    assert entity is not None
    services.world.storages.open(entity.location).put_if_absent("data/1.parquet", b"x")
    return entity


def drop_iceberg(services: CatalogServices, name: str) -> None:
    """Drop an Iceberg table with its files."""
    files = MetadataFiles(services.world.storages, services.world.ids)
    context = Context(services, services.committer, files, OPERATOR, lambda: None)
    Tables(context).drop(IcebergTable, "main", path(name), purge=True)
