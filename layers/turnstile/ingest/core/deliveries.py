"""Rows that a queue or a stream delivers: the records of an event of Lambda, and an identity for
each of them (I26).

    queue          the id of the message; or its attribute ``idempotency-key``
    FIFO queue     the group and the deduplication id. The id of the message where the deduplication
                   id is the digest of the body: the queue computes it where the sender gives none,
                   and equal rows that are sent later are other rows
    stream         the shard and the sequence number

Lambda delivers a record again until it is reported as done, and sometimes afterwards. Its identity
is the same each time.

Sources: Lambda's events of SQS and Kinesis, with partial batch responses (AWS Lambda Developer
Guide).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from turnstile.store.core.errors import InvalidRequest, TurnstileError

TABLE: Final = "table"
"""The attribute of a message that names its table: catalog.namespace.table."""
MEDIA: Final = "content-type"
KEY: Final = "idempotency-key"

_KEY_MOST: Final = 200
_IDENTITY: Final = re.compile(r"(message|message-id|group|shard)/[0-9a-f]{64}")
"""An identity as the file of a refused record has it."""
_AGGREGATED: Final = b"\xf3\x89\x9a\xc2"
"""The first bytes of a record in which Kinesis' producer library put several ones."""


class Delivery(msgspec.Struct, frozen=True):
    """A record with rows.

    Attributes:
        item: the name by which a response reports it to Lambda.
        identity: the same for each delivery of the record.
        place: the queue or the shard, and the record in it, for people.
        table: the name that the record has; empty for none.
        media: the format that the record names; empty for none.
        raw: the body, maybe compressed.
        sent_ms: the time at which it came into the queue or the stream.
        fault: the reason why it cannot be read; empty for most.
    """

    item: str
    identity: str
    place: str
    table: str
    media: str
    raw: bytes
    sent_ms: int
    fault: str = ""


def deliveries_of(event: Mapping[str, Any]) -> list[Delivery]:
    """Returns the records of an event, in their order. Raises InvalidRequest for an event that is
    of no queue and no stream."""
    records = event.get("Records")
    if not isinstance(records, list):
        raise InvalidRequest("the event has no Records", remedy="send events of SQS or Kinesis only")
    return [_delivery(record) for record in records]


def _delivery(record: Mapping[str, Any]) -> Delivery:
    match record.get("eventSource"):
        case "aws:sqs":
            return _message(record)
        case "aws:kinesis":
            return _stream_record(record)
        case source:
            problem = f"a record is of {source!r}, which is no queue and no stream"
            raise InvalidRequest(problem, remedy="send events of SQS or Kinesis only")


def _message(record: Mapping[str, Any]) -> Delivery:
    queue = str(record["eventSourceARN"])
    id = str(record["messageId"])
    body = str(record["body"]).encode()
    given = record.get("messageAttributes", {})
    texts = {name: str(given[name].get("stringValue") or "") for name in (TABLE, MEDIA, KEY) if name in given}
    system = record.get("attributes", {})
    group = str(system.get("MessageGroupId", ""))
    unique = str(system.get("MessageDeduplicationId", ""))
    key = texts.get(KEY, "")
    fault = ""
    if KEY in texts and not (0 < len(key) <= _KEY_MOST and key.isprintable()):
        fault = f"the attribute {KEY} is no text of 1 to {_KEY_MOST} printable characters"
    if TABLE in given and not texts[TABLE]:
        fault = f"the attribute {TABLE} is no text"
    if _IDENTITY.fullmatch(key):
        identity = key  # a refused record, which is sent again
    elif key:
        identity = _name_of("message", key)
    elif unique and unique != hashlib.sha256(body).hexdigest():
        identity = _name_of("group", queue, group, unique)
    else:
        identity = _name_of("message-id", queue, id)
    return Delivery(
        item=id,
        identity=identity,
        place=f"{queue} message {id}",
        table=texts.get(TABLE, ""),
        media=texts.get(MEDIA, "").split(";")[0].strip().lower(),
        raw=body,
        sent_ms=int(system.get("SentTimestamp", 0)),
        fault=fault,
    )


def _stream_record(record: Mapping[str, Any]) -> Delivery:
    stream = str(record["eventSourceARN"])
    inner = record["kinesis"]
    number = str(inner["sequenceNumber"])
    shard = str(record.get("eventID", "")).rpartition(":")[0]
    fault = ""
    try:
        raw = base64.b64decode(inner["data"], validate=True)
    except (binascii.Error, ValueError):
        raw = str(inner["data"]).encode()
        fault = "the data of the record is no base64"
    if raw.startswith(_AGGREGATED):
        fault = "the record holds several ones, as Kinesis' producer library puts them together: turn aggregation off"
    return Delivery(
        item=number,
        identity=_name_of("shard", stream, shard, number),
        place=f"{stream} {shard} record {number}",
        table="",
        media="",
        raw=raw,
        sent_ms=int(float(inner.get("approximateArrivalTimestamp", 0)) * 1000),
        fault=fault,
    )


def _name_of(kind: str, *parts: str) -> str:
    """A name of bounded length for parts of any length and characters."""
    return f"{kind}/{hashlib.sha256(msgspec.json.encode(parts)).hexdigest()}"


def refused_path(delivery: Delivery) -> str:
    """Returns the path of the file for a refused record: the same for each delivery of it. Another
    message with its key has another one, so that neither is lost."""
    day = datetime.fromtimestamp(delivery.sent_ms / 1000, UTC).date().isoformat()
    return f"{day}/{hashlib.sha256(delivery.place.encode()).hexdigest()}.json"


class RefusedRows(msgspec.Struct, omit_defaults=True):
    """The file of a refused record. ``body``: as it came, where it is text; else
    ``body_base64``."""

    place: str
    identity: str
    table: str
    error: str
    message: str
    field: str = ""
    remedy: str = ""
    media: str = ""
    sent: str = ""
    body: str | None = None
    body_base64: str | None = None


def refused_file(delivery: Delivery, table: str, error: TurnstileError) -> bytes:
    """Returns the content of that file. The record can be corrected and sent to a queue again, with
    its identity as ``idempotency-key``."""
    kept = RefusedRows(
        place=delivery.place,
        identity=delivery.identity,
        table=table,
        error=error.type,
        message=error.message,
        field=error.field or "",
        remedy=error.remedy or "",
        media=delivery.media,
        sent=datetime.fromtimestamp(delivery.sent_ms / 1000, UTC).isoformat(),
    )
    try:
        kept.body = delivery.raw.decode()
    except UnicodeDecodeError:
        kept.body_base64 = base64.b64encode(delivery.raw).decode()
    return msgspec.json.encode(kept)
