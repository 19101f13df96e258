"""Common parts of gc tests: days, staging tables, and files that may never go."""

from __future__ import annotations

from typing import Any

from tests.support.catalog import RowSegments
from tests.support.delta_table import Table
from tests.support.fakes.world import FakeWorld
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace, decode
from turnstile.catalog.core.rows import new_staging
from turnstile.catalog.core.tree import Tree, decode_commit
from turnstile.catalog.services import CatalogServices
from turnstile.delta.commits import content_of
from turnstile.delta.core.head import tail_by_version
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import HOUR_MS, KINDS, Grace
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import World

DAY = 24 * HOUR_MS
GRACE = Grace(staged_ms=DAY, staging_ms=DAY, dropped_ms=7 * DAY, objs_ms=2 * DAY)


def days(world: FakeWorld, count: float) -> None:
    world.clock.now += int(count * DAY)


def collect(world: FakeWorld, *kinds: Any, dry_run: bool = False, faults: Faults = no_faults, **more: Any) -> Report:
    return Collector(world, GRACE, faults=faults, workers=1).collect(kinds or KINDS, dry_run=dry_run, **more)


def names(report: Report) -> list[tuple[str, str, int]]:
    return sorted((item.kind, item.id, item.bytes) for item in report.items)


def everything(world: FakeWorld) -> tuple[Any, ...]:
    """All that can be changed."""
    return dict(world.refs.rows), dict(world.objs.rows), dict(world.storages.files)


def stage_table(world: FakeWorld, id: str, *, files: int = 3) -> str:
    """A staging table with some files; returns its location."""
    location = f"file:///lake/main/default/{id}"
    world.refs.write(
        new_staging(
            key=world.space.staging(id),
            table_id=id,
            catalog="main",
            namespace="default",
            name="t",
            location=location,
            creator="",
            now=world.clock.now_ms(),
        )
    )
    storage = world.storages.open(location)
    for number in range(files):
        storage.put_if_absent(f"part-{number}.parquet", b"x" * 10)
    return location


def check_reachable(table: Table) -> None:
    """I10: every file that a reader or the publisher may ask for is there, with its ratified
    bytes."""
    head = table.head
    for place in tail_by_version(head):
        assert content_of(table.world, head, place) == table.ratified[place.version]
    published = table.published()
    for version in range(head.floor + 1):
        assert published[version] == table.ratified[version]


HISTORY_GRACE = Grace(history_ms=2 * DAY)


def collect_history(world: World, **more: object) -> Report:
    options: dict[str, Any] = {"dry_run": False, **more}
    return Collector(world, HISTORY_GRACE, workers=1).collect(("history", "catalogs"), **options)


def names_at(world: FakeWorld, head: str, catalog: str = "main") -> list[str]:
    """Names at ``head``; fails where anything that it leads to is missing."""
    space = world.space.objs(catalog)
    commit = decode_commit(world.objs.stored(space, head).payload)
    tree = Tree.of(catalog, head, commit, RowSegments(world, space))
    found = list(tree.subtree(()))
    for _, entry in found:
        decode(world.objs.stored(space, entry.obj).payload)
    return [key for key, _ in found]


def put_namespaces(services: CatalogServices, *wanted: str, comment: str = "") -> str:
    edit = Edit("put", put={(name,): Namespace(name, name, 1, comment or None) for name in wanted})
    return services.committer.commit("main", lambda _: edit).head
