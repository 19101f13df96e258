"""What a stack has from the start: a catalog with a namespace, and its lake root claimed."""

from __future__ import annotations

from contextlib import suppress

from turnstile.catalog.services import build
from turnstile.store.core.errors import AlreadyExists
from turnstile.store.core.names import check_namespace
from turnstile.store.world import World


def ensure(world: World, catalog: str = "main", namespace: str = "default", *, lake_root: str = "") -> None:
    """Create what is missing; harmless to repeat, also by several at once.

    Args:
        namespace: dotted.
        lake_root: location of managed tables to claim; empty leaves that to the first staging table.
    """
    services = build(world, lake_root=lake_root)
    if lake_root:
        services.zones.ensure(lake_root)
    with suppress(AlreadyExists):
        services.catalogs.create(catalog)
    with suppress(AlreadyExists):
        services.namespaces.create(catalog, check_namespace(namespace))
