"""Transactions over tables on an object store: the same promises as on files (I3, I8)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.server import ServerOnS3
from tests.support.threads import elsewhere
from turnstile_spark import TransactionConflict


@pytest.fixture
def pair(bucket: Any, sql: Any, name: str) -> tuple[str, str]:
    """Two tables on ``s3:`` with two rows each, without their catalog; their deletes write deletion
    vectors."""
    tables = f"{name}_a", f"{name}_b"
    for table in tables:
        sql(f"CREATE TABLE bucket.{table} (id BIGINT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        sql(f"INSERT INTO bucket.{table} VALUES (0), (1)")
    return tables


def ids(sql: Any, tables: tuple[str, str]) -> list[list[int]]:
    return [sql.ids(f"bucket.{table}") for table in tables]


def log_of(server: ServerOnS3, bucket: Any, table: str) -> dict[str, bytes]:
    """The commits in a table's log, by name, staged ones too."""
    s3 = server.aws("s3")
    namespace, name = table.split(".")
    location = bucket.context.load(namespace, name).location.rstrip("/")
    prefix = f"{location.partition('://')[2].removeprefix('lake/')}/_delta_log/"
    files = s3.list_objects_v2(Bucket="lake", Prefix=prefix).get("Contents", [])
    return {
        file["Key"].removeprefix(prefix): s3.get_object(Bucket="lake", Key=file["Key"])["Body"].read()
        for file in files
        if file["Key"].endswith(".json")
    }


def test_i8_all_statements_are_there_at_once_and_in_cuts_of_before_and_after(
    bucket: Any, sql: Any, pair: tuple[str, str]
) -> None:
    a, b = pair
    with bucket.transaction(isolation="serializable") as txn:
        sql(f"INSERT INTO bucket.{a} VALUES (2)")
        sql(f"DELETE FROM bucket.{a} WHERE id = 0")
        sql(f"MERGE INTO bucket.{b} t USING bucket.{a} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
        sql(f"CREATE TABLE bucket.{a}_new AS SELECT id FROM bucket.{b}")
        sql(f"DELETE FROM bucket.{a}_new WHERE id = 1")
        assert ids(sql, pair) == [[1, 2], [0, 1, 2]]
        assert elsewhere(lambda: ids(sql, pair)) == [[0, 1], [0, 1]]
    assert txn.state == "committed"
    assert sql.ids(f"bucket.{a}_new") == [0, 2]
    assert ids(sql, pair) == [[1, 2], [0, 1, 2]]
    at_ms, same = (entry.timestamp for entry in bucket.context.api.cut(list(pair)))
    assert at_ms == same
    for moment, expected in ((at_ms - 1, [[0, 1], [0, 1]]), (at_ms, [[1, 2], [0, 1, 2]])):
        with bucket.snapshot(*pair, at=moment):
            assert ids(sql, pair) == expected


def test_i8_what_is_given_up_leaves_nothing_in_the_log(
    bucket: Any, sql: Any, pair: tuple[str, str], server_on_s3: ServerOnS3
) -> None:
    for table in pair:
        bucket.table(table).publish()
    before = [log_of(server_on_s3, bucket, table) for table in pair]
    with pytest.raises(ZeroDivisionError), bucket.transaction():
        sql(f"INSERT INTO bucket.{pair[0]} VALUES (7)")
        sql(f"DELETE FROM bucket.{pair[1]} WHERE id = 1")
        raise ZeroDivisionError
    assert ids(sql, pair) == [[0, 1], [0, 1]]
    after = [log_of(server_on_s3, bucket, table) for table in pair]
    assert [[name for name in log if name.startswith(f"{2:020d}")] for log in after] == [[], []]
    assert all(log.items() >= earlier.items() for log, earlier in zip(after, before, strict=True))
    assert [bucket.table(table).head().latest for table in pair] == [1, 1]


def test_i8_a_conflict_refuses_all_and_another_attempt_is_published_with_one_timestamp(
    bucket: Any, sql: Any, pair: tuple[str, str], server_on_s3: ServerOnS3
) -> None:
    a, b = pair
    with pytest.raises(TransactionConflict), bucket.transaction(isolation="serializable"):
        sql(f"UPDATE bucket.{a} SET id = 10 WHERE id = 0")
        sql(f"INSERT INTO bucket.{b} VALUES (5)")
        elsewhere(lambda: sql(f"UPDATE bucket.{a} SET id = 20 WHERE id = 0"))
    assert ids(sql, pair) == [[1, 20], [0, 1]]

    def attempt(txn: Any) -> int:
        sql(f"UPDATE bucket.{a} SET id = id + 1 WHERE id >= 20")
        sql(f"INSERT INTO bucket.{b} SELECT id FROM bucket.{a}")
        if txn.retries == 0:
            elsewhere(lambda: sql(f"UPDATE bucket.{a} SET id = 30 WHERE id = 20"))
        return int(txn.retries)

    assert bucket.retry(attempt, isolation="serializable") == 1
    assert ids(sql, pair) == [[1, 31], [0, 1, 1, 31]]
    timestamps = []
    for table in pair:
        latest = bucket.table(table).head().latest
        bucket.table(table).publish()
        content = log_of(server_on_s3, bucket, table)[f"{latest:020d}.json"]
        info = json.loads(content.split(b"\n")[0])["commitInfo"]
        timestamps.append(info["inCommitTimestamp"])
    assert timestamps[0] == timestamps[1]
