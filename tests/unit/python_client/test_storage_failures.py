"""Each failure of storage is a ClientError that says where, why and what to do."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from turnstile_client.errors import ClientError, StorageFailure
from turnstile_client.failures import failure
from turnstile_client.files import Writer
from turnstile_client.reading import FileReader
from turnstile_client.storage import Storage
from turnstile_http import waiting
from turnstile_http.waiting import WaitReporter
from turnstile_rows.definitions import new_definition
from turnstile_rows.schemas import delta_schema

ROWS = pa.table({"id": [1]})
DEFINITION = new_definition(delta_schema(ROWS.schema), (), {}, ())


@contextmanager
def answering(status: int, code: str, may: threading.Event | None = None) -> Iterator[dict[str, str]]:
    """A store that answers every request so, once it may; how a client is led to it."""
    content = f"<Error><Code>{code}</Code><Message>said the store</Message></Error>".encode()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            if may is not None:
                may.wait()
            self.send_response(status)
            self.send_header("content-type", "application/xml")
            self.send_header("content-length", str(0 if self.command == "HEAD" else len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield {"endpoint": f"http://127.0.0.1:{server.server_port}", "access_key": "a", "secret_key": "b"}
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "AccessDenied", "access was denied.*AWS_ACCESS_KEY_ID"),
        (400, "ExpiredToken", "not valid any more.*AWS_ACCESS_KEY_ID"),
        (403, "InvalidAccessKeyId", "keys are not the store's|access was denied"),
        (404, "NoSuchBucket", "no such bucket|a file is not there"),
        (400, "AuthorizationHeaderMalformed", "region"),
    ],
)
def test_a_refusal_of_s3_is_reported_with_the_location_and_a_remedy(
    status: int, code: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with answering(status, code) as s3:
        storage = Storage("s3://lake/t", s3, lambda: None)
        writer = Writer(storage, DEFINITION)
        with pytest.raises(StorageFailure, match=f"files at s3://lake/t.*({words})"):
            writer.write(ROWS.to_batches()[0])
            writer.close()
        writer.discard()
        assert not caplog.records, "of a file that never was nothing is left"
        with pytest.raises(ClientError, match="files at s3://lake/t"):
            storage.write("_delta_log/0.json", b"{}")
        planned = [{"path": "a.parquet", "partitionValues": {}, "size": 1000}]
        with pytest.raises(StorageFailure, match="files at s3://lake/t"):
            list(FileReader(storage, DEFINITION, ["id"], None).rows(planned))


def test_a_store_that_does_not_answer_is_named_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile_client.failures.WAIT_REPORTER", WaitReporter(pause_s=0.05))
    may = threading.Event()

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "waiting for files at s3://lake/t" in record.getMessage():
                may.set()

    handler = Lines()
    waiting.log.addHandler(handler)
    try:
        with answering(403, "AccessDenied", may) as s3, pytest.raises(StorageFailure, match="denied"):
            Storage("s3://lake/t", s3, lambda: None).read("lake/t/a.parquet")
    finally:
        waiting.log.removeHandler(handler)
    assert may.is_set()


def test_while_the_caller_has_the_rows_nothing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reporter = WaitReporter(pause_s=0.0)
    monkeypatch.setattr("turnstile_client.failures.WAIT_REPORTER", reporter)
    storage = Storage(tmp_path.as_uri(), {}, lambda: None)
    writer = Writer(storage, DEFINITION)
    writer.write(ROWS.to_batches()[0])
    writer.close()
    (file,) = writer.files
    planned = [{"path": file.path, "partitionValues": {}, "size": file.size}]
    for batch in FileReader(storage, DEFINITION, ["id"], None).rows(planned):
        assert batch.num_rows == 1 and not reporter._open


def test_a_file_that_is_gone_and_a_folder_that_cannot_be_written_are_reported(tmp_path: Path) -> None:
    storage = Storage(tmp_path.as_uri(), {}, lambda: None)
    planned = [{"path": "gone.parquet", "partitionValues": {}, "size": 1000}]
    with pytest.raises(StorageFailure, match=r"a file is not there.*verify"):
        list(FileReader(storage, DEFINITION, ["id"], None).rows(planned))
    (tmp_path / "file").write_text("")
    below = Storage(f"{tmp_path.as_uri()}/file/t", {}, lambda: None)
    with pytest.raises(StorageFailure, match="files at file://"):
        below.write("_delta_log/0.json", b"{}")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device"), "disk is full"),
        (PermissionError(13, "Permission denied"), "file system.*right to the folder"),
        (
            OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7"),
            "cannot be reached.*endpoint",
        ),
        (OSError("AWS Error SLOW_DOWN during PutObject operation"), "try again later"),
        (OSError("AWS Error UNKNOWN (HTTP status 400) during HeadObject operation: No response body."), "region"),
        (OSError("something new"), "something new; try again"),
    ],
)
def test_what_arrow_says_is_reported_with_a_remedy(error: OSError, words: str) -> None:
    told = failure(error, "s3://lake/t")
    assert isinstance(told, ClientError) and isinstance(told, OSError)
    with pytest.raises(StorageFailure, match=words):
        raise told
