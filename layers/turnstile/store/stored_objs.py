"""The port ``Objs`` over rows: large objs in parts, a cache by the types' rules, no expired objs.

An obj that is too large for one row is stored as parts, and a row without payload that names them:

    commit/0123...                              {digest, size, stamp, parts: 3}
    part/commit/0123.../<stamp>.00 ... .02      350,000 bytes each, and the rest

Parts are written before the row that names them, and removed after it: at every moment the obj is
there, whole, or it is not there, and a crash leaves behind parts that no row names. Their ids begin
with none of the types' prefixes, so no listing of objs shows them. The stamp is a digest of
payload, creation and end: the same obj written again has the same parts, and another one under the
same id has parts of its own. So a writer that is refused has changed nothing, gc may remove unnamed
parts that are old without looking for writers, and parts end when their obj does (I9, I10).

Stores differ in how rows are written and read (``ObjRows``): DynamoDB's adapter and the in-memory
fake implement that. A small obj is one row and costs one request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, Protocol

import msgspec

from turnstile.store.cache import ObjCache
from turnstile.store.core.errors import TooLarge, TurnstileError
from turnstile.store.core.rows import register_type
from turnstile.store.ports import Obj

OBJ_BUDGET: Final = 350_000
"""Bytes of payload in one row: DynamoDB's 400 kB less keys and attributes (Polaris has the
same)."""

MAX_OBJ: Final = 4 * 1024 * 1024
"""Bytes of payload of one obj: a dozen parts, which fit into one request to read or write them."""

PREFIX: Final = "part/"
TYPE: Final = "part"


class LargeObj(Obj, frozen=True, kw_only=True):
    """The row of an obj with a payload in ``count`` parts; its own ``payload`` is empty.
    ``digest`` SHA-256 of the payload, ``size`` its bytes, ``stamp`` the common part of the parts'
    ids.
    """

    digest: bytes
    size: int
    stamp: str
    count: int


def split(obj: Obj) -> tuple[list[Obj], Obj]:
    """Returns the parts of an obj, and its row; an obj that fits into one row has no parts and is
    its row. Raises ValueError unless its type is registered, TooLarge above ``MAX_OBJ``."""
    rules = register_type(obj.type, obj.id)
    size = len(obj.payload)
    if size <= OBJ_BUDGET:
        return [], obj
    if size > MAX_OBJ:
        problem = f"a {obj.type} obj of {size} bytes is over the limit"
        raise TooLarge(problem, remedy=rules.remedy, limit=MAX_OBJ, size=size)
    digest = hashlib.sha256(obj.payload).digest()
    stamp = hashlib.sha256(b"%d/%d/%b" % (obj.created_us, obj.expires_s or 0, digest)).hexdigest()[:24]
    emptied = (obj.space, obj.id, obj.type, b"", obj.created_us, obj.expires_s)
    row = LargeObj(*emptied, digest=digest, size=size, stamp=stamp, count=-(-size // OBJ_BUDGET))
    slices = (obj.payload[start : start + OBJ_BUDGET] for start in range(0, size, OBJ_BUDGET))
    parts = [
        Obj(obj.space, id, TYPE, payload, obj.created_us, obj.expires_s)
        for id, payload in zip(part_ids(row), slices, strict=True)
    ]
    return parts, row


def part_ids(row: Obj) -> list[str]:
    """Ids of the parts that a row names, in their order; none for an obj that fits into its row."""
    if not isinstance(row, LargeObj):
        return []
    return [f"{PREFIX}{row.id}/{row.stamp}.{number:02d}" for number in range(row.count)]


def join_parts(row: LargeObj, parts: Mapping[str, Obj]) -> Obj | None:
    """The obj of a row; None when not all of its parts are among ``parts``. Raises ValueError when
    they are not the written ones."""
    payloads = [parts[id].payload for id in part_ids(row) if id in parts]
    if len(payloads) < row.count:
        return None
    payload = b"".join(payloads)
    if hashlib.sha256(payload).digest() != row.digest:
        raise ValueError(f"the parts of obj {row.id} are not those that were written")
    return Obj(row.space, row.id, row.type, payload, row.created_us, row.expires_s)


def holds(row: Obj, obj: Obj) -> bool:
    """Whether a stored row is that of an obj with the same payload, also if another release split
    it differently."""
    if isinstance(row, LargeObj):
        return row.size == len(obj.payload) and row.digest == hashlib.sha256(obj.payload).digest()
    return row.payload == obj.payload


def is_part(id: str) -> bool:
    """Whether a row holds a part, and no obj."""
    return id.startswith(PREFIX)


def owner_of(part: str) -> str:
    """Id of the obj that a part was written for."""
    return part.removeprefix(PREFIX).rpartition("/")[0]


# -- the port ----------------------------------------------------------------------------------------------------------

Seconds = Callable[[], int]
"""The time in seconds; called only where something may have expired."""


class ObjRows(Protocol):
    """Rows of one table: objs that fit into one, ``LargeObj``, and parts. Reads are strongly
    consistent."""

    def insert(self, row: Obj, now: Seconds) -> Obj | None:
        """Write the row if there is none under its id that has not expired; else nothing, and the
        row in the way."""

    def put_many(self, rows: Sequence[Obj]) -> None:
        """Writes rows with different ids, in no order, over existing ones."""

    def get(self, space: str, id: str) -> Obj | None: ...

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        """The rows that there are, by id; one request per hundred."""

    def query(self, space: str, prefix: str, *, newest_first: bool = False) -> Iterator[Obj]:
        """Yields rows with ids that start with ``prefix``, by id; backwards they are read one by
        one, as they are asked for."""

    def delete(self, space: str, id: str) -> Obj | None:
        """Removes the row and returns it, if there was one."""


class StoredObjs:
    """``turnstile.store.ports.Objs``. ``cache`` has objs that were read or written; None: nothing
    is kept."""

    def __init__(self, rows: ObjRows, seconds: Seconds, cache: ObjCache | None = None) -> None:
        self._rows = rows
        self._seconds = seconds
        self._cache = cache

    def put(self, obj: Obj) -> None:
        parts, row = split(obj)
        stored = self._rows.get(obj.space, obj.id) if parts else None  # parts are expensive: not if it is there already
        if stored is None or not self._lives(stored):
            if parts:
                self._rows.put_many(parts)
            stored = self._rows.insert(row, self._seconds)
        if stored is not None:
            if not holds(stored, obj):
                raise ValueError(f"obj {obj.id} exists with another payload")
            times = {"created_us": stored.created_us, "expires_s": stored.expires_s}
            obj = msgspec.structs.replace(obj, type=stored.type, **times)
        self._keep(obj)

    def put_many(self, objs: Iterable[Obj]) -> None:
        distinct = {(obj.space, obj.id): obj for obj in objs}
        pieces = [split(obj) for obj in distinct.values()]  # all are checked before any is written
        parts = [part for parts, _ in pieces for part in parts]
        if parts:
            self._rows.put_many(parts)
        self._rows.put_many([row for _, row in pieces])
        for obj in distinct.values():
            self._keep(obj)

    def get(self, space: str, id: str) -> Obj | None:
        obj = self._cached_obj(space, id)
        if obj is None and not self._missing(space, id):
            row = self._rows.get(space, id)
            obj = self._whole(row) if row is not None else None
            self._learn(space, id, obj)
        return obj if obj is not None and self._lives(obj) else None

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        objs = {id: obj for id in ids if (obj := self._cached_obj(space, id)) is not None}
        unread = [id for id in dict.fromkeys(ids) if id not in objs and not self._missing(space, id)]
        if unread:
            read = self._all_whole(space, self._rows.get_many(space, unread))
            for id in unread:
                self._learn(space, id, read.get(id))
            objs |= read
        return {id: objs[id] for id in ids if id in objs and self._lives(objs[id])}

    def newest(self, space: str, prefix: str) -> Obj | None:
        return next(self._list_rows(space, prefix, newest_first=True), None)

    def list(self, space: str, prefix: str) -> Iterator[Obj]:
        yield from self._list_rows(space, prefix)

    def delete(self, space: str, id: str) -> None:
        row = self._rows.delete(space, id)  # if the response is lost, its parts are not known any more: gc finds them
        if self._cache is not None:
            self._cache.forget(space, id)
        for part in part_ids(row) if row is not None else ():
            self._rows.delete(space, part)

    def lost_parts(self, space: str, before_us: int) -> Iterator[Obj]:
        old = (part for part in self._rows.query(space, PREFIX) if part.created_us < before_us)
        for owner, parts in groupby(old, lambda part: owner_of(part.id)):
            row = self._rows.get(space, owner)
            named = set(part_ids(row)) if row is not None else set[str]()
            yield from (part for part in parts if part.id not in named)

    # -- reading ------------------------------------------------------------------------------------------------------

    def _list_rows(self, space: str, prefix: str, *, newest_first: bool = False) -> Iterator[Obj]:
        for row in self._rows.query(space, prefix, newest_first=newest_first):
            if not is_part(row.id) and self._lives(row):
                obj = self._whole(row)
                if obj is not None:
                    yield obj

    def _whole(self, row: Obj) -> Obj | None:
        """The obj of a row; None if it was deleted meanwhile."""
        return self._all_whole(row.space, {row.id: row}).get(row.id)

    def _all_whole(self, space: str, rows: Mapping[str, Obj]) -> dict[str, Obj]:
        """The objs of rows, the parts of all large ones read together; objs deleted meanwhile are
        left out."""
        objs = {id: row for id, row in rows.items() if not isinstance(row, LargeObj)}
        large = [row for row in rows.values() if isinstance(row, LargeObj)]
        if not large:
            return objs
        parts = self._rows.get_many(space, [id for row in large for id in part_ids(row)])
        for row in large:
            obj = join_parts(row, parts) or self._again(row)
            if obj is not None:
                objs[row.id] = obj
        return objs

    def _again(self, row: LargeObj) -> Obj | None:
        """Returns the obj of a row with missing parts: the row goes before they do."""
        now = self._rows.get(row.space, row.id)
        if now == row:
            raise TurnstileError(f"parts of obj {row.id} are missing", remedy="restore the objs table")
        return self._whole(now) if now is not None else None

    # -- memory -------------------------------------------------------------------------------------------------------

    def _cached_obj(self, space: str, id: str) -> Obj | None:
        """The cached obj, unless it has expired: another one may have been written under its id."""
        obj = self._cache.get(space, id) if self._cache is not None else None
        return obj if obj is not None and self._lives(obj) else None

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
        return obj.expires_s is None or obj.expires_s > self._seconds()
