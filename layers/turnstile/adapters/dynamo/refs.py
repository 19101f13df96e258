"""The mutable table: conditional writes (``store.core.writes``) as DynamoDB expressions, sent from here alone."""

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
from turnstile.store.core import writes
from turnstile.store.core.writes import Action, Change, Check, Erase, Insert, Path, Row, Test, Write
from turnstile.store.ports import Accepted, AllAccepted, Rejected, SomeRejected
from turnstile.store.retry import Patience

_TOKEN_CHARACTERS: Final = 36
_ON_REFUSAL: Final = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
_OPERATION: Final = {Change: "Update", Insert: "Put", Erase: "Delete", Check: "ConditionCheck"}


class DynamoRefs:
    """``turnstile.store.ports.Refs`` on DynamoDB, by a botocore client without retries of its own; the ``table`` has the hash
    key ``key``. Scans see only the rows of ``realm`` (I12); point access is by full key anyway."""

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
        request = {"TableName": self._table, "Key": _key(key), "ConsistentRead": True}
        return ref_from_item(self._caller.read("get_item", request).get("Item"))

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        items = self._caller.read_batches(self._table, [_key(key) for key in dict.fromkeys(keys)])
        return {row["key"]: row for item in items if (row := ref_from_item(item))}

    def write(self, write: Write) -> Accepted | Rejected:
        if isinstance(write, Check):  # only a transaction can hold one
            response = self.transact([write], str(uuid.uuid4()))
            return Accepted(None) if isinstance(response, AllAccepted) else Rejected(response.failed[0])
        request = write_request(self._table, write) | _ON_REFUSAL
        try:
            match write:
                case Change():
                    changed = self._caller.write("update_item", request | {"ReturnValues": "ALL_NEW"})
                    return Accepted(ref_from_item(changed["Attributes"]))
                case Insert():
                    self._caller.write("put_item", request)
                    return Accepted(ref_from_item(request["Item"]))
                case Erase():
                    self._caller.write("delete_item", request)
                    return Accepted(None)
        except Refusal as refusal:
            return Rejected(ref_from_item(refusal.response.get("Item")), uncertain=refusal.uncertain)

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        """See ``ports.Refs``. Raises ValueError for mistakes of the caller: the token of other writes, two writes of one
        row (not every emulator refuses them), more than 100."""
        if len({write.key for write in writes}) < len(writes):
            raise ValueError("a transaction cannot include multiple operations on one row")
        items = [{_OPERATION[type(write)]: write_request(self._table, write) | _ON_REFUSAL} for write in writes]
        request = {"TransactItems": items, "ClientRequestToken": _client_token(token)}
        try:
            self._caller.write("transact_write_items", request)
        except Refusal as refusal:
            failed = {
                position: ref_from_item(reason.get("Item"))
                for position, reason in enumerate(refusal.response.get("CancellationReasons", ()))
                if reason.get("Code") in REFUSALS
            }
            return SomeRejected(failed, uncertain=refusal.uncertain)
        return AllAccepted()

    def scan(self, kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConsistentRead": not stale,
            "FilterExpression": "begins_with(#key, :start)",
            "ExpressionAttributeNames": {"#key": "key"},
            "ExpressionAttributeValues": {":start": {"S": f"{self._realm}/{kind}/"}},
        }
        if after:
            request["ExclusiveStartKey"] = _key(after)
        for item in self._caller.read_pages("scan", request):
            yield from_item(model_of(item["key"]["S"]), item)


def _key(key: str) -> Item:
    return {"key": {"S": key}}


def _client_token(token: str) -> str:
    """``token``, or a digest of it where it is longer than the service allows."""
    if 0 < len(token) <= _TOKEN_CHARACTERS:
        return token
    return hashlib.sha256(token.encode()).hexdigest()[:_TOKEN_CHARACTERS]


def write_request(table: str, write: Write) -> Item:
    """The members that UpdateItem, PutItem and DeleteItem share with the parts of a transaction. A Change also requires,
    besides its own clauses, that the row exists: an update must never make half a row."""
    model = model_of(write.key)
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    tests: list[Test] = [clause.test for clause in write.clauses]
    body: Item = {"Item": to_item(model, write.row)} if isinstance(write, Insert) else {"Key": _key(write.key)}
    request: Item = {"TableName": table, **body}
    if isinstance(write, Change):
        tests.append(writes.Present(("key",)))
        request["UpdateExpression"] = _update(model, write.actions, names, values)
    if tests:
        conditions = (_condition(model, test).serialize(names, values) for test in tests)
        request["ConditionExpression"] = " AND ".join(conditions)
    if names:
        request["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in names.items()}
    if values:
        request["ExpressionAttributeValues"] = values
    return request


def _update(model: type[Model], actions: Sequence[Action], names: dict[str, str], values: dict[str, Any]) -> str:
    expression = Update(*(_update_clause(model, action) for action in actions)).serialize(names, values)
    if expression is None:
        raise ValueError("a change without actions: require clauses with a Check")
    return expression


def _condition(model: type[Model], test: Test) -> Condition:
    """The condition that holds exactly when ``test`` does. A comparison with an absent attribute is false."""
    match test:
        case writes.Equals(path, value):
            return _path(model, path) == _value(model, path, value)
        case writes.Below(path, value):
            return _path(model, path) < _value(model, path, value)
        case writes.AtMost(path, value):
            return _path(model, path) <= _value(model, path, value)
        case writes.AtLeast(path, value):
            return _path(model, path) >= _value(model, path, value)
        case writes.Absent(path):
            return _path(model, path).does_not_exist()
        case writes.Present(path):
            return _path(model, path).exists()
        case writes.Lacks(path, value):
            stored = _path(model, path)
            return Or(stored.does_not_exist(), ~stored.contains(Value({"S": value})))
        case writes.Either(tests):
            return reduce(Or, (_condition(model, part) for part in tests))


def _update_clause(model: type[Model], action: Action) -> UpdateAction:
    """The clause of an update expression that does what ``action`` says."""
    path = _path(model, action.path)
    match action:
        case writes.Set(where, value):
            return SetAction(path, _value(model, where, value))
        case writes.SetSum(where, source, plus):
            return SetAction(path, _path(model, source) + _value(model, where, plus))
        case writes.Append(where, values):
            return SetAction(path, path.append(_value(model, where, list(values))))
        case writes.Include(where, values):
            return AddAction(path, _value(model, where, values))
        case writes.Exclude(where, values):
            return DeleteAction(path, _value(model, where, values))
        case writes.Drop():
            return RemoveAction(path)


def _path(model: type[Model], path: Path) -> DocumentPath:
    attribute_at(model, path)  # raises for what no model declares
    segments: list[str] = []
    for step in path:
        if isinstance(step, int):
            segments[-1] += f"[{step}]"
        else:
            segments.append(step)
    return DocumentPath(segments)


def _value(model: type[Model], path: Path, value: Any) -> Value:
    return Value(value, attribute=attribute_at(model, path))
