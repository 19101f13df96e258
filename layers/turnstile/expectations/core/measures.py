"""How a table breaks a condition, by what was counted of it. Pure."""

from __future__ import annotations

from turnstile.expectations.core.conditions import Freshness, NullFraction, RowCount


def count_problem(condition: RowCount, rows: int) -> str | None:
    """Returns how a table with so many rows breaks a condition; None if it satisfies it."""
    return None if condition.holds(rows) else f"the table has {rows} rows"


def nulls_problem(condition: NullFraction, nulls: int, rows: int) -> str | None:
    """As ``count_problem``, for a column that is null in ``nulls`` of ``rows`` rows."""
    return None if condition.holds(nulls, rows) else f"it is null in {nulls} of {rows} rows"


def keys_problem(keys: int, examples: str) -> str | None:
    """As ``count_problem``, for a number of keys that occur more than once."""
    return f"{keys} keys occur more than once, such as {examples}" if keys else None


def age_problem(condition: Freshness, column: str, newest_us: int | None, now_ms: int) -> str | None:
    """As ``count_problem``, for the newest value of ``column`` in microseconds since 1970; None: it
    has no value."""
    if newest_us is None:
        return f"{column} has no value"
    age_ms = age_of(newest_us, now_ms)
    return None if condition.holds(age_ms) else f"the newest value of {column} is {age_ms / 1000:.0f} s old"


def age_of(moment_us: int, now_ms: int) -> float:
    """Returns the age of a moment in ms."""
    return now_ms - moment_us / 1000
