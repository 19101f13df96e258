"""The lake root as a zone: everything below it is Turnstile's to give out, nobody else may own anything there (I10)."""

from __future__ import annotations

from turnstile.catalog.core.location_rows import Location, claim, conflict, keys_above
from turnstile.store.core.errors import StateConflict
from turnstile.store.core.locations import normalise
from turnstile.store.ports import AllAccepted
from turnstile.store.world import World

_ATTEMPTS = 8


class Zones:
    """Claims lake roots. Zones are never given up, so what was seen once stays true."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: set[str] = set()

    def ensure(self, root: str) -> str:
        """The normalised ``root``, claimed: no request once this sandbox knows, else one read, and one transaction
        the first time ever.

        Raises:
            InvalidRequest: not a location.
            StateConflict: ``LocationOwned``: an imported table or another lake root lies above or below.
        """
        root = normalise(root)
        if root in self._seen:
            return root
        for _ in range(_ATTEMPTS):
            rows = self._world.refs.read_many(keys_above(self._world.space, root))
            own = rows.get(self._world.space.location(root))
            if own is None or not Location.from_row(own).zone:
                found = conflict(self._world.space, root, rows)
                if found is not None:
                    raise found
                writes = claim(self._world.space, root, rows, table_id="", catalog="", now=self._world.clock.now_ms())
                if not isinstance(self._world.refs.transact(writes, self._world.ids.uuid()), AllAccepted):
                    continue  # somebody claimed something nearby, perhaps this very zone: look again
            self._seen.add(root)
            return root
        raise StateConflict(
            "ConcurrentChange", f"locations around {root} kept changing", remedy="try again", retry_after_ms=200
        )
