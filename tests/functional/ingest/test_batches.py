"""Rows of a queue or a stream: one commit a batch, each record at most once (I26)."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pyarrow as pa
import pytest

from tests.support.access.realm import Realm
from tests.support.fakes.deliveries import NAME, QUEUE, STREAM, BatchLake, fifo_message, message, stream_record
from tests.support.fakes.rows import RowLake, arrow_body, column, parquet_body, row_lake
from tests.support.fakes.world import copied
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from tests.support.functions import Function, Http, function
from tests.support.lake import Lake
from turnstile.api import row_batches
from turnstile.api.row_batches import MARGIN_MS, RowBatchHandler
from turnstile.catalog.changes.idempotency import KeyReused
from turnstile.ingest import turns, writing
from turnstile.store.core.errors import InvalidRequest, StorageFault, Throttled, TooLarge


@pytest.fixture
def lake() -> BatchLake:
    return BatchLake()


def messages(count: int, first: int = 1) -> list[dict[str, Any]]:
    return [message(f"m{id}", [{"id": id}]) for id in range(first, first + count)]


def numbers(records: list[dict[str, Any]]) -> list[str]:
    return [record["kinesis"]["sequenceNumber"] for record in records]


# -- a batch -----------------------------------------------------------------------------------------------------------


def test_the_records_of_a_batch_are_one_commit_in_their_order(lake: BatchLake) -> None:
    assert lake.deliver(*messages(80)) == []
    assert lake.versions() == [(1, list(range(1, 81)))]


def test_a_large_batch_is_a_commit_for_each_ninety_records(lake: BatchLake) -> None:
    assert lake.deliver(*messages(200)) == []
    assert [len(ids) for _, ids in lake.versions()] == [90, 90, 20]
    assert lake.ids() == list(range(1, 201))


@pytest.mark.parametrize(
    "data",
    [
        b'{"id": 1, "name": "Ada"}\n{"id": 2}',
        b' [{"id": 1, "name": "Ada"}, {"id": 2}]',
        gzip.compress(b'{"id": 1, "name": "Ada"}\n{"id": 2}'),
        arrow_body(pa.table({"id": [1, 2], "name": ["Ada", None]})),
        parquet_body(pa.table({"id": [1, 2], "name": ["Ada", None]})),
    ],
    ids=["lines", "array", "gzip", "arrow", "parquet"],
)
def test_the_format_of_a_record_is_found_by_its_first_bytes(lake: BatchLake, data: bytes) -> None:
    assert lake.deliver(stream_record(1, data)) == []
    assert lake.lake.rows() == [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]


def test_a_message_may_name_its_format(lake: BatchLake) -> None:
    assert lake.deliver(message("a", "id,name\n1,Ada\n", content_type="text/csv; charset=utf-8")) == []
    assert lake.lake.rows() == [{"id": 1, "name": "Ada"}]


def requests_of(lake: BatchLake) -> list[str]:
    """The requests to the store and the lake since the last call."""
    world = lake.lake.world
    found = [str(request).split()[0] for port in (world.refs, world.objs, world.storages) for request in port.requests]
    lake.lake.lake.forget_requests()
    return sorted(found)


def test_a_warm_batch_of_any_size_costs_the_same_requests(lake: BatchLake) -> None:
    lake.deliver(*messages(1))
    requests_of(lake)
    lake.deliver(*messages(1, first=1000))
    of_one = requests_of(lake)
    lake.deliver(*messages(90, first=2000))
    assert requests_of(lake) == of_one
    assert of_one == ["put", "read_many", "read_many", "read_many", "transact"]


# -- once --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [lambda number: messages(1, number)[0], lambda number: stream_record(number, [{"id": number}])]
)
def test_i26_records_that_are_delivered_again_split_and_in_another_order_are_added_once(make: Any) -> None:
    for seed in range(15):
        rng = random.Random(seed)
        lake = BatchLake()
        records = [make(id) for id in range(1, 13)]
        for _ in range(6):
            some = rng.sample(records, rng.randint(1, 12))
            assert lake.deliver(*some) == []
        assert lake.deliver(*records, *records[:3]) == []
        assert sorted(lake.ids()) == list(range(1, 13))


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_i26_a_failure_at_any_write_and_the_same_batch_again_add_each_record_once(lake: BatchLake, how: How) -> None:
    records = [*messages(3), message("bad", [{"id": "no number"}])]
    faulty = Faulty(copied(lake.lake.world))
    lake.open(faulty.world)
    assert lake.deliver(*records) == []
    assert len(faulty.writes) >= 3
    for at in range(1, len(faulty.writes) + 1):
        own = copied(lake.lake.world)
        lake.open(Faulty(own, at, how).world)
        try:
            again = lake.deliver(*records)
        except Crash:
            assert how in CRASHES
        else:
            assert again, "what failed is reported"
        lake.open(own)
        twin = RowLake(Lake(own, lake.lake.lake.http), lake.lake.http)
        assert lake.deliver(*records) == []
        assert [row["id"] for row in twin.rows()] == [1, 2, 3]
        assert len([name for name in own.storages.files if "refused_rows" in name]) == 1


def test_i26_equal_records_are_added_each(lake: BatchLake) -> None:
    assert lake.deliver(message("a", [{"id": 1}]), message("b", [{"id": 1}])) == []
    assert lake.deliver(fifo_message("c", [{"id": 1}], "g"), fifo_message("d", [{"id": 1}], "g")) == []
    assert lake.deliver(stream_record(1, [{"id": 1}]), stream_record(1, [{"id": 1}], shard="shardId-2")) == []
    assert lake.ids() == [1] * 6


def test_i26_a_sender_that_sends_again_names_its_messages(lake: BatchLake) -> None:
    """The queue gives what is sent again another id."""
    assert lake.deliver(message("a", [{"id": 1}], idempotency_key="k"), fifo_message("b", [{"id": 2}], "g", "u")) == []
    assert lake.deliver(message("c", [{"id": 1}], idempotency_key="k"), fifo_message("d", [{"id": 2}], "g", "u")) == []
    assert lake.deliver(fifo_message("e", [{"id": 2}], "h", "u")) == [], "of another group"
    assert lake.ids() == [1, 2, 2]
    assert lake.deliver(message("f", [{"id": 3}], idempotency_key="k")) == []
    assert [one["error"] for one in lake.refused()] == ["KeyReused"]


# -- records that are refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "error", "says"),
    [
        (message("x", [{"id": "no number"}]), "InvalidRows", "row 1"),
        (message("x", "{"), "InvalidRows", "JSON"),
        (message("x", [{"id": 1}], content_type="text/xml"), "InvalidRows", "text/xml"),
        (message("x", [{"id": 1}], idempotency_key="k" * 201), "InvalidRows", "idempotency-key"),
        (message("x", [{"id": 1}], table="orders"), "InvalidRequest", "catalog.namespace.table"),
        (message("x", [{"id": 1}], table="main.sa les.orders"), "InvalidRequest", "valid name"),
        (stream_record(5, gzip.compress(b"{}")[:-9]), "InvalidRows", "gzip"),
        (stream_record(5, b"\xf3\x89\x9a\xc2rest"), "InvalidRows", "aggregation"),
        (stream_record(5, gzip.compress(bytes(17 * 1024 * 1024))), "TooLarge", "16777216"),
    ],
)
def test_a_record_that_no_attempt_adds_is_set_aside_with_its_reason(
    lake: BatchLake, record: dict[str, Any], error: str, says: str
) -> None:
    for _ in range(2):  # it may be delivered again
        assert lake.deliver(message("a", [{"id": 1}]), record, message("b", [{"id": 2}])) == []
    assert lake.ids() == [1, 2]
    (refused,) = lake.refused()
    assert refused["error"] == error
    assert says in refused["message"] + refused.get("remedy", "")
    assert refused["sent"].startswith("2026-02-02T")
    if record["eventSource"] == "aws:sqs":
        assert refused["place"] == f"{QUEUE} message x"
        assert refused["body"] == record["body"]
    else:
        assert refused["place"].startswith(f"{STREAM} shardId-000000000001 record 4959")
        assert refused["body_base64"] == record["kinesis"]["data"]


def test_messages_of_one_key_that_are_refused_are_set_aside_each(lake: BatchLake) -> None:
    """The second one may be the correction of the first, and be wrong, too."""
    records = [message(id, [{"id": f"no number {id}"}], idempotency_key="k") for id in "ab"]
    records += [fifo_message(id, [{"id": f"no number {id}"}], "g", "u") for id in "cd"]
    for record in records:
        assert lake.deliver(record) == []
    assert sorted(one["body"] for one in lake.refused()) == [record["body"] for record in records]


def test_a_record_that_cannot_be_set_aside_is_delivered_again(lake: BatchLake, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = lake.lake.world.storages.open

    def failing(location: str) -> Any:
        if "refused" in location:
            raise StorageFault("the store is away")
        return opened(location)

    with monkeypatch.context() as patch:
        patch.setattr(lake.lake.world.storages, "open", failing)
        assert lake.deliver(message("a", [{"id": 1}]), message("x", "{")) == ["x"]
    assert lake.deliver(message("x", "{")) == []
    assert len(lake.refused()) == 1


def test_a_record_whose_commit_is_too_large_alone_does_not_refuse_the_others() -> None:
    names = [f"p{at}" for at in range(4)]
    lake = BatchLake(row_lake(column("id", "long"), *(column(name, "string") for name in names), partitions=names))
    large = [{"id": 0} | dict.fromkeys(names, f"{at}" * 400) for at in range(200)]
    assert lake.deliver(message("a", large), *messages(3)) == []
    assert lake.ids() == [1, 2, 3]
    assert [one["error"] for one in lake.refused()] == ["TooLarge"]


# -- records that wait -------------------------------------------------------------------------------------------------


def test_without_the_right_or_the_table_records_are_delivered_again_and_nothing_is_written(lake: BatchLake) -> None:
    revoked = {"principal": "rows", "add": [], "remove": ["MODIFY"]}
    Http(function("catalog").app).patch("/v1/permissions/catalog/main", {"changes": [revoked]})
    lake.open()
    files = dict(lake.lake.world.storages.files)
    assert lake.deliver(*messages(2)) == ["m1", "m2"]
    assert lake.deliver(message("a", [{"id": 1}], table="main.sales.none")) == ["a"]
    assert lake.lake.world.storages.files == files
    granted = {"principal": "rows", "add": ["MODIFY"], "remove": []}
    Http(function("catalog").app).patch("/v1/permissions/catalog/main", {"changes": [granted]})
    assert lake.deliver(*messages(2)) == []
    assert lake.ids() == [1, 2]


def test_records_of_an_external_table_are_delivered_again() -> None:
    """It may be imported, and then has a HEAD."""
    realm = Realm()
    rows = Function("rows", TURNSTILE_ROWS_TABLE="main.sales.e1")
    rows.use_world(realm.world, lake_root="s3://lake")
    answer = rows.on_batch({"Records": messages(1)}, None)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}]}


def test_records_of_another_table_are_added_though_one_is_missing(lake: BatchLake) -> None:
    records = [message("a", [{"id": 1}], table="main.sales.none"), message("b", [{"id": 2}], table=NAME)]
    assert lake.deliver(*records, message("c", [{"id": 3}])) == ["a"]
    assert lake.ids() == [2, 3]


@pytest.mark.parametrize("error", [Throttled("slow down"), StorageFault("the store is away")])
def test_after_a_commit_that_failed_no_later_record_of_the_table_is_added(
    lake: BatchLake, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """So the records of a shard, and of a group, are added in their order."""
    commit = writing.GroupRatifier.commit
    calls = list[int]()

    def second_fails(self: Any, group: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise error
        return commit(self, group)

    monkeypatch.setattr(writing.GroupRatifier, "commit", second_fails)
    records = [fifo_message(f"m{id}", [{"id": id}], "g") for id in range(1, 201)]
    assert lake.deliver(*records) == [f"m{id}" for id in range(91, 201)]
    assert lake.deliver(*records[90:]) == []
    assert lake.ids() == list(range(1, 201))


def test_a_refusal_by_the_table_stops_the_batch_too(lake: BatchLake) -> None:
    lake.lake.lake.set(state="stuck", stuck_reason="a version cannot be published")
    records = [stream_record(id, [{"id": id}]) for id in range(100)]
    assert lake.deliver(*records) == numbers(records)
    lake.lake.lake.set(state="active", stuck_reason=None)
    assert lake.deliver(*records) == []
    assert lake.ids() == list(range(100))


def test_a_refusal_of_the_commit_is_not_tried_again_in_the_same_batch(
    lake: BatchLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = writing.GroupRatifier.commit
    calls = list[int]()

    def counted(self: Any, group: Any) -> Any:
        calls.append(1)
        return commit(self, group)

    monkeypatch.setattr(writing.GroupRatifier, "commit", counted)
    size = lake.lake.lake.head.bytes
    lake.lake.lake.set(bytes=10**9)  # no room until the publisher has caught up
    assert lake.deliver(*messages(2)) == ["m1", "m2"]
    assert calls == [1]
    lake.lake.lake.set(bytes=size)
    assert lake.deliver(*messages(2)) == []
    assert lake.ids() == [1, 2]


@pytest.mark.parametrize("left_ms", [0, MARGIN_MS])
def test_records_are_delivered_again_when_the_time_is_up(lake: BatchLake, left_ms: int) -> None:
    assert lake.deliver(*messages(2), left_ms=left_ms) == ["m1", "m2"]
    assert lake.ids() == []
    assert lake.deliver(*messages(2), left_ms=MARGIN_MS + 1_000) == []
    assert lake.ids() == [1, 2]


def test_after_a_commit_that_failed_no_other_part_of_the_batch_is_added(
    lake: BatchLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_batches, "_PART_BYTES", 1)  # each record is a part
    commit = writing.GroupRatifier.commit
    calls = list[int]()

    def second_fails(self: Any, group: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise Throttled("slow down")
        return commit(self, group)

    monkeypatch.setattr(writing.GroupRatifier, "commit", second_fails)
    records = [stream_record(id, [{"id": id}]) for id in range(4)]
    assert lake.deliver(*records, stream_record(4, b"{")) == numbers([*records[1:], stream_record(4, b"")])
    assert lake.ids() == [0]
    assert lake.refused() == []
    assert lake.deliver(*records) == []
    assert lake.ids() == [0, 1, 2, 3]


def test_bodies_are_in_memory_in_parts(lake: BatchLake) -> None:
    """A batch may hold bodies of many times its own size."""
    text = "\n".join(json.dumps({"id": 1, "name": "x" * 1000}) for _ in range(9000))
    records = [stream_record(id, gzip.compress(text.encode())) for id in range(4)]
    assert lake.deliver(*records) == []
    assert len(lake.ids()) == 36_000


def test_a_part_is_full_with_its_last_byte(lake: BatchLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_batches, "_PART_BYTES", 2 * len('{"id": 1}'))
    assert lake.deliver(*messages(5)) == []
    assert lake.versions() == [(1, [1, 2]), (2, [3, 4]), (3, [5])]


@pytest.mark.parametrize("event", [{}, {"Records": [{"eventSource": "aws:s3"}]}])
def test_events_of_other_sources_are_refused(lake: BatchLake, event: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"Records|queue"):
        lake.rows.on_batch(event, None)


# -- what real queues do ----------------------------------------------------------------------------------------------


def test_i26_a_refused_record_can_be_corrected_and_sent_again_with_its_identity(lake: BatchLake) -> None:
    assert lake.deliver(message("a", [{"id": "no number"}])) == []
    (refused,) = lake.refused()
    assert lake.deliver(message("b", [{"id": 1}], idempotency_key=refused["identity"])) == []
    assert lake.deliver(message("c", [{"id": 1}], idempotency_key=refused["identity"])) == []
    assert lake.ids() == [1]


def test_i26_a_record_older_than_identities_are_kept_is_set_aside(lake: BatchLake) -> None:
    clock = lake.lake.world.clock
    clock.step = 0
    record = message("a", [{"id": 1}])
    record["attributes"]["SentTimestamp"] = str(clock.now_ms() - 28 * 86_400_000)
    assert lake.deliver(record) == []
    clock.now += 86_400_000
    assert lake.deliver(record) == []
    assert lake.refused() == [], "after 29 days to the millisecond"
    clock.now += 86_400_000
    assert lake.deliver(record) == [], "as records of a stream whose mapping begins at the oldest again"
    assert lake.ids() == [1]
    assert "29 days" in lake.refused()[0]["message"]


def test_i26_a_record_that_was_added_is_done_though_its_version_is_not_found(
    lake: BatchLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lake.deliver(*messages(2)) == []
    monkeypatch.setattr(turns, "_find_version", lambda *_: None)
    assert lake.deliver(*messages(3)) == []
    assert lake.ids() == [1, 2, 3]
    assert lake.refused() == []


def test_a_record_with_an_unexpected_error_stops_no_record_before_it(
    lake: BatchLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert = turns.rows_of

    def failing(plain: bytes, media: str, definition: Any) -> Any:
        if b'"id": 7}' in plain:
            raise MemoryError
        return convert(plain, media, definition)

    monkeypatch.setattr(turns, "rows_of", failing)
    assert lake.deliver(*messages(9)) == ["m7", "m8", "m9"]
    assert lake.ids() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("error", [KeyReused(), TooLarge("a row of the store is full"), InvalidRequest("no")])
def test_an_error_of_a_whole_commit_sets_no_record_aside(
    lake: BatchLake, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(*_: Any) -> Any:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(turns, "head_of", failing)
        assert lake.deliver(*messages(3)) == ["m1", "m2", "m3"]
    assert lake.refused() == []
    assert lake.deliver(*messages(3)) == []


def test_when_the_time_is_up_records_of_other_tables_and_refused_ones_come_again(
    lake: BatchLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each invocation makes progress, however many bad records a batch has."""
    clock = lake.lake.world.clock
    put = RowBatchHandler._set_aside

    def slow(self: Any, *given: Any) -> bool:
        clock.now += 20_000
        return put(self, *given)

    monkeypatch.setattr(RowBatchHandler, "_set_aside", slow)
    bad = [message(f"x{at}", "{") for at in range(5)]
    again = lake.deliver(*bad, message("t", [{"id": 1}], table="main.sales.none"))
    assert again == ["x2", "x3", "x4", "t"]
    assert len(lake.refused()) == 2
