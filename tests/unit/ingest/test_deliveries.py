"""The records of a queue and of a stream, and the identity of each (I26)."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.deliveries import FIFO, QUEUE, SENT_MS, STREAM, fifo_message, message, stream_record
from turnstile.ingest.core.bodies import media_of
from turnstile.ingest.core.compression import encoding_of
from turnstile.ingest.core.deliveries import (
    Delivery,
    deliveries_of,
    refused_file,
    refused_path,
)
from turnstile.ingest.core.errors import InvalidRows
from turnstile.store.core.errors import InvalidRequest

SHARD: Final = "shardId-000000000001"
NUMBER: Final = stream_record(1, b"")["kinesis"]["sequenceNumber"]


def delivered(record: dict[str, Any]) -> Delivery:
    (delivery,) = deliveries_of({"Records": [record]})
    return delivery


def identities(*records: dict[str, Any]) -> int:
    """How many different identities the records have."""
    return len({one.identity for one in deliveries_of({"Records": list(records)})})


def at(queue: str, record: dict[str, Any]) -> dict[str, Any]:
    """The record as one of another queue or stream."""
    return record | {"eventSourceARN": queue}


# -- events ------------------------------------------------------------------------------------------------------------


def test_the_records_of_an_event_keep_their_order() -> None:
    records = [message("b", "2"), fifo_message("a", "1", "g"), stream_record(3, b"3")]
    assert [one.raw for one in deliveries_of({"Records": records})] == [b"2", b"1", b"3"]
    assert deliveries_of({"Records": []}) == []


@pytest.mark.parametrize("event", [{}, {"Records": None}, {"Records": {}}], ids=["empty", "none", "map"])
def test_an_event_without_a_list_of_records_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        deliveries_of(event)
    assert refused.value.message == "the event has no Records"
    assert refused.value.remedy == "send events of SQS or Kinesis only"


@pytest.mark.parametrize("source", ["aws:s3", None])
def test_a_record_of_another_source_is_refused_by_name(source: str | None) -> None:
    with pytest.raises(InvalidRequest) as refused:
        deliveries_of({"Records": [message("a", ""), {"eventSource": source}]})
    assert refused.value.message == f"a record is of {source!r}, which is no queue and no stream"
    assert refused.value.remedy == "send events of SQS or Kinesis only"


def test_a_message_is_reported_by_its_id_and_a_stream_record_by_its_number() -> None:
    assert delivered(message("a", "")).item == "a"
    assert delivered(fifo_message("b", "", "g")).item == "b"
    assert delivered(stream_record(1, b"")).item == NUMBER


def test_a_record_names_its_place_for_people() -> None:
    assert delivered(message("a", "")).place == f"{QUEUE} message a"
    assert delivered(stream_record(1, b"")).place == f"{STREAM} {SHARD} record {NUMBER}"


def test_a_record_has_the_time_at_which_it_was_sent() -> None:
    assert delivered(message("a", "")).sent_ms == SENT_MS
    record = stream_record(1, b"")
    record["kinesis"]["approximateArrivalTimestamp"] = 1760000000.25
    assert delivered(record).sent_ms == 1_760_000_000_250


def test_a_record_without_its_optional_members_is_read() -> None:
    sparse = {"eventSource": "aws:sqs", "eventSourceARN": QUEUE, "messageId": "a", "body": "x"}
    found = delivered(sparse)
    assert (found.table, found.media, found.sent_ms, found.fault) == ("", "", 0, "")
    assert found.identity == delivered(message("a", "y")).identity
    record = stream_record(1, b"x")
    del record["eventID"], record["kinesis"]["approximateArrivalTimestamp"]
    found = delivered(record)
    assert (found.raw, found.sent_ms, found.fault) == (b"x", 0, "")


# -- attributes --------------------------------------------------------------------------------------------------------


def test_a_message_names_its_table_in_an_attribute_and_a_stream_record_names_none() -> None:
    assert delivered(message("a", "", table="main.sales.orders")).table == "main.sales.orders"
    assert delivered(message("a", "")).table == ""
    assert delivered(stream_record(1, b"")).table == ""


@pytest.mark.parametrize("named", ["text/csv", "Text/CSV", " text/csv ; charset=utf-8"])
def test_the_format_of_a_message_is_in_small_letters_without_parameters(named: str) -> None:
    assert delivered(message("a", "", content_type=named)).media == "text/csv"


def test_other_attributes_count_for_nothing() -> None:
    assert delivered(message("a", "x", other="y")) == delivered(message("a", "x"))


@pytest.mark.parametrize("value", [{"dataType": "Binary", "binaryValue": "eA=="}, {"stringValue": None}])
def test_a_format_that_is_no_text_is_none_and_a_table_that_is_none_is_a_fault(value: dict[str, Any]) -> None:
    found = delivered(message("a", "x") | {"messageAttributes": {"content-type": value}})
    assert found == delivered(message("a", "x"))
    found = delivered(message("a", "x") | {"messageAttributes": {"table": value}})
    assert found.fault == "the attribute table is no text"


@pytest.mark.parametrize("kind", ["message", "message-id", "group", "shard"])
def test_a_key_that_is_the_identity_of_a_record_is_taken_as_it_is(kind: str) -> None:
    identity = f"{kind}/{'0' * 64}"
    assert delivered(message("a", "", idempotency_key=identity)).identity == identity
    for other in (identity + "0", identity[:-1], "other/" + "0" * 64, f"{kind}/{'g' * 64}"):
        assert delivered(message("a", "", idempotency_key=other)).identity not in (other, identity)


@pytest.mark.parametrize("key", ["k", "k" * 200, "with spaces", "käse"], ids=["short", "long", "spaces", "letters"])
def test_a_key_of_1_to_200_printable_characters_is_taken(key: str) -> None:
    assert delivered(message("a", "", idempotency_key=key)).fault == ""


@pytest.mark.parametrize("key", ["k" * 201, "a\nb", "\x00", ""], ids=["long", "line", "nul", "empty"])
def test_another_key_is_a_fault(key: str) -> None:
    problem = "the attribute idempotency-key is no text of 1 to 200 printable characters"
    assert delivered(message("a", "", idempotency_key=key)).fault == problem


def test_a_key_in_bytes_is_a_fault_and_not_overlooked() -> None:
    """Its sender would believe that what it sends again is added once."""
    value = {"dataType": "Binary", "binaryValue": "eA=="}
    assert "idempotency-key" in delivered(message("a", "") | {"messageAttributes": {"idempotency-key": value}}).fault


# -- identities --------------------------------------------------------------------------------------------------------


def test_i26_a_message_is_known_by_its_id_whatever_else_it_says() -> None:
    assert identities(message("a", "x"), message("a", "y", table="t", content_type="c")) == 1
    assert identities(message("a", "x"), message("b", "x"), at("other", message("a", "x"))) == 3


def test_i26_a_message_with_a_key_is_known_by_it_in_every_queue() -> None:
    keyed = message("a", "x", idempotency_key="k")
    again = fifo_message("b", "y", "g", "u", idempotency_key="k")
    assert identities(keyed, at("other", keyed), again) == 1
    assert identities(keyed, message("a", "x", idempotency_key="K"), message("a", "x"), message("k", "x")) == 4


def test_i26_a_message_of_a_fifo_queue_is_known_by_its_group_and_its_deduplication_id() -> None:
    sent = fifo_message("a", "x", "g", "u")
    assert identities(sent, fifo_message("b", "y", "g", "u")) == 1
    assert identities(sent, fifo_message("a", "x", "h", "u"), fifo_message("a", "x", "g", "v")) == 3
    assert identities(sent, at("other.fifo", sent)) == 2


def test_i26_a_deduplication_id_that_the_queue_computed_of_the_body_does_not_name_the_message() -> None:
    """Equal rows that are sent later are other rows."""
    assert identities(fifo_message("a", "x", "g"), fifo_message("b", "x", "g")) == 2
    assert identities(fifo_message("a", "x", "g"), fifo_message("a", "x", "g"), at(FIFO, message("a", ""))) == 1
    of_another_body = hashlib.sha256(b"y").hexdigest()
    assert identities(fifo_message("a", "x", "g", of_another_body), fifo_message("b", "x", "g", of_another_body)) == 1


def test_i26_a_record_of_a_stream_is_known_by_its_shard_and_its_number() -> None:
    record = stream_record(1, b"x")
    assert identities(record, stream_record(1, b"y")) == 1
    assert identities(record, stream_record(2, b"x"), stream_record(1, b"x", shard="s"), at("other", record)) == 4


def test_i26_names_that_contain_separators_are_not_taken_for_others() -> None:
    assert identities(*(fifo_message("a", "x", *names) for names in [("g/u", "v"), ("g", "u/v"), ('g","u', "v")])) == 3
    assert identities(stream_record(1, b"", shard="a/b"), at(STREAM + "/a", stream_record(1, b"", shard="b"))) == 2
    assert identities(*(at(queue, message(id, "")) for queue, id in [("q/a", "b"), ("q", "a/b"), ("q ", "b")])) == 3


def test_i26_an_identity_has_a_bounded_length() -> None:
    assert len(delivered(fifo_message("a", "x", "g" * 10_000, "u" * 10_000)).identity) < 100


_NAMES: Final = st.sampled_from(["a", "b", "a/b", 'a","b', "a b", "b:a", "ä", "message-id", "group"]) | st.text(
    st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=3
)
_BODIES: Final = st.sampled_from(["", "x", "y"])


@st.composite
def _named_records(draw: st.DrawFn) -> tuple[tuple[str, ...], dict[str, Any]]:
    """A record, and what tells it from others."""
    kind = draw(st.sampled_from(["message", "key", "group", "computed", "shard"]))
    queue, id, group, unique = (draw(_NAMES) for _ in range(4))
    queue = queue.removesuffix(".fifo")
    body = draw(_BODIES)
    match kind:
        case "message":
            return ("id", queue, id), at(queue, message(id, body))
        case "key":
            made = draw(st.sampled_from([message(id, body), fifo_message(id, body, group, unique)]))
            made["messageAttributes"] = message("", "", idempotency_key=unique)["messageAttributes"]
            return ("key", unique), at(queue + draw(st.sampled_from(["", ".fifo"])), made)
        case "group":
            queue += ".fifo"
            return ("group", queue, group, unique), at(queue, fifo_message(id, body, group, unique))
        case "computed":
            queue += ".fifo"
            return ("id", queue, id), at(queue, fifo_message(id, body, group))
        case _:
            number = draw(st.integers(0, 3))
            return ("shard", queue, group, str(number)), at(queue, stream_record(number, body.encode(), shard=group))


@settings(max_examples=examples(200))
@given(st.lists(_named_records(), min_size=2, max_size=8))
def test_i26_records_have_the_same_identity_exactly_if_they_have_the_same_names(
    records: list[tuple[tuple[str, ...], dict[str, Any]]],
) -> None:
    known = [(names, delivered(record)) for names, record in records]
    for names, delivery in known:
        assert delivery.fault == ""
        for other_names, other in known:
            assert (delivery.identity == other.identity) == (names == other_names)


# -- bodies ------------------------------------------------------------------------------------------------------------


def test_the_body_of_a_message_is_its_text_in_utf_8() -> None:
    assert delivered(message("a", '{"name": "Ada 🦉"}')).raw == '{"name": "Ada 🦉"}'.encode()


def test_the_body_of_a_stream_record_is_its_bytes() -> None:
    assert delivered(stream_record(1, bytes(range(256)))).raw == bytes(range(256))


@pytest.mark.parametrize("data", ["x", "!!!!", "e A==", "ä"])
def test_data_that_is_no_base64_is_a_fault_and_is_kept(data: str) -> None:
    record = stream_record(1, b"")
    record["kinesis"]["data"] = data
    found = delivered(record)
    assert found.fault == "the data of the record is no base64"
    assert found.raw == data.encode()


def test_a_record_that_holds_several_ones_is_a_fault() -> None:
    found = delivered(stream_record(1, b"\xf3\x89\x9a\xc2rest"))
    assert found.fault == (
        "the record holds several ones, as Kinesis' producer library puts them together: turn aggregation off"
    )
    assert found.raw == b"\xf3\x89\x9a\xc2rest"
    assert delivered(stream_record(1, b"\xf3\x89\x9arest")).fault == ""


def test_a_compression_is_found_by_the_first_bytes() -> None:
    assert encoding_of(gzip.compress(b"x")) == "gzip"
    assert encoding_of(b"\x28\xb5\x2f\xfd\x00") == "zstd"
    assert encoding_of(b"") == encoding_of(b"\x1f") == encoding_of(b'{"id": 1}') == ""


@pytest.mark.parametrize(
    ("plain", "media"),
    [
        (b"PAR1rest", "application/vnd.apache.parquet"),
        (b"\xff\xff\xff\xffrest", "application/vnd.apache.arrow.stream"),
        (b"[]", "application/json"),
        (b" \r\n\t[]", "application/json"),
        (b"{}", "application/x-ndjson"),
        (b"", "application/x-ndjson"),
        (b" PAR1", "application/x-ndjson"),
    ],
    ids=["parquet", "arrow", "array", "array after spaces", "object", "nothing", "spaces"],
)
def test_a_format_is_found_by_the_first_bytes_unless_the_record_names_it(plain: bytes, media: str) -> None:
    assert media_of(plain) == media
    assert media_of(plain, "text/csv") == "text/csv"


# -- refused records ---------------------------------------------------------------------------------------------------


def test_a_refused_record_has_a_path_below_the_day_on_which_it_was_sent() -> None:
    for hour_ms, day in [(0, "2026-02-02"), (24 * 3_600_000, "2026-02-03")]:
        record = message("a", "x")
        record["attributes"]["SentTimestamp"] = str(SENT_MS + hour_ms)
        folder, _, name = refused_path(delivered(record)).partition("/")
        assert folder == day
        assert name.removesuffix(".json").isalnum()
        assert name.endswith(".json")


def test_a_refused_record_has_the_same_path_at_each_delivery() -> None:
    records = [message("a", "x"), fifo_message("b", "x", "g", "u"), stream_record(1, b"x")]
    paths = [[refused_path(delivered(record)) for record in records] for _ in range(2)]
    assert paths[0] == paths[1]
    assert len(set(paths[0])) == 3


def test_refused_messages_of_one_identity_have_a_path_each() -> None:
    """A second message with a key is another attempt of its sender, which may be refused too."""
    keyed = [delivered(message(id, "x", idempotency_key="k")) for id in "ab"]
    unique = [delivered(fifo_message(id, "x", "g", "u")) for id in "cd"]
    assert len({refused_path(one) for one in (*keyed, *unique)}) == 4


def test_the_file_of_a_refused_record_says_all_that_sending_it_again_needs() -> None:
    error = InvalidRequest("no table", field="table", remedy="name it")
    record = message("a", '{"id": "ä"}', content_type="application/json")
    assert json.loads(refused_file(delivered(record), "main.sales.orders", error)) == {
        "place": f"{QUEUE} message a",
        "identity": delivered(record).identity,
        "table": "main.sales.orders",
        "error": "InvalidRequest",
        "message": "no table",
        "field": "table",
        "remedy": "name it",
        "media": "application/json",
        "sent": "2026-02-02T02:40:00+00:00",
        "body": '{"id": "ä"}',
    }


def test_the_file_of_a_refused_record_leaves_out_what_is_not_known() -> None:
    content = json.loads(refused_file(delivered(message("a", "")), "t", InvalidRequest("bad")))
    assert content.keys() == {"place", "identity", "table", "error", "message", "remedy", "sent", "body"}
    assert content["body"] == ""


def test_the_file_of_a_refused_record_has_bytes_that_are_no_text_in_base64() -> None:
    raw = gzip.compress(b"x")
    content = json.loads(refused_file(delivered(stream_record(1, raw)), "t", InvalidRows("bad")))
    assert base64.b64decode(content["body_base64"]) == raw
    assert "body" not in content
    assert content["error"] == "InvalidRows"
