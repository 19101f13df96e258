"""Predicates as texts of SQL, as a server reads them. Pure."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

from turnstile_predicates.predicates import And, Comparison, In, IsNull, Not, Or, Predicate, StartsWith, Value

#: What a server takes.
MAX_CHARACTERS: Final = 18_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def sql_of(predicate: Predicate | None) -> str | None:
    """A predicate as the server reads it, true wherever ``predicate`` may be; None if it says
    nothing that can be written so."""
    text = None if predicate is None else _sql(predicate, exact=False)
    return None if text is None or len(text) > MAX_CHARACTERS else text


def _sql(predicate: Predicate, *, exact: bool) -> str | None:
    """``exact``: no part may be left out, as below NOT."""
    match predicate:
        case And(parts):
            texts = [_sql(part, exact=exact) for part in parts]
            if exact and None in texts:
                return None
            kept = [text for text in texts if text is not None]
            return f"({' AND '.join(kept)})" if kept else None if parts else "TRUE"
        case Or(parts):
            texts = [_sql(part, exact=exact) for part in parts]
            kept = [text for text in texts if text is not None]
            return None if len(kept) < len(texts) else f"({' OR '.join(kept)})" if kept else "FALSE"
        case Not(part):
            text = _sql(part, exact=True)
            return None if text is None else f"(NOT {text})"
        case IsNull(column):
            return f"{_column(column)} IS NULL"
        case StartsWith(column, prefix):
            return None if exact else f"{_column(column)} LIKE {_quote(prefix + '%')}"
        case Comparison(column, operator, value):
            literal = "NULL" if value is None else _literal(value)
            return None if literal is None else f"{_column(column)} {operator} {literal}"
        case In(column, values):
            literals = ["NULL" if value is None else _literal(value) for value in values]
            return (
                None if None in literals or not literals else f"{_column(column)} IN ({', '.join(map(str, literals))})"
            )
    return None


def _column(column: tuple[str, ...]) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in column)


def _literal(value: Value) -> str | None:
    """A literal as a text, which the server takes in the type of the column; None for one that has
    no text there."""
    try:
        match value.kind:
            case "date":
                return _quote((date(1970, 1, 1) + timedelta(days=value.value)).isoformat())
            case "timestamp":
                return _quote((_EPOCH + timedelta(microseconds=value.value)).isoformat())
            case "timestamp_ntz":
                return _quote((_EPOCH + timedelta(microseconds=value.value)).replace(tzinfo=None).isoformat())
            case "boolean":
                return "TRUE" if value.value else "FALSE"
            case "string":
                return _quote(value.value)
    except (OverflowError, ValueError):
        return None
    return _quote(str(value.value))


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
