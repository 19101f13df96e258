"""LocalEmu's enforcement of roles, with requests of DynamoDB taken apart as AWS authorises them. A
batch is of the tables below ``RequestItems``. A transaction is its parts, each with an action of
its own. Conditions look at the keys of rows (``dynamodb:LeadingKeys``). LocalEmu 1.3.2 judges both
by a table that no policy names, a transaction by four actions at once, and knows no keys.

This module runs in LocalEmu's process, beside ``executor.py``, and imports nothing of this project.
It writes down each verdict on a function's call: ``$TURNSTILE_VERDICTS``, a JSON object a line.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from localemu.services.iam_enforcement import enforcer
from localemu.services.iam_enforcement.evaluator import Decision, PolicyEvaluator

_WRITING = threading.Lock()
_PARTS = "parts"
_ACTIONS = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "Get": "GetItem"}
_KEY_OF = {"RefsTable": "key", "ObjsTable": "space"}


class Part(NamedTuple):
    """One action on one table, with the keys of its rows; none of a scan."""

    action: str
    table: str
    keys: list[str]


def parts(operation: str, asked: dict[str, Any]) -> Iterator[Part]:
    """What AWS authorises of a request of DynamoDB."""
    if "TransactItems" in asked:
        for item in asked["TransactItems"]:
            ((kind, one),) = ((kind, one) for kind, one in item.items() if one)
            yield Part(_ACTIONS.get(kind, "ConditionCheckItem"), one["TableName"], _keys(one["TableName"], one))
    elif "RequestItems" in asked:
        for table, each in asked["RequestItems"].items():
            rows = each["Keys"] if isinstance(each, dict) else [next(iter(write.values())) for write in each]
            yield Part(operation, table, [key for row in rows for key in _keys(table, row)])
    elif "TableName" in asked:
        table = asked["TableName"]
        if operation == "Query":
            yield Part(operation, table, [asked["ExpressionAttributeValues"][":space"]["S"]])
        else:
            yield Part(operation, table, [] if operation == "Scan" else _keys(table, asked))


def _keys(table: str, request: dict[str, Any]) -> list[str]:
    """The partition key of the row that a request, or a part of one, names."""
    row = request.get("Key") or request.get("Item") or request
    name = next((key for logical, key in _KEY_OF.items() if logical in table), "")
    return [row[name]["S"]] if name in row else []


def install() -> None:
    """LocalEmu's enforcement judges as above from now on."""
    conditions_of = enforcer._build_conditions
    evaluate = PolicyEvaluator.evaluate

    def build_conditions(context: Any, caller: Any) -> dict[str, Any]:
        found = conditions_of(context, caller)
        if context.service.service_name == "dynamodb":
            found[_PARTS] = list(parts(context.operation.name, context.service_request or {}))
        return found

    def judged(
        self: PolicyEvaluator,
        *,
        caller: Any,
        action: str,
        resource: str,
        conditions: dict[str, Any],
        resource_policy: dict[str, Any] | None = None,
    ) -> Decision:
        given = conditions.get(_PARTS) or [None]
        plain = {name: value for name, value in conditions.items() if name != _PARTS}
        for part in given:
            asked = plain
            if part is not None:
                action = f"dynamodb:{part.action}"
                resource = f"{resource.partition(':table/')[0]}:table/{part.table}"
                asked = plain | {"dynamodb:LeadingKeys": part.keys}
            verdict = evaluate(
                self, caller=caller, action=action, resource=resource, conditions=asked, resource_policy=resource_policy
            )
            _write(caller, action, resource, part.keys if part else [], verdict)
            if verdict is not Decision.ALLOW:
                return verdict
        return Decision.ALLOW

    enforcer._build_conditions = build_conditions
    PolicyEvaluator.evaluate = judged  # type: ignore[method-assign]


def _write(caller: Any, action: str, resource: str, keys: list[str], verdict: Decision) -> None:
    if not caller.role_name:
        return
    said = {"role": caller.role_name, "action": action, "resource": resource, "keys": keys, "verdict": verdict.value}
    with _WRITING, Path(os.environ["TURNSTILE_VERDICTS"]).open("a") as out:
        out.write(json.dumps(said) + "\n")
