"""A transaction around one statement costs no request more than the statement (docs/transactions.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest


def requests_of(lake: Any, do: Callable[[], Any]) -> Counter[str]:
    before = Counter(lake.api.http.requests)
    do()
    return Counter(lake.api.http.requests) - before


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_a_transaction_around_one_write_makes_no_request_more_than_the_write(
    lake: Any, sql: Any, name: str, isolation: str
) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT)")
    statement = f"INSERT INTO {table} VALUES (1)"

    def in_transaction() -> None:
        with lake.transaction(isolation=isolation):
            sql(statement)

    for do in (lambda: sql(statement), in_transaction):
        do()  # what is remembered of the table is remembered
    alone, together = requests_of(lake, lambda: sql(statement)), requests_of(lake, in_transaction)
    assert sum(together.values()) <= sum(alone.values()), (alone, together)
    assert sql.ids(table) == [1, 1, 1, 1]
