"""Attach, detach, several lakes, and the parts of Spark that the package needs."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import turnstile_spark
from turnstile_spark import TurnstileError, selftest
from turnstile_spark.catalogs.delegate import Delegate
from turnstile_spark.catalogs.lake_catalog import NamedCatalog, SparkCatalog
from turnstile_spark.catalogs.sessions import _Listener
from turnstile_spark.coordinator import Coordinator, CoordinatorBuilder
from turnstile_spark.lake_commands import LakeCommands
from turnstile_spark.transactions.scopes.cut_log import CutLogStore
from turnstile_spark.transactions.scopes.scope_coordinator import ScopeCoordinator, ScopeCoordinatorBuilder

PROXIES = [
    Coordinator,
    CoordinatorBuilder,
    CutLogStore,
    Delegate,
    LakeCommands,
    NamedCatalog,
    ScopeCoordinator,
    ScopeCoordinatorBuilder,
    SparkCatalog,
    _Listener,
]


@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxy_has_every_method_of_its_interfaces(lake: Any, proxy: type) -> None:
    """py4j runs no Java default methods: one that is missing in Python fails when Spark first calls
    it."""
    modifier = lake.jvm.cls("java.lang.reflect.Modifier")
    for interface in proxy.Java.implements:  # type: ignore[attr-defined]
        for method in lake.jvm.class_for_name(interface).getMethods():
            if not modifier.isStatic(method.getModifiers()):
                assert callable(getattr(proxy, method.getName(), None)), f"{interface}.{method.getName()}"


def test_every_internal_that_is_leaned_on_is_as_expected(lake: Any, spark: Any) -> None:
    assert selftest.failures(lake.jvm, spark) == []


def test_an_internal_that_is_not_as_expected_is_named(
    file_server: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(selftest.CHECKS, "Delta.somethingPrivate", ("a test", lambda jvm, spark: False))
    with pytest.raises(TurnstileError, match=r"Delta\.somethingPrivate \(a test\)") as caught:
        turnstile_spark.attach(spark, "untested", file_server.url, token=file_server.token)
    assert caught.value.condition == "TURNSTILE_SELF_TEST"


def test_two_lakes_of_one_catalog_see_each_other(lake: Any, sql: Any, spark: Any, file_server: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 1 AS id")
    with turnstile_spark.attach(spark, "second", file_server.url, token=file_server.token):
        sql(f"INSERT INTO second.{name} SELECT id + 1 FROM lake.{name}")
        assert sql.ids(f"lake.{name}") == sql.ids(f"second.{name}") == [1, 2]


def test_attaching_again_under_a_name_replaces_the_lake(sql: Any, spark: Any, file_server: Any, name: str) -> None:
    first = turnstile_spark.attach(spark, "again", file_server.url, token=file_server.token)
    sql(f"CREATE TABLE again.{name} AS SELECT 1 AS id")
    old = spark.table(f"again.{name}")
    second = turnstile_spark.attach(spark, "again", file_server.url, token=file_server.token)
    sql(f"INSERT INTO again.{name} VALUES (2)")
    assert old.count() == 2
    for use in (
        first.namespaces,
        first.table(name).head,
        lambda: first.transaction().__enter__(),
        lambda: first.snapshot(name).__enter__(),
        lambda: first.retry(lambda txn: None),
        lambda: first.join(spark),
    ):
        with pytest.raises(TurnstileError) as caught:
            use()
        assert caught.value.condition == "TURNSTILE_DETACHED"
    first.detach()  # changes nothing: the name is not its any more
    sql(f"INSERT INTO again.{name} VALUES (3)")
    assert spark.newSession().table(f"again.{name}").count() == 3
    second.detach()


def test_a_detached_lake_says_so(sql: Any, spark: Any, file_server: Any, name: str) -> None:
    gone = turnstile_spark.attach(spark, "gone", file_server.url, token=file_server.token)
    sql(f"CREATE TABLE gone.{name} AS SELECT 1 AS id")
    old = spark.table(f"gone.{name}")
    gone.detach()
    gone.detach()
    with pytest.raises(TurnstileError) as caught:
        old.count()
    assert caught.value.condition == "TURNSTILE_DETACHED"
    assert "gone" not in {row.catalog for row in sql("SHOW CATALOGS")}


def test_a_session_cloned_in_the_jvm_says_what_it_lacks(lake: Any, sql: Any, spark: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 1 AS id")
    cloned = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    with pytest.raises(TurnstileError, match=r"lake\.join\(spark\)") as caught:
        cloned.table(f"lake.{name}")
    assert caught.value.condition == "TURNSTILE_DETACHED"
    lake.join(cloned)
    assert cloned.table(f"lake.{name}").count() == 1


def test_attach_needs_a_server(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNSTILE_URL", raising=False)
    with pytest.raises(ValueError, match="TURNSTILE_URL"):
        turnstile_spark.attach(spark, "none")


def test_a_session_that_cannot_get_what_is_asked_for_is_refused(spark: Any) -> None:
    """Packages and S3 are set up when a JVM starts."""
    assert turnstile_spark.session() is not None
    with pytest.raises(ValueError, match=r"stop\(\) it before"):
        turnstile_spark.session(s3="http://127.0.0.1:1")
    with pytest.raises(ValueError, match=r"fs\.s3a\.access\.key"):
        turnstile_spark.session(s3={"access_key": "other", "secret_key": "other"})


def test_a_uri_that_is_none_fails_at_once(spark: Any) -> None:
    with pytest.raises(ValueError, match="http://"):
        turnstile_spark.attach(spark, "none", "127.0.0.1:8750")


@pytest.mark.slow
def test_an_address_without_a_listener_fails_with_the_remedy(spark: Any) -> None:
    """Its deadline is for servers that were there."""
    with pytest.raises(TurnstileError, match="turnstile serve") as caught:
        turnstile_spark.attach(spark, "nowhere", "http://127.0.0.1:9", deadline=10_000)
    assert caught.value.condition == "TURNSTILE_UNREACHABLE"


def test_the_path_of_a_lake_s_table_is_refused_by_name(lake: Any, sql: Any, spark: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} AS SELECT 1 AS id")
    location = sql(f"DESCRIBE DETAIL lake.{name}")[0].location
    for use in (
        lambda: sql(f"SELECT * FROM delta.`{location}`"),
        lambda: sql(f"CREATE TABLE spark_catalog.{name}_l LIKE lake.{name}"),
        lambda: spark.read.format("delta").load(location).collect(),
    ):
        with pytest.raises(PySparkException) as caught:
            use()
        assert f"lake.{name} is a table of a lake" in str(caught.value).splitlines()[0]
