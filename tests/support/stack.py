"""Tables and functions of the embedded stack: a Delta client's work in a few calls, and the
functions' switches."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import httpx

from tests.support.fakes import delta
from turnstile.adapters import open_world
from turnstile.delta.core.head import TableHead
from turnstile.store.core.names import published_path
from turnstile.store.ports import World

if TYPE_CHECKING:
    from turnstile_local import Stack

T = TypeVar("T")
WITHIN_S = 60.0
"""The longest wait: a busy machine is slow."""
NAMESPACE = "/v1/catalogs/main/namespaces/default"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def eventually(look: Callable[[], T], seconds: float = WITHIN_S, what: str = "") -> T:
    """The result of ``look`` as soon as it is true; fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (value := look()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what or look}"
        time.sleep(0.05)
    return value


def until(holds: Callable[[], bool], what: str = "") -> None:
    """Waits for it; fails after a minute."""
    eventually(holds, what=what)


class Storage:
    """Files below a location, wherever the stack's lake is."""

    def __init__(self, stack: Stack, location: str) -> None:
        parts = urlsplit(location)
        self.s3 = stack.aws("s3") if parts.scheme == "s3" else None
        self.bucket = parts.netloc
        self.root = unquote(parts.path)

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

    def __init__(self, stack: Stack, name: str | None = None, headers: dict[str, str] | None = None) -> None:
        self.name = name or f"t_{uuid.uuid4().hex[:12]}"
        self._timestamp_ms = 0
        self.api: httpx.Client = stack.client()
        self.api.headers.update(headers or {})
        staged = self.ask("POST", f"{NAMESPACE}/staging-tables", {"name": self.name})
        self.id: str = staged["table_id"]
        self.storage = Storage(stack, staged["location"])
        zero = delta.version_zero(str(uuid.uuid4()), now_ms(), **staged["required_properties"])
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

    def settled(self, within_s: float) -> dict[str, Any]:
        """The head once everything is published; as it is when that takes longer."""
        deadline = time.monotonic() + within_s
        while True:
            with contextlib.suppress(httpx.TransportError):  # the connection to a server that was killed
                head: dict[str, Any] = self.get("head")
                if head["floor"] == head["latest"] or time.monotonic() > deadline:
                    return head
            time.sleep(0.05)

    def propose(self, version: int | None, txn: str | None = None, **more: Any) -> httpx.Response:
        """An inline append, not judged."""
        content = delta.append(txn or str(uuid.uuid4()), self._next_ms())
        body = {"version": version, "inline": {"content": content.decode()}, **more}
        return self.api.post(f"/v1/tables/{self.id}/commits", json=body)

    def append(self, version: int, txn: str | None = None) -> dict[str, Any]:
        """An inline append that must be ratified."""
        answer = self.propose(version, txn)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def stage(self, version: int) -> dict[str, Any]:
        """A staged append that must be ratified."""
        name = f"{version:020d}.{uuid.uuid4()}.json"
        content = delta.append(str(uuid.uuid4()), self._next_ms())
        self.storage.write(f"_delta_log/_staged_commits/{name}", content)
        staged = {"name": name, "size": len(content), "modified": now_ms()}
        return self.ask("POST", f"/v1/tables/{self.id}/commits", {"version": version, "staged": staged})

    def _next_ms(self) -> int:
        """A timestamp that is later than that of the commit before: two may take less than a
        millisecond."""
        self._timestamp_ms = max(now_ms(), self._timestamp_ms + 1)
        return self._timestamp_ms

    def published(self, version: int, seconds: float = WITHIN_S) -> bytes:
        """The bytes of a version as soon as they are in ``_delta_log``."""
        return eventually(lambda: self.storage.version(version), seconds)


def commit_info(content: bytes) -> dict[str, Any]:
    return json.loads(content.split(b"\n")[0])["commitInfo"]


class Functions:
    """The stack's functions by handler."""

    def __init__(self, stack: Stack) -> None:
        self._client = stack.aws("lambda")
        self._names = {one["Handler"]: one["FunctionName"] for one in self._client.list_functions()["Functions"]}

    def invoke(self, handler: str, event: Any) -> dict[str, Any]:
        answer = self._client.invoke(FunctionName=self._names[handler], Payload=json.dumps(event))
        payload = answer["Payload"].read()
        assert "FunctionError" not in answer, payload
        return dict(json.loads(payload))

    def set(self, handler: str, **variables: str) -> None:
        """Set environment variables; an empty one counts as not set."""
        name = self._names[handler]
        found = self._client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        self._client.update_function_configuration(FunctionName=name, Environment={"Variables": {**found, **variables}})

    def environment(self, handler: str) -> dict[str, str]:
        name = self._names[handler]
        return dict(self._client.get_function_configuration(FunctionName=name)["Environment"]["Variables"])


