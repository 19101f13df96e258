"""One short URL for everything, and each patch of the emulator seen at work."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.stack import until
from turnstile_local import Stack
from turnstile_local.settings import CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.stack, pytest.mark.slow]

ECHO = """
import json, os, time
def app(event, context):
    wait = float((event.get("queryStringParameters") or {}).get("wait", 0))
    time.sleep(wait)
    if event["rawPath"] == "/v1/tables/x/publish":
        print("a line from the function")
    return {"statusCode": 200, "body": json.dumps({"event": event, "pid": os.getpid()})}
"""
QUIET = "def on_refs(event, context):\n    return {}\ndef sweep(event, context):\n    pass\ncollect = sweep\n"


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose API functions answer with the event they got, and log nothing."""
    root = tmp_path_factory.mktemp("echo")
    for name, code in (
        ("commit", ECHO),
        ("catalog", ECHO),
        ("iceberg", ECHO),
        ("publish", QUIET),
        ("gc", QUIET),
    ):
        (root / "functions" / name).mkdir(parents=True)
        (root / "functions" / name / "app.py").write_text(code)
    with Stack.start(root / "home", port=0, functions=root / "functions") as stack:
        yield stack


def event(stack: Stack, method: str, path: str, **more: Any) -> dict[str, Any]:
    with stack.client() as api:
        answer = api.request(method, path, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["event"]


def test_routes_and_path_parameters(echo: Stack) -> None:
    seen = event(echo, "GET", "/v1/catalogs/c/namespaces/a.b/tables/t%40x?content=true")
    assert seen["routeKey"] == "GET /v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}"
    assert seen["pathParameters"] == {"catalog": "c", "namespace": "a.b", "table": "t@x"}
    assert seen["rawQueryString"] == "content=true"
    assert event(echo, "GET", "/v1/no/such/path")["routeKey"] == "ANY /v1/{proxy+}"
    seen = event(echo, "GET", "/iceberg/v1/main/namespaces/a%1Fb")
    assert (seen["routeKey"], seen["rawPath"]) == ("ANY /iceberg/{proxy+}", "/iceberg/v1/main/namespaces/a\x1fb")


def test_a_get_with_a_json_body_arrives_with_it(echo: Stack) -> None:
    path = "/api/2.1/unity-catalog/delta/preview/commits"
    seen = event(echo, "GET", path, json={"table_id": "x", "start_version": 1})
    assert json.loads(seen["body"]) == {"table_id": "x", "start_version": 1}
    assert seen["isBase64Encoded"] is False


def test_an_escaped_percent_sign_stays_one(echo: Stack) -> None:
    assert event(echo, "GET", "/v1/tables/a%2520b/head")["rawPath"] == "/v1/tables/a%20b/head".replace("%20", "%2520")


def test_an_offer_of_http2_is_answered_in_http1(echo: Stack) -> None:
    """Java's HTTP client makes it with its first request."""
    with socket.create_connection(("127.0.0.1", echo.port)) as wire:
        wire.sendall(
            b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
            b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n\r\n"
        )
        assert wire.recv(65_536).startswith(b"HTTP/1.1 200")


def test_the_same_url_is_the_emulated_aws(echo: Stack) -> None:
    s3 = echo.aws("s3")
    s3.create_bucket(Bucket="somebucket")
    s3.put_object(Bucket="somebucket", Key="v1/x", Body=b"1")
    assert s3.get_object(Bucket="somebucket", Key="v1/x")["Body"].read() == b"1"
    s3.create_bucket(Bucket="api")
    s3.put_object(Bucket="api", Key="2.1/unity-catalog/k", Body=b"2")
    found = s3.get_object(Bucket="api", Key="2.1/unity-catalog/k")
    assert found["Body"].read() == b"2", "what is signed for S3 goes to S3"
    assert set(echo.aws("dynamodb").list_tables()["TableNames"]) == {echo.refs_table, echo.objs_table}


def test_requests_beyond_the_seats_wait_for_one(echo: Stack) -> None:
    def ask(_: int) -> int:
        with echo.client() as api:
            return int(api.get("/v1?wait=0.2").json()["pid"])

    with ThreadPoolExecutor(3 * CONCURRENCY) as pool:
        pids = list(pool.map(ask, range(3 * CONCURRENCY)))
    assert len(set(pids)) <= CONCURRENCY


def test_functions_log_goes_to_a_file(echo: Stack) -> None:
    with echo.client() as api:
        api.post("/v1/tables/x/publish", json={})
    log = Path(echo.home) / "log" / "functions.log"
    until(lambda: "CatalogFunction a line from the function" in log.read_text(), "the line is in the file")


def test_the_health_check_names_the_stack(echo: Stack) -> None:
    with echo.client() as api:
        told = api.get("/_turnstile/health").json()
    assert told["pid"] == echo.state.pid
    assert told["home"] == str(echo.home)
    assert told["development"] is True
