"""Which shards of a DynamoDB stream are read, and from where: each change is seen once its shard is
known (I11); and the meaning of a failed read for a server that has to hear of every change
(I19).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from tests.support.stack import until
from turnstile_server.settings import ServerSettings
from turnstile_server.store import streams as module
from turnstile_server.store.streams import Stream, add_shards


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
    add_shards(streams, "arn", iterators)
    return iterators


def test_at_the_start_a_shard_that_nothing_follows_is_read_also_if_an_end_is_named() -> None:
    assert read(Streams(("a", "", True)), {}) == {"a": "LATEST of a"}, "as dynoxide names one of a shard that goes on"


def test_at_the_start_open_shards_are_read_from_now_on() -> None:
    streams = Streams(("old", "", True), ("a", "old", False), ("b", "", False))
    assert read(streams, {}) == {"a": "LATEST of a", "b": "LATEST of b"}


def test_i11_a_shard_that_follows_one_is_read_from_its_beginning() -> None:
    """Changes between its beginning and the look that found it would be missed otherwise."""
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


def test_shards_that_were_read_and_are_not_listed_any_more_are_forgotten() -> None:
    streams = Streams(("b", "a", False))
    assert read(streams, {"a": None, "b": "somewhere"}) == {"b": "somewhere"}


# -- reads that fail --------------------------------------------------------------------------------------------------


class Pages(Streams):
    """A stream with scripted reads: keys of one page, an error, or None for the end of the shard.
    After that pages are empty."""

    def __init__(self, *script: tuple[str, ...] | Exception | None) -> None:
        super().__init__(("a", "", False))
        self.script = list(script)
        self.read = list[str]()
        self.fails: Exception | None = None
        self.failures = 0

    def get_shard_iterator(self, StreamArn: str, ShardId: str, ShardIteratorType: str) -> Any:
        return {"ShardIterator": f"{ShardId} {ShardIteratorType}"}

    def get_records(self, ShardIterator: str, Limit: int) -> Any:
        page = self.fails or (self.script.pop(0) if self.script else ())
        if isinstance(page, Exception):
            self.failures += 1
            raise page
        self.read.append(ShardIterator)
        if page is None:
            self.shards = [("a", "", True), ("b", "a", False)]
            return {"Records": []}
        shard, _, place = ShardIterator.partition(" ")
        following = int(place) + 1 if place.isdigit() else 1
        records = [{"dynamodb": {"Keys": {"key": {"S": key}}}} for key in page]
        return {"Records": records, "NextShardIterator": f"{shard} {following}"}


class Follower:
    """A thread that follows a stream, and the changes that it received."""

    def __init__(self, streams: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
        class Tables:
            def describe_table(self, TableName: str) -> Any:
                return {"Table": {"LatestStreamArn": "arn"}}

        monkeypatch.setattr(module, "dynamodb", lambda _: Tables())
        monkeypatch.setattr(module, "dynamodb_streams", lambda _: streams)
        for name in ("POLL_S", "POLL_LONGEST_S"):
            monkeypatch.setattr(module, name, 0.001)
        self.keys = Counter[str]()
        self.missed = 0
        self.stop = threading.Event()
        settings = ServerSettings("/nowhere", store="dynamodb:refs,objs")
        self.stream = Stream(settings, self._hint, self._miss, self.stop)
        self.thread = threading.Thread(target=self.stream.follow, daemon=True)

    def _hint(self, keys: Mapping[str, int]) -> None:
        self.keys.update(keys)

    def _miss(self) -> None:
        self.missed += 1


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts followers, which end with the test."""
    started = list[Follower]()

    def start(streams: Pages) -> Follower:
        started.append(Follower(streams, monkeypatch))
        started[-1].thread.start()
        return started[-1]

    yield start
    for follower in started:
        follower.stop.set()
        follower.thread.join()


def _error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, "GetRecords")


@pytest.mark.parametrize(
    "error",
    [
        _error("ProvisionedThroughputExceededException"),
        _error("InternalServerError"),
        ReadTimeoutError(endpoint_url="http://stream"),
    ],
    ids=str,
)
def test_i11_a_read_that_failed_is_tried_again_from_the_same_place(
    follow: Callable[[Pages], Follower], error: Exception
) -> None:
    follower = follow(streams := Pages(("k",), error, error, ("l",)))
    until(lambda: follower.keys == {"k": 1, "l": 1})
    assert streams.read[:2] == ["a LATEST", "a 1"] and follower.missed == 0


def test_i11_what_follows_a_shard_that_ended_is_read_at_once(
    follow: Callable[[Pages], Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look for new shards every now and then would leave its changes unheard for so long."""
    monkeypatch.setattr(module, "SHARDS_S", 3600.0)
    follower = follow(streams := Pages(("k",), None, ("l",)))
    until(lambda: follower.keys == {"k": 1, "l": 1})
    assert "b TRIM_HORIZON" in streams.read


@pytest.mark.parametrize("code", ["ExpiredIteratorException", "TrimmedDataAccessException"])
def test_i11_where_its_place_is_gone_it_begins_anew_and_says_that_changes_were_missed(
    follow: Callable[[Pages], Follower], code: str
) -> None:
    follower = follow(streams := Pages(("k",), _error(code), ("l",)))
    until(lambda: follower.keys == {"k": 1, "l": 1} and len(streams.read) >= 3)
    assert streams.read[:3] == ["a LATEST", "a LATEST", "a 1"] and follower.missed == 1


def test_i19_a_stream_is_heard_after_a_read_and_not_any_more_when_reads_fail_for_a_while(
    follow: Callable[[Pages], Follower], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.2)
    streams = Pages()
    streams.fails = _error("InternalServerError")
    follower = follow(streams)
    assert not follower.stream.is_heard()
    streams.fails = None
    until(follower.stream.is_heard)
    streams.fails = _error("InternalServerError")
    until(lambda: not follower.stream.is_heard())
    streams.script.append(("k",))
    streams.fails = None
    until(follower.stream.is_heard)
    until(lambda: follower.keys == {"k": 1})
    assert follower.missed == 0, "it went on from where it was"


def test_a_table_whose_stream_may_not_be_read_is_not_heard(follow: Callable[[Pages], Follower]) -> None:
    streams = Pages()
    streams.fails = _error("AccessDeniedException")
    follower = follow(streams)
    until(lambda: streams.failures == 1)
    assert follower.thread.is_alive() and not follower.stream.is_heard()
