"""A look at every row of the store: the damaged ones, of every kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from turnstile.access.core.client_rows import Client
from turnstile.catalog.core.location_rows import Location
from turnstile.catalog.core.request_rows import RequestOutcome
from turnstile.catalog.core.rows import CatalogHead, ExternalRow, GoneCatalog, StagingRow
from turnstile.coordination.core.named_ref import NamedRef
from turnstile.coordination.core.rows import LeaseRow, Updateable
from turnstile.delta.core.attention import Attention
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.journal_rows import JournalRow
from turnstile.delta.core.reservations import Register
from turnstile.delta.core.undecided import GroupRow
from turnstile.events.core.deliveries import EventDelivery
from turnstile.events.core.rows import EventLog, EventMark
from turnstile.fleet.core.rows import FleetRow, GranuleRow, MemberRow, MovesRow
from turnstile.store.core.errors import NewerFormat
from turnstile.store.core.rows import StoredRow
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
        LeaseRow,
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

_PAGE: Final = 512


def readable_rows(refs: Refs, damaged: list[DamagedRow]) -> Iterator[Row]:
    """Yields every row that can be read, of every kind, and adds the others to ``damaged``. Rows of
    a newer format are left out. One pass."""
    after = ""
    while True:
        rows, after = refs.scan_part(KINDS, after=after, limit=_PAGE)
        for row in rows:
            try:
                parsed = parse_row(KINDS[row["kind"]], row, damaged)
            except NewerFormat:
                continue
            if parsed is not None:
                yield row
        if not after:
            return
