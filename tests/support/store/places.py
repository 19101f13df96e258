"""Log storages the contract is checked on."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.support.fakes.storage import FakeClock, FakeStorages
from tests.support.store.backends import Backend
from turnstile.adapters import FileStorages
from turnstile.adapters.opening import s3
from turnstile.store.ports import Storages

BUCKET = "contract-lake"
_NAMES = itertools.count()


class Place:
    """A kind of storage; ``location()`` is a fresh empty table location on it."""

    def __init__(self, name: str, root: str, storages: Storages) -> None:
        self.name, self._root, self.storages = name, root, storages

    def location(self) -> str:
        return f"{self._root}/t{next(_NAMES):04d}"


def fake_place() -> Place:
    return Place("fake", "fake://lake", FakeStorages(FakeClock()))


def file_place(folder: Path) -> Place:
    return Place("file", f"file://{folder}", FileStorages())


def s3_place(stack: Backend) -> Place:
    client = s3(stack.url)
    if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    return Place("s3", f"s3://{BUCKET}/lake", FileStorages(stack.url))
