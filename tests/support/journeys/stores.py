"""Places with their tables in S3, and two proxies before it: one for clients, one for the
server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.support.flaky import Flaky
from tests.support.journeys.origins import SCHEMA, iceberg_catalog, rows
from tests.support.journeys.places import Place
from tests.support.server import REGION
from turnstile_client import Lake, connect


class Stored(msgspec.Struct):
    """A place; its tables lie behind ``clients``, for the server behind ``servers``. ``keys``: of
    the store."""

    place: Place
    clients: Flaky
    servers: Flaky
    keys: tuple[str, str]

    def lake(self) -> Lake:
        s3 = {"endpoint": self.clients.url, "region": REGION, "access_key": self.keys[0], "secret_key": self.keys[1]}
        return connect(self.place.url, token=self.place.token or None, s3=s3)

    def iceberg(self) -> RestCatalog:
        s3 = {"s3.endpoint": self.clients.url, "s3.region": REGION, "s3.access-key-id": self.keys[0]}
        return iceberg_catalog(self.place, **s3, **{"s3.secret-access-key": self.keys[1]})


class Client(msgspec.Struct, frozen=True):
    """A client's calls on a table. ``writes``: the proxy that its appends pass, by its name in
    ``Stored``."""

    create: Callable[[Stored, str], Any]
    append: Callable[[Stored, str, list[int]], Any]
    read: Callable[[Stored, str], list[int]]
    writes: str = "clients"


def _create(stored: Stored, name: str) -> None:
    with stored.lake() as lake:
        lake.create(name, SCHEMA).append(rows([1]))


def _append(stored: Stored, name: str, ids: list[int]) -> None:
    with stored.lake() as lake:
        lake.table(name).append(rows(ids))


def _read(stored: Stored, name: str) -> list[int]:
    with stored.lake() as lake:
        return _ids(lake.table(name).read())


def _append_rows(stored: Stored, name: str, ids: list[int]) -> None:
    path = f"/v1/tables/{_id(stored, name)}/rows"
    stored.place.ask("POST", path, [{"id": id} for id in ids])


def _id(stored: Stored, name: str) -> str:
    namespace, _, table = name.partition(".")
    loaded = stored.place.ask("GET", f"/v1/catalogs/main/namespaces/{namespace}/tables/{table}")
    return str(loaded["table_id"])


def _create_iceberg(stored: Stored, name: str) -> None:
    stored.iceberg().create_table(name, SCHEMA).append(rows([1]))


def _append_iceberg(stored: Stored, name: str, ids: list[int]) -> None:
    stored.iceberg().load_table(name).append(rows(ids))


def _read_iceberg(stored: Stored, name: str) -> list[int]:
    return _ids(stored.iceberg().load_table(name).scan().to_arrow())


def _ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


CLIENTS: Final = {
    "client": Client(_create, _append, _read),
    "rows": Client(_create, _append_rows, _read, "servers"),
    "pyiceberg": Client(_create_iceberg, _append_iceberg, _read_iceberg),
}

PASSING: Final[dict[str, Callable[[Flaky], None]]] = {
    "the answer of a PUT is lost": lambda proxy: proxy.lose_answers("PUT /lake/"),
    "the store is overloaded": lambda proxy: proxy.refuse("PUT /lake/", 503, "SlowDown", 2),
}
LASTING: Final[dict[str, Callable[[Flaky], None]]] = {
    "keys have expired": lambda proxy: proxy.refuse("", 400, "ExpiredToken", 1_000_000),
    "the endpoint is gone": lambda proxy: proxy.go_away(),
}


def check_after_a_passing_fault(
    fault: str, proxy: Flaky, append: Callable[[int], object], ids: Callable[[], list[int]]
) -> None:
    """Row 2 is appended although ``fault`` meets the append, and read although an answer is
    lost."""
    PASSING[fault](proxy)
    (rule,) = proxy.rules
    append(2)
    assert rule.times == 0
    proxy.lose_answers("GET /lake/")
    assert ids() == [1, 2]


def check_after_a_lasting_fault(
    fault: str, proxy: Flaky, append: Callable[[int], object], ids: Callable[[], list[int]]
) -> pytest.ExceptionInfo[Exception]:
    """Row 2 is refused while ``fault`` lasts, and row 3 is appended after it. Returns the error."""
    LASTING[fault](proxy)
    with pytest.raises(Exception) as caught:
        append(2)
    proxy.come_back()
    assert ids() == [1]
    append(3)
    assert ids() == [1, 3]
    return caught
