"""The servers the contract is checked against: MiniStack, and DynamoDB Local in both major versions."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.support.downloads import Missing, alone, cache
from tests.support.store import backends
from tests.support.store.backends import FAKE, SQLITE, Backend, SqliteBackend


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Linux: end the server when the test session is killed, which runs no clean-up."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


@contextmanager
def serving(
    command: Sequence[str], port: int, folder: Path, env: Mapping[str, str], patience: float = 90
) -> Iterator[str]:
    """Run ``command`` until the block ends; yields its URL once ``port`` takes connections.

    Args:
        folder: for its output (``server.log``) and whatever it writes.
        patience: seconds to wait for the port.
    """
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            env=dict(env),
            cwd=folder,
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - servers start from the main thread, between tests
        )
    try:
        end = time.monotonic() + patience
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} does not listen: {(folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def ministack(folder: Path) -> Iterator[str]:
    """The embedded stack's AWS, with a state of its own."""
    port = free_port()
    env = os.environ | {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "s3"),
        "TMPDIR": str(folder),
    }
    with serving([sys.executable, "-m", "ministack"], port, folder, env) as url:
        yield url


@contextmanager
def moto(folder: Path) -> Iterator[str]:
    """moto's emulation of AWS, with nothing in it."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with serving(command, port, folder, dict(os.environ)) as url:
        yield url


class Release(msgspec.Struct, frozen=True):
    """A release of DynamoDB Local. ``bom`` pins the SDK its dependencies need, where they do not resolve without."""

    group: str
    version: str
    main: str
    bom: str = ""


NOT_CHECKED: Final[set[str]] = set()
"""Why tests were skipped for want of a server."""

LOCAL_2: Final = Release("com.amazonaws", "2.6.1", "com.amazonaws.services.dynamodbv2.local.main.ServerRunner")
LOCAL_3: Final = Release(
    "software.amazon.dynamodb", "3.3.1", "software.amazon.dynamodb.services.local.main.ServerRunner", bom="2.54.15"
)

_POM: Final = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>turnstile.tests</groupId><artifactId>dynamodb-local</artifactId><version>1</version>{bom}
  <dependencies>
    <dependency><groupId>{group}</groupId><artifactId>DynamoDBLocal</artifactId><version>{version}</version></dependency>
  </dependencies>
</project>
"""
_BOM: Final = """
  <dependencyManagement><dependencies><dependency>
    <groupId>software.amazon.awssdk</groupId><artifactId>bom</artifactId><version>{bom}</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>"""


def libraries(release: Release) -> Path:
    """The folder with the release's jars, fetched by Maven the first time.

    Raises:
        Missing: without Java 17, Maven, or a repository to fetch from.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise Missing(f"DynamoDB Local {release.version} needs {program} (Java 17 and Maven)")
    home = cache("dynamodb-local")
    folder = home / release.version
    with alone(home):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=home) as name:
                fetched = Path(name) / "fetched"
                fetched.mkdir()
                _fetch(release, fetched, home / "maven")
                fetched.rename(folder)
    return folder / "lib"


def _fetch(release: Release, folder: Path, repository: Path) -> None:
    """Not by the user's own Maven repository: of versions that it does not take, Maven leaves a pom there without its jar, which a Spark session finds,
    and then it cannot start."""
    bom = _BOM.format(bom=release.bom) if release.bom else ""
    (folder / "pom.xml").write_text(_POM.format(bom=bom, group=release.group, version=release.version))
    goal = ["dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime"]
    done = subprocess.run(
        ["mvn", "-q", "-B", f"-Dmaven.repo.local={repository}", *goal],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Missing(f"DynamoDB Local {release.version} could not be fetched: {done.stdout[-300:].strip()}")


@contextmanager
def dynamodb_local(release: Release, folder: Path) -> Iterator[str]:
    """DynamoDB Local in memory."""
    lib, port = libraries(release), free_port()
    options = ["-Xmx512m", "-cp", f"{lib}/*", f"-Djava.library.path={lib}"]
    command = ["java", *options, release.main, "-inMemory", "-disableTelemetry", "-port", str(port)]
    with ExitStack() as stack:
        try:
            url = stack.enter_context(serving(command, port, folder, os.environ))
        except RuntimeError as error:
            if "UnsupportedClassVersionError" in str(error):
                raise Missing(f"DynamoDB Local {release.version} needs Java 17") from None
            raise
        yield url


class Servers:
    """Starts servers when they are asked for and keeps them until ``stack`` closes.

    Args:
        stack: what ends the servers.
        folder: where they keep their state.
    """

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self._backends: dict[str, Backend] = {}

    def get(self, name: str) -> Backend:
        """The backend of that name; skips the test, with the reason, where it cannot be had."""
        if name not in self._backends:
            try:
                self._backends[name] = self._start(name)
            except Missing as missing:
                NOT_CHECKED.add(str(missing))
                pytest.skip(str(missing))
        return self._backends[name]

    def _start(self, name: str) -> Backend:
        if name == FAKE:
            return Backend(name)
        for variable, value in (
            ("ACCESS_KEY_ID", "test"),
            ("SECRET_ACCESS_KEY", "test"),
            ("DEFAULT_REGION", "us-east-1"),
        ):
            os.environ.setdefault(f"AWS_{variable}", value)
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        if name == SQLITE:
            return SqliteBackend(folder)
        releases = {backends.LOCAL_2: LOCAL_2, backends.LOCAL_3: LOCAL_3}
        if name == backends.MOTO:
            return Backend(name, self._stack.enter_context(moto(folder)))
        server = dynamodb_local(releases[name], folder) if name in releases else ministack(folder)
        backend = Backend(name, self._stack.enter_context(server))
        backend.make_tables()
        return backend
