"""Import of a filesystem-based Delta table (design 2.4).

    1  survey       name, location, log are read; nothing is changed. A dry run ends here with its
                    report
    2  claim        the location's owner row, with the uuid that the table will have, marked as an
                    import's
    3  decide       the upgrade commit N, put-if-absent: from N on the catalog decides. If a
                    filesystem writer takes N
                    first, N+1 is tried
    4  create       catalog HEAD swapped, table HEAD new (latest = floor = N) and the mark gone, in
                    one transaction

The claim gives the import its identity: the next run finds the uuid there, and in N the txn id that
belongs to it. The HEAD is made only from N; so a crash after any step is healed by running the
import again. A claim without an upgrade blocks only other principals that want the same location.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.location_rows import Location, claim, finish, give_back, keys_above, take_over, take_up
from turnstile.catalog.core.paths import Path, check_path, dotted_name
from turnstile.catalog.locations import require_served
from turnstile.catalog.namespaces import require_free
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.head import new_head_row
from turnstile.delta.log.files import list_log
from turnstile.delta.log.state import LogState, read_state
from turnstile.rights.grants import Access
from turnstile.store.core.errors import ErrorType, StateConflict, TooLarge, UnsupportedTable
from turnstile.store.core.names import check_identifier, published_path
from turnstile.store.core.writes import Insert, Row, Write, new_row
from turnstile.store.ports import PIECE_BYTES, Accepted, AllAccepted, World
from turnstile.transfer.commits import first_timestamp, import_txn, upgrade
from turnstile.transfer.reports import ImportReport, import_report
from turnstile.transfer.survey import Survey, Surveyor, check_importable, metadata_of, row_hwm

ATTEMPTS: Final = 64


class ImportResult(msgspec.Struct, frozen=True):
    """The table, the version of its upgrade commit, and whether an earlier run had finished."""

    table_id: str
    version: int
    replayed: bool


class Importer:
    """Imports tables. Run it again after any failure."""

    def __init__(self, services: CatalogServices) -> None:
        self._services = services
        self._world = services.world
        self._surveyor = Surveyor(services.world, services.reader, services.limits, services.lake_root)

    def dry_run(
        self, catalog: str, namespace: Path, name: str, location: str, *, take_over: bool = False
    ) -> ImportReport:
        """The report of a dry run; nothing is written. Problems are in the report, not raised.
        Raises InvalidRequest for an impossible name or location, or a location whose scheme the
        deployment does not serve.
        """
        path = (*check_path(namespace), check_identifier(name, "name"))
        location = require_served(location, self._services.lake_root)
        survey = self._surveyor.survey(catalog, path, location, take_over=take_over)
        return import_report(catalog, path, survey, self._world.clock.now_ms())

    def run(
        self, catalog: str, namespace: Path, name: str, location: str, *, owner: str = "", take_over: bool = False
    ) -> ImportResult:
        """Import the table at ``location`` as ``name``, for ``owner``; ``take_over`` as
        ``check_importable``.

        Raises:
            InvalidRequest, NotFound, AlreadyExists: name, location, catalog or namespace.
            UnsupportedTable, TooLarge: as ``check_importable``; no Delta table, or its log cannot
                be read.
            StateConflict: ``LocationOwned``, ``ConcurrentChange``.
            StorageFault, OutcomeUnknown: run it again.
        """
        path = (*check_path(namespace), check_identifier(name, "name"))
        claims = Claims(self._world)
        location = require_served(location, self._services.lake_root)
        for _ in range(ATTEMPTS):
            survey = self._surveyor.survey(catalog, path, location, take_over=take_over)
            if survey.done and survey.head is not None:
                return ImportResult(survey.owner, survey.head.latest, replayed=True)
            if survey.problems:
                raise survey.problems[0]
            if not survey.begun:
                self._services.zones.ensure(self._services.lake_root)
            table_id = claims.make(catalog, survey)
            if table_id is None:
                continue  # a location nearby was claimed meanwhile, or another run took this import up: survey again
            try:
                state = self._decide(claims, survey.location, table_id, take_over=take_over)
            except (UnsupportedTable, TooLarge):
                if claims.give_back(survey, table_id):
                    raise
                continue  # another run of this import may have been faster
            if state is not None:
                return self._create(catalog, path, survey.location, table_id, state, access=Access(owner))
        raise _contention(location)

    def _decide(self, claims: Claims, location: str, table_id: str, *, take_over: bool) -> LogState | None:
        """Step 3. Returns the log as of the upgrade commit of ``table_id``; None when another run
        finished the import, or its claim is gone: survey again. Raises as ``check_importable``."""
        storage = self._world.storages.open(location)
        for _ in range(ATTEMPTS):
            state = read_state(storage, location)
            if state.info.get("txnId") == import_txn(table_id):
                return state
            check_importable(self._world, state, table_id, location, take_over=take_over)
            if not claims.stands(location, table_id):
                return None
            content = upgrade(state, table_id, first_timestamp(state, self._world.clock.now_ms()))
            storage.put_if_absent(published_path(state.version + 1), content)  # the next round reads whose it is
        raise _contention(location)

    def _create(
        self, catalog: str, path: Path, location: str, table_id: str, state: LogState, *, access: Access
    ) -> ImportResult:
        world = self._world
        services = self._services
        row = world.refs.read(services.reader.key(catalog))
        name = services.reader.at(catalog, row).catalog
        metadata = services.metadata.put(name, table_id, metadata_of(state), world.clock.now_ms())
        table = Table(path[-1], table_id, location, world.clock.now_ms(), managed=False, access=access)
        existing: list[Row] = []

        def change(view: View) -> Edit | None:
            entry = view.tree.find(path)
            if entry is not None and entry.table_id == table_id:
                return None
            if existing:
                raise StateConflict(
                    ErrorType.LOCATION_OWNED,
                    f"location {location} belongs to the table '{existing[-1]['name']}' ({existing[-1]['state']})",
                    field="location",
                    remedy="use that table",
                    table_id=existing[-1]["table_id"],
                )
            view.tree.parent(path[:-1])
            require_free(view, path, "name")
            full = dotted_name(view.tree.catalog, *view.written_levels(path[:-1]), path[-1])
            head = new_head_row(
                key=world.space.table(table_id),
                table_id=table_id,
                catalog=view.tree.catalog,
                name=full,
                location=location,
                metadata=metadata,
                version=state.version,
                ict=state.ict or 0,
                row_hwm=row_hwm(state),
                created=table.created,
                managed=False,
            )
            writes = (Insert(head, (new_row("I2"),)), finish(world.space, location, table_id))
            return Edit(f"import table {full}", put={path: table}, writes=writes)

        def on_rejected(failed: Mapping[int, Row | None]) -> None:
            head = failed.get(0)
            if head is not None:  # created meanwhile: the next tree says whether under this name
                existing.append(head)
            elif 1 in failed:
                raise _contention(location)

        services.committer.commit(catalog, change, row=row, on_rejected=on_rejected)
        return ImportResult(table_id, state.version, replayed=bool(existing))


class Claims:
    """The claim of one import on its location. A new run takes it over under a new id in the row,
    so a late write of an earlier run cannot give back the present claim."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._run = ""

    def make(self, catalog: str, survey: Survey) -> str | None:
        """Claim the location, or take up the claim that stands. Returns the uuid that the table
        will have; None when the rows were changed meanwhile: survey again. One write."""
        world = self._world
        space = self._world.space
        self._run = world.ids.uuid()
        if survey.begun:
            response = world.refs.write(take_up(space, survey.location, survey.owner, survey.run, self._run))
            return survey.owner if isinstance(response, Accepted) else None
        table_id = world.ids.uuid()
        location = survey.location
        now = world.clock.now_ms()
        if survey.head is not None:  # of a table that was dropped
            writes = list[Write](take_over(space, location, survey.head, table_id, self._run))
        else:
            writes = claim(
                space, location, survey.rows, table_id=table_id, catalog=catalog, now=now, importing=self._run
            )
        return table_id if isinstance(world.refs.transact(writes, table_id), AllAccepted) else None

    def stands(self, location: str, table_id: str) -> bool:
        """Whether the import still is to be finished, by any run. One read. Called between reading
        the log at version v and writing v + 1, it makes the write safe however late it arrives: the
        table did not exist when v was read, so a run that finishes the import after that takes v +
        1 first (I2).
        """
        row = self._world.refs.read(self._world.space.location(location))
        owner = Location.from_row(row) if row is not None else None
        return owner is not None and owner.table_id == table_id and bool(owner.importing)

    def give_back(self, survey: Survey, table_id: str) -> bool:
        """Free the location, if this run claimed it, no other took it up, and the log does not name
        ``table_id``. Returns whether it did."""
        if survey.owner or self._is_upgraded(survey, table_id):
            return False
        world = self._world
        space = self._world.space
        for _ in range(ATTEMPTS):
            rows = world.refs.read_many(keys_above(space, survey.location))
            owner_row = rows.get(space.location(survey.location))
            if owner_row is None or Location.from_row(owner_row).importing != self._run:
                return False
            writes = give_back(space, survey.location, table_id, self._run, rows)
            if isinstance(world.refs.transact(writes, world.ids.uuid()), AllAccepted):
                return True
        return False

    def _is_upgraded(self, survey: Survey, table_id: str) -> bool:
        """Whether a commit since the survey is the upgrade that makes ``table_id``."""
        storage = self._world.storages.open(survey.location)
        txn = import_txn(table_id).encode()
        since = survey.state.version if survey.state is not None else -1
        later = (published_path(version) for version in list_log(storage).commits if version > since)
        files = (storage.read(path, PIECE_BYTES) for path in later)  # an upgrade is smaller than a piece
        return any(file is not None and txn in file[0] for file in files)


def _contention(location: str) -> StateConflict:
    return StateConflict(
        ErrorType.CONCURRENT_CHANGE,
        f"other writers were faster at {location} every time",
        field="location",
        remedy="run the import again when fewer writers are active",
        retry_after_ms=1000,
    )
