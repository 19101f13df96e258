"""What gc tests share: days, staging tables, and what may never go."""

from __future__ import annotations

from typing import Any

from tests.support.fakes.world import FakeWorld
from tests.support.publishing import Table
from turnstile.catalog.core.rows import new_staging
from turnstile.delta.content import content_of
from turnstile.delta.core.head import positioned
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import HOUR_MS, KINDS, Grace
from turnstile.store.faults import Faults, no_faults

DAY = 24 * HOUR_MS
GRACE = Grace(staged=DAY, staging=DAY, dropped=7 * DAY, objs=2 * DAY)


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
    """I10: whatever a reader or the publisher may ask for is there, with its ratified bytes."""
    head = table.head
    for place in positioned(head):
        assert content_of(table.world, head, place) == table.ratified[place.version]
    published = table.published()
    for version in range(head.floor + 1):
        assert published[version] == table.ratified[version]
