"""A transaction around one statement costs no request more than the statement
(docs/transactions.md)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest


def requests_of(lake: Any, do: Callable[[], Any]) -> Counter[str]:
    before = Counter(lake.api.http.requests)
    do()
    return Counter(lake.api.http.requests) - before


@pytest.mark.slow
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
    alone = requests_of(lake, lambda: sql(statement))
    together = requests_of(lake, in_transaction)
    assert sum(together.values()) <= sum(alone.values()), (alone, together)
    assert sql.ids(table) == [1, 1, 1, 1]


def _jobs(lake: Any, do: Callable[[], Any]) -> int:
    """How many jobs Spark runs for this."""
    scheduler = lake.spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    do()
    return int(scheduler.numTotalJobs() - before)


@pytest.mark.slow  # test_s3_requests.py has the checksums of statements
def test_i8_a_transaction_leaves_the_checksums_with_which_the_next_one_need_not_read_the_log(
    lake: Any, sql: Any, two: tuple[str, str], log_of: Any
) -> None:
    """An INSERT is one job then, as outside; and Delta derives the same from the whole log."""
    for value in (1, 2):
        with lake.transaction():
            for table in two:
                sql(f"INSERT INTO lake.{table} VALUES ({value}), ({value})")
            sql(f"DELETE FROM lake.{two[0]} WHERE id = {value}")
        lake.context.checksums.flush()
    with lake.transaction() as txn:
        assert [_jobs(lake, lambda t=table: sql(f"INSERT INTO lake.{t} VALUES (3)")) for table in two] == [1, 1]
        txn.abort()
    for table in two:
        file = log_of(table) / f"{3:020d}.crc"
        written = json.loads(file.read_text())
        assert written.pop("txnId")
        assert (
            len(written.pop("allFiles")) == written["numFiles"] == len(lake.spark.table(f"lake.{table}").inputFiles())
        )
        file.unlink()
        assert written == _derived(lake, sql, table), table


def _derived(lake: Any, sql: Any, table: str) -> dict[str, Any]:
    """The checksum as Delta derives it from the whole log of a table."""
    lake.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    sql.ids(f"lake.{table}")
    snapshot = lake.context.delta_logs.of(lake.context.load(*table.split(".")).table_id).unsafeVolatileSnapshot()
    assert not snapshot.checksumOpt().isDefined()
    mapper = lake.jvm.module("org.apache.spark.sql.delta.util.JsonUtils").mapper()
    return dict(json.loads(mapper.writeValueAsString(snapshot.computeChecksum())))
