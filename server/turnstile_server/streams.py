"""Hints from the stream of a DynamoDB table: the keys of rows that any server, or function, changed.

Where the table has no stream, or its account does not allow reading it, publishing is woken by the server's own commits, and
the sweep finds the rest. Every server reads the whole stream: hints may come twice.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from turnstile_server.settings import ServerSettings

POLL_S: Final = 0.5
SHARDS_S: Final = 30.0
"""How often new shards are looked for; a shard is closed after about four hours."""
RETRY_S: Final = 60.0

log = logging.getLogger("turnstile.stream")


def follow_stream(
    settings: ServerSettings, hint: Callable[[Mapping[str, int]], None], stop: threading.Event, hears: threading.Event
) -> None:
    """Calls ``hint`` with the keys of changed rows until ``stop`` is set, beginning with changes from now on. ``hears`` is set while it
    does."""
    while not stop.is_set():
        try:
            for keys in _changes(settings, stop):
                hint(Counter(keys))
                hears.set()
        except (BotoCoreError, ClientError) as error:
            log.warning("the stream cannot be read: %s", error)
        hears.clear()
        stop.wait(RETRY_S)


def _changes(settings: ServerSettings, stop: threading.Event) -> Iterator[list[str]]:
    import botocore.session

    session = botocore.session.get_session()
    region = session.get_config_variable("region") or "us-east-1"
    endpoint = settings.store_endpoint or None
    tables: Any = session.create_client("dynamodb", region, endpoint_url=endpoint)
    arn = tables.describe_table(TableName=settings.store_place.split(",")[0])["Table"].get("LatestStreamArn")
    if arn is None:
        log.info("the table has no stream: publishing is woken by this server's own commits")
        return
    streams: Any = session.create_client("dynamodbstreams", region, endpoint_url=endpoint)
    iterators: dict[str, str | None] = {}
    due_s = 0.0
    while not stop.is_set():
        if due_s <= 0:
            _add_shards(streams, arn, iterators)
            due_s = SHARDS_S
        for shard, iterator in iterators.items():
            if iterator is not None:
                page = streams.get_records(ShardIterator=iterator, Limit=1000)
                iterators[shard] = page.get("NextShardIterator")
                yield [record["dynamodb"]["Keys"]["key"]["S"] for record in page["Records"]]
        stop.wait(POLL_S)
        due_s -= POLL_S


def _add_shards(streams: Any, arn: str, iterators: dict[str, str | None]) -> None:
    """Adds iterators of the open shards that are new: those that follow a shard that was read from their beginning, those
    that were there at the start from now on."""
    kind = "TRIM_HORIZON" if iterators else "LATEST"
    start: dict[str, str] = {}
    while True:
        description = streams.describe_stream(StreamArn=arn, **start)["StreamDescription"]
        for shard in description["Shards"]:
            id, is_open = shard["ShardId"], "EndingSequenceNumber" not in shard["SequenceNumberRange"]
            if id not in iterators and (is_open or shard.get("ParentShardId") in iterators):
                response = streams.get_shard_iterator(StreamArn=arn, ShardId=id, ShardIteratorType=kind)
                iterators[id] = response["ShardIterator"]
        if "LastEvaluatedShardId" not in description:
            return
        start = {"ExclusiveStartShardId": description["LastEvaluatedShardId"]}
