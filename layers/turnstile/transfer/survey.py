"""The survey of an import: the dry run, and the first step of the real one. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from turnstile.catalog.core.location_rows import Location, conflict, keys_above
from turnstile.catalog.core.paths import Path
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.catalog.locations import owning_table
from turnstile.catalog.namespaces import require_free
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.content import read_content
from turnstile.delta.core.definition import ROW_TRACKING_DOMAIN
from turnstile.delta.core.features import check_protocol_known
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata, check_shown
from turnstile.delta.core.protocols import features, is_managed
from turnstile.delta.core.schemas import Unreadable, columns_of
from turnstile.delta.log.lines import DamagedLog, broken
from turnstile.delta.log.state import LogState, read_state
from turnstile.delta.prepare import TimestampAhead
from turnstile.delta.soundness.judge import judge
from turnstile.store.core.errors import (
    ErrorType,
    InvalidCommit,
    InvalidRequest,
    StateConflict,
    TurnstileError,
    UnsupportedTable,
)
from turnstile.store.core.limits import Limits
from turnstile.store.core.locations import is_root, normalise, overlap
from turnstile.store.core.names import MAX_ROW_ID, MAX_VERSION
from turnstile.store.core.writes import Row
from turnstile.store.ports import World
from turnstile.transfer.commits import first_timestamp, import_txn, upgrade

_PREVIEWS: Final = frozenset({"catalogOwned-preview", "coordinatedCommits-preview"})
"""Features of earlier protocols, by which others than catalogs may decide."""
_UPGRADE: Final = 10_000  # bytes that the upgrade commit may add to a response: features and a few properties


class Survey(msgspec.Struct):
    """Everything an import reads before it writes.

    Attributes:
        rows: location rows of the location and its ancestors, by key.
        owner: uuid in the location's owner row; ``head`` is its HEAD.
        run: id of the import run that claimed the location and has not finished.
        state: the table's log, None if it could not be read.
        done: the owner is the table of that name: an earlier import finished.
        begun: the claim of an earlier import stands: continue with ``owner``.
        taken_from: uuid of the table at another catalog that counts as lost; empty if none decides
            its commits.
        problems: reasons against the import, the most important first.
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
    taken_from: str = ""
    problems: list[TurnstileError] = []


class Surveyor:
    """Makes surveys for imports. Nothing is imported from above or below ``lake_root``, where
    managed tables live."""

    def __init__(self, world: World, reader: CatalogReader, limits: Limits, lake_root: str) -> None:
        self._world = world
        self._reader = reader
        self._limits = limits
        self._root = normalise(lake_root)

    def survey(self, catalog: str, path: Path, location: str, *, take_over: bool = False) -> Survey:
        """Reads catalog, location and log: one batch read, the owner's HEAD if there is an owner,
        and the log. Raises InvalidRequest for an invalid location. ``take_over`` as
        ``check_importable``.
        """
        location = normalise(location)
        if is_root(location):
            raise InvalidRequest(
                f"{location} is a whole bucket or file system", field="location", remedy="name the table's own folder"
            )
        space = self._world.space
        refs = self._world.refs
        keys = [self._reader.key(catalog), *keys_above(space, location)]
        rows = refs.read_many(keys)
        survey = Survey(location, rows.pop(keys[0], None), rows)
        owner_row = rows.get(space.location(location))
        if owner_row is not None:
            owner = Location.from_row(owner_row)
            survey.owner = owner.table_id
            survey.run = owner.importing
        if survey.owner:
            row = refs.read(space.table(survey.owner))
            survey.head = TableHead.from_row(row) if row is not None else None
        with _noting(survey):
            self._read_name(survey, catalog, path)
        if not survey.done:
            for step in (self._read_claim, self._check_location):
                with _noting(survey):
                    step(survey)
            with _noting(survey):
                self._read_log(survey, take_over=take_over)
        return survey

    def _read_name(self, survey: Survey, catalog: str, path: Path) -> None:
        tree = self._reader.at(catalog, survey.catalog_row)
        entry = tree.find(path)
        if entry is not None and survey.owner and entry.table_id == survey.owner:
            survey.done = survey.head is not None  # without a HEAD it is no import's table: see ``_read_claim``
            return
        tree.parent(path[:-1])
        require_free(View(tree, self._reader.store), path, "name")

    def _read_claim(self, survey: Survey) -> None:
        """Whether an owner without a HEAD is the claim of an import. It is if it names a run; older
        claims name none."""
        if not survey.owner or survey.head is not None:
            return
        owner_row = survey.rows[self._world.space.location(survey.location)]
        other = None if survey.run else owning_table(self._world, self._reader, owner_row, survey.location)
        if other is not None:
            raise other
        survey.begun = True

    def _check_location(self, survey: Survey) -> None:
        if overlap(survey.location, self._root):
            raise StateConflict(
                ErrorType.LOCATION_OWNED,
                f"location {survey.location} overlaps the lake root {self._root}, where Turnstile chooses the "
                f"locations",
                field="location",
                remedy="import tables from outside the lake root",
            )
        if survey.owner and (survey.head is None or survey.head.state == "dropped"):
            # An import that was begun, or that brings the table back; ``_read_claim`` refuses other
            # owners.
            return
        problem = conflict(self._world.space, survey.location, survey.rows)
        if problem is not None:
            raise problem

    def _read_log(self, survey: Survey, *, take_over: bool) -> None:
        storage = self._world.storages.open(survey.location)
        survey.state = state = read_state(storage, survey.location)
        owner = survey.owner if survey.begun else ""
        check_importable(self._world, state, owner, survey.location, take_over=take_over)
        for fault in judge(storage, state.version).faults:
            if fault.kind != "checkpoint":  # a reader takes an older one
                raise DamagedLog(fault)
        if take_over and is_managed(state.protocol) and not _is_ours(self._world, state):
            survey.taken_from = _managed_id(state)
        ahead = first_timestamp(state, 0) - self._world.clock.now_ms()
        if ahead > self._limits.clock_skew_ms:
            raise TimestampAhead(
                f"version {state.version} is dated {ahead // 1000} s ahead of the server's clock",
                field="location",
                remedy="wait until then, or correct the clocks; every later commit must be dated later still",
            )


