"""What an import would find and do, without changing anything: the dry run, and the first step of the real one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.catalog.commit import View
from turnstile.catalog.core.location_rows import Location, conflict, keys_above
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.catalog.locations import registered
from turnstile.catalog.namespaces import require_free
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN, is_struct
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata, check_shown
from turnstile.delta.core.protocols import as_features, features, is_managed
from turnstile.delta.log import LogState, broken, read_state
from turnstile.delta.ratify import TimestampAhead
from turnstile.store.core.errors import InvalidRequest, StateConflict, TurnstileError, UnsupportedTable
from turnstile.store.core.limits import Limits
from turnstile.store.core.locations import is_root, normalise, overlap
from turnstile.store.core.names import MAX_ROW_ID
from turnstile.store.core.writes import Row
from turnstile.store.ports import World
from turnstile.transfer.commits import first_timestamp, import_txn

_UPGRADE: Final = 10_000
"""Bytes of an answer that the upgrade commit may add: features and a few properties."""


class Survey(msgspec.Struct):
    """Everything an import looks at before it writes.

    Attributes:
        rows: location rows of the location and its ancestors, by key.
        owner: uuid in the location's owner row, empty if there is none.
        head: HEAD of the owner, None if there is none (yet).
        run: of the import that claimed the location and has not finished, as read there.
        state: the table's log, None if it could not be read.
        done: the owner is the table of that very name: an earlier import finished.
        begun: an earlier import's claim stands: go on with ``owner``.
        problems: what forbids the import, the most telling first.
    """

    location: str
    catalog_row: Row | None
    rows: dict[str, Row]
    owner: str = ""
    head: TableHead | None = None
    run: str = ""
    state: LogState | None = None
    done: bool = False
    begun: bool = False
    problems: list[TurnstileError] = []


class Surveyor:
    """Surveys imports.

    Args:
        lake_root: where managed tables live; nothing is imported from above or below it.
    """

    def __init__(self, world: World, reader: CatalogReader, limits: Limits, lake_root: str) -> None:
        self._world, self._reader, self._limits, self._root = world, reader, limits, normalise(lake_root)

    def survey(self, catalog: str, path: Path, location: str) -> Survey:
        """Look at catalog, location and log. One batch read, the owner's HEAD if there is an owner, and the log.

        Raises:
            InvalidRequest: not a location.
        """
        location = normalise(location)
        if is_root(location):
            raise InvalidRequest(
                f"{location} is a whole bucket or file system", field="location", remedy="name the table's own folder"
            )
        space, refs = self._world.space, self._world.refs
        keys = [self._reader.key(catalog), *keys_above(space, location)]
        rows = refs.read_many(keys)
        found = Survey(location, rows.pop(keys[0], None), rows, problems=[])
        own = rows.get(space.location(location))
        if own is not None:
            claim = Location.from_row(own)
            found.owner, found.run = claim.table_id, claim.importing
        if found.owner:
            row = refs.read(space.table(found.owner))
            found.head = TableHead.from_row(row) if row is not None else None
        self._attempt(found, lambda: self._name(found, catalog, path))
        if not found.done:
            self._attempt(found, lambda: self._begun(found, own))
            self._attempt(found, lambda: self._place(found))
            self._attempt(found, lambda: self._log(found))
        return found

    def _attempt(self, found: Survey, look: Any) -> None:
        try:
            look()
        except TurnstileError as problem:
            found.problems.append(problem)

    def _name(self, found: Survey, catalog: str, path: Path) -> None:
        tree: Tree = self._reader.at(catalog, found.catalog_row)
        entry = tree.find(path)
        if entry is not None and found.owner and entry.table_id == found.owner:
            found.done = found.head is not None  # else it is no table that an import made, as ``_begun`` says
            return
        tree.parent(path[:-1])
        require_free(View(tree, self._reader.store), path, "name")

    def _begun(self, found: Survey, own: Row | None) -> None:
        """Whether an owner without a HEAD is the claim of an import. A mark says so; claims of the past have none."""
        if own is None or not found.owner or found.head is not None:
            return
        other = None if found.run else registered(self._world, self._reader, own, found.location)
        if other is not None:
            raise other
        found.begun = True

    def _place(self, found: Survey) -> None:
        if overlap(found.location, self._root):
            raise StateConflict(
                "LocationOwned",
                f"location {found.location} overlaps the lake root {self._root}, where Turnstile chooses the locations",
                field="location",
                remedy="import tables from outside the lake root",
            )
        if found.owner and (found.head is None or found.head.state == "dropped"):
            return  # an import that was begun, or that brings the table back; whose else it is, ``_begun`` has said
        problem = conflict(self._world.space, found.location, found.rows)
        if problem is not None:
            raise problem

    def _log(self, found: Survey) -> None:
        storage = self._world.storages.open(found.location)
        found.state = state = read_state(storage, found.location)
        check_importable(self._world, state, found.owner if found.begun else "", found.location)
        ahead = first_timestamp(state, 0) - self._world.clock.now_ms()
        if ahead > self._limits.clock_skew_ms:
            raise TimestampAhead(
                f"version {state.version} is dated {ahead // 1000} s ahead of the server's clock",
                field="location",
                remedy="wait until then, or correct the clocks; every later commit must be dated later still",
            )


def check_importable(world: World, state: LogState, owner: str, location: str) -> None:
    """Everything that must be known of a log before the upgrade commit is written to it.

    A table that is catalog-managed already may be imported if that is our own doing: the upgrade of an import that did
    not finish, or a table that was imported, dropped and published to its last version.

    Raises:
        UnsupportedTable: a protocol that is not known here, a schema or a row-id mark that is none, or a table of another
            catalog.
        TooLarge: metadata that no answer could tell.
    """
    as_features(state.protocol)
    row_hwm(state)
    _check_schema(state.metadata.get("schemaString"))
    check_shown(snapshot_of(state), room=_UPGRADE)
    if not is_managed(state.protocol) or (owner and state.info.get("txnId") == import_txn(owner)):
        return
    previous = (state.metadata.get("configuration") or {}).get(UUID_PROPERTY)
    row = world.refs.read(world.space.table(str(previous))) if previous else None
    if row is not None:
        head = TableHead.from_row(row)
        left = head.state == "dropped" and not head.managed and not head.reason
        if left and head.location == location and head.floor == head.latest == state.version:
            return
    raise UnsupportedTable(
        f"the commits of the table at {location} are decided by a catalog already",
        field="location",
        remedy="export it from that catalog first",
    )


def _check_schema(said: object) -> None:
    try:
        fields = msgspec.json.decode(said) if isinstance(said, str) else None
    except (msgspec.DecodeError, RecursionError):
        fields = None
    if not is_struct(fields):
        raise broken("its schema is not a Delta schema in JSON")


def snapshot_of(state: LogState) -> DeltaMetadata:
    """The table's metadata, as the catalog would have it."""
    domains = {domain: said for domain, said in state.domains.items() if domain != ROW_TRACKING_DOMAIN}
    return DeltaMetadata(state.version, state.protocol, state.metadata, domains, state.ict or 0)


def row_hwm(state: LogState) -> int | None:
    """The row-id high-water mark for the HEAD; None without row tracking.

    Raises:
        UnsupportedTable: the table has one that is not a number.
    """
    if "rowTracking" not in features(state.protocol, "writerFeatures"):
        return None
    said = state.domains.get(ROW_TRACKING_DOMAIN)
    if said is None:
        return -1
    try:
        mark = msgspec.json.decode(said, type=dict[str, Any]).get("rowIdHighWaterMark")
    except msgspec.DecodeError:
        mark = None
    if type(mark) is not int or not -1 <= mark <= MAX_ROW_ID:
        raise broken(f"its row-id high-water mark is not a number: {said}")
    return mark
