"""A table that is restored from a backup behind its own log, and what repairs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.fakes import delta
from tests.support.fakes.heads import recount
from tests.support.fakes.refs import clone
from tests.support.fakes.world import fake_world
from tests.support.publishing import TABLE, Table
from turnstile.delta.core.content import read_content
from turnstile.delta.core.metadata import first_snapshot
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Published, Publisher
from turnstile.delta.recover import Recoverer
from turnstile.delta.repair import Diagnosis, Repairer
from turnstile.store.core.writes import Row
from turnstile.store.faults import no_faults


def with_metadata() -> Table:
    """Version 0 with its metadata snapshot."""
    made = Table(fake_world())
    snapshot = first_snapshot(read_content(made.ratified[0], first_version=True))
    made.row["metadata"] = MetadataStore(made.world.objs, made.world.space).put("main", TABLE, snapshot, 1)
    return made


def publish(table: Table) -> Published:
    return Publisher(table.world).publish(TABLE)


def repair(table: Table, faults: Callable[[str], None] = no_faults, **more: Any) -> tuple[Published, Diagnosis]:
    world = table.world
    limits = more.pop("limits", None)
    publisher = Publisher(world, limits, faults=faults, **more)
    return Repairer(world, publisher, Recoverer(world, limits, faults=faults)).repair(TABLE)


def diagnosis(table: Table) -> Diagnosis:
    return Repairer(table.world, Publisher(table.world)).diagnose(TABLE)


def alter(table: Table, **configuration: str) -> int:
    """A commit that changes the table's properties."""
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    version = table.head.latest + 1
    content = delta.lines(delta.info(f"alter-{version}", stamp, "SET TBLPROPERTIES"), delta.metadata(**configuration))
    answer = table.ratifier.commit(CommitRequest(TABLE, version, content=content))
    return table._ratified(answer, content, "")


def restored(table: Table, before: int = 3, after: int = 6) -> Row:
    """A backup after ``before`` commits, ``after`` more that are published, and the backup is restored. Returns the HEAD
    that was lost."""
    table.mixed(before)
    backup = clone(table.row)
    table.mixed(after)
    alter(table, delta_note="after the backup")
    publish(table)
    table.check_all_published()
    lost = clone(table.row)
    table.world.refs.rows[table.key] = backup
    return lost


def adopted(table: Table, lost: Row) -> None:
    """The table is as good as it was before the restore."""
    table.check_all_published()
    recount(table.head)
    for member in ("latest", "floor", "last_ict", "metadata", "epoch", "state"):
        assert table.row[member] == lost[member], member
    assert table.row.get("row_hwm") == lost.get("row_hwm")
    assert "reason" not in table.row
