"""Predicates as text: a part of SQL, read by sqlglot in Spark's dialect.

    parsed("day = '2026-11-01' AND (size > 10 OR name LIKE 'a%')")(columns)

Supported: comparisons of a column (or field of a struct) with a literal in either order, ``<=>``,
``IN``, ``BETWEEN``, ``IS NULL``, ``LIKE``, ``TRUE``, ``FALSE``, with ``AND``, ``OR``, ``NOT`` and
parentheses; literals are texts, numbers, booleans, ``NULL``, ``DATE '...'`` and ``TIMESTAMP
'...'``. Anything else is refused by its name, and never silently ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from turnstile.planning.core.files import AnyColumns, FileColumns
from turnstile.planning.core.predicates import (
    And,
    Not,
    Operator,
    Or,
    Plain,
    Predicate,
    TableColumns,
    TypedColumn,
)
from turnstile.store.core.errors import InvalidRequest

MAX_CHARACTERS: Final = 20_000
MAX_DEPTH: Final = 50
"""The most levels of nested expressions; AND and OR of any number of parts are one level."""

_SPARK: Final = Spark()
_STEPS_A_TOKEN: Final = 8
_STEPS_MORE: Final = 100

_COMPARISONS: Final[dict[type[exp.Expression], tuple[Operator, Operator]]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.NullSafeEQ: ("<=>", "<=>"),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
"""Operators, and the operator with exchanged sides."""
_ARGUMENTS: Final = frozenset(("this", "expression", "expressions", "low", "high"))
"""The members of an expression that are read. An expression with other members, as BETWEEN
SYMMETRIC, has another meaning."""
_TIMES: Final = (
    exp.DataType.Type.DATE,
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPNTZ,
)


def predicate_parser(text: str) -> Callable[[TableColumns], Predicate]:
    """Returns a function that makes the predicate of a table's columns; it raises InvalidRequest
    for an unknown column. Raises InvalidRequest for a text that is no predicate, or has an
    unsupported part.
    """
    if len(text) > MAX_CHARACTERS:
        raise _refusal(f"the predicate has {len(text)} characters", f"use at most {MAX_CHARACTERS}")
    tree = _tree(text)
    return lambda columns: _Reader(columns).predicate(tree, 0)


class _TooManySteps(Exception):
    """The parser goes back and forth."""


class _Parser(SparkParser):
    """Spark's parser with a bound on its work. It tries types before functions, and goes back where
    one is none: for names in front of parentheses within each other (``DATE(DATE(...``) each level
    doubles the work. A predicate that is understood takes a step for each token.
    """

    _left = 0

    def reset(self) -> None:
        super().reset()
        self._left = -1

    def _advance(self, times: int = 1) -> None:
        if self._left < 0:
            self._left = _STEPS_MORE + _STEPS_A_TOKEN * self._tokens_size
        self._left -= 1
        if self._left <= 0:
            raise _TooManySteps
        super()._advance(times)


def _tree(text: str) -> exp.Expression:
    """Returns the expression of ``text``; raises InvalidRequest. Every error of the parser is the
    text's fault."""
    try:
        tokens = _SPARK.tokenize(text)
        (tree,) = _Parser(dialect=_SPARK).parse_into(exp.Condition, tokens, text)
    except (_TooManySteps, RecursionError):
        raise _refusal(
            "the predicate is nested too deeply", f"use at most {MAX_DEPTH} levels, and no functions within each other"
        ) from None
    except Exception as error:  # the parser meets any text, and fails in many ways
        reason = _reason(error)
        raise _refusal(
            f"the predicate cannot be read{reason and ': '}{reason}",
            "write it as in SQL: day = '2026-11-01' AND id < 5",
        ) from None
    if tree is None:
        raise _refusal("the predicate is empty", "write it as in SQL: day = '2026-11-01' AND id < 5")
    return cast(exp.Expression, tree)


def _reason(error: Exception) -> str:
    """The parser's message, if it is about the text; empty if it is about the parser."""
    reason = str(error).partition("\n")[0][:200] if isinstance(error, SqlglotError | ValueError) else ""
    return re.sub(r"^Failed to parse (.*) into <class .*$", r"\1 is no condition", reason)


def parsed_of_files(text: str) -> Callable[[TableColumns], Predicate]:
    """Returns the same for a predicate over files: names that are not in backquotes are first facts
    of each file (``core.files``), and numbers may have units: ``size < 16mb``. Raises as
    ``predicate_parser``, and for a part that no table's columns could make a predicate of.
    """
    make = predicate_parser(_WITH_UNIT.sub(_in_bytes, text))
    make(AnyColumns())
    return lambda columns: make(FileColumns(columns))


_UNITS: Final = {"kb": 1024, "mb": 1024**2, "gb": 1024**3, "tb": 1024**4}
_WITH_UNIT: Final = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|(?<![\w.])(?P<number>\d{1,9}(?:\.\d{1,9})?)(?P<unit>[kmgt]b)\b""",
    re.IGNORECASE,
)
"""Texts and names in quotes, which stay, and numbers with a unit."""


def _in_bytes(match: re.Match[str]) -> str:
    unit = match["unit"]
    return match[0] if unit is None else format(Decimal(match["number"]) * _UNITS[unit.lower()], "f")


class _Reader:
    def __init__(self, columns: TableColumns) -> None:
        self._columns = columns

    def predicate(self, tree: exp.Expression, depth: int) -> Predicate:
        if depth > MAX_DEPTH:
            raise _refusal("the predicate is nested too deeply", f"use at most {MAX_DEPTH} levels")
        if isinstance(tree, exp.Like) and tree.args.get("negate"):  # NOT LIKE
            plain = tree.copy()
            plain.set("negate", None)
            return Not(self.predicate(plain, depth + 1))
        if (
            not isinstance(tree, exp.Column | exp.Dot)
            and {name for name, value in tree.args.items() if value} - _ARGUMENTS
        ):
            raise _not_understood(tree)
        match tree:
            case exp.Paren():
                return self.predicate(tree.this, depth + 1)
            case exp.And() | exp.Or():
                parts = tuple(self.predicate(part, depth + 1) for part in _flat(tree))
                return And(parts) if isinstance(tree, exp.And) else Or(parts)
            case exp.Not():
                return Not(self.predicate(tree.this, depth + 1))
            case exp.Boolean():
                return And(()) if tree.this else Or(())
            case exp.Is():
                return self._is(tree)
            case exp.In():
                return self._column(tree.this).is_in([self._literal(value) for value in tree.expressions])
            case exp.Between():
                return self._column(tree.this).between(
                    self._literal(tree.args["low"]), self._literal(tree.args["high"])
                )
            case exp.Like():
                return self._like(tree)
        if type(tree) in _COMPARISONS:
            return self._comparison(tree)
        if isinstance(tree, exp.Column | exp.Dot):
            return self._column(tree).compare("=", value=True)
        raise _not_understood(tree)

    def _comparison(self, tree: exp.Expression) -> Predicate:
        left = tree.args["this"]
        right = tree.args["expression"]
        operator, exchanged = _COMPARISONS[type(tree)]
        if _column_name(right) is not None and _column_name(left) is None:
            return self._column(right).compare(exchanged, self._literal(left))
        return self._column(left).compare(operator, self._literal(right))

    def _is(self, tree: exp.Is) -> Predicate:
        if not isinstance(tree.expression, exp.Null):
            raise _not_understood(tree)
        return self._column(tree.this).is_null()

    def _like(self, tree: exp.Like) -> Predicate:
        pattern = self._literal(tree.expression)
        if not isinstance(pattern, str):
            raise _not_understood(tree)
        return self._column(tree.this).like(pattern)

    def _column(self, tree: exp.Expression) -> TypedColumn:
        name = _column_name(tree)
        if name is None:
            tree = _bare(tree)
            what = "functions are not supported" if isinstance(tree, exp.Func) else "it is no column"
            raise _refusal(f"{_sql_text(tree)}: {what}", "compare a column with a literal: id < 5")
        return self._columns.find_written_column([(part.name, bool(part.args.get("quoted"))) for part in name.parts])

    def _literal(self, tree: exp.Expression) -> Plain:
        tree = _bare(tree)
        match tree:
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(tree.this)
            case exp.Literal():
                return cast(str, tree.this) if tree.is_string else _number(tree.this)
            case exp.Neg() if isinstance(tree.this, exp.Literal) and not tree.this.is_string:
                return _number("-" + tree.this.this)
            case exp.Cast() if tree.to.this in _TIMES and isinstance(tree.this, exp.Literal) and tree.this.is_string:
                return cast(str, tree.this.this)
        raise _refusal(
            f"{_sql_text(tree)} is no literal", "compare a column with a text, a number, TRUE, FALSE or DATE '...'"
        )


def _number(text: str) -> int | str:
    """A number as it was written, so that no digit of a decimal is lost."""
    return int(text) if text.lstrip("-").isdigit() and len(text) < 100 else text


def _column_name(tree: exp.Expression) -> exp.Column | exp.Dot | None:
    """The name of a column, or None for another expression."""
    tree = _bare(tree)
    return tree if isinstance(tree, exp.Column | exp.Dot) else None


def _bare(tree: exp.Expression) -> exp.Expression:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _flat(tree: exp.Expression) -> list[exp.Expression]:
    """The parts of a chain of the same connector, from left to right."""
    kind = type(tree)
    parts = list[exp.Expression]()
    left = tree
    while type(left) is kind:
        parts.append(left.args["expression"])
        left = left.args["this"]
    return [left, *reversed(parts)]


def _sql_text(tree: exp.Expression) -> str:
    try:
        return repr(tree.sql(dialect="spark")[:100])
    except (SqlglotError, RecursionError):
        return type(tree).__name__


def _not_understood(tree: exp.Expression) -> InvalidRequest:
    remedy = (
        "use =, !=, <, <=, >, >=, <=>, IN, BETWEEN, LIKE and IS NULL of a column and literals, with AND, OR and NOT"
    )
    return _refusal(f"{_sql_text(tree)} is not understood", remedy)


def _refusal(problem: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(problem, field="predicate", remedy=remedy)
