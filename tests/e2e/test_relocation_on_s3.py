"""A lake in S3 whose objects were copied below another prefix, or to another bucket: the store
follows, Iceberg's tables stay readable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.cli import ask, run
from tests.support.server import ServerOnS3, alive, aws_client, aws_environment
from tests.support.stack import Table, until
from tests.support.store.backends import MINISTACK
from tests.support.store.servers import Servers

ICEBERG = "/iceberg/v1/main/namespaces/default/tables"
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}


class Bucket:
    """A bucket of the emulator, of the test's own."""

    def __init__(self, endpoint: str) -> None:
        self.s3 = aws_client("s3", endpoint)
        self.name = f"b{uuid4().hex[:12]}"
        self.s3.create_bucket(Bucket=self.name)

    def keys(self, prefix: str) -> list[str]:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def copy(self, old: str, to: Bucket, new: str) -> None:
        """Copies objects as ``aws s3 cp --recursive`` does."""
        for key in self.keys(old):
            to.s3.copy_object(
                Bucket=to.name, Key=new + key.removeprefix(old), CopySource={"Bucket": self.name, "Key": key}
            )

    def remove(self, prefix: str, keep: str = "\0") -> None:
        for key in self.keys(prefix):
            if keep not in key:
                self.s3.delete_object(Bucket=self.name, Key=key)


@pytest.fixture(scope="module")
def endpoint(servers: Servers) -> str:
    url = servers.get(MINISTACK).url
    assert url is not None
    return url


@pytest.fixture
def start(endpoint: str, tmp_path: Path) -> Callable[[str], Any]:
    """Starts a server with a lake in the emulator, in the test's one home."""
    keys = aws_environment(endpoint)

    def started(lake: str) -> ServerOnS3:
        server = ServerOnS3.start(tmp_path / "home", 0, lake=lake, environment=keys)
        server.s3_endpoint = endpoint
        return server

    return started


def ended(server: ServerOnS3) -> None:
    pids = server.pids
    server.stop()
    until(lambda: not any(map(alive, pids)), "all processes have ended")


@pytest.fixture
def relocate(endpoint: str, tmp_path: Path) -> Callable[..., Any]:
    """Returns the report of ``turnstile relocate``, or the message of its refusal."""

    def said(*arguments: str) -> Any:
        done = run(
            *("relocate", *arguments, "--output", "json"),
            TURNSTILE_HOME=str(tmp_path / "home"),
            **aws_environment(endpoint),
        )
        return json.loads(done.stdout) if done.exit_code == 0 else done.stderr

    return said


@pytest.mark.parametrize(
    ("other_bucket", "old_prefix", "new_prefix"),
    [pytest.param(False, "x", "y", marks=pytest.mark.slow), pytest.param(True, "lake/a", "", marks=pytest.mark.slow)],
)
def test_i10_i24_a_lake_in_s3_goes_on_below_the_prefix_to_which_its_objects_were_copied(
    start: Callable[[str], ServerOnS3],
    relocate: Callable[..., Any],
    endpoint: str,
    *,
    other_bucket: bool,
    old_prefix: str,
    new_prefix: str,
) -> None:
    source = Bucket(endpoint)
    target = Bucket(endpoint) if other_bucket else source
    old = f"s3://{source.name}/{old_prefix}"
    new = f"s3://{target.name}/{new_prefix}".rstrip("/")
    server = start(old)
    table = Table(server, "kept")
    for version in range(1, 4):
        table.append(version)
    log = [table.published(version) for version in range(4)]
    frozen = table.ask("POST", ICEBERG, {"name": "ice", "schema": SCHEMA})
    table.ask("POST", "/v1/catalogs/main/clones", {"from": "default.kept", "to": "default.shown"})
    until(lambda: table.get("head")["floor"] == 3, "all is published")
    assert "AlreadyRunning" in relocate(old, new)
    ended(server)

    refusal = relocate(old, new)
    assert "nothing was changed" in refusal and f"version 3 is not at {new}/" in refusal
    source.copy(f"{old_prefix}/", target, f"{new_prefix}/".lstrip("/"))
    planned = relocate(old, new, "--dry-run")
    assert (planned["tables"], planned["done"], planned["problems"]) == (2, False, [])
    assert [text.partition(" at ")[0] for text in planned["left"]] == ["main.default.ice (Iceberg)"]
    assert relocate(f"{old}/", f"{new}/")["done"] is True
    assert relocate(old, new)["tables"] == 0
    source.remove(f"{old_prefix}/", keep=frozen["metadata"]["table-uuid"])

    server = start(new)
    try:
        checks = {check["name"]: check["result"] for check in ask(server, "doctor")["checks"]}
        assert checks["folders"] == "ok"
        table.api = server.client()
        table.append(4)
        table.storage.bucket = target.name
        table.storage.root = table.get("head")["location"].split(target.name)[1]
        assert table.published(4)
        assert [table.published(version) for version in range(4)] == log
        for name in ("kept", "shown"):
            assert ask(server, "verify", f"default.{name}")["deviations"] == []
        loaded = table.ask("GET", f"{ICEBERG}/ice")
        assert loaded["metadata-location"] == frozen["metadata-location"], "it is where it was"
        update = {"action": "set-properties", "updates": {"moved": "no"}}
        changed = table.ask("POST", f"{ICEBERG}/ice", {"requirements": [], "updates": [update]})
        assert changed["metadata-location"].startswith(f"{old}/")
        fresh = table.ask("POST", ICEBERG, {"name": "later", "schema": SCHEMA})
        assert fresh["metadata"]["location"].startswith(f"{new}/")
        table.ask("POST", "/v1/catalogs/main/namespaces/default/staging-tables", {"name": "more"})
    finally:
        ended(server)
