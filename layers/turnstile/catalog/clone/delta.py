"""Clones of Delta tables: one version of the source, pinned (``clone.core``).

    1  version      the latest; for a moment of the past the one that the named snapshot recorded,
                    or that the log had then.
                    Everything up to it is published, since a clone has no tail
    2  metadata     that of the version: of the HEAD, or from the log where it has changed since;
                    written under the clone's
                    own uuid, before anything names it

The version of a time is found with a few reads, however long the log is: in-commit timestamps only
increase (I7), so it is a binary search. Only the first action of a commit is read, its commitInfo.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from turnstile.catalog.clone.copies import Copy, CopyRequest, PastVersions
from turnstile.catalog.clone.core import Pin, cannot_clone, new_pinned
from turnstile.catalog.core.entities import CloneOf, Entity, Table
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.describe import not_active
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN
from turnstile.delta.core.head import ACTIVE, DROPPED, PINNED, STUCK, TableHead, gone_for_good, tail_by_version
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.log.state import read_state
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.publish import Publisher
from turnstile.delta.undecided import seen_one
from turnstile.store.core.errors import ErrorType, StateConflict, StorageFault, TurnstileError
from turnstile.store.core.names import LOG, published_path
from turnstile.store.core.writes import Row
from turnstile.store.ports import LogStorage, World

_FIRST_BYTES: Final = 65_536
_LATER: Final = "clone a later moment, or the table as it is now"
_COMMIT: Final = re.compile(r"([0-9]{20})\.json")


class DeltaCopier:
    """``Copier`` of Delta tables. One per request."""

    rows = 1

    def __init__(self, world: World, metadata: MetadataStore, publisher: Publisher) -> None:
        self._world = world
        self._metadata = metadata
        self._publisher = publisher
        self._pins: dict[tuple[str, Path], tuple[str, Pin]] = {}
        self._rows: dict[str, Row] = {}
        self._written: list[tuple[str, str]] = []

    def prefetch(self, sources: Sequence[Entity]) -> None:
        """Read the HEADs of tables that no attempt has copied yet, a hundred a request."""
        copied = {source for source, _ in self._pins}
        tables = [source.table_id for source in sources if isinstance(source, Table)]
        keys = [self._world.space.table(table_id) for table_id in tables if table_id not in copied]
        self._rows |= self._world.refs.read_many(keys)

    def copy(self, request: CopyRequest, past: PastVersions | None) -> Copy:
        """Returns the clone of a Delta table. Costs the requests of publishing and of finding the
        version, and one obj to write.

        Raises:
            UnsupportedTable, StorageFault: its log cannot be read here, or not now.
            StateConflict: ``TableNotActive``: it cannot be read or published now; ``CannotClone``:
                the version or the files are gone, or it was dropped before that was published.
        """
        source = request.source
        assert isinstance(source, Table)
        key = (source.table_id, request.to)
        table_id, pin = self._pins[key] = self._pins.get(key) or self._pin(source.table_id, request, past)
        entity = Table(
            name=request.to[-1],
            table_id=table_id,
            location=pin.location,
            created=request.now_ms,
            format=source.format,
            comment=source.comment,
            managed=False,
            access=request.access,
            clone=CloneOf(pin.source, pin.version),
        )
        space = self._world.space
        catalog = request.catalog
        name = dotted_name(request.catalog, *request.to)
        head = new_pinned(space, pin, table_id=table_id, catalog=catalog, name=name, now=entity.created)
        return Copy(entity, table_id, (head,), pin.version)

    def discard(self) -> None:
        for catalog, id in self._written:
            with suppress(TurnstileError):  # the caller must see the request's own error
                self._world.objs.delete(self._world.space.objs(catalog), id)

    def _pin(self, source: str, request: CopyRequest, past: PastVersions | None) -> tuple[str, Pin]:
        """The clone's uuid and the version it shows; its metadata is written."""
        head, version, ict, metadata = self.version_of(source, request.name, past)
        table_id = self._world.ids.uuid()
        id = self._metadata.put(request.catalog, table_id, metadata, self._world.clock.now_ms())
        self._written.append((request.catalog, id))
        return table_id, Pin(head.source or head.table_id, head.location, version, ict, head.row_hwm, id)

    def version_of(
        self, table_id: str, name: str, past: PastVersions | None
    ) -> tuple[TableHead, int, int, DeltaMetadata]:
        """Returns the HEAD of a table, the version that it has as of ``past``, now published, and
        that version's in-commit timestamp and metadata. Raises as ``copy``."""
        head = self._readable(table_id, name, past)
        version, ict = self._version(head, name, past)
        self._publish(head, version, name)
        return head, version, ict, self._metadata_at(head, version, ict)

    def _readable(self, table_id: str, name: str, past: PastVersions | None) -> TableHead:
        """The HEAD of a table that has its files: one that was dropped since the moment has them
        until gc begins."""
        row = self._rows.get(self._world.space.table(table_id))
        head = seen_one(self._world, TableHead.from_row(row)) if row is not None else None
        if head is not None and head.state in (ACTIVE, PINNED, STUCK):
            return head
        if past is None:
            raise not_active(name, row)
        if head is None or head.state != DROPPED or gone_for_good(head):
            problem = f"table '{name}' is {head.state if head else 'gone'}"
            problem += f": {head.reason}" if head and head.reason else ""
            raise cannot_clone(problem, "clone a version that is left, or another moment")
        return head

    def _version(self, head: TableHead, name: str, past: PastVersions | None) -> tuple[int, int]:
        """The version to show, and its in-commit timestamp."""
        if past is None or head.state == PINNED:
            return head.latest, head.last_ict
        recorded = past.versions.get(head.table_id)
        if recorded == head.latest:
            return head.latest, head.last_ict
        storage = self._world.storages.open(head.location)
        if recorded is not None:
            self._publish(head, recorded, name)
            return recorded, timestamp_of(storage, recorded, name)
        latest = max(
            (commit.version for commit in tail_by_version(head) if commit.ict <= past.time_ms), default=head.floor
        )
        return version_at(storage, self._publish(head, latest, name), past.time_ms, name)

    def _publish(self, head: TableHead, version: int, name: str) -> TableHead:
        """The HEAD after everything up to ``version`` is in the log. For a dropped table nothing is
        published any more."""
        if version <= head.floor:
            return head
        if head.state == DROPPED:
            text = f"table '{name}' was dropped before its version {version} was published"
            remedy = "bring the table back with a reset of its catalog, have it published, and clone it then"
            raise cannot_clone(text + (f": {head.reason}" if head.reason else ""), remedy, version=version)
        result = self._publisher.publish(head.table_id)
        if result.floor < version:
            problem = result.problem
            if problem is not None and problem.type == StorageFault.type and not problem.stuck:
                raise StorageFault(problem.message, remedy=problem.remedy)
            raise StateConflict(
                ErrorType.TABLE_NOT_ACTIVE,
                f"version {version} of table '{name}' is not published yet"
                + (f": {problem.message}" if problem else ""),
                field="from",
                remedy=(problem.remedy if problem else None) or "send the request again",
                state=result.state,
            )
        row = self._world.refs.read(head.key)
        return TableHead.from_row(row) if row is not None else head

    def _metadata_at(self, head: TableHead, version: int, ict: int) -> DeltaMetadata:
        """The table's metadata at ``version``. The catalog's metadata beside the log is the present
        one."""
        now = self._metadata.get(head.catalog, head.metadata)
        beside = msgspec.structs.replace(now.beside, etag="")
        if now.version <= version:
            return msgspec.structs.replace(now, beside=beside)
        then = read_state(self._world.storages.open(head.location), head.location, version)
        domains = {name: value for name, value in then.domains.items() if name != ROW_TRACKING_DOMAIN}
        return DeltaMetadata(version, then.protocol, then.metadata, domains, ict, beside)


