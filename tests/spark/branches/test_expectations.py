"""Expectations of each commit hold for Spark's statements: a refusal shows the rows (I29)."""

from __future__ import annotations

from typing import Any

import pytest

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
