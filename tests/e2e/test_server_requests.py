"""What a server answers on its port: the API and nothing else, to programs and not to foreign
pages, within limits (I12)."""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.fakes import delta
from tests.support.stack import Table, now_ms
from turnstile.api.http.request import BodyLimit
from turnstile_server import Server
from turnstile_server.http import Application
from turnstile_server.settings import ServerSettings
from turnstile_server.world import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

OPERATOR = "an operator's token"
READER = "a reader's token"
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
LIMIT_BYTES = BodyLimit().bytes


def send(
    server: Server, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """One request with exactly these headers, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def raw(server: Server, *parts: bytes) -> bytes:
    """The beginning of the answer to what is written on the wire."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as wire:
        for part in parts:
            wire.sendall(part)
        return wire.recv(65_536)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two processes that answer, and tokens of an operator and a reader."""
    home = tmp_path_factory.mktemp("guarded")
    reader = {hashlib.sha256(READER.encode()).hexdigest(): {"name": "reader", "roles": []}}
    settings = ServerSettings(str(home), workers=2)
    environment = {"TURNSTILE_TOKENS": json.dumps(reader)}
    with Server.start(home, 0, OPERATOR, settings=settings, environment=environment) as running:
        yield running


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


# -- who may ask ------------------------------------------------------------------------------------------------------

FOREIGN = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8750"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "evil.example@127.0.0.1"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:3000"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Origin": "http://evil.example"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize(
    "path", ["/v1/catalogs", "/iceberg/v1/config", "/healthz", "/metrics", "/2015-03-31/functions"]
)
def test_i12_what_a_foreign_page_or_name_would_send_is_refused_and_changes_nothing(
    server: Server, headers: dict[str, str], path: str
) -> None:
    name = f"c{uuid4().hex[:8]}"
    body = json.dumps({"name": name}).encode()
    for method, more, content in (
        ("GET", {}, None),
        ("POST", {"Content-Type": "text/plain"}, body),
        ("OPTIONS", {"Access-Control-Request-Method": "POST"}, None),
    ):
        status, told, _ = send(server, method, path, {**headers, **more}, content)
        assert status == 403
        assert not [header for header in told if header.lower().startswith("access-control-")]
    with server.client() as api:
        assert name not in [catalog["name"] for catalog in api.get("/v1/catalogs").json()["catalogs"]]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8750", "10.1.2.3:80"])
def test_names_of_the_server_and_addresses_are_taken(server: Server, host: str) -> None:
    assert send(server, "GET", "/v1/catalogs", {"Host": host})[0] == 200


def test_a_page_of_the_server_itself_and_a_link_to_it_are_taken(server: Server) -> None:
    host = f"127.0.0.1:{server.port}"
    own = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert send(server, "GET", "/v1/catalogs", own)[0] == 200
    link = {"Host": host, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert send(server, "GET", "/v1/catalogs", link)[0] == 200


def test_i12_a_request_without_a_host_or_with_two_is_refused(server: Server) -> None:
    for hosts in (b"", b"Host: localhost\r\nHost: evil.example\r\n", b"Host: evil.example\r\nHost: localhost\r\n"):
        answer = raw(server, b"GET /v1/catalogs HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")
        assert answer.split(b" ")[1] in (b"400", b"403"), answer[:200]


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "POST"])
def test_no_answer_opens_the_server_to_pages(server: Server, method: str) -> None:
    _, told, _ = send(server, method, "/v1/catalogs", {"Access-Control-Request-Method": "POST"})
    assert not [header for header in told if header.lower().startswith("access-control-")]


@pytest.mark.parametrize(
    "path",
    ["/", "/2015-03-31/functions", "/2015-03-31/functions/x/invocations", "/_ministack/health", "/lake/warehouse"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_i12_nothing_but_the_api_is_on_the_port(server: Server, method: str, path: str) -> None:
    amazon = {"X-Amz-Target": "DynamoDB_20120810.ListTables", "Content-Type": "application/x-amz-json-1.0"}
    status, _, content = send(server, method, path, amazon, b"{}" if method in ("POST", "PUT") else None)
    assert status == 404, content
    assert json.loads(content)["error"]["type"] == "NoSuchRoute"


def test_i12_tokens_are_demanded_for_the_api_and_for_figures(guarded: Server) -> None:
    for path in ("/v1/catalogs", "/metrics", "/conflicts", "/iceberg/v1/config?warehouse=main"):
        for headers in ({}, bearer("wrong"), {"x-principal": "operator"}):
            assert send(guarded, "GET", path, headers)[0] == 401, path
        assert send(guarded, "GET", path, bearer(OPERATOR))[0] == 200, path
    for path in ("/metrics", "/conflicts"):
        assert send(guarded, "GET", path, bearer(READER))[0] == 403
    assert send(guarded, "POST", "/v1/catalogs", {**bearer(READER), **JSON}, b'{"name": "x"}')[0] == 403
    for path in ("/healthz", "/readyz"):
        assert send(guarded, "GET", path)[0] == 200, "a load balancer has no token"


def test_i12_readyz_tells_strangers_that_the_store_fails_and_not_in_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def read(self, key: str) -> None:
            raise RuntimeError("arn:aws:iam::123456789012:role/turnstile is not authorized")

    monkeypatch.setenv("TURNSTILE_AUTHENTICATION", "none")
    settings = ServerSettings(str(tmp_path))
    with closing(open_store(settings)) as store:
        refusing = dataclasses.replace(store, world=dataclasses.replace(store.world, refs=Refusing()))
        statuses: list[str] = []
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/readyz", "HTTP_HOST": "localhost"}
        (body,) = Application(settings, refusing)(environ, lambda status, _headers: statuses.append(status))
    assert statuses == ["503 Service Unavailable"]
    assert "the store does not answer, or takes no writes" in json.loads(body)["problems"]
    assert b"arn:aws" not in body


def test_a_process_may_have_several_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a server, such as its figures, is held once for the process."""
    monkeypatch.setenv("TURNSTILE_AUTHENTICATION", "none")
    settings = ServerSettings(str(tmp_path))
    with closing(open_store(settings)) as store:
        for application in (Application(settings, store), Application(settings, store)):
            statuses: list[str] = []
            environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/healthz", "HTTP_HOST": "localhost"}
            list(application(environ, lambda status, _headers, statuses=statuses: statuses.append(status)))
            assert statuses == ["200 OK"]


# -- what is asked ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["of a given length", "in chunks"])
def test_a_body_over_the_limit_is_refused_before_all_of_it_has_come(server: Server, kind: str) -> None:
    """The client still has a gigabyte to send when it is told."""
    head = b"POST /v1/catalogs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    content = b"x" * (LIMIT_BYTES + 100_000)
    if kind == "in chunks":
        head += b"Transfer-Encoding: chunked\r\n\r\n"
        content = b"%x\r\n%s\r\n" % (len(content), content)
    else:
        head += b"Content-Length: 1000000000\r\n\r\n"
    answer = raw(server, head, content)
    assert answer.startswith(b"HTTP/1.1 413"), answer[:300]
    with server.client() as api:
        assert api.get("/v1/catalogs").status_code == 200


def test_i12_bodies_of_strangers_that_never_come_leave_the_server_to_all_others(tmp_path: Path) -> None:
    threads = 8
    settings = ServerSettings(str(tmp_path / "home"), threads=threads)
    begun = b"grant_type="
    head = b"POST /oauth/token HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
    form = b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    with Server.start(tmp_path / "home", 0, OPERATOR, settings=settings) as running, ExitStack() as wires:
        for _ in range(4 * threads):
            wire = wires.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=60))
            wire.sendall(head + form + begun)
        for _ in range(3 * threads):
            assert send(running, "GET", "/healthz")[0] == 200
            assert send(running, "GET", "/v1/catalogs", bearer(OPERATOR))[0] == 200
        status, headers, body = send(running, "POST", "/oauth/token", FORM, b"grant_type=client_credentials")
        assert (status, json.loads(body)["error"]) == (503, "temporarily_unavailable")
        assert headers["Retry-After"] == "1"


