"""A web page on the developer's machine cannot run code through the stack, read its secrets or
write its tables (I12).

Each test sends what a browser would send for such a page, or a program without a key, to a real
stack.
"""

from __future__ import annotations

import io
import json
import os
import socket
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from turnstile_local import Stack
from turnstile_local.home import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.stack, pytest.mark.slow]

TOKEN = "the operator's token"
FUNCTIONS = "/2015-03-31/functions"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack that asks for tokens, with its tables in the emulated S3."""
    with Stack.start(tmp_path_factory.mktemp("guarded"), port=0, token=TOKEN, lake="s3://lake/warehouse") as running:
        yield running


def send(stack: Stack, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    content = json.dumps(body).encode() if body is not None else None
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with httpx.Client(base_url=stack.url, trust_env=False, timeout=30) as client:
        return client.request(method, path, content=content, headers=names)


def error(answer: httpx.Response) -> str:
    assert answer.status_code == 403, answer.text
    return str(answer.json()["error"]["type"])


def new_function(marker: Path) -> dict[str, Any]:
    """A request that creates a function which leaves a file behind when it runs."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("app.py", f"def run(event, context):\n    open({str(marker)!r}, 'w').close()\n")
    import base64

    return {
        "FunctionName": "evil", "Runtime": "python3.11", "Handler": "app.run",
        "Role": "arn:aws:iam::000000000000:role/x",
        "Code": {"ZipFile": base64.b64encode(out.getvalue()).decode()},
    }  # fmt: skip


@pytest.mark.parametrize("keys", ["none", "those of every emulator"])
@pytest.mark.parametrize("page", [True, False])
def test_i12_no_function_is_created_or_run_without_the_keys_of_the_home(
    guarded: Stack, tmp_path: Path, page: bool, keys: str
) -> None:
    marker = tmp_path / "ran"
    headers = {"content_type": "text/plain"} | ({"origin": "https://evil.example"} if page else {})
    if keys != "none":
        scope = "test/20260101/us-east-1/lambda/aws4_request"
        headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=00"
    expected = "ForeignOrigin" if page else "NotSigned"
    assert error(send(guarded, "POST", FUNCTIONS, new_function(marker), **headers)) == expected
    assert error(send(guarded, "POST", f"{FUNCTIONS}/evil/invocations", {}, **headers)) == expected
    names = [one["FunctionName"] for one in guarded.aws("lambda").list_functions()["Functions"]]
    assert "evil" not in names and not marker.exists()


def test_i12_the_operators_token_is_not_read_from_the_functions(guarded: Stack) -> None:
    answer = send(guarded, "GET", FUNCTIONS)
    assert error(answer) == "NotSigned" and TOKEN not in answer.text
    settings = guarded.aws("lambda").list_functions()["Functions"]
    assert settings
    assert not any(TOKEN in str(each.get("Environment")) for each in settings), "it is in a secret"


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/catalogs", "/api/2.1/unity-catalog/catalogs", "/iceberg/v1/config", FUNCTIONS]
)
def test_i12_a_name_that_was_made_to_lead_here_is_refused(guarded: Stack, path: str) -> None:
    headers = {"host": f"evil.example:{guarded.port}", "authorization": f"Bearer {TOKEN}"}
    assert error(send(guarded, "GET", path, **headers)) == "ForeignHost"


@pytest.mark.parametrize("path", ["/v1/catalogs", "/iceberg/v1/config", FUNCTIONS, "/lake", "/_ministack/health"])
def test_i12_a_preflight_is_refused_and_no_answer_allows_an_origin(guarded: Stack, path: str) -> None:
    asks = {"origin": "https://evil.example", "access_control_request_method": "POST"}
    answers = [
        send(guarded, "OPTIONS", path, **asks),
        send(guarded, "GET", path, origin="https://evil.example"),
        send(guarded, "GET", path),
        send(guarded, "GET", path, authorization=f"Bearer {TOKEN}"),
    ]
    assert [answer.status_code for answer in answers[:2]] == [403, 403]
    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control-")], answer.headers
    buckets = guarded.aws("s3").list_buckets()
    assert not [name for name in buckets["ResponseMetadata"]["HTTPHeaders"] if name.startswith("access-control-")]


@pytest.mark.parametrize("path", ["/_ministack/reset", "/_turnstile/save", "/_turnstile/open"])
def test_i12_the_stack_is_not_reset_or_opened_without_a_key(guarded: Stack, path: str) -> None:
    before = guarded.aws("dynamodb").list_tables()["TableNames"]
    assert error(send(guarded, "POST", path)) == "NotSigned"
    assert guarded.aws("dynamodb").list_tables()["TableNames"] == before


def test_i12_rows_and_objects_are_out_of_reach_without_a_key(guarded: Stack) -> None:
    plain = Config(retries={"max_attempts": 1}, s3={"addressing_style": "path"})
    for service, call in (
        ("dynamodb", lambda client: client.scan(TableName=guarded.refs_table)),
        ("s3", lambda client: client.list_objects_v2(Bucket="lake")),
    ):
        for key in ("test", "000000000000", "AKIAIOSFODNN7EXAMPLE"):
            session = boto3.Session(key, "test", region_name="us-east-1")
            client = session.client(service, endpoint_url=guarded.url, config=plain)
            with pytest.raises(ClientError) as refused:
                call(client)
            assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
        call(guarded.aws(service))


def test_a_presigned_address_works_for_every_holder_of_it(guarded: Stack) -> None:
    s3 = guarded.aws("s3")
    s3.put_object(Bucket="lake", Key="given", Body=b"away")
    url = s3.generate_presigned_url("get_object", {"Bucket": "lake", "Key": "given"})
    assert httpx.get(url, trust_env=False, timeout=60).content == b"away"
    assert httpx.get(url, trust_env=False, timeout=60, headers={"origin": "https://evil.example"}).status_code == 403


def test_i12_the_keys_are_random_private_and_survive_a_restart(tmp_path: Path) -> None:
    with Stack.start(tmp_path / "a", port=0) as stack:
        keys = stack.state.aws_keys
        assert len(keys.access_key) >= 32 and len(keys.secret_key) >= 32
        layout = Layout.at(stack.home)
        assert layout.state_file.stat().st_mode & 0o077 == 0
        assert {
            folder.stat().st_mode & 0o077 for folder in (layout.state, layout.s3, layout.tmp, layout.log.parent)
        } == {0}
        for secret in keys:
            assert secret not in repr(stack.state) and secret not in layout.log.read_text()
    with Stack.start(tmp_path / "a", port=0) as again:
        assert again.state.aws_keys == keys
    with Stack.start(tmp_path / "b", port=0) as other:
        assert other.state.aws_keys != keys


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="NOT TESTED: the system does not list sockets in /proc")
def test_i12_the_process_listens_on_its_one_port_only(guarded: Stack) -> None:
    inodes = set()
    for entry in os.scandir(f"/proc/{guarded.state.pid}/fd"):
        target = os.readlink(entry.path)
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{guarded.state.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    assert ports == {guarded.port}


def test_a_websocket_is_refused(guarded: Stack) -> None:
    with socket.create_connection(("127.0.0.1", guarded.port)) as wire:
        wire.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        )
        assert wire.recv(65_536).startswith(b"HTTP/1.1 403")
