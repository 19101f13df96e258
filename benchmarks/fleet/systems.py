"""The systems that are compared: what each needs is fetched the first time into a cache outside of
the checkout, and its server started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.catalog_racing.worlds import credentials
from tests.support.downloads import Missing, alone, cache
from tests.support.store.backends import DYNOXIDE, OBJS_TABLE, REFS_TABLE, Backend
from tests.support.store.servers import dynoxide, free_port, serving

ZOOKEEPER: Final = "3.9.3"
ETCD: Final = "v3.6.12"
PEERS: Final = Path(__file__).with_name("peers.txt")

_POM: Final = f"""\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>turnstile.benchmarks</groupId><artifactId>zookeeper</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.zookeeper</groupId><artifactId>zookeeper</artifactId>
      <version>{ZOOKEEPER}</version>
    </dependency>
    <dependency>
      <groupId>io.dropwizard.metrics</groupId><artifactId>metrics-core</artifactId>
      <version>4.1.12.1</version>
    </dependency>
    <dependency>
      <groupId>org.xerial.snappy</groupId><artifactId>snappy-java</artifactId>
      <version>1.1.10.5</version>
    </dependency>
  </dependencies>
</project>
"""
"""The server's own pom leaves out the last two, without which it does not start."""


@dataclass
class Opened:
    """A system that takes members. ``options`` is what their processes are started with,
    ``servers`` the processes beside them."""

    options: dict[str, Any]
    servers: list[int] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class System:
    """One way to keep members and owners. ``open`` starts it, empty, in a folder."""

    name: str
    title: str
    open: Callable[[Path], AbstractContextManager[Opened]]


@contextmanager
def _sqlite(folder: Path) -> Iterator[Opened]:
    yield Opened({"system": "sqlite", "path": str(folder / "fleet.db")})


@contextmanager
def _dynamodb(folder: Path) -> Iterator[Opened]:
    credentials()
    with _child(lambda: dynoxide(folder)) as (url, pids):
        Backend(DYNOXIDE, url).make_tables()
        yield Opened({"system": "dynamodb", "url": url, "refs": REFS_TABLE, "objs": OBJS_TABLE}, pids)


@contextmanager
def _zookeeper(folder: Path) -> Iterator[Opened]:
    jars = zookeeper_jars()
    port = free_port()
    (folder / "zoo.cfg").write_text(
        f"tickTime=500\ndataDir={folder / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"
        "maxClientCnxns=0\nadmin.enableServer=false\n"
    )
    main = "org.apache.zookeeper.server.ZooKeeperServerMain"
    command = ["java", "-Xmx1g", "-cp", f"{jars}/*", main, str(folder / "zoo.cfg")]
    with _child(lambda: serving(command, port, folder, os.environ)) as (_, pids):
        options = {"system": "zookeeper", "hosts": f"127.0.0.1:{port}"}
        yield Opened(options, pids, {"PYTHONPATH": str(peers())})


@contextmanager
def _etcd(folder: Path) -> Iterator[Opened]:
    binary = etcd_binary()
    port = free_port()
    peer = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        str(binary), "--data-dir", str(folder / "data"), "--listen-client-urls", url, "--advertise-client-urls", url,
        "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--log-level", "error", "--quota-backend-bytes", "4294967296",
    ]  # fmt: skip
    with _child(lambda: serving(command, port, folder, os.environ)) as (_, pids):
        yield Opened({"system": "etcd", "port": port}, pids)


SYSTEMS: Final = (
    System("sqlite", "Turnstile, SQLite", _sqlite),
    System("dynamodb", "Turnstile, dynoxide", _dynamodb),
    System("zookeeper", f"ZooKeeper {ZOOKEEPER}", _zookeeper),
    System("etcd", f"etcd {ETCD.removeprefix('v')}", _etcd),
)


@contextmanager
def _child(start: Callable[[], AbstractContextManager[str]]) -> Iterator[tuple[str, list[int]]]:
    """A server that ``start`` starts, and its process."""
    before = _children()
    with start() as url:
        yield url, sorted(_children() - before)


def _children() -> set[int]:
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


# -- what is fetched ---------------------------------------------------------------------------------------------------


def _needs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise Missing(f"{program} is not here")


def _made(name: str, make: Callable[[Path], None]) -> Path:
    """A folder of the cache that ``make`` fills the first time. Raises Missing if it cannot."""
    home = cache("fleet-peers")
    folder = home / name
    with alone(home):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=home) as work:
                made = Path(work) / "made"
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


def _run(command: list[str], folder: Path, what: str, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Missing(f"{what} could not be had: {(done.stdout + done.stderr)[-400:].strip()}")


def zookeeper_jars() -> Path:
    """The server's jars, from Maven Central. Raises Missing."""
    _needs("java", "mvn")

    def make(folder: Path) -> None:
        (folder / "pom.xml").write_text(_POM)
        goal = ["dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"]
        repository = cache("fleet-peers") / "maven"
        _run(["mvn", "-q", "-B", f"-Dmaven.repo.local={repository}", *goal], folder, f"ZooKeeper {ZOOKEEPER}")

    return _made(f"zookeeper-{ZOOKEEPER}", make) / "lib"


def etcd_binary() -> Path:
    """The server, built from its Go module. (``go install`` refuses it, since its own go.mod names
    folders beside it.) Raises Missing."""
    _needs("go")

    def make(folder: Path) -> None:
        (folder / "go.mod").write_text("module turnstile.benchmarks/etcd\n\ngo 1.25\n")
        module = "go.etcd.io/etcd/server/v3"
        env = {"GOFLAGS": "-mod=mod -buildvcs=false"}
        _run(["go", "get", f"{module}@{ETCD}"], folder, f"etcd {ETCD}", env)
        _run(["go", "build", "-o", "etcd", module], folder, f"etcd {ETCD}", env)

    return _made(f"etcd-{ETCD}", make) / "etcd"


def peers() -> Path:
    """A folder with the Python clients of ``peers.txt``. Raises Missing."""

    def make(folder: Path) -> None:
        uv = str(Path(sys.executable).with_name("uv"))
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(folder / "lib")]
        _run([*command, "--require-hashes", "-r", str(PEERS)], folder, "kazoo")

    return _made("python", make) / "lib"
