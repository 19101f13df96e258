"""Reads all rows of the store, and lists the damaged ones of each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from turnstile.access.core.client_rows import Client
from turnstile.catalog.core.location_rows import Location
from turnstile.catalog.core.request_rows import RequestOutcome
from turnstile.catalog.core.rows import CatalogHead, ExternalRow, GoneCatalog, StagingRow
from turnstile.coordination.core.named_ref import NamedRef
from turnstile.coordination.core.rows import Updateable, unpack_task
from turnstile.delta.core.attention import Attention
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.journal_rows import JournalRow
from turnstile.delta.core.reservations import Register
from turnstile.delta.core.undecided import GroupRow
from turnstile.events.core.deliveries import EventDelivery
from turnstile.events.core.rows import EventLog, EventMark
from turnstile.fleet.core.rows import FleetRow, GranuleRow, MemberRow, MovesRow
from turnstile.store.core.errors import NewerFormat, UnreadableRow
from turnstile.store.core.rows import TASK, StoredRow, damaged_row
from turnstile.store.core.writes import Row
from turnstile.store.ports import DamagedRow, Refs, parse_row

KINDS: Final[Mapping[str, type[StoredRow]]] = {
    of.kind: of
    for of in (
        Attention,
        CatalogHead,
        Client,
        EventDelivery,
        EventLog,
        EventMark,
        ExternalRow,
        FleetRow,
        GoneCatalog,
        GranuleRow,
        GroupRow,
        JournalRow,
        Location,
        MemberRow,
        MovesRow,
        NamedRef,
        Register,
        RequestOutcome,
        StagingRow,
        TableHead,
        Updateable,
    )
}
"""Every kind of row in ``refs``."""

NO_TASKS: Final = ("follow-up", "check-")
"""How ids of objects of the type begin that are no tasks: the states of follow-ups, and the rows of
``doctor``'s own checks."""

_PAGE: Final = 512


class DamageReport(msgspec.Struct, frozen=True):
    """The result of a look at the rows: the damaged ones, and the key after which the look ended
    early; empty if it reached the end."""

    damaged: list[DamagedRow]
    after: str


def look_at_rows(refs: Refs, look: Callable[[Row], None], go_on: Callable[[], bool]) -> DamageReport:
    """Calls ``look`` with every row of every kind that can be read, in one pass, as long as
    ``go_on`` says so. Rows of a newer format are left out."""
    damaged = list[DamagedRow]()
    after = ""
    while True:
        rows, after = refs.scan_part(KINDS, after=after, limit=_PAGE)
        for row in rows:
            if is_readable(row, damaged):
                look(row)
        if not after or not go_on():
            return DamageReport(damaged, after)


def is_readable(row: Row, damaged: list[DamagedRow]) -> bool:
    """Returns whether a row can be read; adds a damaged one to ``damaged``, also one with another
    kind than its key has."""
    key = str(row["key"])
    kind = key.split("/", 2)[1]
    if row["kind"] != kind:
        row = damaged_row(key, ValueError(f"its kind is {row['kind']!r}"))
    try:
        parsed = parse_row(KINDS[kind], row, damaged)
        if isinstance(parsed, Updateable) and _has_task(parsed):
            unpack_task(parsed)
        return parsed is not None
    except UnreadableRow as error:
        damaged.append(DamagedRow(key, error.message))
        return False
    except NewerFormat:
        return False


def assumed_lease(row: Row, now_ms: int) -> str:
    """Returns for operators that a task with a readable row waits for an attempt which is only
    assumed, since its row was damaged; empty if it does not."""
    parsed = Updateable.from_row(row) if row["kind"] == Updateable.kind else None
    if parsed is None or not _has_task(parsed):
        return ""
    task = unpack_task(parsed)
    if not task.is_unknown or not task.running(now_ms):
        return ""
    return f"{parsed.key} begins again in {(task.until - now_ms) // 60_000} min: {task.failure}"


def _has_task(row: Updateable) -> bool:
    """Whether the row is of a coordinated task; follow-ups have a state of another kind."""
    id = row.key.rpartition("/")[2]
    return row.type == TASK.name and not id.startswith(NO_TASKS)
