"""Events of Lambda with rows: batches of a queue, a FIFO queue and a stream."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tests.support.fakes.rows import RowLake, row_lake
from tests.support.functions import Function, Http, function
from turnstile.api.row_batches import REFUSED

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:turnstile-rows"
FIFO = QUEUE + ".fifo"
STREAM = "arn:aws:kinesis:eu-central-1:123456789012:stream/rows"
NAME = "main.sales.orders"
SENT_MS = 1_770_000_000_000


def body_of(rows: Any) -> str:
    return rows if isinstance(rows, str) else "\n".join(json.dumps(row) for row in rows)


def message(id: str, rows: Any, **attributes: str) -> dict[str, Any]:
    """A message of a queue; ``attributes`` with ``_`` for ``-``."""
    named = {key.replace("_", "-"): {"stringValue": value, "dataType": "String"} for key, value in attributes.items()}
    return {
        "messageId": id,
        "body": body_of(rows),
        "attributes": {"SentTimestamp": str(SENT_MS)},
        "messageAttributes": named,
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE,
    }


def fifo_message(id: str, rows: Any, group: str, unique: str | None = None, **attributes: str) -> dict[str, Any]:
    """A message of a FIFO queue; without ``unique`` the queue made the deduplication id."""
    made = message(id, rows, **attributes)
    made["eventSourceARN"] = FIFO
    unique = unique or hashlib.sha256(made["body"].encode()).hexdigest()
    made["attributes"] |= {"MessageGroupId": group, "MessageDeduplicationId": unique}
    return made


def stream_record(number: int, data: Any, shard: str = "shardId-000000000001") -> dict[str, Any]:
    """A record of a stream."""
    raw = data if isinstance(data, bytes) else body_of(data).encode()
    inner = {
        "sequenceNumber": f"4959033827149025660855969253836157109592157598913627{number:04}",
        "partitionKey": "p",
        "data": base64.b64encode(raw).decode(),
        "approximateArrivalTimestamp": SENT_MS / 1000,
    }
    return {
        "kinesis": inner,
        "eventID": f"{shard}:{inner['sequenceNumber']}",
        "eventSource": "aws:kinesis",
        "eventSourceARN": STREAM,
    }


class BatchLake:
    """A lake whose tables take rows of batches. ``rows``: the function that takes them."""

    def __init__(self, lake: RowLake | None = None) -> None:
        self.lake = lake or row_lake()
        catalog = function("catalog")
        catalog.use_world(self.lake.world)
        granted = {"principal": "rows", "add": ["USE CATALOG", "USE SCHEMA", "MODIFY"], "remove": []}
        answer = Http(catalog.app).patch("/v1/permissions/catalog/main", {"changes": [granted]})
        assert answer.status == 200, answer.text
        self.rows = Function("rows", TURNSTILE_ROWS_TABLE=NAME)
        self.open()

    def open(self, world: Any = None) -> None:
        """A sandbox that has cached nothing, on this world or another."""
        self.rows.use_world(world or self.lake.world, lake_root="s3://lake")

    def deliver(self, *records: dict[str, Any], left_ms: int = 60_000) -> list[str]:
        """Returns the records that have to be delivered again."""
        answer = self.rows.on_batch({"Records": list(records)}, Context(left_ms))
        return [one["itemIdentifier"] for one in answer["batchItemFailures"]]

    def ids(self) -> list[int]:
        """The ids of the table's rows, in the order of versions."""
        return [row["id"] for row in self.lake.rows()]

    def versions(self) -> Sequence[tuple[int, list[int]]]:
        return [(version, [row["id"] for row in rows]) for version, rows in self.lake.versions()]

    def refused(self) -> list[dict[str, Any]]:
        """The records that were set aside."""
        files = self.lake.world.storages.files
        return [json.loads(files[name][0]) for name in sorted(files) if f"/{REFUSED}/" in name]


class Context:
    """Lambda's context of an invocation."""

    def __init__(self, left_ms: int) -> None:
        self._left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        return self._left_ms
