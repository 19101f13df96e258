"""Where a journey takes place: a Turnstile that runs in one of its ways, and a table there."""

from __future__ import annotations

import itertools
import os
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.fakes import delta
from tests.support.stack import now_ms

NAMESPACES = "/v1/catalogs/main/namespaces"
_numbers = itertools.count(1)


class Failure(Exception):
    """The service refused a request; the message is its own."""


class Place:
    """A Turnstile at ``url``. ``work`` is a folder for files outside its lake."""

    def __init__(self, url: str, token: str, work: Path) -> None:
        self.url = url
        self.token = token
        self.work = work
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False)

    def client(self) -> httpx.Client:
        """As a server's, for ``tests.support.clients.engine``."""
        return self.http

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The answer; raises Failure."""
        answer = self.http.request(method, path, json=body, params=query)
        if not answer.is_success:
            raise Failure(f"{answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    def fresh(self, prefix: str = "j") -> str:
        """A name that nothing else has."""
        return f"{prefix}{os.getpid()}_{next(_numbers)}"


class Journey(msgspec.Struct):
    """A table at a place: its ``name`` with the namespace, and the ``ids`` that it holds."""

    place: Place
    name: str
    ids: list[int]

    @property
    def path(self) -> str:
        """The table in ``/v1``."""
        namespace, _, table = self.name.rpartition(".")
        return f"{NAMESPACES}/{namespace}/tables/{table}"

    def load(self) -> dict[str, Any]:
        """The service's answer; raises Failure."""
        return dict(self.place.ask("GET", self.path))

    def staged_append(self, loaded: dict[str, Any], ids: list[int]) -> dict[str, Any]:
        """Writes a data file below the table's location, and returns the commit that adds it, for a
        request of ``/v1``."""
        version = int(loaded["latest"]) + 1
        add = data_file(folder_of(loaded["location"]), ids)
        content = delta.lines(delta.info(str(uuid.uuid4()), now_ms()), add)
        return {"version": version, "inline": {"content": content.decode()}}


def folder_of(location: str) -> Path:
    return Path(unquote(urlsplit(location).path))


def data_file(folder: Path, ids: list[int]) -> dict[str, Any]:
    """Writes a data file with these ids; returns its ``add``."""
    name = f"{uuid.uuid4()}.parquet"
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), folder / name)
    return delta.add(name, len(ids), size=(folder / name).stat().st_size)
