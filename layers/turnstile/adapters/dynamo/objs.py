"""The write-once table of immutable objs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from turnstile.adapters.dynamo.calls import Caller, OnRequest, Refusal
from turnstile.adapters.dynamo.models import Item, ObjRow, from_item, to_item
from turnstile.store.cache import ObjCache
from turnstile.store.core.errors import Throttled
from turnstile.store.ports import Clock, Obj
from turnstile.store.retry import Patience
from turnstile.store.stored_objs import LargeObj, Seconds, StoredObjs

_WRITE_BATCH: Final = 25
_CACHE_BYTES: Final = 32 * 1024 * 1024


class DynamoObjs(StoredObjs):
    """``turnstile.store.ports.Objs`` on DynamoDB, by a botocore client without retries of its own;
    the ``table`` has the hash key ``space``, the range key ``id``, and a time to live on
    ``expires``. Reads are strongly consistent: an obj is referred to as soon as it is written. An
    obj past its ``expires`` counts as absent, however long its removal takes.
    """

    def __init__(
        self,
        client: Any,
        table: str,
        *,
        clock: Clock,
        cache_bytes: int = _CACHE_BYTES,
        patience: Patience | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        rows = _Rows(Caller(client, patience=patience, on_request=on_request), table)
        super().__init__(rows, lambda: clock.now_ms() // 1000, ObjCache(cache_bytes, clock))


class _Rows:
    """``ObjRows`` of one table."""

    def __init__(self, caller: Caller, table: str) -> None:
        self._caller = caller
        self._table = table

    def insert(self, row: Obj, now: Seconds) -> Obj | None:
        request = {
            "TableName": self._table,
            "Item": _item(row),
            "ConditionExpression": "attribute_not_exists(#space) OR #expires <= :now",
            "ExpressionAttributeNames": {"#space": "space", "#expires": "expires"},
            "ExpressionAttributeValues": {":now": {"N": str(now())}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            self._caller.write("put_item", request)
        except Refusal as refusal:
            return _row(refusal.response["Item"])
        return None

    def put_many(self, rows: Sequence[Obj]) -> None:
        for start in range(0, len(rows), _WRITE_BATCH):
            batch = rows[start : start + _WRITE_BATCH]
            left: Any = {self._table: [{"PutRequest": {"Item": _item(row)}} for row in batch]}
            retries = self._caller.retries()
            while left:
                left = self._caller.write("batch_write_item", {"RequestItems": left}).get("UnprocessedItems")
                if left and not retries.pause():
                    raise Throttled("some objs were not written until the deadline")

    def get(self, space: str, id: str) -> Obj | None:
        request = {"TableName": self._table, "Key": _key(space, id), "ConsistentRead": True}
        item = self._caller.read("get_item", request).get("Item")
        return _row(item) if item else None

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        items = self._caller.read_batches(self._table, [_key(space, id) for id in ids])
        return {row.id: row for row in map(_row, items)}

    def query(self, space: str, prefix: str, *, newest_first: bool = False) -> Iterator[Obj]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "#space = :space",
            "ExpressionAttributeNames": {"#space": "space"},
            "ExpressionAttributeValues": {":space": {"S": space}},
        }
        if newest_first:
            request |= {"ScanIndexForward": False, "Limit": 1}
        if prefix:
            request["KeyConditionExpression"] += " AND begins_with(#id, :prefix)"
            request["ExpressionAttributeNames"]["#id"] = "id"
            request["ExpressionAttributeValues"][":prefix"] = {"S": prefix}
        yield from map(_row, self._caller.read_pages("query", request))

    def delete(self, space: str, id: str) -> Obj | None:
        request = {"TableName": self._table, "Key": _key(space, id), "ReturnValues": "ALL_OLD"}
        item = self._caller.write("delete_item", request).get("Attributes")
        return _row(item) if item else None


def _item(row: Obj) -> Item:
    attributes: dict[str, Any] = {"space": row.space, "id": row.id, "type": row.type, "payload": row.payload}
    attributes["created"] = row.created_us
    if row.expires_s is not None:
        attributes["expires"] = row.expires_s
    if isinstance(row, LargeObj):
        attributes |= {"digest": row.digest, "size": row.size, "stamp": row.stamp, "parts": row.count}
    return to_item(ObjRow, attributes)


def _row(item: Item) -> Obj:
    attributes = from_item(ObjRow, item)
    attributes |= {"created_us": attributes.pop("created"), "expires_s": attributes.pop("expires", None)}
    if "parts" in attributes:
        return LargeObj(count=attributes.pop("parts"), **attributes)
    return Obj(**attributes)


def _key(space: str, id: str) -> Item:
    return {"space": {"S": space}, "id": {"S": id}}
