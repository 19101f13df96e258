"""Catalogs in memory, as tests of the catalog build them."""

from __future__ import annotations

from tests.fakes import delta
from tests.fakes.world import FakeWorld, fake_world
from turnstile.core.head import TableHead
from turnstile.services import bootstrap
from turnstile.services.catalog.services import CatalogServices, build
from turnstile.services.paths import published_path
from turnstile.world import World

LAKE = "file:///lake"


def fresh(world: World | None = None) -> CatalogServices:
    """Services with cold caches on a world that has ``main.default``."""
    if world is None:
        world = fake_world()
        bootstrap.ensure(world, lake_root=LAKE)
    return build(world, lake_root=LAKE)


def write_zero(services: CatalogServices, location: str, *features: str, txn: str = "create", **more: str) -> None:
    """Version 0 as a client writes it."""
    content = delta.version_zero(txn, services.world.clock.now_ms(), *features, **more)
    services.world.storages.open(location).put_if_absent(published_path(0), content)


def staged(services: CatalogServices, name: str = "t", namespace: str = "default", catalog: str = "main") -> str:
    """The uuid of a staging table whose version 0 is written."""
    made = services.staging.create(catalog, tuple(namespace.split(".")), name)
    write_zero(services, made.location)
    return made.table_id


def create(services: CatalogServices, name: str = "t", namespace: str = "default", catalog: str = "main") -> str:
    """A new table, all three phases; its uuid."""
    table_id = staged(services, name, namespace, catalog)
    services.registrar.register(catalog, tuple(namespace.split(".")), name, table_id)
    return table_id


def head_of(world: World, table_id: str) -> TableHead:
    row = world.refs.read(world.space.table(table_id))
    assert row is not None
    return TableHead.from_row(row)


def names(services: CatalogServices, namespace: str = "default", catalog: str = "main") -> list[str]:
    """Names of the tables in a namespace, as listed."""
    return [table.name for table in services.listings.tables(catalog, tuple(namespace.split("."))).items]


def fakes(services: CatalogServices) -> FakeWorld:
    assert isinstance(services.world, FakeWorld)
    return services.world
