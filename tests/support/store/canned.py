"""DynamoDB's side of one warm commit, recorded: a server that gives every operation the same
answer, over real HTTP/1.1 connections that stay open. For the cost of a request to its client; the
meaning of a request is tested elsewhere.
"""

from __future__ import annotations

import base64
import contextlib
import json
import multiprocessing
import socket
import threading
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from tests.support.functions import event
from turnstile.adapters.dynamo.models import Item, ObjRow, model_of, to_item
from turnstile.adapters.machine import SystemClock
from turnstile.delta.core.content import read_content
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import TableHead, new_head_row
from turnstile.delta.core.metadata import first_metadata
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Insert, new_row
from turnstile.store.ports import World

_REQUEST_ID: Final = "0K6T7IUGT9Q2V6OVHDPDG3Q4SRVV4KQNSO5AEMVJF66Q9ASUAAJG"  # as long as real ones


class CannedAnswer(msgspec.Struct, frozen=True):
    """The server's messages: ``checksum`` False leaves out the CRC-32 that DynamoDB sends with
    every answer."""

    status: int
    body: bytes
    checksum: bool = True

    def packed(self) -> bytes:
        """The bytes on the wire."""
        reasons = {200: "OK", 400: "Bad Request", 500: "Internal Server Error"}
        lines = [
            f"HTTP/1.1 {self.status} {reasons[self.status]}",
            "Server: Server",
            "Date: Sun, 22 Nov 2026 06:00:00 GMT",
            "Content-Type: application/x-amz-json-1.0",
            f"Content-Length: {len(self.body)}",
            "Connection: keep-alive",
            f"x-amzn-RequestId: {_REQUEST_ID}",
            *([f"x-amz-crc32: {zlib.crc32(self.body)}"] if self.checksum else []),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


def answer(members: Mapping[str, Any]) -> CannedAnswer:
    """An accepted request's answer; bytes are sent as DynamoDB sends them."""
    return CannedAnswer(200, _json(members))


def refusal(item: Mapping[str, Any]) -> CannedAnswer:
    """A conditional write's refusal, with the row that refused."""
    code = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
    members = {"__type": code, "Item": item, "message": "The conditional request failed"}
    return CannedAnswer(400, _json(members))


def _json(members: Mapping[str, Any]) -> bytes:
    return json.dumps(members, default=lambda raw: base64.b64encode(raw).decode(), separators=(",", ":")).encode()


@contextmanager
def serving(answers: Mapping[str, CannedAnswer], *, own_process: bool = False) -> Iterator[str]:
    """The URL of a server that answers operations by their names (``UpdateItem``), and by their
    table (``GetItem/objs``)."""
    packed = {operation: given.packed() for operation, given in answers.items()}
    if not own_process:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=_accept, args=(listener, packed), daemon=True).start()
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        return
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(theirs, packed), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()


def _run(parent: Connection, packed: Mapping[str, bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        parent.send(listener.getsockname()[1])
        _accept(listener, packed)


def _accept(listener: socket.socket, packed: Mapping[str, bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_answer_all, args=(connection, packed), daemon=True).start()


def _answer_all(connection: socket.socket, packed: Mapping[str, bytes]) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb") as stream:
        while stream.readline():
            headers = {}
            while (line := stream.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                headers[name.lower()] = value.strip()
            body = json.loads(stream.read(int(headers[b"content-length"])))
            operation = headers[b"x-amz-target"].decode().rpartition(".")[2]
            connection.sendall(packed.get(f"{operation}/{body.get('TableName')}") or packed[operation])


class WarmCommit:
    """A small inline commit as Spark makes it, to a table that carries ``unpublished`` others.

    ``event`` is the gateway's, and ``rival`` that of another commit of the same version; ``item``
    is the table's row, as accepting the first leaves it, which refuses the second; ``reads``
    answers the reads of a sandbox before its first commit: the row as it was before (``before``).
    """

    def __init__(self, space: Space, *, unpublished: int = 8) -> None:
        recorder = replace(fake_world(space.realm), clock=SystemClock())
        self.table_id = str(uuid.uuid4())
        now_ms = recorder.clock.now_ms()
        self.key = space.table(self.table_id)
        first = first_metadata(read_content(delta.version_zero("zero", now_ms), first_version=True))
        metadata = MetadataStore(recorder.objs, space).put("main", self.table_id, first, now_ms)
        row = new_head_row(
            key=self.key,
            table_id=self.table_id,
            catalog="main",
            name="main.sales.orders_by_region",
            location=f"s3://lake/warehouse/{self.table_id}",
            metadata=metadata,
            version=0,
            ict=now_ms - 60_000,
            row_hwm=None,
            created=now_ms,
            managed=True,
        )
        recorder.refs.write(Insert(row, (new_row("I2"),)))
        ratifier = Ratifier(recorder)
        for version in range(1, unpublished + 2):
            before = _item(recorder, self.key)
            self.before = TableHead.from_row(recorder.refs.rows[self.key])
            content = _append(str(uuid.uuid4()), now_ms - 1000 + version)
            decision = ratifier.commit(CommitRequest(self.table_id, version, base=version - 1, content=content))
            assert isinstance(decision, Ratified)
        self.item = _item(recorder, self.key)
        obj = recorder.objs.get(space.objs("main"), metadata)
        assert obj is not None
        stored = {"space": obj.space, "id": obj.id, "type": obj.type, "payload": obj.payload, "created": obj.created_us}
        self.reads = {"GetItem": answer({"Item": before}), "GetItem/objs": answer({"Item": to_item(ObjRow, stored)})}
        self.event = self._propose(version, content)
        self.rival = self._propose(version, _append(str(uuid.uuid4()), now_ms))

    def warm(self, ratifier: Ratifier) -> None:
        """Has a process know the table as it was before the commit, which it proposes again and
        again: else it would only read."""
        ratifier.heads.remember(self.before)

    def _propose(self, version: int, content: bytes) -> dict[str, Any]:
        body = {"version": version, "base": version - 1, "inline": {"content": content.decode()}}
        return event("POST", f"/v1/tables/{self.table_id}/commits", json_body=body)


def _item(world: World, key: str) -> Item:
    row = world.refs.read(key)
    assert row is not None
    return to_item(model_of(key), row)


def _append(txn: str, ict: int) -> bytes:
    """The commit of Spark 4 for an INSERT of some rows."""
    file = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    info = delta.info(
        txn,
        ict,
        operationParameters={"mode": "Append", "partitionBy": "[]"},
        isolationLevel="Serializable",
        isBlindAppend=True,
        operationMetrics={"numFiles": "1", "numOutputRows": "100", "numOutputBytes": "2841"},
        tags={"noRowsCopied": "true", "restoresDeletedRows": "false"},
        engineInfo="Apache-Spark/4.0.1 Delta-Lake/4.0.0",
    )
    return delta.lines(info, delta.add(file, rows=100))
