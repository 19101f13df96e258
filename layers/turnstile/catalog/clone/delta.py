"""Which version a Delta table had at some time, from its log: a few reads, however long the log is.

In-commit timestamps only go forwards (I7), so the version is found by halving. Only the first action of a commit is
read, which is its commitInfo.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from turnstile.catalog.clone.copies import Copy, CopyRequest, PastVersions
from turnstile.catalog.clone.core import Pin, new_pinned
from turnstile.catalog.core.entities import CloneOf, Entity, Table
from turnstile.catalog.describe import not_active
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN
from turnstile.delta.core.head import ACTIVE, DROPPED, PINNED, STUCK, TableHead, gone_for_good, positioned
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.log import read_state
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.publish import Publisher
from turnstile.store.core.errors import StateConflict, StorageFault, TurnstileError
from turnstile.store.core.locations import LOG, published_path
from turnstile.store.core.writes import Row
from turnstile.store.ports import LogStorage, World

_FIRST_BYTES: Final = 65_536
_NAME: Final = len("00000000000000000000.json")


def version_at(storage: LogStorage, head: TableHead, time: int, name: str) -> tuple[int, int]:
    """The newest published version of ``head`` that is not later than ``time`` (ms), and its in-commit timestamp.

    A table whose first version is later by the clock of whoever wrote it has that one.

    Args:
        name: the table's, for messages.

    Raises:
        StateConflict: ``CannotClone``: the log does not go back so far any more.
    """
    if head.floor == head.latest and head.last_ict <= time:
        return head.latest, head.last_ict
    low = _oldest(storage)
    if low is None or low > head.floor:
        raise _cleaned(name, time)
    first = timestamp_of(storage, low, name)
    if first > time:
        if low > 0:
            raise _cleaned(name, time)
        return 0, first
    found, high = first, head.floor
    while low < high:  # ``low`` is not later than ``time``, what follows ``high`` is
        middle = (low + high + 1) // 2
        at = timestamp_of(storage, middle, name)
        if at <= time:
            low, found = middle, at
        else:
            high = middle - 1
    return low, found


def timestamp_of(storage: LogStorage, version: int, name: str) -> int:
    """In-commit timestamp of a published version (ms); 0 for one of before the table had any.

    Raises:
        StateConflict: ``CannotClone``: the log does not have it any more.
    """
    found = storage.read(published_path(version), _FIRST_BYTES)
    if found is None:
        raise StateConflict(
            "CannotClone",
            f"version {version} of table '{name}' is not in its log any more",
            field="of",
            remedy="clone a later moment, or the table as it is now",
            version=version,
        )
    try:
        action = msgspec.json.decode(found[0].split(b"\n", 1)[0], type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return 0
    info = action.get("commitInfo")
    at = info.get("inCommitTimestamp") if isinstance(info, dict) else None
    return at if type(at) is int else 0


def _oldest(storage: LogStorage) -> int | None:
    """The oldest version whose commit is in the log; the listing ends with it."""
    for stat in storage.list(LOG):
        name = stat.path.removeprefix(LOG)
        if len(name) == _NAME and name.endswith(".json") and name[:20].isdigit():
            return int(name[:20])
    return None


def _cleaned(name: str, time: int) -> StateConflict:
    return StateConflict(
        "CannotClone",
        f"the log of table '{name}' does not go back to {time}",
        field="of",
        remedy="clone a later moment, or the table as it is now",
    )


# -- clone delta ------------------------------------------------------------------------------------------------------
# Clones of Delta tables: one version of the source, pinned (``core.clones``).
#
# 1  HEAD         read; everything up to the version is published, since a clone has no tail
# 2  version      the latest; of a moment of the past: recorded by the snapshot, or found in the log by time
# 3  metadata     that of the version: of the HEAD, or from the log where it has changed since
# 4  snapshot     written under the clone's own uuid, before anything names it


class DeltaCopier:
    """``Copier`` of Delta tables. One a request."""

    rows = 1

    def __init__(self, world: World, snapshots: MetadataStore, publisher: Publisher) -> None:
        self._world, self._snapshots, self._publisher = world, snapshots, publisher
        self._made: dict[tuple[str, tuple[str, ...]], tuple[str, Pin]] = {}
        self._rows: dict[str, Row] = {}
        self._written: list[tuple[str, str]] = []

    def look(self, sources: Sequence[Entity]) -> None:
        """The HEADs, a hundred a request, of tables that no attempt has copied yet."""
        known = {source for source, _ in self._made}
        keys = [
            self._world.space.table(one.table_id)
            for one in sources
            if isinstance(one, Table)
            if one.table_id not in known
        ]
        self._rows |= self._world.refs.read_many(keys)

    def copy(self, wanted: CopyRequest, past: PastVersions | None) -> Copy:
        """The clone of a Delta table: what publishing and finding the version take, and a metadata snapshot to write.

        Raises:
            UnsupportedTable: its log cannot be read here.
            StorageFault: storage could not be read or written; try again.
            StateConflict: ``TableNotActive``: it cannot be read or published now; ``CannotClone``: the version or the
                files are gone, or it was dropped before that was published.
        """
        source = wanted.source
        assert isinstance(source, Table)
        known = (source.table_id, wanted.to)
        if known not in self._made:
            self._made[known] = self._pinned(source.table_id, wanted, past)
        table_id, pin = self._made[known]
        entity = Table(
            name=wanted.to[-1],
            table_id=table_id,
            location=pin.location,
            created=wanted.now,
            format=source.format,
            comment=source.comment,
            managed=False,
            access=wanted.access,
            clone=CloneOf(pin.source, pin.version),
        )
        full = ".".join((wanted.catalog, *wanted.to))
        head = new_pinned(
            self._world.space, pin, table_id=table_id, catalog=wanted.catalog, name=full, now=entity.created
        )
        return Copy(entity, table_id, (head,), pin.version)

    def forget(self) -> None:
        """Remove the metadata snapshots of clones that were not made."""
        for catalog, id in self._written:
            with suppress(TurnstileError):  # the request's own outcome is what the caller must hear
                self._world.objs.delete(self._world.space.objs(catalog), id)

    def _pinned(self, source: str, wanted: CopyRequest, past: PastVersions | None) -> tuple[str, Pin]:
        head = self._readable(source, wanted.was, past)
        version, ict = self._version(head, wanted.was, past)
        if version > head.floor:
            self._publish(head, version, wanted.was)
        snapshot = self._metadata(head, version, ict)
        table_id = self._world.ids.uuid()
        metadata = self._snapshots.put(wanted.catalog, table_id, snapshot, self._world.clock.now_ms())
        self._written.append((wanted.catalog, metadata))
        return table_id, Pin(head.source or head.table_id, head.location, version, ict, head.row_hwm, metadata)

    def _readable(self, table_id: str, was: str, past: PastVersions | None) -> TableHead:
        """The HEAD, of a table that has its files: one that was dropped since the moment has them until gc begins."""
        row = self._rows.get(self._world.space.table(table_id))
        head = TableHead.from_row(row) if row is not None else None
        if head is not None and head.state in (ACTIVE, PINNED, STUCK):
            return head
        if past is None:
            raise not_active(was, row)
        if head is None or head.state != DROPPED or gone_for_good(head):
            raise StateConflict(
                "CannotClone",
                f"table '{was}' is {head.state if head else 'gone'}"
                + (f": {head.reason}" if head and head.reason else ""),
                field="of",
                remedy="clone what is left, or another moment",
            )
        return head

    def _version(self, head: TableHead, was: str, past: PastVersions | None) -> tuple[int, int]:
        """The version to show, and its in-commit timestamp."""
        if past is None or head.state == PINNED:
            return head.latest, head.last_ict
        recorded = past.versions.get(head.table_id)
        if recorded == head.latest:
            return head.latest, head.last_ict
        storage = self._world.storages.open(head.location)
        if recorded is not None:
            if recorded > head.floor:
                head = self._publish(head, recorded, was)
            return recorded, timestamp_of(storage, recorded, was)
        then = _latest_at(head, past.time)
        if then > head.floor:
            head = self._publish(head, then, was)
        return version_at(storage, head, past.time, was)

    def _publish(self, head: TableHead, version: int, was: str) -> TableHead:
        """The HEAD after everything up to ``version`` is in the log; of a dropped table nothing is published any more."""
        if head.state == DROPPED:
            return _published(head, version, was)
        done = self._publisher.publish(head.table_id)
        if done.floor < version:
            problem = done.problem
            if problem is not None and problem.type == StorageFault.type and not problem.stuck:
                raise StorageFault(problem.message, remedy=problem.remedy)
            raise StateConflict(
                "TableNotActive",
                f"version {version} of table '{was}' is not published yet"
                + (f": {problem.message}" if problem else ""),
                field="from",
                remedy=(problem.remedy if problem else None) or "send the request again",
                state=done.state,
            )
        row = self._world.refs.read(head.key)
        return TableHead.from_row(row) if row is not None else head

    def _metadata(self, head: TableHead, version: int, ict: int) -> DeltaMetadata:
        """The table's metadata at ``version``. What the catalog keeps beside the log is as it is now."""
        now = self._snapshots.get(head.catalog, head.metadata)
        beside = msgspec.structs.replace(now.beside, etag="")
        if now.version <= version:
            return msgspec.structs.replace(now, beside=beside)
        then = read_state(self._world.storages.open(head.location), head.location, version)
        domains = {name: said for name, said in then.domains.items() if name != ROW_TRACKING_DOMAIN}
        return DeltaMetadata(version, then.protocol, then.metadata, domains, ict, beside)


def _latest_at(head: TableHead, time: int) -> int:
    """The newest version above the floor that is not later than ``time`` (ms); the floor if there is none."""
    return max((one.version for one in positioned(head) if one.ict <= time), default=head.floor)


def _published(dropped: TableHead, version: int, was: str) -> TableHead:
    """``dropped``, if it has published ``version``."""
    if version <= dropped.floor:
        return dropped
    raise StateConflict(
        "CannotClone",
        f"table '{was}' was dropped before its version {version} was published"
        + (f": {dropped.reason}" if dropped.reason else ""),
        field="of",
        remedy="bring the table back with a reset of its catalog, have it published, and clone it then",
        version=version,
    )
