"""The port ``Objs`` over rows: large objs in parts, a cache by the types' rules, nothing that has expired.

What differs between stores is how rows are written and read (``ObjRows``): DynamoDB's adapter and the in-memory fake
implement that. A small obj is one row and costs the one request that its row does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Protocol

import msgspec

from turnstile.store.core.errors import TurnstileError
from turnstile.store.obj_cache import ObjCache
from turnstile.store.parts import PREFIX, LargeObj, holds, is_part, joined, owner_of, part_ids, split
from turnstile.store.ports import Obj

Seconds = Callable[[], int]
"""The time in seconds; asked for only where something may have expired."""


class ObjRows(Protocol):
    """Rows of one table: objs that fit into one, ``LargeObj``, and parts. Reads are strongly consistent."""

    def insert(self, row: Obj, now: Seconds) -> Obj | None:
        """Write the row if there is none under its id that has not expired; else nothing, and the row in the way."""

    def put_many(self, rows: Sequence[Obj]) -> None:
        """Write rows with different ids, in no order, whatever was there."""

    def get(self, space: str, id: str) -> Obj | None:
        """The row."""

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        """The rows that there are, by id; one request per hundred."""

    def query(self, space: str, prefix: str, *, newest_first: bool = False) -> Iterator[Obj]:
        """Rows whose id starts with ``prefix``, by id; backwards they are read one by one, as they are asked for."""

    def delete(self, space: str, id: str) -> Obj | None:
        """Remove the row; what it was, if there was one."""


class StoredObjs:
    """``turnstile.store.ports.Objs``.

    Args:
        seconds: the time; None: nothing expires.
        cache: objs that were read or written; None: nothing is kept.
    """

    def __init__(self, rows: ObjRows, seconds: Seconds, cache: ObjCache | None = None) -> None:
        self._rows, self._seconds, self._cache = rows, seconds, cache

    def put(self, obj: Obj) -> None:
        parts, row = split(obj)
        known = self._rows.get(obj.space, obj.id) if parts else None  # parts are dear: not for what is there already
        if known is None or not self._lives(known):
            if parts:
                self._rows.put_many(parts)
            known = self._rows.insert(row, self._seconds)
        if known is not None:
            if not holds(known, obj):
                raise ValueError(f"obj {obj.id} exists with another payload")
            obj = msgspec.structs.replace(obj, type=known.type, created=known.created, expires=known.expires)
        self._keep(obj)

    def put_many(self, objs: Iterable[Obj]) -> None:
        wanted = {(obj.space, obj.id): obj for obj in objs}
        made = [split(obj) for obj in wanted.values()]  # all are judged before any is written
        parts = [part for parts, _ in made for part in parts]
        if parts:
            self._rows.put_many(parts)
        self._rows.put_many([row for _, row in made])
        for obj in wanted.values():
            self._keep(obj)

    def get(self, space: str, id: str) -> Obj | None:
        known = self._cached(space, id)
        if known is None and not self._missing(space, id):
            row = self._rows.get(space, id)
            known = self._whole(row) if row is not None else None
            self._learn(space, id, known)
        return known if known is not None and self._lives(known) else None

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        found = {id: known for id in ids if (known := self._cached(space, id)) is not None}
        missing = [id for id in dict.fromkeys(ids) if id not in found and not self._missing(space, id)]
        if missing:
            read = self._all_whole(space, self._rows.get_many(space, missing))
            for id in missing:
                self._learn(space, id, read.get(id))
            found |= read
        return {id: found[id] for id in ids if id in found and self._lives(found[id])}

    def newest(self, space: str, prefix: str) -> Obj | None:
        return next(self._listed(space, prefix, newest_first=True), None)

    def list(self, space: str, prefix: str) -> Iterator[Obj]:
        yield from self._listed(space, prefix)

    def delete(self, space: str, id: str) -> None:
        row = self._rows.delete(space, id)  # if its answer was lost, nobody knows of parts any more: gc finds them
        if self._cache is not None:
            self._cache.forget(space, id)
        for part in part_ids(row) if row is not None else ():
            self._rows.delete(space, part)

    def lost_parts(self, space: str, before: int) -> Iterator[Obj]:
        old = (part for part in self._rows.query(space, PREFIX) if part.created < before)
        for owner, parts in groupby(old, lambda part: owner_of(part.id)):
            row = self._rows.get(space, owner)
            named = set(part_ids(row)) if row is not None else set[str]()
            yield from (part for part in parts if part.id not in named)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _listed(self, space: str, prefix: str, *, newest_first: bool = False) -> Iterator[Obj]:
        for row in self._rows.query(space, prefix, newest_first=newest_first):
            if not is_part(row.id) and self._lives(row):
                obj = self._whole(row)
                if obj is not None:
                    yield obj

    def _whole(self, row: Obj) -> Obj | None:
        """The obj of a row; None if it was deleted meanwhile."""
        return self._all_whole(row.space, {row.id: row}).get(row.id)

    def _all_whole(self, space: str, rows: Mapping[str, Obj]) -> dict[str, Obj]:
        """The objs of rows, the parts of all large ones read together; those deleted meanwhile are left out."""
        found = {id: row for id, row in rows.items() if not isinstance(row, LargeObj)}
        large = [row for row in rows.values() if isinstance(row, LargeObj)]
        if not large:
            return found
        parts = self._rows.get_many(space, [id for row in large for id in part_ids(row)])
        for row in large:
            obj = joined(row, parts) or self._again(row)
            if obj is not None:
                found[row.id] = obj
        return found

    def _again(self, row: LargeObj) -> Obj | None:
        """The obj of a row whose parts were not all there: the row goes before they do."""
        now = self._rows.get(row.space, row.id)
        if now == row:
            raise TurnstileError(f"parts of obj {row.id} are missing", remedy="restore the objs table")
        return self._whole(now) if now is not None else None

    # -- memory -------------------------------------------------------------------------------------------------------

    def _cached(self, space: str, id: str) -> Obj | None:
        """What is here and has not ended: of what has, there may be another under its id."""
        known = self._cache.get(space, id) if self._cache is not None else None
        return known if known is not None and self._lives(known) else None

    def _missing(self, space: str, id: str) -> bool:
        return self._cache is not None and self._cache.missing(space, id)

    def _learn(self, space: str, id: str, obj: Obj | None) -> None:
        if obj is not None:
            self._keep(obj)
        elif self._cache is not None:
            self._cache.miss(space, id)

    def _keep(self, obj: Obj) -> None:
        if self._cache is not None:
            self._cache.keep(obj)

    def _lives(self, obj: Obj) -> bool:
        return obj.expires is None or obj.expires > self._seconds()
