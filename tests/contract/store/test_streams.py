"""The stream of refs: a record for every write that was applied, in order for each row (I11:
publishing's hint)."""

from __future__ import annotations

from typing import Any

import botocore.session

from tests.support.store.backends import REFS_TABLE, Backend
from tests.support.store.rows import change, clause, fresh_key, head_row, stored
from turnstile.adapters.dynamo.models import ref_from_item
from turnstile.store.core.writes import Drop, Equals, Erase, Present, Set


def _records(service: Backend, *keys: str) -> list[tuple[str, str, dict[str, Any] | None]]:
    """``(event, key, row)`` of the stream's records about ``keys``."""
    streams: Any = botocore.session.get_session().create_client(
        "dynamodbstreams", "us-east-1", endpoint_url=service.url
    )
    arn = service.client.describe_table(TableName=REFS_TABLE)["Table"]["LatestStreamArn"]
    found = []
    for shard in streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]:
        iterator = streams.get_shard_iterator(
            StreamArn=arn, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while iterator:
            page = streams.get_records(ShardIterator=iterator)
            for record in page["Records"]:
                change = record["dynamodb"]
                key = change["Keys"]["key"]["S"]
                if key in keys:
                    found.append((record["eventName"], key, ref_from_item(change.get("NewImage"))))
            iterator = page.get("NextShardIterator") if page["Records"] else None
    return found


FULL = {"tail": [b"one"], "apps": {"streaming": 1}, "ids": {"a"}}


def test_i11_every_applied_write_has_one_record_with_the_row_after_it_and_a_refused_one_has_none(
    service: Backend, key: str
) -> None:
    refs = service.refs()
    first = stored(refs, head_row(key, **FULL))
    rows = []
    for version in (6, 7):
        when = (Equals(("latest",), version - 1),)
        rows.append(refs.write(change(key, Set(("latest",), version), Set(("pending",), version), when=when)).row)
        refs.write(change(key, Set(("latest",), version), when=when))  # refused
    rows.append(refs.write(change(key, Drop(("pending",)), when=(Present(("pending",)),))).row)
    refs.write(Erase(key, (clause(Present(("key",))),)))
    assert _records(service, key) == [
        ("INSERT", key, first),
        *(("MODIFY", key, row) for row in rows),
        ("REMOVE", key, None),
    ]


def test_i8_a_transaction_has_a_record_for_every_row_it_changed(service: Backend) -> None:
    refs = service.refs()
    keys = [fresh_key() for _ in range(3)]
    for key in keys:
        stored(refs, head_row(key, **FULL))
    refs.transact([change(key, Set(("latest",), 6), when=(Present(("key",)),)) for key in keys], keys[0])
    refused = [
        change(key, Set(("latest",), 7), when=(Equals(("latest",), 6 if key != keys[2] else 0),)) for key in keys
    ]
    refs.transact(refused, keys[1])
    records = _records(service, *keys)
    assert sorted(key for event, key, _ in records if event == "MODIFY") == sorted(keys)
    assert all(row is not None and row["latest"] == 6 for event, _, row in records if event == "MODIFY")


def test_i11_a_record_shows_empty_lists_and_maps_as_such(service: Backend, key: str) -> None:
    first = stored(service.refs(), head_row(key))
    assert _records(service, key) == [("INSERT", key, first)]
