"""Rows of a queue of an emulated deployment, by the function's own role (I12, I26)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.stack import eventually
from turnstile.api.row_batches import REFUSED
from turnstile_client import Lake, connect
from turnstile_local import Stack
from turnstile_local.settings import REGION

pytestmark = [pytest.mark.stack, pytest.mark.slow]

TABLE = "main.default.clicks"
COLUMNS = pa.schema([("id", pa.int64()), ("page", pa.string())])


def lake_of(stack: Stack) -> Lake:
    keys = {"access_key": stack.env["AWS_ACCESS_KEY_ID"], "secret_key": stack.env["AWS_SECRET_ACCESS_KEY"]}
    return connect(stack.url, stack.token, s3={"endpoint": stack.s3_endpoint, "region": REGION, **keys})


def set_aside(stack: Stack) -> list[dict[str, Any]]:
    s3 = stack.aws("s3")
    listed = s3.list_objects_v2(Bucket="lake", Prefix=f"warehouse/{REFUSED}/").get("Contents", ())
    return [json.loads(s3.get_object(Bucket="lake", Key=each["Key"])["Body"].read()) for each in listed]


def start(home: Path, **parameters: str) -> Stack:
    lake_root = "s3://lake/warehouse"
    return Stack.start(home, port=0, lake=lake_root, parameters={"RowsTable": TABLE, **parameters}, roles=True)


def grant(stack: Stack) -> None:
    """Lets the principal of the function change the tables of the catalog."""
    granted = {"principal": "rows", "add": ["USE CATALOG", "USE SCHEMA", "MODIFY"], "remove": []}
    with stack.client() as api:
        answer = api.patch("/v1/permissions/catalog/main", json={"changes": [granted]})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("kind", ["queue", "fifo-queue"])
def test_i26_each_message_is_once_in_its_table_and_bad_ones_are_set_aside(kind: str, tmp_path: Path) -> None:
    is_fifo = kind == "fifo-queue"
    with start(tmp_path / "home", RowsFrom=kind) as stack, lake_of(stack) as lake:
        table = lake.create("default.clicks", COLUMNS)
        grant(stack)
        sqs = stack.aws("sqs")
        (queue,) = (url for url in sqs.list_queues()["QueueUrls"] if "RowsQueue" in url)

        def send(body: str, name: str, **attributes: str) -> None:
            named = {key: {"DataType": "String", "StringValue": value} for key, value in attributes.items()}
            order = {"MessageGroupId": "g", "MessageDeduplicationId": name} if is_fifo else {}
            sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=named, **order)

        for id in range(100):
            send(json.dumps({"id": id, "page": f"/{id}"}), f"m{id}")
        send('{"id": "no number"}', "bad")
        send("id,page\n100,/csv\n", "csv", **{"content-type": "text/csv", "table": TABLE})
        expected = list(range(101))
        eventually(lambda: len(table.read()) >= len(expected), what="all rows are in the table")
        (refused,) = eventually(lambda: set_aside(stack), what="the bad message is set aside")
        assert (refused["error"], refused["body"]) == ("InvalidRows", '{"id": "no number"}')
        count = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        eventually(
            lambda: {*sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=count)["Attributes"].values()} == {"0"},
            what="the queue is empty",
        )
        assert sorted(table.read().column("id").to_pylist()) == expected
        assert table.version() < len(expected), "messages share commits"


def test_i26_the_records_of_a_stream_are_once_in_its_table(tmp_path: Path) -> None:
    stream = "arn:aws:kinesis:us-east-1:000000000000:stream/clicks"
    with start(tmp_path / "home", RowsStream=stream) as stack, lake_of(stack) as lake:
        table = lake.create("default.clicks", COLUMNS)
        grant(stack)
        kinesis = stack.aws("kinesis")
        kinesis.create_stream(StreamName="clicks", ShardCount=2)
        assert kinesis.describe_stream_summary(StreamName="clicks")["StreamDescriptionSummary"]["StreamARN"] == stream
        rows = [json.dumps({"id": id, "page": f"/{id}"}).encode() for id in range(100)]
        records = [{"Data": gzip.compress(row), "PartitionKey": str(at)} for at, row in enumerate(rows)]
        records.insert(50, {"Data": b"{", "PartitionKey": "bad"})
        assert kinesis.put_records(StreamName="clicks", Records=records)["FailedRecordCount"] == 0
        eventually(lambda: len(table.read()) >= 100, what="all rows are in the table")
        (refused,) = eventually(lambda: set_aside(stack), what="the bad record is set aside")
        assert (refused["error"], refused["body"]) == ("InvalidRows", "{")
        assert sorted(table.read().column("id").to_pylist()) == list(range(100))
        assert table.version() < 100, "records share commits"
