"""Servers of other states of the code, and the stores that they write."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa

from tests.support.earlier.archive import LAKE, Store, empty_bucket, pack
from tests.support.earlier.exchanges import requests
from tests.support.earlier.story import ADMIN, Story, iceberg_catalog, tokens
from tests.support.server import aws_client, aws_environment
from tests.support.store.servers import ministack

_PACKAGES = ("layers", "server", "cli", "http_client", "spark_client", "python_client", "infra")
_START = """
import json, os, sys
from turnstile_server import Server
server = Server.start(sys.argv[1], 0, sys.argv[2], sys.argv[3], environment=json.loads(sys.argv[4]))
print(json.dumps({"url": server.url, "pids": list(server.pids)}), flush=True)
"""


class EarlierServer:
    """A server of another checkout, with a store in ``home`` and its tables in S3."""

    def __init__(self, checkout: Path, home: Path, s3_url: str) -> None:
        path = os.pathsep.join(str(checkout / package) for package in _PACKAGES)
        own = {**aws_environment(s3_url), "TURNSTILE_TOKENS": tokens()}
        done = subprocess.run(
            [sys.executable, "-c", _START, str(home), "token-of-the-operator", LAKE, json.dumps(own)],
            env={**os.environ, **own, "PYTHONPATH": path},
            cwd=checkout,
            check=True,
            capture_output=True,
            text=True,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        self.url: str = found["url"]
        self._pids: list[int] = found["pids"]

    def quiet(self) -> None:
        """Freezes all processes that answer no requests: nothing is published any more."""
        for pid in self._pids[1:]:
            command = Path(f"/proc/{pid}/cmdline").read_text()
            if "background" in command or "light" in command:
                os.kill(pid, signal.SIGSTOP)

    def kill(self) -> None:
        """Ends all processes at once, as a machine that fails does."""
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def fill(checkout: Path, commit: str, home: Path, s3_url: str) -> Store:
    """Fills a store in ``home`` by the code of ``checkout`` and returns what was asked of it.

    The server is killed at the end. ``commit`` is the state of ``checkout``; the bucket of the lake
    exists and is empty.
    """
    s3 = aws_client("s3", s3_url)
    with ExitStack() as stack:
        server = EarlierServer(checkout, home, s3_url)
        stack.callback(server.kill)
        asked = stack.enter_context(requests(server.url, ADMIN))

        def put(location: str, name: str, content: bytes) -> None:
            parts = urlsplit(location)
            s3.put_object(Bucket=parts.netloc, Key=f"{parts.path.strip('/')}/{name}", Body=content)

        def append(name: str) -> None:
            iceberg_catalog(server.url, s3_url).load_table(name).append(pa.table({"id": [1, 2]}))

        story = Story(asked, put, append, server.quiet)
        story.tell()
        return Store(commit, time.time_ns() // 1_000_000, story.ids, asked.sent)


def write(checkout: Path, commit: str, path: Path) -> int:
    """Writes the store of ``checkout``, which has the code of ``commit``, and returns its size."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "aws").mkdir()
        s3_url = stack.enter_context(ministack(folder / "aws"))
        s3 = empty_bucket(s3_url)
        store = fill(checkout, commit, folder / "home", s3_url)
        return pack(store, folder / "home", s3, path)