def test_i12_a_body_is_not_read_before_its_sender_is_known(guarded: Server) -> None:
    head = (
        b"POST /v1/catalogs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        b"1000\r\n\r\n"
    )
    assert raw(guarded, head).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("body", [b'{"name": "\xff"}', b"\xfe\xff", b"\xed\xa0\x80", b"{", b"[]", b""])
def test_a_body_that_is_no_text_or_no_object_is_refused_with_the_reason(server: Server, body: bytes) -> None:
    status, _, content = send(server, "POST", "/v1/catalogs", JSON, body)
    error = json.loads(content)["error"]
    assert (status, error["type"]) == (400, "InvalidRequest"), content
    assert error["message"]


def test_names_may_be_escaped_in_any_way(server: Server) -> None:
    with server.client() as api:
        plain = f"e{uuid4().hex[:6]}"
        assert api.post("/v1/catalogs/main/namespaces", json={"name": plain}).status_code == 201
        escaped = "".join(f"%{ord(letter):02x}" for letter in plain)
    for path in (f"/v1/catalogs/main/namespaces/{escaped}", f"/v1/catalogs/m%61in/namespaces/{plain}"):
        assert send(server, "GET", path)[0] == 200
    for path in ("/v1/catalogs/main%252Fnamespaces", "/v1/catalogs/%FF%FE", "/v1/catalogs/a%00b", "/v1/catalogs/%zz"):
        status, _, content = send(server, "GET", path)
        assert status in (400, 404), content
        assert json.loads(content)["error"]["type"]


