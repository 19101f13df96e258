"""The mutable table: the one place that sends conditional writes."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

from turnstile.adapters.dynamo.calls import Caller, OnRequest, Patience, Refusal
from turnstile.adapters.dynamo.faults import REFUSALS
from turnstile.adapters.dynamo.render import request
from turnstile.adapters.dynamo.rows import Item, from_item, model_of, ref_from_item
from turnstile.store.core.errors import Throttled
from turnstile.store.core.writes import Change, Check, Erase, Insert, Row, Write
from turnstile.store.ports import Accepted, AllAccepted, Rejected, SomeRejected

_BATCH: Final = 100
_TOKEN: Final = 36
_ON_REFUSAL: Final = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


class DynamoRefs:
    """``turnstile.store.ports.Refs`` on DynamoDB.

    Args:
        client: a botocore DynamoDB client without retries of its own (``adapters/clients.py``).
        table: name of the table; hash key ``key``.
        realm: scans see only this tenant's rows (I12); point access is by full key anyway.
        on_request: called for every request that is sent, with its capacity.
    """

    def __init__(
        self,
        client: Any,
        table: str,
        *,
        realm: str,
        patience: Patience | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self._table, self._realm = table, realm
        self._caller = Caller(client, patience=patience, on_request=on_request)

    def read(self, key: str) -> Row | None:
        asked = {"TableName": self._table, "Key": {"key": {"S": key}}, "ConsistentRead": True}
        return ref_from_item(self._caller.read("get_item", asked).get("Item"))

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Row] = {}
        for start in range(0, len(wanted), _BATCH):
            for item in self._batch(wanted[start : start + _BATCH]):
                key = item["key"]["S"]
                found[key] = from_item(model_of(key), item)
        return found

    def write(self, write: Write) -> Accepted | Rejected:
        if isinstance(write, Check):  # no request of its own does that
            answer = self.transact([write], str(uuid.uuid4()))
            return Accepted(None) if isinstance(answer, AllAccepted) else Rejected(answer.failed[0])
        asked = request(self._table, write) | _ON_REFUSAL
        try:
            match write:
                case Change():
                    changed = self._caller.write("update_item", asked | {"ReturnValues": "ALL_NEW"})
                    return Accepted(ref_from_item(changed["Attributes"]))
                case Insert():
                    self._caller.write("put_item", asked)
                    return Accepted(ref_from_item(asked["Item"]))
                case Erase():
                    self._caller.write("delete_item", asked)
                    return Accepted(None)
        except Refusal as refusal:
            return Rejected(ref_from_item(refusal.response.get("Item")), uncertain=refusal.uncertain)

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        """As the port says. Mistakes of the caller are ValueErrors: the token of other writes, two writes of a row
        (not every emulator refuses them), more than 100."""
        if len({write.key for write in writes}) < len(writes):
            raise ValueError("a transaction cannot include multiple operations on one row")
        asked = {
            "TransactItems": [{_OPERATION[type(write)]: request(self._table, write) | _ON_REFUSAL} for write in writes],
            "ClientRequestToken": _fitting(token),
        }
        try:
            self._caller.write("transact_write_items", asked)
        except Refusal as refusal:
            return SomeRejected(
                {
                    position: ref_from_item(reason.get("Item"))
                    for position, reason in enumerate(refusal.response.get("CancellationReasons", ()))
                    if reason.get("Code") in REFUSALS
                },
                uncertain=refusal.uncertain,
            )
        return AllAccepted()

    def scan(self, kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        asked: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": not stale,
            "FilterExpression": "begins_with(#key, :start)",
            "ExpressionAttributeNames": {"#key": "key"},
            "ExpressionAttributeValues": {":start": {"S": f"{self._realm}/{kind}/"}},
        }
        if after:
            asked["ExclusiveStartKey"] = {"key": {"S": after}}
        while True:
            page = self._caller.read("scan", asked)
            for item in page.get("Items", ()):
                yield from_item(model_of(item["key"]["S"]), item)
            if not page.get("LastEvaluatedKey"):
                return
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _batch(self, keys: Sequence[str]) -> Iterator[Item]:
        asked: Any = {self._table: {"Keys": [{"key": {"S": key}} for key in keys], "ConsistentRead": True}}
        pause = self._caller.pauses()
        while asked:
            answer = self._caller.read("batch_get_item", {"RequestItems": asked})
            yield from answer["Responses"].get(self._table, ())
            asked = answer.get("UnprocessedKeys")
            if asked and not pause():
                raise Throttled("some rows were not read until the deadline")


_OPERATION: Final = {Change: "Update", Insert: "Put", Erase: "Delete", Check: "ConditionCheck"}


def _fitting(token: str) -> str:
    """Tokens of the service have at most 36 characters."""
    return token if 0 < len(token) <= _TOKEN else hashlib.sha256(token.encode()).hexdigest()[:_TOKEN]
