"""A query as text that means the same: in one spelling, so that equal queries have equal texts."""

from __future__ import annotations

from decimal import Decimal

from turnstile.catalog.query.core.query import (
    All,
    Compare,
    Exists,
    Field,
    In,
    Like,
    Not,
    Predicate,
    Prefix,
    Query,
    Some,
    Value,
)


def to_text(query: Query) -> str:
    """The query as ``parser.parse`` reads it."""
    levels = [query.catalog]
    for step in query.steps:
        name = step.name or ("" if step.where is not None else "*")
        levels.append(name if step.where is None else f"{name}[{_predicate(step.where)}]")
    return "/" + "/".join(levels)


def _predicate(predicate: Predicate) -> str:
    match predicate:
        case Compare(field, op, value):
            return f"{_field(field)} {op} {_value(value)}"
        case In(field, values):
            return f"{_field(field)} in ({', '.join(map(_value, values))})"
        case Like(field, pattern):
            return f"{_field(field)} like {_value(pattern)}"
        case Prefix(field, text):
            return f"{_field(field)} prefix {_value(text)}"
        case Exists(field):
            return f"{_field(field)} exists"
        case Not(part):
            return f"not ({_predicate(part)})"
        case All(parts):
            return " and ".join(f"({_predicate(part)})" for part in parts)
        case Some(parts):
            return " or ".join(f"({_predicate(part)})" for part in parts)


def _field(field: Field) -> str:
    return "`" + _escaped(field.name, "`") + "`" if field.quoted else field.name


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + _escaped(value, '"') + '"'
    return format(Decimal(str(value)), "f")  # never with an exponent, which the grammar does not have


def _escaped(text: str, quote: str) -> str:
    return text.replace("\\", "\\\\").replace(quote, "\\" + quote)
