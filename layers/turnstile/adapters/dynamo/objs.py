"""The write-once table of immutable objs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from turnstile.adapters.dynamo.calls import Caller, OnRequest, Refusal
from turnstile.adapters.dynamo.models import Item, ObjRow, from_item, to_item
from turnstile.store.cache import ObjCache
from turnstile.store.core.errors import Throttled
from turnstile.store.ports import BATCH_GET_MAX, Clock, Obj
from turnstile.store.retry import Patience
from turnstile.store.stored_objs import LargeObj, Seconds, StoredObjs

_WRITE_BATCH: Final = 25
_CACHE_BYTES: Final = 32 * 1024 * 1024


class DynamoObjs(StoredObjs):
    """``turnstile.store.ports.Objs`` on DynamoDB.

    Reads are strongly consistent: an obj is referred to as soon as it is written. An obj past its ``expires`` counts
    as absent, however long the service takes to remove it.

    Args:
        client: a botocore DynamoDB client without retries of its own.
        table: name of the table; hash key ``space``, range key ``id``, time to live on ``expires``.
        cache_bytes: memory for objs that were read or written.
        on_request: called for every request that is sent, with its capacity.
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
        self._caller, self._table = caller, table

    def insert(self, row: Obj, now: Seconds) -> Obj | None:
        asked = {
            "TableName": self._table,
            "Item": _item(row),
            "ConditionExpression": "attribute_not_exists(#space) OR #expires <= :now",
            "ExpressionAttributeNames": {"#space": "space", "#expires": "expires"},
            "ExpressionAttributeValues": {":now": {"N": str(now())}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            self._caller.write("put_item", asked)
        except Refusal as refusal:
            return _row(refusal.response["Item"])
        return None

    def put_many(self, rows: Sequence[Obj]) -> None:
        for start in range(0, len(rows), _WRITE_BATCH):
            batch = rows[start : start + _WRITE_BATCH]
            asked: Any = {self._table: [{"PutRequest": {"Item": _item(row)}} for row in batch]}
            retries = self._caller.retries()
            while asked:
                asked = self._caller.write("batch_write_item", {"RequestItems": asked}).get("UnprocessedItems")
                if asked and not retries.pause():
                    raise Throttled("some objs were not written until the deadline")

    def get(self, space: str, id: str) -> Obj | None:
        asked = {"TableName": self._table, "Key": _key(space, id), "ConsistentRead": True}
        item = self._caller.read("get_item", asked).get("Item")
        return _row(item) if item else None

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        found: dict[str, Obj] = {}
        for start in range(0, len(ids), BATCH_GET_MAX):
            for item in self._read_batch([_key(space, id) for id in ids[start : start + BATCH_GET_MAX]]):
                row = _row(item)
                found[row.id] = row
        return found

    def query(self, space: str, prefix: str, *, newest_first: bool = False) -> Iterator[Obj]:
        asked: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "#space = :space",
            "ExpressionAttributeNames": {"#space": "space"},
            "ExpressionAttributeValues": {":space": {"S": space}},
        }
        if newest_first:
            asked |= {"ScanIndexForward": False, "Limit": 1}
        if prefix:
            asked["KeyConditionExpression"] += " AND begins_with(#id, :prefix)"
            asked["ExpressionAttributeNames"]["#id"] = "id"
            asked["ExpressionAttributeValues"][":prefix"] = {"S": prefix}
        while True:
            page = self._caller.read("query", asked)
            yield from (_row(item) for item in page.get("Items", ()))
            if not page.get("LastEvaluatedKey"):
                return
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def delete(self, space: str, id: str) -> Obj | None:
        asked = {"TableName": self._table, "Key": _key(space, id), "ReturnValues": "ALL_OLD"}
        item = self._caller.write("delete_item", asked).get("Attributes")
        return _row(item) if item else None

    def _read_batch(self, keys: Sequence[Item]) -> Iterator[Item]:
        asked: Any = {self._table: {"Keys": list(keys), "ConsistentRead": True}}
        retries = self._caller.retries()
        while asked:
            answer = self._caller.read("batch_get_item", {"RequestItems": asked})
            yield from answer["Responses"].get(self._table, ())
            asked = answer.get("UnprocessedKeys")
            if asked and not retries.pause():
                raise Throttled("some objs were not read until the deadline")


def _item(row: Obj) -> Item:
    known: dict[str, Any] = {
        "space": row.space,
        "id": row.id,
        "type": row.type,
        "payload": row.payload,
        "created": row.created_us,
    }
    if row.expires_s is not None:
        known["expires"] = row.expires_s
    if isinstance(row, LargeObj):
        known |= {"digest": row.digest, "size": row.size, "stamp": row.stamp, "parts": row.count}
    return to_item(ObjRow, known)


def _row(item: Item) -> Obj:
    known = from_item(ObjRow, item)
    known |= {"created_us": known.pop("created"), "expires_s": known.pop("expires", None)}
    if "parts" in known:
        return LargeObj(count=known.pop("parts"), **known)
    return Obj(**known)


def _key(space: str, id: str) -> Item:
    return {"space": {"S": space}, "id": {"S": id}}
