"""A world on tables and buckets of an emulator that tests handle like the one in memory:
``refs.rows``, ``storages.files``."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, Final

from tests.support.fakes.storage import FakeClock
from tests.support.store.backends import OBJS_TABLE, PATIENT, REFS_TABLE, Backend
from turnstile.adapters.dynamo.models import model_of, ref_from_item, to_item
from turnstile.adapters.dynamo.objs import DynamoObjs
from turnstile.adapters.dynamo.refs import DynamoRefs
from turnstile.adapters.machine import RandomIds
from turnstile.adapters.opening import s3
from turnstile.adapters.s3 import S3Storage
from turnstile.store.core.rows import Space
from turnstile.store.ports import Obj, Stat, World

LAKE: Final = "lake/warehouse"
IMPORTS: Final = "other/legacy"
"""The two roots, ``bucket/prefix``."""

_NUMBERS: Final = itertools.count(1)


class StoredWorld(World):
    """A world of its own below a folder of the two roots, in a part of the tables that no other
    has. ``file:///lake`` of the tests is in the lake's bucket, ``s3://other`` in that of
    imports."""

    @classmethod
    def on(cls, tables: Backend, files: Backend, realm: str) -> StoredWorld:
        number = next(_NUMBERS)
        clock = FakeClock(int(time.time() * 1000))
        space = Space(realm)
        return cls(
            refs=_Refs(tables, realm, clock),
            objs=_Objs(tables.client, OBJS_TABLE, clock=clock, patience=PATIENT),
            storages=_Storages(s3(files.url), f"{number:04}", clock),
            clock=clock,
            ids=RandomIds(),
            space=space,
        )


def make_buckets(backend: Backend) -> None:
    """The buckets of both roots."""
    for root in (LAKE, IMPORTS):
        s3(backend.url).create_bucket(Bucket=root.partition("/")[0])


class _Objs(DynamoObjs):
    """Nothing is kept: each function has a cache of its own, and the first of its requests finds it
    empty."""

    def _keep(self, obj: Obj) -> None:
        """Forgets it."""

    def _learn(self, space: str, id: str, obj: Obj | None) -> None:
        """Forgets it."""


class _Refs(DynamoRefs):
    """With the rows as a mapping, which is not what a function sees."""

    def __init__(self, backend: Backend, realm: str, clock: FakeClock) -> None:
        super().__init__(backend.client, REFS_TABLE, realm=realm, patience=PATIENT)
        self._clock = clock
        self.requests: list[str] = []
        self.rows = _Rows(backend)

    def clock_ms(self) -> int:
        """The world's, which tests put forward; the service's stays behind."""
        return self._clock.now

    def empty(self) -> None:
        """Removes all rows: the next world is the only one in the table."""
        for key in list(self.rows):
            del self.rows[key]


class _Rows(MutableMapping[str, Any]):
    def __init__(self, backend: Backend) -> None:
        self._client = backend.client

    def __getitem__(self, key: str) -> Any:
        row = ref_from_item(self._client.get_item(TableName=REFS_TABLE, Key={"key": {"S": key}}).get("Item"))
        if row is None:
            raise KeyError(key)
        return row

    def __setitem__(self, key: str, row: Any) -> None:
        self._client.put_item(TableName=REFS_TABLE, Item=to_item(model_of(key), {**row, "key": key}))

    def __delitem__(self, key: str) -> None:
        self._client.delete_item(TableName=REFS_TABLE, Key={"key": {"S": key}})

    def __iter__(self) -> Iterator[str]:
        pages = self._client.get_paginator("scan").paginate(TableName=REFS_TABLE)
        return iter([item["key"]["S"] for page in pages for item in page["Items"]])

    def __len__(self) -> int:
        return len(list(iter(self)))


class _Storage(S3Storage):
    """Its files are as old as the world's clock says: the bucket's own clock is not put forward."""

    def __init__(self, client: Any, bucket: str, prefix: str, written: dict[str, int], clock: FakeClock) -> None:
        super().__init__(client, bucket, prefix)
        self._written = written
        self._now = clock

    def put_if_absent(self, path: str, content: bytes | Iterable[bytes]) -> bool:
        is_new = super().put_if_absent(path, content)
        if is_new:
            self._written[self._key(path)] = self._now.now
        return is_new

    def replace(self, path: str, content: bytes) -> None:
        super().replace(path, content)
        self._written[self._key(path)] = self._now.now

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        found = super().read(path, limit, offset)
        return None if found is None else (found[0], self._aged(found[1]))

    def _stat(self, path: str) -> Stat | None:
        found = super()._stat(path)
        return None if found is None else self._aged(found)

    def _list(self, prefix: str, *, after: str = "", **more: Any) -> Iterator[Stat]:
        return map(self._aged, super()._list(prefix, after=after, **more))

    def _aged(self, stat: Stat) -> Stat:
        return Stat(stat.path, stat.size, self._written.get(self._key(stat.path), stat.modified_ms))


class _Storages:
    def __init__(self, client: Any, folder: str, clock: FakeClock) -> None:
        self._client = client
        self._folder = folder
        self._clock = clock
        self._written: dict[str, int] = {}
        self.files = _Files(self)

    def place(self, location: str) -> tuple[str, str]:
        """Bucket and prefix of a location of the tests."""
        path = location.replace("file:///", "").replace("file:/", "").replace("s3://", "").strip("/")
        top, _, rest = path.partition("/")
        bucket, _, prefix = (IMPORTS if top == "other" else LAKE).partition("/")
        return bucket, f"{prefix}/{self._folder}/{rest}".rstrip("/")

    def open(self, location: str) -> S3Storage:
        return _Storage(self._client, *self.place(location), self._written, self._clock)


class _Files(MutableMapping[str, Any]):
    """Content and time of each file, by its address."""

    def __init__(self, storages: _Storages) -> None:
        self._storages = storages

    def _at(self, path: str) -> tuple[S3Storage, str]:
        folder, _, name = path.rpartition("/")
        return self._storages.open(folder), name

    def __getitem__(self, path: str) -> Any:
        storage, name = self._at(path)
        found = storage.read(name)
        if found is None:
            raise KeyError(path)
        return found[0], found[1].modified_ms

    def __setitem__(self, path: str, value: Any) -> None:
        storage, name = self._at(path)
        storage.replace(name, value[0])

    def __delitem__(self, path: str) -> None:
        storage, name = self._at(path)
        storage.delete(name)

    def __iter__(self) -> Iterator[str]:
        for root in ("file:///lake", "s3://other"):
            for stat in self._storages.open(root).list_all():
                yield f"{root}/{stat.path}"

    def __len__(self) -> int:
        return sum(1 for _ in self)