def version_at(storage: LogStorage, head: TableHead, time_ms: int, name: str) -> tuple[int, int]:
    """Returns the newest published version of ``head`` that is not later than ``time_ms``, and its
    in-commit timestamp. If even the first version is later, by the clock of its writer, it is that
    one. Raises StateConflict (``CannotClone``) if the log does not go back so far any more.
    """
    if head.floor == head.latest and head.last_ict <= time_ms:
        return head.latest, head.last_ict
    low = _oldest(storage)
    if low is None or low > head.floor:
        raise _cleaned_up(name, time_ms)
    ict = timestamp_of(storage, low, name)
    if ict > time_ms:
        if low > 0:
            raise _cleaned_up(name, time_ms)
        return 0, ict
    high = head.floor
    while low < high:  # ``low`` is not later than the time, versions above ``high`` are
        middle = (low + high + 1) // 2
        middle_ict = timestamp_of(storage, middle, name)
        if middle_ict <= time_ms:
            low = middle
            ict = middle_ict
        else:
            high = middle - 1
    return low, ict


def timestamp_of(storage: LogStorage, version: int, name: str) -> int:
    """Returns the in-commit timestamp of a published version (ms); 0 if the table had none then.
    Raises StateConflict (``CannotClone``) if the log does not have the version any more."""
    file = storage.read(published_path(version), _FIRST_BYTES)
    if file is None:
        problem = f"version {version} of table '{name}' is not in its log any more"
        raise cannot_clone(problem, _LATER, version=version)
    try:
        action = msgspec.json.decode(file[0].split(b"\n", 1)[0], type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return 0
    info = action.get("commitInfo")
    ict = info.get("inCommitTimestamp") if isinstance(info, dict) else None
    return ict if type(ict) is int else 0


def _oldest(storage: LogStorage) -> int | None:
    """The oldest version with a commit in the log; the listing stops there."""
    names = (_COMMIT.fullmatch(stat.path.removeprefix(LOG)) for stat in storage.list(LOG))
    return next((int(name[1]) for name in names if name is not None), None)


def _cleaned_up(name: str, time_ms: int) -> StateConflict:
    return cannot_clone(f"the log of table '{name}' does not go back to {time_ms}", _LATER)
