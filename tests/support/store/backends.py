"""What the contract suite runs on: tables in memory and behind an endpoint, and log storages."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.support.fakes.objs import FakeObjs
from tests.support.fakes.refs import FakeRefs
from tests.support.fakes.storage import FakeClock, FakeStorages
from turnstile.adapters import FileStorages, clients
from turnstile.adapters.dynamo.objs import DynamoObjs
from turnstile.adapters.dynamo.refs import DynamoRefs
from turnstile.adapters.machine import SystemClock
from turnstile.adapters.opening import dynamodb, s3
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.objs import SqliteObjs
from turnstile.adapters.sqlite.refs import SqliteRefs, encode
from turnstile.store.ports import Objs, Refs, Storages
from turnstile.store.retry import Patience

FAKE: Final = "fake"
SQLITE: Final = "sqlite"
MINISTACK: Final = "ministack"
MOTO: Final = "moto"
"""A second S3 and STS: DynamoDB it does not judge fairly (docs/dependencies.md)."""
DYNOXIDE: Final = "dynoxide"
"""DynamoDB on SQLite; a public conformance suite holds it against AWS."""
REALM: Final = "contract"
REFS_TABLE: Final = "contract-refs"
OBJS_TABLE: Final = "contract-objs"

# On a busy machine an emulator may answer late. Answers that are lost are the subject of tests that
# lose them on purpose.
clients.CONNECT_S = clients.READ_S = 60.0  # type: ignore[misc]
PATIENT: Final = Patience(deadline_s=60.0, first_s=0.025, longest_s=0.5)


class Counter:
    """Requests that were sent, with their capacity units (None: the request failed)."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, float | None]] = []
        self._lock = threading.Lock()

    def __call__(self, operation: str, capacity: float | None) -> None:
        with self._lock:
            self.sent.append((operation, capacity))

    @property
    def operations(self) -> list[str]:
        return [operation for operation, _ in self.sent]

    @property
    def units(self) -> float:
        return sum(capacity or 0 for _, capacity in self.sent)


class Backend:
    """One implementation of Refs and Objs. Tests share its tables and keep apart by their keys."""

    def __init__(self, name: str, url: str | None = None) -> None:
        self.name = name
        self.url = url
        self._fake_refs = FakeRefs()
        self._fake_objs = FakeObjs()

    @property
    def real(self) -> bool:
        return self.url is not None

    @property
    def client(self) -> Any:
        return dynamodb(self.url)

    def refs(self, on_request: Callable[[str, float | None], None] | None = None, realm: str = REALM) -> Refs:
        if not self.real:
            return self._fake_refs.seen_by(realm)
        return DynamoRefs(self.client, REFS_TABLE, realm=realm, on_request=on_request, patience=PATIENT)

    def objs(self, on_request: Callable[[str, float | None], None] | None = None, **more: Any) -> Objs:
        """A fresh adapter: nothing cached."""
        if not self.real:
            self._fake_objs.clock = more.get("clock")
            self._fake_objs.on_request = None if on_request is None else lambda operation: on_request(operation, None)
            return self._fake_objs
        return DynamoObjs(
            self.client,
            OBJS_TABLE,
            clock=more.pop("clock", SystemClock()),
            on_request=on_request,
            **{"patience": PATIENT, **more},
        )

    def damage(self, key: str) -> None:
        """As if something else had written into the row of ``refs``."""
        if not self.real:
            self._fake_refs.damage(key)
            return
        values = {"key": {"S": key}, "kind": {"S": "table"}, "tail": {"S": "no list"}, "latest": {"BOOL": True}}
        self.client.put_item(TableName=REFS_TABLE, Item=values)

    def put_foreign(self, key: str) -> None:
        """As if other code had written a row of a kind that this code does not know."""
        kind = key.split("/")[1]
        if not self.real:
            self._fake_refs.rows[key] = {"key": key, "kind": kind, "until": 1}
            return
        values = {"key": {"S": key}, "kind": {"S": kind}, "until": {"N": "1"}}
        self.client.put_item(TableName=REFS_TABLE, Item=values)

    def _wait(self, patience: float = 120) -> None:
        """A server that takes connections may still be busy starting."""
        end = time.monotonic() + patience
        while True:
            try:
                self.client.list_tables()
                return
            except (BotoCoreError, ClientError):
                if time.monotonic() > end:
                    raise

    def make_tables(self) -> None:
        self._wait()
        text = {"AttributeType": "S"}
        self.client.create_table(
            TableName=REFS_TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "key", **text}],
            KeySchema=[{"AttributeName": "key", "KeyType": "HASH"}],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
        )
        self.client.create_table(
            TableName=OBJS_TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "space", **text}, {"AttributeName": "id", **text}],
            KeySchema=[
                {"AttributeName": "space", "KeyType": "HASH"},
                {"AttributeName": "id", "KeyType": "RANGE"},
            ],
        )


class SqliteBackend(Backend):
    """Both tables in one SQLite file of ``folder``."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SQLITE)
        self._folder = folder
        self._database = Database(folder / "turnstile.db")

    def refs(self, on_request: Callable[[str, float | None], None] | None = None, realm: str = REALM) -> Refs:
        return SqliteRefs(self._database, realm=realm, clock=SystemClock())

    def damage(self, key: str) -> None:
        with self._open() as connection:
            connection.execute("UPDATE refs SET row = x'c1ff' WHERE key = ?", (key,))

    def put_foreign(self, key: str) -> None:
        with self._open() as connection:
            row = encode({"key": key, "kind": key.split("/")[1], "until": 1})
            connection.execute("INSERT INTO refs VALUES (?, ?)", (key, row))

    def _open(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._folder / "turnstile.db"))
        connection.set_busy_timeout(10_000)
        return connection

    def objs(self, on_request: Callable[[str, float | None], None] | None = None, **more: Any) -> Objs:
        more.pop("patience", None)
        clock = more.pop("clock", None) or SystemClock()
        count = None if on_request is None else lambda operation: on_request(operation, None)
        return SqliteObjs(self._database, clock=clock, on_request=count, **more)


def known_gap(request: pytest.FixtureRequest, backend: Backend, **gaps: str) -> None:
    """Expect the rest of the test to fail where ``backend`` is known not to do what AWS does; a fix
    is noticed.

    ``gaps``: backend name (with underscores) = what it does instead.
    """
    reason = gaps.get(backend.name.replace("-", "_"))
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=f"{backend.name}: {reason}", strict=True))


BUCKET = "contract-lake"
_NAMES = itertools.count()


class Place:
    """A kind of storage; ``location()`` is a fresh empty table location on it."""

    def __init__(self, name: str, root: str, storages: Storages) -> None:
        self.name = name
        self._root = root
        self.storages = storages

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
