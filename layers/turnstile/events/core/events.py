"""From a HEAD and its mark to the events between them.

The mark is the log's state of a HEAD, the HEAD is the true state: their difference is the missing
events. So lost, repeated or late deliveries of the stream do not matter.

    versions      one event each, in order, without a gap
    floor         one event, which names the new floor: published is a prefix
    state, name   one event, from the log's state to the true one
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from turnstile.catalog.core.rows import CatalogHead
from turnstile.delta.core.head import ACTIVE, DROPPED, LEAVING, PINNED, RECOVERING, STUCK, TableHead, tail_by_version
from turnstile.events.core.rows import EventMark

TABLE_CREATED: Final = "turnstile.table.created"
TABLE_RATIFIED: Final = "turnstile.table.ratified"
TABLE_PUBLISHED: Final = "turnstile.table.published"
TABLE_RENAMED: Final = "turnstile.table.renamed"
TABLE_DROPPED: Final = "turnstile.table.dropped"
TABLE_RESTORED: Final = "turnstile.table.restored"
TABLE_STUCK: Final = "turnstile.table.stuck"
TABLE_RECOVERING: Final = "turnstile.table.recovering"
TABLE_RECOVERED: Final = "turnstile.table.recovered"
TABLE_LEAVING: Final = "turnstile.table.leaving"
TABLE_TAKEN_BACK: Final = "turnstile.table.taken-back"
CATALOG_CREATED: Final = "turnstile.catalog.created"
CATALOG_CHANGED: Final = "turnstile.catalog.changed"
CATALOG_DROPPED: Final = "turnstile.catalog.dropped"

CREATED: Final = (TABLE_CREATED, CATALOG_CREATED)

MOST: Final = 400
"""Versions, or HEADs of a catalog, that get events at once; the rest follows in the next append."""

NEW_MS: Final = 24 * 3_600_000
"""For how long a table that the log has not seen counts as new: as long as a stream keeps its
records."""

NEW_VERSIONS: Final = 10_000
"""Versions that a new table may have left behind: more were made by an import of a release that did
not say so."""


class Event(msgspec.Struct, frozen=True, array_like=True):
    """One event as the log keeps it. ``subject`` is the table's uuid, or empty: the catalog.
    ``name`` is the full name at that time, ``time`` server clock or the in-commit timestamp (ms; 0:
    not known any more).
    """

    id: str
    type: str
    subject: str
    name: str
    time: int
    data: dict[str, Any]


_EVENTS: Final = msgspec.msgpack.Decoder(list[Event])
_ENCODER: Final = msgspec.msgpack.Encoder()


def pack(events: Iterable[Event]) -> bytes:
    """A chunk of the log."""
    return _ENCODER.encode(list(events))


def unpack(packed: bytes) -> list[Event]:
    """The events of a chunk."""
    return _EVENTS.decode(packed) if packed else []


class Detail(msgspec.Struct, frozen=True):
    """Facts of one version beyond its number, as long as its entry is in a tail."""

    ict: int
    size: int
    operation: str
    group: str
    principal: str


def details_of(head: TableHead) -> dict[int, Detail]:
    """Details of the versions in the tail."""
    return {
        place.version: Detail(
            place.ict, place.entry.size, place.entry.operation, place.entry.group, place.entry.principal
        )
        for place in tail_by_version(head)
    }


class Changes(msgspec.Struct, frozen=True):
    """The events after a mark, and the mark after them; not ``complete`` if there are more."""

    events: tuple[Event, ...]
    mark: EventMark | None
    complete: bool = True


# -- tables -----------------------------------------------------------------------------------------------------------


def table_changes(
    key: str, mark: EventMark | None, head: TableHead, details: Mapping[int, Detail], *, now: int, most: int = MOST
) -> Changes:
    """Returns the events between ``mark`` (None: the log has not seen the table) and ``head``.

    Args:
        key: of the mark.
        details: of versions that were seen in tails; the versions in the tail of ``head`` are among
            them.
        now: the server's clock (ms).
        most: versions that get events; with more, nothing that comes after them does.
    """
    events: list[Event] = []

    def event(type: str, detail: str, time: int, **data: Any) -> None:
        id = f"{head.table_id}/{type.rpartition('.')[2]}/{detail}"
        events.append(Event(id, type, head.table_id, head.name, time, data))

    new = mark is None
    if mark is None:
        first = _first(head, now)
        event(TABLE_CREATED, "0", head.created, version=first)
        mark = EventMark(key, 0, ACTIVE, first, first, head.name, "", head.created, 0)
    count = mark.count + (not new)
    latest = mark.latest
    rewound = mark.rewound
    if head.latest < latest:
        latest = head.latest
        rewound = rewound + 1
        event(TABLE_TAKEN_BACK, f"{count}", head.changed_at, version=latest)
    state_event = _state_event(mark.state, head)
    early = head.state in (ACTIVE, RECOVERING, PINNED)
    if state_event is not None and early:
        event(state_event, f"{count}", head.changed_at)
    upto = min(head.latest, latest + most)
    again = f"~{rewound}" if rewound else ""
    for version in range(latest + 1, upto + 1):
        detail = details.get(version)
        if detail is None:
            event(TABLE_RATIFIED, f"{version}{again}", 0, version=version)
            continue
        data: dict[str, Any] = {"version": version, "timestamp": detail.ict, "bytes": detail.size}
        if detail.operation:
            data["operation"] = detail.operation
        if detail.group:
            data["transaction"] = detail.group
        if detail.principal:
            data["principal"] = detail.principal
        event(TABLE_RATIFIED, f"{version}{again}", detail.ict, **data)
    complete = upto == head.latest
    floor = min(head.floor, upto)
    if floor > min(mark.floor, latest):
        event(TABLE_PUBLISHED, f"{floor}{again}", 0, version=floor)
    state = head.state if early else mark.state
    name = mark.name
    if complete:
        if state_event is not None and not early:
            event(state_event, f"{count}", head.changed_at)
        if head.name != name:
            event(TABLE_RENAMED, f"{count}", head.changed_at)
        state = head.state
        name = head.name
    after = EventMark(key, count, state, upto, floor, name, "", mark.created, rewound)
    unchanged = not events and not new and msgspec.structs.replace(after, count=mark.count) == mark
    return Changes(tuple(events), None if unchanged else after, complete)


def _first(head: TableHead, now: int) -> int:
    """The version after which a table that is new to the log has events: the one that it was
    created with. For an older table events start with the commits in its tail."""
    before_tail = head.tail_from - 1
    is_new = now - head.created < NEW_MS and before_tail - head.first <= NEW_VERSIONS
    return min(head.first, before_tail) if is_new else before_tail


def _state_event(before: str, head: TableHead) -> str | None:
    """The type of the event for the change of state from ``before``."""
    if head.state == before:
        return None
    if before == DROPPED:
        return TABLE_RESTORED
    if head.state in (ACTIVE, PINNED):
        return TABLE_RECOVERED if before in (STUCK, RECOVERING) else TABLE_RESTORED if before == LEAVING else None
    return {
        DROPPED: TABLE_DROPPED,
        STUCK: TABLE_STUCK,
        RECOVERING: TABLE_RECOVERING,
        LEAVING: TABLE_LEAVING,
    }[head.state]


# -- catalogs ---------------------------------------------------------------------------------------------------------


def catalog_changes(
    key: str, mark: EventMark | None, name: str, head: CatalogHead | None, now: int, *, most: int = MOST
) -> Changes:
    """Returns the events between ``mark`` and the catalog's row, of ``most`` HEADs at most; one for
    every HEAD.

    Args:
        key: of the mark.
        name: the catalog's name as keys have it.
        head: None if there is no such catalog (any more).
        now: the server's clock, for a catalog that is gone.
    """
    return Changes(*_catalog_changes(key, mark, name, head, now, most=most))


def _catalog_changes(
    key: str, mark: EventMark | None, name: str, head: CatalogHead | None, now: int, *, most: int
) -> tuple[tuple[Event, ...], EventMark | None, bool]:
    count = 0 if mark is None else mark.count + 1
    if head is None:
        if mark is None or mark.state == DROPPED:
            return (), None, True
        gone = Event(f"{name}/dropped/{mark.created}", CATALOG_DROPPED, "", mark.name, now, {})
        return (gone,), msgspec.structs.replace(mark, count=count, state=DROPPED), True
    if mark is None or mark.created != head.created:
        events = [
            Event(f"{name}/created/{head.created}", CATALOG_CREATED, "", head.name, head.created, _seen_members(head))
        ]
        if mark is not None and mark.state != DROPPED:  # it was dropped and created again between two looks
            events.insert(0, Event(f"{name}/dropped/{mark.created}", CATALOG_DROPPED, "", mark.name, 0, {}))
        return tuple(events), _catalog_mark(key, count, head, head.seq), True
    upto = min(head.seq, mark.latest + most)
    events = list(_heads(head, range(mark.latest + 1, upto + 1), name))
    if not events:
        return (), None, True
    return tuple(events), _catalog_mark(key, count, head, upto), upto == head.seq


def _heads(head: CatalogHead, numbers: Iterable[int], name: str) -> Iterator[Event]:
    """One event for each HEAD; the row remembers the ids of the newest ones."""
    for seq in numbers:
        back = head.seq - seq
        data: dict[str, Any] = {"seq": seq}
        if back < len(head.recent):
            data["head"] = head.recent[back]
        time = 0 if back else head.changed_at
        yield Event(f"{name}/changed/{head.created}.{seq}", CATALOG_CHANGED, "", head.name, time, data)


def catalog_created(event: Event) -> int:
    """Returns when the catalog of this event was created (ms): another one may have the name by
    now. It is a part of the id."""
    return int(event.id.rpartition("/")[2].partition(".")[0])


def _seen_members(head: CatalogHead) -> dict[str, Any]:
    return {"seq": head.seq, "head": head.head}


def _catalog_mark(key: str, count: int, head: CatalogHead, seq: int) -> EventMark:
    return EventMark(key, count, ACTIVE, seq, 0, head.name, head.head, head.created, 0)
