"""Reading and changing updateable objects. One request each; a refusal is answered from the row that it returned."""

from __future__ import annotations

import msgspec

from turnstile.coordination.core import rows as plans
from turnstile.coordination.core.rows import check_name, check_payload
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import Accepted, World


class Updateable(msgspec.Struct, frozen=True):
    """An object as it was read or written: ``token`` names this version of it; times in ms."""

    key: str
    type: str
    token: str
    payload: bytes
    created: int
    changed_at: int

    @classmethod
    def from_row(cls, row: Row) -> Updateable:
        """Parse a refs row of kind ``updateable``."""
        return cls(row["key"], row["type"], row["token"], row["payload"], row["created"], row["changed_at"])


class Moved(msgspec.Struct, frozen=True):
    """Refused, and nothing changed: the object is another one now (None: there is none)."""

    current: Updateable | None


class Updateables:
    """Updateable objects of one realm. Every write may raise Throttled (nothing was applied) and OutcomeUnknown (read
    the object and decide anew)."""

    def __init__(self, world: World) -> None:
        self._refs, self._space, self._clock, self._ids = world.refs, world.space, world.clock, world.ids

    def read(self, type: str, id: str) -> Updateable | None:
        """The object as it is now."""
        row = self._refs.read(self._key(type, id))
        return None if row is None else Updateable.from_row(row)

    def create(self, type: str, id: str, payload: bytes) -> Updateable | Moved:
        """A new object; ``Moved`` with the one that has the name.

        Raises:
            InvalidRequest, TooLarge: type, id or payload.
        """
        key, token, now = self._key(type, id), self._ids.uuid(), self._clock.now_ms()
        return self._write(plans.create(key, type, token, check_payload(payload), now), token)

    def update(self, seen: Updateable, payload: bytes) -> Updateable | Moved:
        """``payload`` in place of the one that was ``seen``. Raises TooLarge."""
        token, now = self._ids.uuid(), self._clock.now_ms()
        return self._write(plans.update(seen.key, seen.token, token, check_payload(payload), now), token)

    def delete(self, seen: Updateable) -> Moved | None:
        """Remove the object that was ``seen``; None when it is gone."""
        answer = self._refs.write(plans.delete(seen.key, seen.token))
        if isinstance(answer, Accepted) or answer.row is None:
            return None
        return Moved(Updateable.from_row(answer.row))

    def _write(self, write: Write, token: str) -> Updateable | Moved:
        answer = self._refs.write(write)
        found = None if answer.row is None else Updateable.from_row(answer.row)
        landed = isinstance(answer, Accepted) or (found is not None and found.token == token)  # or its answer was lost
        return found if landed and found is not None else Moved(found)

    def _key(self, type: str, id: str) -> str:
        check_name(type, id)
        return self._space.updateable(f"{type}/{id}")