def test_head_has_the_headers_of_get_and_no_body(server: Server) -> None:
    for path in ("/healthz", "/readyz", "/iceberg/v1/main/namespaces/default"):
        status, _, content = send(server, "HEAD", path)
        assert (status in (200, 204), content) == (True, b""), path
    get = send(server, "GET", "/healthz")
    head = send(server, "HEAD", "/healthz")
    assert int(head[1]["content-length"]) == len(get[2]), "a length of 0 would be that of another document"
    assert send(server, "HEAD", "/iceberg/v1/main/namespaces/nosuch")[0] == 404


def test_a_connection_serves_many_requests(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for path, status in (("/v1/catalogs", 200), ("/v1/nosuch", 404), ("/healthz", 200), ("/v1/catalogs", 200)):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()


def test_metadata_of_an_iceberg_table_are_bounded_by_memory_and_not_by_lambdas_answer(server: Server) -> None:
    name = f"large{uuid4().hex[:6]}"
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
    root = "/iceberg/v1/main/namespaces/default/tables"
    with server.client() as api:
        assert api.post(root, json={"name": name, "schema": schema}).status_code == 200
        for number in range(10):
            update = {"action": "set-properties", "updates": {f"p{number}": "x" * 700_000}}
            answer = api.post(f"{root}/{name}", json={"requirements": [], "updates": [update]})
            assert answer.status_code == 200, answer.text[:300]
        loaded = api.get(f"{root}/{name}")
        assert loaded.status_code == 200
        assert sum(len(value) for value in loaded.json()["metadata"]["properties"].values()) >= 7_000_000
        assert api.delete(f"{root}/{name}").status_code == 204


# -- about the server -------------------------------------------------------------------------------------------------


def figures(server: Server) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    with server.client() as api:
        text = api.get("/metrics").text
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}


def count(server: Server, operation: str, status: int) -> float:
    return figures(server).get(("turnstile_requests_total", (("operation", operation), ("status", str(status)))), 0)


