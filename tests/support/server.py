"""Servers of tests beyond the plain one: with tables on an S3 emulator, and with a background that rests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from turnstile_server import Server

REGION = "us-east-1"
LAKE = "s3://lake/warehouse"
_KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class ServerOnS3(Server):
    """A server with its tables below ``LAKE`` in an S3 emulator."""

    s3_endpoint = ""

    @property
    def env(self) -> dict[str, str]:
        """Variables that point clients of AWS at the emulator."""
        return {**_KEYS, "AWS_ENDPOINT_URL": self.s3_endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION}

    def aws(self, service: str) -> Any:
        """A client of the emulator."""
        return _client(service, self.s3_endpoint)


def _client(service: str, endpoint: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=_KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=_KEYS["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}) if service == "s3" else None,
    )


@contextmanager
def server_on_s3(
    home: Path, endpoint: str, token: str | None = None, variables: Mapping[str, str] | None = None
) -> Iterator[ServerOnS3]:
    """A server whose S3, and STS, listen at ``endpoint``. Ends with the block."""
    s3 = _client("s3", endpoint)
    if "lake" not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket="lake")
    environment = {
        **_KEYS,
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ENDPOINT_URL_STS": endpoint,
        "AWS_DEFAULT_REGION": REGION,
        **(variables or {}),
    }
    with ServerOnS3.start(home, 0, token, LAKE, environment=environment) as server:
        server.s3_endpoint = endpoint
        yield server


def processes(server: Server) -> dict[int, str]:
    """The name of each of its processes: ``main``, ``http`` or ``background``."""
    main, *others = server.pids
    return {main: "main", **dict.fromkeys(others[:-1], "http"), others[-1]: "background"}


@contextmanager
def resting_background(server: Server) -> Iterator[None]:
    """Nothing is published, swept or collected while the block runs."""
    background = next(pid for pid, name in processes(server).items() if name == "background")
    while True:
        os.kill(background, signal.SIGSTOP)
        if _writes(server):
            break
        os.kill(background, signal.SIGCONT)  # it was stopped with the store's lock in its hands
    try:
        yield
    finally:
        os.kill(background, signal.SIGCONT)


def _writes(server: Server) -> bool:
    """Whether the server can write to its store: SQLite gives up after seconds."""
    with server.client(timeout=10.0) as api:
        try:
            return api.post("/v1/catalogs/main/namespaces", json={"name": "resting"}).status_code in (201, 409)
        except httpx.TimeoutException:
            return False


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody has asked about yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
