"""Plans as expressions. Nothing is decided here: one test or action becomes one condition or update clause."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pynamodb.expressions.condition import Condition, Or
from pynamodb.expressions.operand import Path as DocumentPath
from pynamodb.expressions.operand import Value
from pynamodb.expressions.update import Action as UpdateAction
from pynamodb.expressions.update import AddAction, DeleteAction, RemoveAction, SetAction, Update
from pynamodb.models import Model

from turnstile.adapters.dynamo.rows import Item, attribute_at, model_of, to_item
from turnstile.store.core import writes as plan


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
