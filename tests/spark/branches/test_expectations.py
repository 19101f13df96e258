"""Expectations of each commit hold for Spark's statements: a refusal shows the rows (I29). Spark
checks a branch where the server does not read the files (I28)."""

from __future__ import annotations

from typing import Any

import pytest

import turnstile_spark

PROPERTIES = "'turnstile.expect.positive' = 'id >= 0', 'turnstile.expect.positive.on' = 'commit'"


def test_i29_statements_with_rows_that_break_an_expectation_are_refused(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT) TBLPROPERTIES ({PROPERTIES})")
    sql(f"INSERT INTO lake.{name} SELECT id FROM range(4)")
    for statement in (
        f"INSERT INTO lake.{name} VALUES (-1)",
        f"UPDATE lake.{name} SET id = -id WHERE id = 2",
        f"MERGE INTO lake.{name} t USING (SELECT -5L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        f"CREATE TABLE lake.{name}_made TBLPROPERTIES ({PROPERTIES}) AS SELECT -7L AS id",
    ):
        with pytest.raises(
            Exception, match=r"expectation 'positive' \(id >= 0\) of '[^']+' is broken: 1 rows in 1 of 1 files"
        ):
            sql(statement)
    assert sql.ids(f"lake.{name}") == [0, 1, 2, 3]
    sql(f"DELETE FROM lake.{name} WHERE id = 1")
    sql(f"ALTER TABLE lake.{name} UNSET TBLPROPERTIES ('turnstile.expect.positive.on')")
    sql(f"INSERT INTO lake.{name} VALUES (-1)")
    assert sql.ids(f"lake.{name}") == [-1, 0, 2, 3]


RULES = {
    "few": "row_count < 100",
    "filled": "null_fraction(nested.note) < 0.5",
    "fresh": "freshness(ts) < interval 9000 days",
    "key": "unique(id, p)",
    "late": 'ts > "2026-01-01 00:00:00"',
    "positive": "id >= 0",
}


def test_i28_spark_checks_what_the_server_does_not_read_and_records_it(
    file_server: Any, lake: Any, sql: Any, name: str
) -> None:
    """The server does not read tables with a column of the type VARIANT."""
    rules = ", ".join(f"'turnstile.expect.{key}' = '{text}'" for key, text in RULES.items())
    columns = "id BIGINT, p STRING, nested STRUCT<note: STRING>, ts TIMESTAMP, v VARIANT"
    options = f"'delta.enableDeletionVectors' = 'true', {rules}"
    sql(f"CREATE TABLE lake.{name} ({columns}) PARTITIONED BY (p) TBLPROPERTIES ({options})")
    row = "'a b%', named_struct('note', 'x'), TIMESTAMP '2026-01-01T00:00:01Z', NULL"
    bad = "'a b%', named_struct('note', NULL), NULL, NULL"
    sql(f"INSERT INTO lake.{name} SELECT id - 1, {row} FROM range(8)")
    branch = f"b{name.rpartition('.')[2]}"
    lake.branches.create(branch)
    token = file_server.token
    try:
        with turnstile_spark.attach(sql.spark, "dev", file_server.url, token=token, catalog=f"main@{branch}"):
            sql(f"INSERT INTO dev.{name} SELECT id + 10, {row} FROM range(5)")
            asked = {each["expectation"] for each in lake.branches.changes(branch).checks if each["question"]}
            assert asked == RULES.keys()
            found = {each["expectation"]: (each["outcome"], each["by"]) for each in lake.branches.check(branch)}
            assert found == dict.fromkeys(RULES, ("passed", "operator")), "the row with id -1 is none of the branch"
            sql(f"INSERT INTO dev.{name} VALUES (10, {row}), (-7, {bad})")
            sql(f"DELETE FROM dev.{name} WHERE id = -1")
            checks = lake.branches.check(branch)
            broken = {each["expectation"]: each["problem"] for each in checks if each["outcome"] == "broken"}
            assert broken.keys() == {"key", "late", "positive"}
            assert broken["key"] == '1 keys occur more than once, such as {"id": 10, "p": "a b%"}'
            assert broken["positive"] == '1 of 10 rows, such as {"id": -7, "p": "a b%", "nested": {"note": null}}'
            with pytest.raises(turnstile_spark.TurnstileError, match="is broken: 1 of 10 rows"):
                lake.branches.promote(branch)
            sql(f"DELETE FROM dev.{name} WHERE id IN (-7, 10)")
            assert {each["outcome"] for each in lake.branches.check(branch)} == {"passed"}
        lake.branches.promote(branch)
        assert sql.ids(f"lake.{name}") == [0, 1, 2, 3, 4, 5, 6, 11, 12, 13, 14]
    finally:
        if branch in [each.name for each in lake.branches]:
            lake.branches.drop(branch)
