"""Hints from the stream of a DynamoDB table: the keys of rows that any server, or function,
changed.

Without a stream, or without the right to read it, the server's own commits wake publishing, and the
sweep finds the rest. Every server reads the whole stream: hints may come twice.

A read that fails for a while is tried again from the same position, so no hint is lost. If a
position has expired (this process was frozen for a quarter of an hour, or the stream is another
one), reading starts again with changes from now on, and a sweep finds the changes between.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from turnstile.adapters.opening import dynamodb, dynamodb_streams
from turnstile_server.settings import ServerSettings

POLL_S: Final = 0.5
POLL_LONGEST_S: Final = 2.0
"""Between two reads of a shard while it is throttled, which it is by more than a few readers."""
SHARDS_S: Final = 30.0
"""How often new shards are looked for, beside whenever one ends; that happens after about four
hours."""
RETRY_S: Final = 60.0
"""After how long a table is asked again for a stream that it does not have, or that may not be
read."""
SILENT_S: Final = 5.0
"""For how long no read of the stream may have succeeded in a process that hears of every change."""

_NEVER: Final = frozenset({"AccessDeniedException", "UnrecognizedClientException"})
_ANEW: Final = frozenset(
    {"ExpiredIteratorException", "TrimmedDataAccessException", "ResourceNotFoundException", "ValidationException"}
)
_THROTTLED: Final = frozenset(
    {"LimitExceededException", "ProvisionedThroughputExceededException", "ThrottlingException"}
)

log = logging.getLogger("turnstile.stream")


class Stream:
    """Follows the stream of the settings' table of refs. ``follow`` is for one thread, ``is_heard``
    for any.

    Args:
        hint: called with the keys of changed rows and how often each changed.
        missed: called when changes may have been missed, after it was heard before.
        stop: ends ``follow``.
    """

    def __init__(
        self, settings: ServerSettings, hint: Callable[[Mapping[str, int]], None], missed: Callable[[], None],
        stop: threading.Event
    ) -> None:  # fmt: skip
        self._settings = settings
        self._hint = hint
        self._missed = missed
        self._stop = stop
        self._heard_s = float("-inf")
        self._poll_s = POLL_S

    def is_heard(self) -> bool:
        """Returns whether every change of the table is heard of."""
        return time.monotonic() - self._heard_s < SILENT_S

    def follow(self) -> None:
        """Calls ``hint`` until the process is to stop, beginning with changes from now on."""
        was_heard = False
        while not self._stop.is_set():
            rest_s = POLL_LONGEST_S
            try:
                arn = self._arn()
                if arn is None:
                    log.info("the table has no stream: publishing is woken by this server's own commits")
                    rest_s = RETRY_S
                else:
                    streams = dynamodb_streams(self._settings.store_endpoint or None)
                    iterators: dict[str, str | None] = {}
                    self._try_call(lambda: add_shards(streams, arn, iterators))  # noqa: B023 - called at once
                    if was_heard:
                        self._missed()
                    was_heard = True
                    self._read(streams, arn, iterators)
            except (BotoCoreError, ClientError) as error:
                log.warning("the stream cannot be read: %s", error)
                rest_s = RETRY_S if _code(error) in _NEVER else POLL_LONGEST_S
            self._heard_s = float("-inf")
            self._stop.wait(rest_s)

    def _arn(self) -> str | None:
        tables = dynamodb(self._settings.store_endpoint or None)
        name = self._settings.store_place.split(",")[0]
        return tables.describe_table(TableName=name)["Table"].get("LatestStreamArn")

    def _read(self, streams: Any, arn: str, iterators: dict[str, str | None]) -> None:
        """Reads the shards by turns until the process is to stop. Raises ClientError, BotoCoreError
        where reading has to begin anew."""
        due_s = time.monotonic() + SHARDS_S
        while not self._stop.is_set():
            ended = False
            for shard, iterator in list(iterators.items()):
                if iterator is not None:
                    ended |= not self._try_call(partial(self._read_page, streams, iterators, shard))
            if ended or time.monotonic() >= due_s:
                self._try_call(lambda: add_shards(streams, arn, iterators))
                due_s = time.monotonic() + SHARDS_S
            self._heard_s = time.monotonic()
            if not ended:
                self._stop.wait(self._poll_s)

    def _read_page(self, streams: Any, iterators: dict[str, str | None], shard: str) -> bool:
        """Reads on in a shard; whether it goes on."""
        page = streams.get_records(ShardIterator=iterators[shard], Limit=1000)
        if page["Records"]:
            self._hint(Counter(record["dynamodb"]["Keys"]["key"]["S"] for record in page["Records"]))
        iterators[shard] = page.get("NextShardIterator")
        return iterators[shard] is not None

    def _try_call(self, call: Callable[[], bool]) -> bool:
        """Returns the result of a call as soon as it succeeds. Raises errors for which a retry is
        useless."""
        while True:
            try:
                result = call()
            except (BotoCoreError, ClientError) as error:
                code = _code(error)
                if code in _NEVER or code in _ANEW or self._stop.is_set():
                    raise
                log.info("a read of the stream failed: %s", error)
                if code in _THROTTLED:
                    self._poll_s = min(2 * self._poll_s, POLL_LONGEST_S)
                self._stop.wait(self._poll_s)
            else:
                self._poll_s = max(POLL_S, 0.95 * self._poll_s)
                return result


def _code(error: Exception) -> str:
    return str(error.response["Error"].get("Code", "")) if isinstance(error, ClientError) else ""


def add_shards(streams: Any, arn: str, iterators: dict[str, str | None]) -> bool:
    """Adds iterators of new shards: children of a shard that was read are read from their
    beginning; shards of the start without a child are read from now on. (An end position does not
    mean that a shard is closed: dynoxide reports one for an open shard.) Forgets shards that were
    read and are not listed any more. Returns True.
    """
    kind = "TRIM_HORIZON" if iterators else "LATEST"
    shards = _shards(streams, arn)
    followed = {shard.get("ParentShardId") for shard in shards}
    added = dict[str, str]()
    for shard in shards:
        id = shard["ShardId"]
        parent = shard.get("ParentShardId")
        if id not in iterators and (id not in followed or parent in iterators or parent in added):
            response = streams.get_shard_iterator(StreamArn=arn, ShardId=id, ShardIteratorType=kind)
            added[id] = response["ShardIterator"]
    listed = {shard["ShardId"] for shard in shards}
    for id in [id for id, iterator in iterators.items() if iterator is None and id not in listed]:
        del iterators[id]
    iterators.update(added)
    return True


def _shards(streams: Any, arn: str) -> list[Any]:
    """All shards of a stream; parents come before their children."""
    shards: list[Any] = []
    start = dict[str, str]()
    while True:
        description = streams.describe_stream(StreamArn=arn, **start)["StreamDescription"]
        shards += description["Shards"]
        if "LastEvaluatedShardId" not in description:
            return shards
        start = {"ExclusiveStartShardId": description["LastEvaluatedShardId"]}
