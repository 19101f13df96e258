"""A table's life over HTTP and storage, without Spark: what a Delta client does, in a few calls."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import httpx

from tests.support.fakes import delta

if TYPE_CHECKING:
    from turnstile_local import Stack

T = TypeVar("T")
NAMESPACE = "/v1/catalogs/main/namespaces/default"


def now() -> int:
    return time.time_ns() // 1_000_000


def eventually(seen: Callable[[], T], seconds: float = 30.0) -> T:
    """What ``seen`` returns as soon as it is something; fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (found := seen()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
    return found


class Storage:
    """Files below a location, wherever the stack's lake is."""

    def __init__(self, stack: Stack, location: str) -> None:
        parts = urlsplit(location)
        self.s3 = stack.aws("s3") if parts.scheme == "s3" else None
        self.bucket, self.root = parts.netloc, unquote(parts.path)

    def write(self, path: str, content: bytes) -> None:
        if self.s3:
            self.s3.put_object(Bucket=self.bucket, Key=f"{self.root}/{path}".lstrip("/"), Body=content)
            return
        file = Path(self.root) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def read(self, path: str) -> bytes | None:
        if self.s3:
            try:
                return self.s3.get_object(Bucket=self.bucket, Key=f"{self.root}/{path}".lstrip("/"))["Body"].read()
            except self.s3.exceptions.NoSuchKey:
                return None
        file = Path(self.root) / path
        return file.read_bytes() if file.exists() else None

    def version(self, version: int) -> bytes | None:
        """The published commit."""
        return self.read(f"_delta_log/{version:020d}.json")


class Table:
    """A table made by the three-phase create."""

    def __init__(self, stack: Stack, name: str | None = None) -> None:
        self.name = name or f"t_{uuid.uuid4().hex[:12]}"
        self.api: httpx.Client = stack.client()
        staged = self.ask("POST", f"{NAMESPACE}/staging-tables", {"name": self.name})
        self.id: str = staged["table_id"]
        self.storage = Storage(stack, staged["location"])
        zero = delta.version_zero(str(uuid.uuid4()), now(), **staged["required_properties"])
        self.storage.write(f"_delta_log/{0:020d}.json", zero)
        self.ask("POST", f"{NAMESPACE}/tables", {"name": self.name, "table_id": self.id})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.api.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def get(self, operation: str, **query: Any) -> Any:
        answer = self.api.get(f"/v1/tables/{self.id}/{operation}", params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def propose(self, version: int | None, txn: str | None = None, **more: Any) -> httpx.Response:
        """An inline append, not judged."""
        content = delta.append(txn or str(uuid.uuid4()), now())
        body = {"version": version, "inline": {"content": content.decode()}, **more}
        return self.api.post(f"/v1/tables/{self.id}/commits", json=body)

    def append(self, version: int, txn: str | None = None) -> dict[str, Any]:
        """An inline append that must be ratified."""
        answer = self.propose(version, txn)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def stage(self, version: int) -> dict[str, Any]:
        """A staged append that must be ratified."""
        name, content = f"{version:020d}.{uuid.uuid4()}.json", delta.append(str(uuid.uuid4()), now())
        self.storage.write(f"_delta_log/_staged_commits/{name}", content)
        staged = {"name": name, "size": len(content), "modified": now()}
        return self.ask("POST", f"/v1/tables/{self.id}/commits", {"version": version, "staged": staged})

    def published(self, version: int, seconds: float = 30.0) -> bytes:
        """The bytes of a version as soon as they are in ``_delta_log``."""
        return eventually(lambda: self.storage.version(version), seconds)


def commit_info(content: bytes) -> dict[str, Any]:
    return json.loads(content.split(b"\n")[0])["commitInfo"]
