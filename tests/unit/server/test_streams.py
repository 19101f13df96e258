"""Which shards of a DynamoDB stream are read, and from where: each change is seen once its shard is known (I11)."""

from __future__ import annotations

from typing import Any

import pytest

from turnstile_server.streams import _add_shards


class Streams:
    """A stream of ``shards``, two on a page: id, parent, whether it is closed."""

    def __init__(self, *shards: tuple[str, str, bool]) -> None:
        self.shards = list(shards)

    def describe_stream(self, StreamArn: str, ExclusiveStartShardId: str = "") -> Any:
        ids = [id for id, _, _ in self.shards]
        start = ids.index(ExclusiveStartShardId) + 1 if ExclusiveStartShardId else 0
        page = [_shard(*shard) for shard in self.shards[start : start + 2]]
        description: dict[str, Any] = {"Shards": page}
        if start + 2 < len(ids):
            description["LastEvaluatedShardId"] = page[-1]["ShardId"]
        return {"StreamDescription": description}

    def get_shard_iterator(self, StreamArn: str, ShardId: str, ShardIteratorType: str) -> Any:
        return {"ShardIterator": f"{ShardIteratorType} of {ShardId}"}


def _shard(id: str, parent: str, closed: bool) -> dict[str, Any]:
    numbers = {"StartingSequenceNumber": "1", **({"EndingSequenceNumber": "2"} if closed else {})}
    return {"ShardId": id, "SequenceNumberRange": numbers, **({"ParentShardId": parent} if parent else {})}


def read(streams: Streams, iterators: dict[str, str | None]) -> dict[str, str | None]:
    _add_shards(streams, "arn", iterators)
    return iterators


def test_at_the_start_open_shards_are_read_from_now_on() -> None:
    streams = Streams(("old", "", True), ("a", "old", False), ("b", "", False))
    assert read(streams, {}) == {"a": "LATEST of a", "b": "LATEST of b"}


def test_i11_a_shard_that_follows_one_is_read_from_its_beginning() -> None:
    """What changed between its beginning and the look that found it would be missed otherwise."""
    streams = Streams(("a", "", False))
    iterators = read(streams, {})
    streams.shards = [("a", "", True), ("b", "a", False)]
    iterators["a"] = None
    assert read(streams, iterators) == {"a": None, "b": "TRIM_HORIZON of b"}


def test_i11_a_shard_that_began_and_ended_between_two_looks_is_read_too() -> None:
    streams = Streams(("a", "", False))
    iterators = read(streams, {})
    streams.shards = [("a", "", True), ("b", "a", True), ("c", "b", False), ("d", "b", False)]
    added = {id: f"TRIM_HORIZON of {id}" for id in "bcd"}
    assert read(streams, iterators) == {"a": "LATEST of a", **added}


@pytest.mark.parametrize("iterator", ["LATEST of a", "somewhere", None])
def test_a_shard_that_is_known_is_read_on_from_where_it_is(iterator: str | None) -> None:
    assert read(Streams(("a", "", iterator is None)), {"a": iterator}) == {"a": iterator}
