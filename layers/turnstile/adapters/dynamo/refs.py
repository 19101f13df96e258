"""Plans as expressions. Nothing is decided here: one test or action becomes one condition or update clause."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, Final

from pynamodb.expressions.condition import Condition, Or
from pynamodb.expressions.operand import Path as DocumentPath
from pynamodb.expressions.operand import Value
from pynamodb.expressions.update import Action as UpdateAction
from pynamodb.expressions.update import AddAction, DeleteAction, RemoveAction, SetAction, Update
from pynamodb.models import Model

from turnstile.adapters.dynamo.calls import REFUSALS, Caller, OnRequest, Refusal
from turnstile.adapters.dynamo.models import Item, attribute_at, from_item, model_of, ref_from_item, to_item
from turnstile.store.core import writes as plan
from turnstile.store.core.errors import Throttled
from turnstile.store.core.writes import Change, Check, Erase, Insert, Row, Write
from turnstile.store.ports import BATCH_GET_MAX, Accepted, AllAccepted, Rejected, SomeRejected
from turnstile.store.retry import Patience


def _path(model: type[Model], path: plan.Path) -> DocumentPath:
    attribute_at(model, path)  # refuses what no model declares
    segments: list[str] = []
    for step in path:
        if isinstance(step, int):
            segments[-1] += f"[{step}]"
        else:
            segments.append(step)
    return DocumentPath(segments)


def _value(model: type[Model], path: plan.Path, value: Any) -> Value:
    return Value(value, attribute=attribute_at(model, path))


def condition(model: type[Model], test: plan.Test) -> Condition:
    """The condition that holds exactly when ``test`` does. A comparison with an absent attribute is false."""
    match test:
        case plan.Equals(path, value):
            return _path(model, path) == _value(model, path, value)
        case plan.Below(path, value):
            return _path(model, path) < _value(model, path, value)
        case plan.AtMost(path, value):
            return _path(model, path) <= _value(model, path, value)
        case plan.AtLeast(path, value):
            return _path(model, path) >= _value(model, path, value)
        case plan.Absent(path):
            return _path(model, path).does_not_exist()
        case plan.Present(path):
            return _path(model, path).exists()
        case plan.Lacks(path, value):
            stored = _path(model, path)
            return Or(stored.does_not_exist(), ~stored.contains(Value({"S": value})))
        case plan.Either(tests):
            return reduce(Or, (condition(model, one) for one in tests))


def action(model: type[Model], action: plan.Action) -> UpdateAction:
    """The update clause that does what ``action`` says."""
    path = _path(model, action.path)
    match action:
        case plan.Set(where, value):
            return SetAction(path, _value(model, where, value))
        case plan.SetSum(where, source, plus):
            return SetAction(path, _path(model, source) + _value(model, where, plus))
        case plan.Append(where, values):
            return SetAction(path, path.append(_value(model, where, list(values))))
        case plan.Include(where, values):
            return AddAction(path, _value(model, where, values))
        case plan.Exclude(where, values):
            return DeleteAction(path, _value(model, where, values))
        case plan.Drop():
            return RemoveAction(path)


def request(table: str, write: plan.Write) -> Item:
    """The members that UpdateItem, PutItem and DeleteItem share with the parts of a transaction.

    A Change carries, besides its own clauses, that the row exists: an update must never make half a row.
    """
    model = model_of(write.key)
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    tests: list[plan.Test] = [clause.test for clause in write.clauses]
    asked: Item = {"TableName": table}
    match write:
        case plan.Insert(row=row):
            asked["Item"] = to_item(model, row)
        case plan.Change(actions=actions):
            asked["Key"] = _key(write.key)
            tests.append(plan.Present(("key",)))
            asked["UpdateExpression"] = _update(model, actions, names, values)
        case _:
            asked["Key"] = _key(write.key)
    if tests:
        asked["ConditionExpression"] = " AND ".join(condition(model, test).serialize(names, values) for test in tests)
    if names:
        asked["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
    if values:
        asked["ExpressionAttributeValues"] = values
    return asked


def _update(model: type[Model], actions: Sequence[plan.Action], names: dict[str, str], values: dict[str, Any]) -> str:
    update = Update(*(action(model, one) for one in actions))
    expression = update.serialize(names, values)
    if expression is None:
        raise ValueError("a change without actions: require clauses with a Check")
    return expression


def _key(key: str) -> Item:
    return {"key": {"S": key}}


# -- refs -------------------------------------------------------------------------------------------------------------
# The mutable table: the one place that sends conditional writes.


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
        for start in range(0, len(wanted), BATCH_GET_MAX):
            for item in self._batch(wanted[start : start + BATCH_GET_MAX]):
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
        retries = self._caller.retries()
        while asked:
            answer = self._caller.read("batch_get_item", {"RequestItems": asked})
            yield from answer["Responses"].get(self._table, ())
            asked = answer.get("UnprocessedKeys")
            if asked and not retries.pause():
                raise Throttled("some rows were not read until the deadline")


_OPERATION: Final = {Change: "Update", Insert: "Put", Erase: "Delete", Check: "ConditionCheck"}


def _fitting(token: str) -> str:
    """Tokens of the service have at most 36 characters."""
    return token if 0 < len(token) <= _TOKEN else hashlib.sha256(token.encode()).hexdigest()[:_TOKEN]
