"""What goes wrong reaches the user in the words of Spark and Delta, and transient faults do not
reach the user."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import UnsupportedOperationException

import turnstile_spark
from turnstile_spark import TurnstileError
from turnstile_spark.jvm import throw


@pytest.fixture(scope="module")
def tables_there(lake: Any, spark: Any) -> None:
    """Makes two tables, which no test of them changes."""
    for there in ("there", "also"):
        spark.sql(f"CREATE TABLE IF NOT EXISTS {lake.name}.default.{there} (id INT)")


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("SELECT * FROM lake.default.missing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM lake.missing.t", "TABLE_OR_VIEW_NOT_FOUND"),
        ("INSERT INTO lake.default.missing VALUES (1)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM lake.default.`no such name`", "TABLE_OR_VIEW_NOT_FOUND"),
        ("REPLACE TABLE lake.default.missing (id INT)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("DROP TABLE lake.default.missing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("ALTER TABLE lake.default.missing RENAME TO lake.default.other", "TABLE_OR_VIEW_NOT_FOUND"),
        ("CREATE TABLE lake.default.there (id INT)", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("CREATE TABLE lake.default.there AS SELECT 1 AS id", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("ALTER TABLE lake.default.there RENAME TO lake.default.also", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ("CREATE TABLE lake.missing.t (id INT)", "SCHEMA_NOT_FOUND"),
        ("SHOW TABLES IN lake.missing", "SCHEMA_NOT_FOUND"),
        ("DROP NAMESPACE lake.missing", "SCHEMA_NOT_FOUND"),
        ("CREATE NAMESPACE lake.default", "SCHEMA_ALREADY_EXISTS"),
        ("DROP NAMESPACE lake.default", "SCHEMA_NOT_EMPTY"),
    ],
)
@pytest.mark.usefixtures("tables_there")
def test_spark_names_the_error(sql: Any, statement: str, condition: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        sql(statement)
    assert caught.value.getCondition() == condition


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE lake.default.p (id INT) USING parquet",
        "CREATE TABLE lake.default.p (id INT) LOCATION '/elsewhere'",
        "DROP TABLE lake.default.there PURGE",
    ],
)
@pytest.mark.usefixtures("tables_there")
def test_what_a_lake_cannot_do_is_said(sql: Any, statement: str) -> None:
    with pytest.raises(UnsupportedOperationException):
        sql(statement)


def test_a_table_dropped_in_the_middle_is_not_found(lake: Any, sql: Any, spark: Any, name: str) -> None:
    """A table of the same name made since is another table: an old DataFrame does not silently
    become it."""
    sql(f"CREATE TABLE lake.{name} AS SELECT 1 AS id")
    old = spark.table(f"lake.{name}")
    sql(f"DROP TABLE lake.{name}")
    sql(f"CREATE TABLE lake.{name} AS SELECT 2 AS id")
    with pytest.raises(AnalysisException) as caught:
        old.count()
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_the_python_api_raises_the_same_errors(lake: Any) -> None:
    with pytest.raises(AnalysisException) as caught:
        lake.table("default.missing").head()
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    with pytest.raises(TurnstileError, match="NoSuchNamespace"):
        lake.tables("missing")


@pytest.mark.slow
def test_faults_that_pass_are_not_seen(lake: Any, shaky: Any, flaky: Any, sql: Any, name: str) -> None:
    flaky.fail("GET", 503, "Unavailable", times=2)
    flaky.lose_answers("POST", times=1)  # the staging table
    flaky.fail("POST", 429, "Throttled", times=1, retry_after_ms=30)
    sql(f"CREATE TABLE shaky.{name} (id BIGINT)")
    flaky.fail("POST /v1/tables", 429, "BacklogFull", times=2, retry_after_ms=20)
    flaky.fail("POST /v1/tables", 502, "BadGateway", times=1)
    sql(f"INSERT INTO shaky.{name} VALUES (1)")
    assert sql.ids(f"lake.{name}") == [1]
    assert lake.table(name).head().latest == 1


@pytest.mark.parametrize(
    "lost", ["/tables ", *(pytest.param(one, marks=pytest.mark.slow) for one in ("/rename", "DELETE"))]
)
def test_a_catalog_change_whose_answer_is_lost_is_done_once(
    lake: Any, shaky: Any, flaky: Any, *, sql: Any, name: str, lost: str
) -> None:
    """The repeated request finds its own work done, and knows it."""
    if lost == "/tables ":
        flaky.lose_answers("default/tables")
        flaky.rules[-1].match = "POST /v1/catalogs/main/namespaces/default/tables"
    else:
        flaky.lose_answers(lost)
    sql(f"CREATE TABLE shaky.{name} (id BIGINT)")
    sql(f"ALTER TABLE shaky.{name} RENAME TO shaky.{name}r")
    assert sql.ids(f"lake.{name}r") == []
    sql(f"DROP TABLE shaky.{name}r")
    assert not {name.split(".")[1], name.split(".")[1] + "r"} & set(lake.tables())
    assert all(rule.times == 0 for rule in flaky.rules)


def test_a_server_that_is_away_is_named(spark: Any) -> None:
    with pytest.raises(TurnstileError) as caught:
        turnstile_spark.attach(spark, "nowhere", "http://127.0.0.1:9", deadline=1.0)
    assert caught.value.condition == "TURNSTILE_UNREACHABLE"


@pytest.mark.slow
def test_a_server_that_goes_away_is_named_too(lake: Any, shaky: Any, flaky: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    flaky.fail("GET", 503, "Unavailable", times=1000)
    with pytest.raises(TurnstileError) as caught:
        sql(f"SELECT * FROM shaky.{name}")
    assert caught.value.condition == "TURNSTILE_UNREACHABLE"


def test_a_refusal_is_reported_with_its_reason_and_remedy(
    lake: Any, shaky: Any, flaky: Any, sql: Any, name: str
) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    flaky.fail("POST /v1/tables", 400, "InvalidCommit", remedy="write it differently")
    with pytest.raises(TurnstileError, match=r"InvalidCommit.*write it differently") as caught:
        sql(f"INSERT INTO shaky.{name} VALUES (1)")
    assert caught.value.condition == "TURNSTILE_REFUSED"
    flaky.fail("POST /v1/tables", 403, "PermissionDenied")
    with pytest.raises(TurnstileError) as caught:
        sql(f"INSERT INTO shaky.{name} VALUES (1)")
    assert caught.value.condition == "TURNSTILE_NOT_PERMITTED"
    assert lake.table(name).head().latest == 0


def test_a_defect_of_the_client_is_no_py4j_error(
    lake: Any, sql: Any, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")

    def broken(*_: Any) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(lake.api, "load", broken)
    with pytest.raises(PySparkException, match="oops") as caught:
        sql(f"SELECT * FROM lake.{name}")
    assert isinstance(caught.value, TurnstileError)
    assert caught.value.condition == "TURNSTILE_CLIENT_ERROR"
    assert any("failed" in record.message for record in caplog.records if record.name == "turnstile_spark")


def test_a_checked_exception_is_no_py4j_error(lake: Any, sql: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy may throw one that its interface does not declare, so Java wraps it."""
    gone = lake.jvm.new("java.io.FileNotFoundException", "gone")

    def failing(*_: Any) -> None:
        raise throw(gone)

    monkeypatch.setattr(lake.api, "load", failing)
    with pytest.raises(PySparkException, match="gone") as caught:
        sql(f"SELECT * FROM lake.{name}")
    assert len(str(caught.value)) < 100


def test_expected_errors_are_not_logged_as_failures_of_the_proxy(
    lake: Any, sql: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(AnalysisException):
        sql("SELECT * FROM lake.default.missing")
    assert not [record for record in caplog.records if record.name.startswith("py4j")]
