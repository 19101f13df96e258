"""The write-once table of immutable objs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from turnstile.adapters.dynamo.cache import ObjCache
from turnstile.adapters.dynamo.calls import Caller, OnRequest, Patience, Refusal
from turnstile.adapters.dynamo.models import ObjRow
from turnstile.adapters.dynamo.rows import Item, from_item, to_item
from turnstile.core.errors import Throttled
from turnstile.ports import Clock, Obj

_READ_BATCH: Final = 100
_WRITE_BATCH: Final = 25
_CACHE_BYTES: Final = 32 * 1024 * 1024


class DynamoObjs:
    """``turnstile.ports.Objs`` on DynamoDB.

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
        self._table, self._clock, self._cache = table, clock, ObjCache(cache_bytes)
        self._caller = Caller(client, patience=patience, on_request=on_request)

    def put(self, obj: Obj) -> None:
        asked = {
            "TableName": self._table,
            "Item": _item(obj),
            "ConditionExpression": "attribute_not_exists(#space) OR #expires <= :now",
            "ExpressionAttributeNames": {"#space": "space", "#expires": "expires"},
            "ExpressionAttributeValues": {":now": {"N": str(self._seconds())}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            self._caller.write("put_item", asked)
        except Refusal as refusal:
            known = _obj(refusal.response["Item"])
            if known.payload != obj.payload:
                raise ValueError(f"obj {obj.id} exists with another payload") from refusal
            obj = known
        self._cache.keep(obj)

    def put_many(self, objs: Iterable[Obj]) -> None:
        wanted = list({(obj.space, obj.id): obj for obj in objs}.values())
        for start in range(0, len(wanted), _WRITE_BATCH):
            batch = wanted[start : start + _WRITE_BATCH]
            self._write_batch([{"PutRequest": {"Item": _item(obj)}} for obj in batch])
            for obj in batch:
                self._cache.keep(obj)

    def get(self, space: str, id: str) -> Obj | None:
        known = self._cache.get(space, id)
        if known is None:
            asked = {"TableName": self._table, "Key": _key(space, id), "ConsistentRead": True}
            item = self._caller.read("get_item", asked).get("Item")
            known = self._adopt(item) if item else None
        return known if known is not None and self._lives(known) else None

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        found: dict[str, Obj] = {}
        missing = []
        for id in dict.fromkeys(ids):
            known = self._cache.get(space, id)
            if known is None:
                missing.append(id)
            else:
                found[id] = known
        for start in range(0, len(missing), _READ_BATCH):
            for item in self._read_batch([_key(space, id) for id in missing[start : start + _READ_BATCH]]):
                obj = self._adopt(item)
                found[obj.id] = obj
        return {id: found[id] for id in ids if id in found and self._lives(found[id])}

    def newest(self, space: str, prefix: str) -> Obj | None:
        return next(self._query(space, prefix, ScanIndexForward=False, Limit=1), None)

    def list(self, space: str, prefix: str) -> Iterator[Obj]:
        yield from self._query(space, prefix)

    def delete(self, space: str, id: str) -> None:
        self._caller.write("delete_item", {"TableName": self._table, "Key": _key(space, id)})
        self._cache.forget(space, id)

    def _query(self, space: str, prefix: str, **more: Any) -> Iterator[Obj]:
        asked: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "#space = :space",
            "ExpressionAttributeNames": {"#space": "space"},
            "ExpressionAttributeValues": {":space": {"S": space}},
            **more,
        }
        if prefix:
            asked["KeyConditionExpression"] += " AND begins_with(#id, :prefix)"
            asked["ExpressionAttributeNames"]["#id"] = "id"
            asked["ExpressionAttributeValues"][":prefix"] = {"S": prefix}
        while True:
            page = self._caller.read("query", asked)
            for item in page.get("Items", ()):
                obj = _obj(item)
                if self._lives(obj):
                    yield obj
            if not page.get("LastEvaluatedKey"):
                return
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _write_batch(self, requests: Sequence[Item]) -> None:
        asked: Any = {self._table: list(requests)}
        pause = self._caller.pauses()
        while asked:
            asked = self._caller.write("batch_write_item", {"RequestItems": asked}).get("UnprocessedItems")
            if asked and not pause():
                raise Throttled("some objs were not written until the deadline")

    def _read_batch(self, keys: Sequence[Item]) -> Iterator[Item]:
        asked: Any = {self._table: {"Keys": list(keys), "ConsistentRead": True}}
        pause = self._caller.pauses()
        while asked:
            answer = self._caller.read("batch_get_item", {"RequestItems": asked})
            yield from answer["Responses"].get(self._table, ())
            asked = answer.get("UnprocessedKeys")
            if asked and not pause():
                raise Throttled("some objs were not read until the deadline")

    def _adopt(self, item: Item) -> Obj:
        obj = _obj(item)
        self._cache.keep(obj)
        return obj

    def _lives(self, obj: Obj) -> bool:
        return obj.expires is None or obj.expires > self._seconds()

    def _seconds(self) -> int:
        return self._clock.now_ms() // 1000


def _item(obj: Obj) -> Item:
    row = {"space": obj.space, "id": obj.id, "type": obj.type, "payload": obj.payload, "created": obj.created}
    return to_item(ObjRow, row if obj.expires is None else {**row, "expires": obj.expires})


def _obj(item: Item) -> Obj:
    return Obj(**from_item(ObjRow, item))


def _key(space: str, id: str) -> Item:
    return {"space": {"S": space}, "id": {"S": id}}