class StackTable:
    """``ratified`` maps version to ratified bytes, as the answers told them."""

    def __init__(self, stack: Stack, world: World, name: str) -> None:
        self._http = stack.client()
        self.world = world
        route = "/v1/catalogs/main/namespaces/default"
        staged = self._post(f"{route}/staging-tables", {"name": name})
        self.id = staged["table_id"]
        self.location = staged["location"]
        self.storage = world.storages.open(self.location)
        features = [feature for feature in staged["required_features"] if feature not in delta.WRITER_FEATURES]
        zero = delta.version_zero(f"zero-{self.id}", now_ms(), *features, **staged["required_properties"])
        assert self.storage.put_if_absent(published_path(0), zero)
        self._post(f"{route}/tables", {"name": name, "table_id": self.id})
        self.ratified = {0: zero}

    def _post(self, path: str, body: Any) -> Any:
        answer = self._http.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def close(self) -> None:
        self._http.close()

    @property
    def head(self) -> TableHead:
        row = self.world.refs.read(self.world.space.table(self.id))
        assert row is not None
        return TableHead.from_row(row)

    def commit(self, body: dict[str, Any]) -> dict[str, Any]:
        """Propose to the deployed commit function."""
        answer: dict[str, Any] = self._post(f"/v1/tables/{self.id}/commits", body)
        return answer

    def inline(self, *, size: int = 0) -> dict[str, Any]:
        """An inline commit of the next version; returns the request, for replays."""
        version = max(self.ratified) + 1
        noise = "".join(uuid.uuid4().hex for _ in range(-(-size // 32)))
        info = delta.info(f"i-{version}-{uuid.uuid4()}", max(now_ms(), self.last_ict() + 1), noise=noise)
        content = delta.lines(info, delta.add(f"{version}.parquet"))
        body = {"version": version, "inline": {"content": content.decode()}}
        assert self.commit(body)["outcome"] == "ratified"
        self.ratified[version] = content
        return body

    def stage(self, *, lose: bool = False, engine_publishes: bool = False) -> dict[str, Any]:
        """A staged commit of the next version; with ``lose`` it is never proposed, with
        ``engine_publishes`` the publisher finds it in the log."""
        version = max(self.ratified) + 1
        content = delta.append(f"s-{version}-{uuid.uuid4()}", max(now_ms(), self.last_ict() + 1))
        name = f"{version:020d}.{uuid.uuid4()}.json"
        assert self.storage.put_if_absent(f"_delta_log/_staged_commits/{name}", content)
        if engine_publishes:
            assert self.storage.put_if_absent(published_path(version), content)
        body = {"version": version, "staged": {"name": name, "size": len(content), "modified": now_ms()}}
        if not lose:
            assert self.commit(body)["outcome"] == "ratified"
            self.ratified[version] = content
        return body

    def ticket(self) -> None:
        """A blind append that asks for the next version."""
        content = delta.append(f"t-{uuid.uuid4()}", now_ms())
        made = self.commit({"version": None, "base": max(self.ratified), "inline": {"content": content.decode()}})
        self.ratified[made["commit"]["version"]] = made["commit"]["content"].encode()

    def mixed(self, count: int) -> None:
        for number in range(count):
            match number % 4:
                case 0:
                    self.stage()
                case 1:
                    self.inline()
                case 2:
                    self.ticket()
                case _:
                    self.inline(size=12_000)

    def last_ict(self) -> int:
        first = json.loads(self.ratified[max(self.ratified)].split(b"\n", 1)[0])
        return int(first["commitInfo"]["inCommitTimestamp"])

    def published(self) -> dict[int, bytes]:
        found = {}
        for stat in self.storage.list("_delta_log/"):
            content = self.storage.read(stat.path)
            if stat.path.endswith(".json") and content is not None:
                found[int(stat.path.removeprefix("_delta_log/")[:20])] = content[0]
        return found

    def check_prefix(self) -> None:
        """I4, I5."""
        floor = self.head.floor
        found = self.published()
        assert found == {version: self.ratified[version] for version in range(len(found))}
        assert floor < len(found)

    def is_published(self) -> bool:
        head = self.head
        return head.floor == head.latest == max(self.ratified) and head.pending is None

    def check_all_published(self) -> None:
        """I11, after waiting for it."""
        until(self.is_published, f"everything published: {self.head}")
        self.check_prefix()
        assert sorted(self.published()) == sorted(self.ratified)
        assert self.head.state == "active"


def world_of(stack: Stack, functions: Functions) -> World:
    """The deployed tables through the same adapters the functions use."""
    realm = functions.environment("app.on_refs")["TURNSTILE_REALM"]
    return open_world(refs_table=stack.refs_table, objs_table=stack.objs_table, realm=realm, endpoint_url=stack.url)
