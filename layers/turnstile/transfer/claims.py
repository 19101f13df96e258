"""Who imports what: the claim on a location, with the uuid that its table will have (``core.import_claims``)."""

from __future__ import annotations

from typing import Final

from turnstile.catalog.core.import_claims import give_back, take_over, take_up
from turnstile.catalog.core.location_rows import Location, claim, keys_above
from turnstile.delta.log_state import listed
from turnstile.store.core.paths import published_path
from turnstile.store.core.writes import Write
from turnstile.store.ports import Accepted, AllAccepted
from turnstile.store.world import World
from turnstile.transfer.commits import import_txn
from turnstile.transfer.survey import Survey

ATTEMPTS: Final = 64


class Claims:
    """Makes, takes up and gives back claims, for one import. Each claim that is made or taken up is a run of its own: then
    one that was given back by a write which arrives late is not the one that stands."""

    def __init__(self, world: World) -> None:
        self._world, self._run = world, ""

    def make(self, catalog: str, found: Survey) -> str | None:
        """The uuid that the import is about; None when the rows were changed meanwhile: look again. One write."""
        world, space = self._world, self._world.space
        self._run = world.ids.uuid()
        if found.begun:
            taken = world.refs.write(take_up(space, found.location, found.owner, found.run, self._run))
            return found.owner if isinstance(taken, Accepted) else None
        table_id = world.ids.uuid()
        answer = world.refs.transact(self._writes(catalog, found, table_id), table_id)
        return table_id if isinstance(answer, AllAccepted) else None

    def _writes(self, catalog: str, found: Survey, table_id: str) -> list[Write]:
        space, dropped, now = self._world.space, found.head, self._world.clock.now_ms()
        if dropped is not None:
            return list(take_over(space, found.location, dropped, table_id, self._run))
        return claim(
            space, found.location, found.rows, table_id=table_id, catalog=catalog, now=now, importing=self._run
        )

    def stands(self, location: str, table_id: str) -> bool:
        """Whether the import still is to be finished, by whichever run. One read.

        Asked between reading the log at version v and writing v + 1, it makes the write safe however late it comes: the
        table was not there when v was read, so whoever finishes the import after that takes v + 1 first (I2).
        """
        row = self._world.refs.read(self._world.space.location(location))
        owner = Location.from_row(row) if row is not None else None
        return owner is not None and owner.table_id == table_id and bool(owner.importing)

    def give_back(self, found: Survey, table_id: str) -> bool:
        """Free the location, if this run claimed it, nobody took the import up, and the log does not name ``table_id``."""
        if found.owner or self._named(found, table_id):
            return False
        world, space = self._world, self._world.space
        for _ in range(ATTEMPTS):
            rows = world.refs.read_many(keys_above(space, found.location))
            own = rows.get(space.location(found.location))
            if own is None or Location.from_row(own).importing != self._run:
                return False
            writes = give_back(space, found.location, table_id, self._run, rows)
            if isinstance(world.refs.transact(writes, world.ids.uuid()), AllAccepted):
                return True
        return False

    def _named(self, found: Survey, table_id: str) -> bool:
        """Whether a commit since the survey is the upgrade that makes ``table_id``."""
        storage, txn = self._world.storages.open(found.location), import_txn(table_id).encode()
        since = found.state.version if found.state is not None else -1
        later = [storage.read(published_path(version)) for version in listed(storage).commits if version > since]
        return any(one is not None and txn in one[0] for one in later)
