"""What operators ask for: every HEAD, publish now, how a table stands and repair, collect garbage."""

from __future__ import annotations

import msgspec
import replies
import shapes
from wiring import services

from turnstile.catalog.paging import page_size
from turnstile.coordination.tasks import Busy
from turnstile.delta.repair import Diagnosis, Repairer
from turnstile.gc.collector import CollectTask, Report
from turnstile.gc.core import KINDS
from turnstile.store.core.errors import InvalidRequest, StateConflict
from turnstile.store.core.names import check_uuid
from turnstile.store.core.obj_types import Kind

TIME_MS = 20_000
"""How long a request may work: less than the function's time limit, which is less than the gateway's."""

LIFE_MS = 30_000
"""How long a request may live at most: nothing of it is at work after that."""


def heads(page_token: str | None, max_results: int | None) -> replies.Heads:
    """A page of HEADs in the order of their ids. Every page is a scan: this is for people, not for programs.

    Raises:
        InvalidRequest: the token is not the last id of a page.
    """
    after = check_uuid(page_token, "page_token") if page_token else ""
    size = page_size(max_results)
    found = sorted(
        (row for row in services().world.refs.scan("table") if row["table_id"] > after), key=lambda row: row["table_id"]
    )
    more = found[size - 1]["table_id"] if len(found) > size else msgspec.UNSET
    return replies.Heads([replies.head(row) for row in found[:size]], more)


def publish(table_id: str) -> replies.PublishAnswer:
    """Publish what is ratified, as far as time allows."""
    catalog = services().catalog
    until = services().world.clock.now_ms() + TIME_MS
    return replies.published(catalog.publisher.publish(check_uuid(table_id), until_ms=until))


def diagnose(table_id: str) -> Diagnosis:
    """What stands between a table and its next version; nothing is changed."""
    return _repairer().diagnose(check_uuid(table_id))


def repair(table_id: str) -> replies.RepairAnswer:
    """Publish and adopt what storage lets through, as far as time allows, and say how the table stands then."""
    until = services().world.clock.now_ms() + TIME_MS
    done, diagnosis = _repairer().repair(check_uuid(table_id), until_ms=until)
    return replies.repaired(done, diagnosis)


def _repairer() -> Repairer:
    return Repairer(services().world, services().catalog.publisher)


def collect(asked: shapes.Collect) -> Report:
    """Collect garbage, or say what would go, as far as time allows.

    Raises:
        InvalidRequest: a kind that is not known.
        StateConflict: ``GcRunning``: another run removes.
    """
    kinds: list[Kind] = []
    for kind in KINDS if asked.kinds is None else asked.kinds:
        known = next((one for one in KINDS if one == kind), None)
        if known is None:
            raise InvalidRequest(f"kind {kind!r} is not known", field="kinds", remedy=f"kinds: {', '.join(KINDS)}")
        kinds.append(known)
    until = services().world.clock.now_ms() + TIME_MS
    found = CollectTask(services().world, services().collector).run(
        LIFE_MS, kinds, dry_run=asked.dry_run, until_ms=until
    )
    if isinstance(found, Busy):
        wait = max(1_000, found.until - services().world.clock.now_ms())
        raise StateConflict(
            "GcRunning",
            f"another run has been removing garbage and may go on for {wait // 1000} s",
            remedy="try again later, or ask for a dry run",
            retry_after_ms=wait,
        )
    return found
