"""What a commit takes of a process that answers, in calls of Python functions: from the HTTP server
to the synced row and back (docs/performance.md, ADR 76)."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest

from benchmarks.racing.table import append, version_zero
from tests.support.python_calls import python_calls
from turnstile.catalog.services import ensure
from turnstile_server.http import Application
from turnstile_server.settings import ServerSettings
from turnstile_server.world import open_store

ICT = 1_700_000_000_000
NAMESPACE = "/v1/catalogs/main/namespaces/default"

Post = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    """Sends a request to the application of a server, in this very thread."""
    monkeypatch.setenv("TURNSTILE_AUTHENTICATION", "none")
    settings = ServerSettings(str(tmp_path), runtime=str(tmp_path))
    with closing(open_store(settings, lambda _: None)) as store:
        ensure(store.world, lake_root=settings.lake_root)
        application = Application(settings, store)

        def post(path: str, members: dict[str, Any]) -> dict[str, Any]:
            body = json.dumps(members).encode()
            statuses = list[str]()
            environ = {
                "REQUEST_METHOD": "POST",
                "PATH_INFO": path,
                "QUERY_STRING": "",
                "HTTP_HOST": "localhost",
                "CONTENT_TYPE": "application/json",
                "CONTENT_LENGTH": str(len(body)),
                "wsgi.input": io.BytesIO(body),
            }
            answer = b"".join(application(environ, lambda status, _headers: statuses.append(status)))
            assert statuses[0][:1] == "2", answer
            made: dict[str, Any] = json.loads(answer)
            return made

        yield post


class Table:
    """A table, and its next commit."""

    def __init__(self, post: Post, name: str) -> None:
        staged = post(f"{NAMESPACE}/staging-tables", {"name": name})
        log = Path(unquote(urlparse(staged["location"]).path)) / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        features = staged["required_features"]
        properties = staged["required_properties"]
        (log / f"{0:020d}.json").write_text(version_zero(ICT, features, properties, row_tracking=False))
        self.id = staged["table_id"]
        post(f"{NAMESPACE}/tables", {"name": name, "table_id": self.id})
        self.version = 0

    def commit(self) -> dict[str, Any]:
        """The body of the next commit."""
        self.version += 1
        content = append(uuid.uuid4().hex, ICT + self.version, self.version - 1, row_tracking=False)
        return {"version": self.version, "base": self.version - 1, "inline": {"content": content}}


def test_a_commit_takes_at_most_310_calls(post: Post, record_property: Callable[[str, object], None]) -> None:
    table = Table(post, "t")
    path = f"/v1/tables/{table.id}/commits"
    for _ in range(3):
        post(path, table.commit())
    bodies = [table.commit() for _ in range(3)]
    calls = min(python_calls(lambda body=body: post(path, body)) for body in bodies)  # type: ignore[misc]
    record_property("calls", calls)
    assert calls <= 310


def test_a_table_more_in_a_group_takes_at_most_170_calls(
    post: Post, record_property: Callable[[str, object], None]
) -> None:
    tables = [Table(post, f"t{number}") for number in range(12)]

    def group(count: int) -> dict[str, Any]:
        commits = [{"table_id": table.id, **table.commit()} for table in tables[:count]]
        return {"id": str(uuid.uuid4()), "commits": commits}

    def calls(count: int) -> int:
        bodies = [group(count) for _ in range(3)]
        return min(python_calls(partial(post, "/v1/transactions", body)) for body in bodies)

    post("/v1/transactions", group(12))
    one_more = (calls(12) - calls(2)) / 10
    record_property("calls", one_more)
    assert one_more <= 170