def test_figures_add_up_over_the_processes_that_answer(guarded: Server) -> None:
    before = count(guarded, "GET /v1/catalogs", 200)
    refused = count(guarded, "GET /v1/catalogs", 401)

    def ask(number: int) -> int:
        with httpx.Client(base_url=guarded.url, trust_env=False, timeout=60) as api:
            return api.get("/v1/catalogs", headers=bearer(OPERATOR) if number % 4 else {}).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(ask, range(60)))
    assert (statuses.count(200), statuses.count(401)) == (45, 15)
    assert count(guarded, "GET /v1/catalogs", 200) - before == 45
    assert count(guarded, "GET /v1/catalogs", 401) - refused == 15


def test_published_versions_are_counted(server: Server) -> None:
    name: Any = ("turnstile_published_versions_total", ())
    before = figures(server).get(name, 0)
    table = Table(server)
    for version in (1, 2, 3):
        table.append(version)
        table.published(version)
    assert figures(server)[name] - before >= 1
    assert figures(server)["turnstile_publish_lag_seconds_count", ()] > 0


def test_it_shows_the_loser_of_a_version_and_the_winner(server: Server) -> None:
    table = Table(server)
    other = Table(server)
    table.append(1, "the-winner")
    assert table.propose(1, "the-loser").status_code == 409
    members = [
        {"table_id": lost.id, "version": 1, "inline": {"content": delta.append("in-a-group", now_ms()).decode()}}
        for lost in (table, other)
    ]
    group = str(uuid4())
    assert table.api.post("/v1/transactions", json={"id": group, "commits": members}).status_code == 409

    with server.client() as api:
        in_group, alone = api.get("/conflicts", params={"table_id": table.id}).json()["conflicts"]
        assert api.get("/conflicts", params={"table_id": other.id}).json()["conflicts"] == []
    assert (alone["operation"], in_group["operation"]) == (
        "POST /v1/tables/{table_id}/commits",
        "POST /v1/transactions",
    )
    assert in_group["proposal"] == group and alone["at"] <= in_group["at"]
    assert "httpx" in alone["client"]
    for entry in (alone, in_group):
        [lost] = entry["conflicts"]
        [winner] = lost["winners"]
        assert (lost["table_id"], lost["latest"], lost["because"]) == (table.id, 1, "version")
        assert (winner["version"], winner["transaction"], winner["operation"]) == (1, "the-winner", "WRITE")


def test_log_lines_are_json_objects(tmp_path: Path) -> None:
    with Server.start(tmp_path / "home", 0, environment={"TURNSTILE_LOG_LEVEL": "INFO"}) as server:
        assert send(server, "GET", "/v1/catalogs", {"X-Correlation-Id": "asked-by-a-test"})[0] == 200
        assert send(server, "GET", "/v1/nosuch")[0] == 404
        log = server.log
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["level"] for line in lines} <= {"INFO", "WARNING", "ERROR"}
    (line,) = [line for line in lines if line.get("correlation_id") == "asked-by-a-test"]
    assert (line["service"], line["message"]) == ("turnstile-http", "GET /v1/catalogs 200")
    assert line["duration_ms"] >= 0


def test_the_console_is_served_without_a_token_and_the_api_is_not(guarded: Server) -> None:
    status, headers, page = send(guarded, "GET", "/ui/browse")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    script = re.findall(rb'src="(/ui/assets/[^"]+[.]js)"', page)[0].decode()
    status, headers, content = send(guarded, "GET", script, {"Accept-Encoding": "gzip"})
    assert (status, headers["Content-Encoding"]) == (200, "gzip")
    status, headers, nothing = send(guarded, "HEAD", script, {"Accept-Encoding": "gzip"})
    assert (status, nothing, headers["Content-Length"]) == (200, b"", str(len(content)))
    assert send(guarded, "GET", "/ui/settings.json")[0] == 200
    assert send(guarded, "POST", "/ui/", JSON, b"{}")[0] == 405
    assert send(guarded, "GET", "/ui/assets/..%2f..%2fhttp.py")[0] == 404
    assert send(guarded, "GET", "/ui/", {"Host": "somebody.example.com"})[0] == 403
    assert send(guarded, "GET", "/v1")[0] == 401
