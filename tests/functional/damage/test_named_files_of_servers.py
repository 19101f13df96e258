"""``turnstile verify --files`` against servers, with tables in files and in an S3 emulator:
removed, empty and shortened files are reported (I24)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from pyiceberg.catalog.rest import RestCatalog

from tests.support.cli import run
from tests.support.iceberg.pyarrow_tables import SCHEMA, rows
from tests.support.stack import Storage, Table

BYTES = 10
"""The statistics of each data file in the test's commits."""


@pytest.fixture(params=["server", "server_on_s3"])
def running(request: pytest.FixtureRequest) -> Any:
    """A server with its tables in files, and one with them in S3."""
    return request.getfixturevalue(request.param)


def verified(server: Any, name: str) -> dict[str, str]:
    """Returns the report on each file that deviates."""
    ended = run("verify", f"default.{name}", "--files", "--output", "json", TURNSTILE_HOME=str(server.home))
    found = json.loads(ended.stdout)["files"]["deviations"]
    assert ended.exit_code == (1 if found else 0), ended.output
    return {each["path"].rpartition("/")[2]: each["kind"] for each in found}


def remove(storage: Storage, path: str) -> None:
    if storage.s3:
        storage.s3.delete_object(Bucket=storage.bucket, Key=f"{storage.root}/{path}".lstrip("/"))
    else:
        (Path(storage.root) / path).unlink()


def test_i24_files_of_a_delta_table_that_are_removed_emptied_or_cut_are_reported(running: Any) -> None:
    table = Table(running)
    names = [f"{number:08d}-0000-4000-8000-{table.id[-12:]}" for number in range(1, 5)]
    for version, txn in enumerate(names, 1):
        table.append(version, txn)
        table.storage.write(f"{txn}.parquet", b"x" * BYTES)
    table.published(len(names))
    table.settled(60)
    assert verified(running, table.name) == {}
    remove(table.storage, f"{names[0]}.parquet")
    table.storage.write(f"{names[1]}.parquet", b"")
    table.storage.write(f"{names[2]}.parquet", b"x" * (BYTES - 1))
    expected = {f"{names[0]}.parquet": "missing", f"{names[1]}.parquet": "size", f"{names[2]}.parquet": "size"}
    assert verified(running, table.name) == expected


def test_i24_files_of_an_iceberg_table_that_are_removed_emptied_or_cut_are_reported(running: Any) -> None:
    s3 = {"s3.endpoint": running.env["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"} if hasattr(running, "env") else {}
    if s3:
        s3 |= {"s3.access-key-id": "test", "s3.secret-access-key": "test"}
    catalog = RestCatalog("main", uri=f"{running.url}/iceberg", warehouse="main", **s3)
    name = f"ice_{uuid4().hex[:8]}"
    table = catalog.create_table(f"default.{name}", SCHEMA)
    for number in range(4):
        table.append(rows(number))
    assert verified(running, name) == {}
    tasks = [task.file.file_path for task in catalog.load_table(f"default.{name}").scan().plan_files()]
    storage = Storage(running, table.location())
    paths = [urlsplit(path).path.removeprefix(urlsplit(table.location()).path + "/") for path in tasks]
    whole = storage.read(paths[2])
    assert whole is not None
    remove(storage, paths[0])
    storage.write(paths[1], b"")
    storage.write(paths[2], whole[:-1])
    expected = {path.rpartition("/")[2]: kind for path, kind in zip(paths, ("missing", "size", "size"), strict=False)}
    assert verified(running, name) == expected
