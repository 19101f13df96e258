"""The mutable table: conditional writes (``store.core.writes``) as DynamoDB expressions, sent from
here alone."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final, cast

from pynamodb.models import Model

from turnstile.adapters.dynamo.calls import REFUSALS, Caller, OnRequest, Refusal
from turnstile.adapters.dynamo.models import KINDS, Item, attribute_at, model_of, ref_from_item, shown_row, to_item
from turnstile.store.core import writes
from turnstile.store.core.errors import OutcomeUnknown, UnreadableRow
from turnstile.store.core.rows import StoredRow, require_known
from turnstile.store.core.writes import (
    FIRST,
    FORMAT,
    KNOWN_FORMAT,
    Action,
    Change,
    Check,
    Erase,
    Insert,
    Path,
    Row,
    Test,
    Write,
)
from turnstile.store.ports import TRANSACT_MAX, Accepted, AllAccepted, Rejected, SomeRejected, is_readable_as
from turnstile.store.retry import Patience

_TOKEN_CHARACTERS: Final = 36
_ON_REFUSAL: Final = {"ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
_OPERATION: Final = {Change: "Update", Insert: "Put", Erase: "Delete", Check: "ConditionCheck"}


class DynamoRefs:
    """``turnstile.store.ports.Refs`` on DynamoDB, by a botocore client without retries of its own;
    the ``table`` has the hash key ``key``. Scans see only the rows of ``realm`` (I12); point access
    is by full key anyway.
    """

    transact_max: Final = TRANSACT_MAX

    def __init__(
        self,
        client: Any,
        table: str,
        *,
        realm: str,
        patience: Patience | None = None,
        on_request: OnRequest | None = None,
    ) -> None:
        self._table = table
        self._realm = realm
        self._caller = Caller(client, patience=patience, on_request=on_request)

    def read(self, key: str) -> Row | None:
        request = {"TableName": self._table, "Key": _key(key), "ConsistentRead": True}
        return ref_from_item(self._caller.read("get_item", request).get("Item"))

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        items = self._caller.read_batches(self._table, [_key(key) for key in dict.fromkeys(keys)])
        return {row["key"]: row for row in map(shown_row, items)}

    def read_cut(self, keys: Sequence[str]) -> dict[str, Row]:
        different = list(dict.fromkeys(keys))
        if len(different) > TRANSACT_MAX:  # not every emulator refuses them
            raise ValueError(f"transact_get_items: {len(different)} keys are more than {TRANSACT_MAX}")
        if not different:
            return {}
        reads = [{"Get": {"TableName": self._table, "Key": _key(key)}} for key in different]
        responses = self._caller.read("transact_get_items", {"TransactItems": reads})["Responses"]
        items = [(response or {}).get("Item") for response in responses]  # null or empty where there is no such row
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
                    try:
                        return Accepted(ref_from_item(changed["Attributes"]))
                    except UnreadableRow as error:
                        raise OutcomeUnknown(f"the write was applied, and now {error.public_message}") from error
                case Insert():
                    self._caller.write("put_item", request)
                    return Accepted(ref_from_item(request["Item"]))
                case Erase():
                    self._caller.write("delete_item", request)
                    return Accepted(None)
        except Refusal as refusal:
            row = ref_from_item(refusal.response.get("Item"))
            require_known((row,), uncertain=refusal.uncertain)
            return Rejected(row, uncertain=refusal.uncertain)

    def read_damaged(self, of: type[StoredRow], key: str) -> object | None:
        read = {"TableName": self._table, "Key": _key(key), "ConsistentRead": True}
        item = self._caller.read("get_item", read).get("Item")
        if not item:
            return None
        require_known([{"key": key, FORMAT[0]: item.get(FORMAT[0], {}).get("N", FIRST)}])
        return None if is_readable_as(of, shown_row(item)) else item

    def replace_damaged(self, row: Row, content: object) -> bool:
        key = str(row["key"])
        item = cast("dict[str, Any]", content)
        names = {f"#n{number}": name for number, name in enumerate(item)}
        values = {f":v{number}": value for number, value in enumerate(item.values())}
        same = " AND ".join(f"#n{number} = :v{number}" for number in range(len(item)))
        request = {
            "TableName": self._table,
            "Item": to_item(model_of(key), row),
            "ConditionExpression": same,
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
        }
        try:
            self._caller.write("put_item", request)
        except Refusal:
            return False
        return True

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        """See ``ports.Refs``. Raises ValueError for mistakes of the caller: the token of other
        writes, two writes of one row (not every emulator refuses them), more than 100."""
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
            require_known(failed.values(), uncertain=refusal.uncertain)
            return SomeRejected(failed, uncertain=refusal.uncertain)
        return AllAccepted()

    def scan(self, kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        request = self._scan((kind,), after, stale=stale)
        yield from self._rows_to_show(self._caller.read_pages("scan", request), (kind,))

    def scan_part(self, kinds: Collection[str], *, after: str, limit: int) -> tuple[list[Row], str]:
        request = self._scan(kinds, after, stale=True) | {"Limit": limit}
        response = self._caller.read("scan", request)
        rows = list(self._rows_to_show(response["Items"], kinds))
        return rows, response.get("LastEvaluatedKey", {}).get("key", {}).get("S", "")

    def clock_ms(self) -> int | None:
        return self._caller.clock_ms()

    def _scan(self, kinds: Collection[str], after: str, *, stale: bool) -> dict[str, Any]:
        """Returns the request of a scan that leaves out rows of other kinds. Damaged rows without
        the attribute are included; their kind is only in the key. The filter does not use the key:
        AWS allows that for a scan, emulators do not.
        """
        others = {f":kind{number}": {"S": kind} for number, kind in enumerate(sorted(KINDS.keys() - set(kinds)))}
        request: dict[str, Any] = {"TableName": self._table, "ConsistentRead": not stale}
        if others:  # the service refuses an empty list
            request |= {
                "FilterExpression": f"NOT #kind IN ({', '.join(others)})",
                "ExpressionAttributeNames": {"#kind": "kind"},
                "ExpressionAttributeValues": others,
            }
        return request | ({"ExclusiveStartKey": _key(after)} if after else {})

    def _rows_to_show(self, items: Iterable[Item], kinds: Collection[str]) -> Iterator[Row]:
        """The rows of this realm and of ``kinds`` among ``items``, by their keys."""
        starts = tuple(f"{self._realm}/{kind}/" for kind in kinds)
        return (shown_row(item) for item in items if item["key"]["S"].startswith(starts))


def _key(key: str) -> Item:
    return {"key": {"S": key}}


def _client_token(token: str) -> str:
    """``token``, or a digest of it where it is longer than the service allows."""
    if 0 < len(token) <= _TOKEN_CHARACTERS:
        return token
    return hashlib.sha256(token.encode()).hexdigest()[:_TOKEN_CHARACTERS]


def write_request(table: str, write: Write) -> Item:
    """The members that UpdateItem, PutItem and DeleteItem share with the parts of a transaction. A
    Change also requires, besides its own clauses, that the row exists: an update must never make
    half a row. Every write requires that the row's format is known (``store.core.writes``).
    """
    model = model_of(write.key)
    expressions = _Expressions(model)
    tests: list[Test] = [*(clause.test for clause in write.clauses), KNOWN_FORMAT.test]
    body: Item = {"Item": to_item(model, write.row)} if isinstance(write, Insert) else {"Key": _key(write.key)}
    request: Item = {"TableName": table, **body}
    if isinstance(write, Change):
        tests.append(writes.Present(("key",)))
        request["UpdateExpression"] = expressions.update(write.actions)
    if tests:
        request["ConditionExpression"] = " AND ".join(map(expressions.condition, tests))
    if expressions.names:
        request["ExpressionAttributeNames"] = {placeholder: name for name, placeholder in expressions.names.items()}
    if expressions.values:
        request["ExpressionAttributeValues"] = expressions.values
    return request


class _Expressions:
    """Renders the tests and actions of one write on a row of ``model``, and collects its
    placeholders: ``names`` from attribute to placeholder, ``values`` from placeholder to value.
    Raises ValueError for an attribute that the model does not declare. (PynamoDB's own expressions
    take five times the CPU time.)
    """

    def __init__(self, model: type[Model]) -> None:
        self._model = model
        self.names: dict[str, str] = {}
        self.values: Item = {}

    def condition(self, test: Test) -> str:
        """The condition that holds exactly when ``test`` does. A comparison with an absent
        attribute is false."""
        match test:
            case writes.Equals(path, value):
                return f"{self._path(path)} = {self._value(path, value)}"
            case writes.Below(path, value):
                return f"{self._path(path)} < {self._value(path, value)}"
            case writes.AtMost(path, value):
                return f"{self._path(path)} <= {self._value(path, value)}"
            case writes.AtLeast(path, value):
                return f"{self._path(path)} >= {self._value(path, value)}"
            case writes.Absent(path):
                return f"attribute_not_exists({self._path(path)})"
            case writes.Present(path):
                return f"attribute_exists({self._path(path)})"
            case writes.Lacks(path, value):
                stored = self._path(path)
                return f"(attribute_not_exists({stored}) OR NOT contains({stored}, {self._placeholder({'S': value})}))"
            case writes.Either((only,)):  # DynamoDB refuses parentheses around parentheses
                return self.condition(only)
            case writes.Either(tests):
                return f"({' OR '.join(map(self.condition, tests))})"

    def update(self, actions: Sequence[Action]) -> str:
        """The update expression for ``actions``. Raises ValueError if there are none."""
        sections: dict[str, list[str]] = {}
        for action in actions:
            section, clause = self._clause(action)
            sections.setdefault(section, []).append(clause)
        if not sections:
            raise ValueError("a change without actions: require clauses with a Check")
        return " ".join(f"{section} {', '.join(clauses)}" for section, clauses in sections.items())

    def _clause(self, action: Action) -> tuple[str, str]:
        path = self._path(action.path)
        match action:
            case writes.Set(where, value):
                return "SET", f"{path} = {self._value(where, value)}"
            case writes.SetSum(where, source, plus):
                return "SET", f"{path} = {self._path(source)} + {self._value(where, plus)}"
            case writes.Append(where, values):
                return "SET", f"{path} = list_append({path}, {self._value(where, list(values))})"
            case writes.Include(where, values):
                return "ADD", f"{path} {self._value(where, values)}"
            case writes.Exclude(where, values):
                return "DELETE", f"{path} {self._value(where, values)}"
            case writes.Drop():
                return "REMOVE", path

    def _path(self, path: Path) -> str:
        attribute_at(self._model, path)  # raises for what no model declares
        rendered = ""
        for step in path:
            if isinstance(step, int):
                rendered += f"[{step}]"
            else:
                placeholder = self.names.setdefault(step, f"#{len(self.names)}")
                rendered += f".{placeholder}" if rendered else placeholder
        return rendered

    def _value(self, path: Path, value: Any) -> str:
        attribute = attribute_at(self._model, path)
        return self._placeholder({attribute.attr_type: attribute.serialize(value)})

    def _placeholder(self, value: Item) -> str:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = value
        return placeholder
