"""A store in one file: SQLite's files, the files of its tables, and what was asked of it."""

from __future__ import annotations

import io
import lzma
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.support.earlier.exchanges import Exchange
from tests.support.server import aws_client

DATA: Final = Path(__file__).parents[2] / "data" / "stores"
BUCKET: Final = "earlier"
LAKE: Final = f"s3://{BUCKET}/lake"
MOST_BYTES: Final = 300_000
"""A store is kept in the repository for good."""


class Store(msgspec.Struct):
    """A store that one state of the code wrote.

    Attributes:
        commit: that state.
        written_ms: when the last request was answered.
        ids: tables and the open transaction, by their names in ``story``.
    """

    commit: str
    written_ms: int
    ids: dict[str, str]
    exchanges: list[Exchange]


def pack(store: Store, home: Path, s3: Any, path: Path) -> int:
    """Writes ``path`` and returns its size. ``home`` is a server's that does not run any more."""
    with lzma.open(path, "wb", preset=9) as compressed, tarfile.open(fileobj=compressed, mode="w") as tar:
        _add(tar, "exchanges.json", msgspec.json.encode(store))
        for file in sorted(home.glob("turnstile.db*")):
            _add(tar, f"home/{file.name}", file.read_bytes())
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
            for one in page.get("Contents", []):
                content = s3.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read()
                _add(tar, f"lake/{one['Key']}", content)
    return path.stat().st_size


def unpack(path: Path, home: Path, s3: Any) -> Store:
    """Puts a store's files into ``home`` and the files of its tables into S3, and returns the
    rest."""
    home.mkdir(parents=True, exist_ok=True)
    store = None
    with lzma.open(path) as compressed, tarfile.open(fileobj=compressed) as tar:
        for member in tar:
            content = tar.extractfile(member)
            assert content is not None
            folder, _, name = member.name.partition("/")
            if folder == "home":
                (home / name).write_bytes(content.read())
            elif folder == "lake":
                s3.put_object(Bucket=BUCKET, Key=name, Body=content.read())
            else:
                store = msgspec.json.decode(content.read(), type=Store)
    assert store is not None
    return store


def empty_bucket(s3_url: str) -> Any:
    """Returns a client of S3 whose bucket of the lake exists and has nothing in it."""
    s3 = aws_client("s3", s3_url)
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=BUCKET)
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for one in page.get("Contents", []):
            s3.delete_object(Bucket=BUCKET, Key=one["Key"])
    return s3


def stored() -> list[Path]:
    """The files of all stores, the oldest first."""
    return sorted(DATA.glob("*.tar.xz"))


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
