"""Filters of Iceberg's clients as predicates over the columns of a Delta table: sound, never
complete.

    filters = parse(body.filter, TableColumns(metadata), case_sensitive=True)
    outcomes(filters.inclusive, range_of) & TRUE       # some row of the file may satisfy the filter
    outcomes(filters.strict, range_of) == TRUE         # every row of the file satisfies it

A filter is two predicates because null has two meanings. Iceberg's own evaluation knows true and
false only: ``eq`` of null is false, so ``not-eq`` of null is true. Engines evaluate their filters
as SQL, where both are null. ``inclusive`` is true wherever one of the two is true; ``strict`` is
true only where both are: a true value in three-valued logic stays true for any replacement of null.

An unsupported part (a transform, a missing column, an operation of a later version, too many
values) is ``UNKNOWN``, which excludes no file.

Sources: REST specification, ``Expression``; Java's ``ExpressionParser`` and ``Evaluator``: dates
may come as days, timestamps as microseconds since 1970, decimals as texts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from turnstile.planning.core.predicates import (
    MAX_VALUES,
    UNKNOWN,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    TableColumns,
    TypedColumn,
    Value,
)
from turnstile.store.core.errors import InvalidRequest

MAX_DEPTH: Final = 100
"""Levels of a filter; engines make conjunctions as chains, so this bounds their parts, too."""
MAX_NODES: Final = 2_000
"""Operations of a filter: each is evaluated for every file."""

_COMPARISONS: Final[dict[str, Operator]] = {"lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">=", "eq": "="}
_NEGATED: Final = {"not-eq": "eq", "not-in": "in", "not-starts-with": "starts-with", "not-null": "is-null"}
_ALWAYS: Final[Predicate] = And(())
_NEVER: Final[Predicate] = Or(())
_NUMBERED: Final = ("date", "timestamp", "timestamp_ntz")
"""Kinds with values that may come as numbers: days, microseconds."""


class Filter(msgspec.Struct, frozen=True):
    """A filter of a scan, as two predicates: see the module."""

    inclusive: Predicate
    strict: Predicate


def parse(expression: Any, columns: TableColumns, *, case_sensitive: bool = True) -> Filter:
    """Returns the filter in ``expression``, decoded JSON, for the table of ``columns``.

    Raises:
        InvalidRequest: it is no expression of the specification's form, too deep, or compares a
            column with a value of another type.
    """
    inclusive = _Reader(columns, case_sensitive=case_sensitive).read(expression, 0)
    strict = _Reader(columns, case_sensitive=case_sensitive, null_is_false=False).read(expression, 0)
    return Filter(inclusive, strict)


class _Reader:
    """Reads one expression; with ``null_is_false`` as Iceberg evaluates it, else as SQL does."""

    def __init__(self, columns: TableColumns, *, case_sensitive: bool, null_is_false: bool = True) -> None:
        self._columns = columns
        self._case_sensitive = case_sensitive
        self._null_is_false = null_is_false
        self._nodes = 0

    def read(self, node: Any, depth: int) -> Predicate:
        self._nodes += 1
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            raise _refusal(f"it has more than {MAX_DEPTH} levels or {MAX_NODES} operations", "use IN, or filter less")
        if isinstance(node, bool):
            return _ALWAYS if node else _NEVER
        kind = _member(node, "type", str).lower().replace("_", "-")
        match kind:
            case "true" | "false":
                return _ALWAYS if kind == "true" else _NEVER
            case "literal":
                return _ALWAYS if _member(node, "value", bool) else _NEVER
            case "and" | "or":
                left = self.read(_member(node, "left", object), depth + 1)
                right = self.read(_member(node, "right", object), depth + 1)
                return And((left, right)) if kind == "and" else Or((left, right))
            case "not":
                return Not(self.read(_member(node, "child", object), depth + 1))
        if kind in _NEGATED:
            return Not(self._leaf(_NEGATED[kind], node))
        return self._leaf(kind, node)

    def _leaf(self, kind: str, node: Any) -> Predicate:
        """The predicate of a column. A part that excludes nothing must do so under NOT as well:
        ``UNKNOWN`` does."""
        read = _LEAVES.get(kind)
        if read is None:
            return UNKNOWN
        column = self._column(_member(node, "term", object))
        if column is None:
            return UNKNOWN
        predicate = read(column, kind, node)
        if not self._null_is_false or isinstance(predicate, IsNull) or predicate == UNKNOWN:
            return predicate
        return And((predicate, Not(column.is_null())))

    def _column(self, term: Any) -> TypedColumn | None:
        """The column that a term is; None for one that is not looked at."""
        if isinstance(term, dict):
            if term.get("type") != "reference":
                return None
            term = _member(term, "term", str)
        if not isinstance(term, str):
            raise _refusal(f"the term {str(term)[:80]} names no column", "name a column")
        try:
            return self._columns.find_column(term, case_sensitive=self._case_sensitive)
        except InvalidRequest:
            return None


def _is_null(column: TypedColumn, _kind: str, _node: Any) -> Predicate:
    return column.is_null()


def _compare(column: TypedColumn, kind: str, node: Any) -> Predicate:
    return _comparison(column, _COMPARISONS[kind], _literal(_member(node, "value", object)))


def _comparison(column: TypedColumn, operator: Operator, value: Any) -> Predicate:
    if column.field is None or value is None:
        return UNKNOWN
    numbered = column.field.kind if column.field.kind in _NUMBERED else None
    if numbered is not None and type(value) is int:
        return Comparison(column.name, operator, Value(numbered, value))  # type: ignore[arg-type]  # no "!=" gets here
    return column.compare(operator, value)


def _is_in(column: TypedColumn, _kind: str, node: Any) -> Predicate:
    values = [_literal(value) for value in _member(node, "values", list)]
    if len(values) > MAX_VALUES:
        return UNKNOWN
    literals = []
    for value in values:
        part = _comparison(column, "=", value)
        if not isinstance(part, Comparison):
            return UNKNOWN
        literals.append(part.value)
    return In(column.name, tuple(literals))


def _starts_with(column: TypedColumn, _kind: str, node: Any) -> Predicate:
    prefix = _literal(_member(node, "value", object))
    if not isinstance(prefix, str):
        raise _refusal(f"{str(prefix)[:80]} is no beginning of a text", "give a text")
    is_text = column.field is not None and column.field.kind == "string"
    return StartsWith(column.name, prefix) if is_text else UNKNOWN


_LEAVES: Final[dict[str, Callable[[TypedColumn, str, Any], Predicate]]] = {
    **dict.fromkeys(_COMPARISONS, _compare),
    "is-null": _is_null,
    "in": _is_in,
    "starts-with": _starts_with,
}
"""Operations on a column that are understood; ``is-nan`` is not: no statistics count NaN."""


def _literal(value: Any) -> Any:
    """A value, perhaps in an object of type ``literal``. Raises InvalidRequest for a list or
    another object."""
    if isinstance(value, dict) and value.get("type") == "literal":
        value = value.get("value")
    if isinstance(value, dict | list):
        raise _refusal(f"{str(value)[:80]} is no value", "give a text, a number or a boolean")
    return value


def _member(node: Any, name: str, kind: type) -> Any:
    """A member of an expression. Raises InvalidRequest for none, or one of another type."""
    if not isinstance(node, dict):
        raise _refusal(f"{str(node)[:80]} is no expression", "write an object with a type, or true or false")
    if name not in node or not isinstance(node[name], kind):
        problem = f"an expression of type {str(node.get('type'))[:40]!r} has no {name}, or one of another type"
        raise _refusal(problem, "see Expression in the REST specification")
    return node[name]


def _refusal(problem: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(f"the filter cannot be read: {problem}", field="filter", remedy=remedy)