@contextmanager
def _noting(survey: Survey) -> Iterator[None]:
    try:
        yield
    except TurnstileError as error:
        survey.problems.append(error)


def check_importable(world: World, state: LogState, owner: str, location: str, *, take_over: bool = False) -> None:
    """Checks a log before the upgrade commit is written to it. A table that is catalog-managed
    already may be imported if this catalog made it so: by an import that did not finish, or as a
    table that was imported, dropped and published to its last version. With ``take_over`` a table
    of an unknown catalog may be imported, too: an operator says that the catalog is lost. The
    upgrade has to be a valid commit. Raises UnsupportedTable, or TooLarge for metadata that does
    not fit into a response.
    """
    check_protocol_known(state.protocol)
    row_hwm(state)
    try:
        columns_of(str(state.metadata.get("schemaString")))
    except Unreadable as error:
        raise broken(f"its schema is not one that Delta's readers know: {error}") from None
    check_shown(metadata_of(state), room=_UPGRADE)
    if state.version >= MAX_VERSION:
        raise broken(f"there is no version after {state.version}")
    try:
        read_content(upgrade(state, owner, 1))
    except InvalidCommit as error:
        raise UnsupportedTable(
            f"the table's log cannot be read: {error.message}",
            field="location",
            remedy=error.remedy or "set it right with an engine that writes the table, and import it then",
        ) from None
    if not is_managed(state.protocol) or (owner and state.info.get("txnId") == import_txn(owner)):
        return
    row = world.refs.read(world.space.table(_managed_id(state))) if _managed_id(state) else None
    if row is not None:
        head = TableHead.from_row(row)
        dropped = head.state == "dropped" and not head.managed and not head.reason
        if dropped and head.location == location and head.floor == head.latest == state.version:
            return
    elif take_over and not _PREVIEWS & set(features(state.protocol, "writerFeatures")):
        return
    raise UnsupportedTable(
        f"the commits of the table at {location} are decided by a catalog already",
        field="location",
        remedy="export it from that catalog first; if that is lost, take it over (docs/operations.md)",
    )


def _managed_id(state: LogState) -> str:
    """The uuid of a table at the catalog that decides its commits; empty if the log does not
    say."""
    return str((state.metadata.get("configuration") or {}).get(UUID_PROPERTY) or "")


def _is_ours(world: World, state: LogState) -> bool:
    """Whether the table has, or had, a HEAD here."""
    table_id = _managed_id(state)
    return bool(table_id) and world.refs.read(world.space.table(table_id)) is not None


def _decode_json(text: object) -> Any:
    """The JSON in ``text``; None if it is not JSON."""
    try:
        return msgspec.json.decode(text) if isinstance(text, str) else None
    except (msgspec.DecodeError, RecursionError):
        return None


def metadata_of(state: LogState) -> DeltaMetadata:
    """The table's metadata as the catalog keeps it."""
    domains = {domain: text for domain, text in state.domains.items() if domain != ROW_TRACKING_DOMAIN}
    return DeltaMetadata(state.version, state.protocol, state.metadata, domains, state.ict or 0)


def row_hwm(state: LogState) -> int | None:
    """The row-id high-water mark for the HEAD; None without row tracking. Raises UnsupportedTable
    if it is no number."""
    if "rowTracking" not in features(state.protocol, "writerFeatures"):
        return None
    text = state.domains.get(ROW_TRACKING_DOMAIN)
    if text is None:
        return -1
    domain = _decode_json(text)
    mark = domain.get("rowIdHighWaterMark") if isinstance(domain, dict) else None
    if type(mark) is not int or not -1 <= mark <= MAX_ROW_ID:
        raise broken(f"its row-id high-water mark is not a number: {text}")
    return mark
