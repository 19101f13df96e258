"""I12: `turnstile_spark` opens tables on S3 with keys from the server, one table at a time, and
renews them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

import turnstile_spark
from benchmarks.counting_proxy import CountingProxy

if TYPE_CHECKING:
    from tests.support.server import ServerOnS3

_numbers = itertools.count(1)
#: Milliseconds. Longer than any key lives: every use of one then renews it first.
ALWAYS = str(24 * 3600 * 1000)


@pytest.fixture(scope="module")
def s3(vending_server: ServerOnS3) -> Iterator[CountingProxy]:
    with CountingProxy(vending_server.s3_endpoint) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def api(vending_server: ServerOnS3) -> Iterator[CountingProxy]:
    with CountingProxy(vending_server.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def lake(spark: Any, s3: CountingProxy, api: CountingProxy) -> Iterator[Any]:
    """A lake in a session whose own keys open nothing."""
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    for key, value in (("endpoint", s3.url), ("path.style.access", "true"), ("connection.ssl.enabled", "false")):
        conf.set(f"fs.s3a.{key}", value)
    with turnstile_spark.attach(spark, "vended", api.url, vended=True) as attached:
        yield attached


@pytest.fixture
def table(spark: Any, lake: Any) -> str:
    name = f"default.keys{next(_numbers)}"
    spark.sql(f"CREATE TABLE vended.{name} (id BIGINT)")
    spark.sql(f"INSERT INTO vended.{name} VALUES (1)")
    lake.context.checksums.flush()
    return name


def test_every_request_is_signed_with_a_key_of_the_server(spark: Any, lake: Any, s3: CountingProxy, table: str) -> None:
    s3.clear()
    spark.sql(f"INSERT INTO vended.{table} VALUES (2)")
    lake.context.checksums.flush()
    assert sorted(row.id for row in spark.table(f"vended.{table}").collect()) == [1, 2]
    assert {request.access_key[:4] for request in s3.requests()} == {"ASIA"}, "that is how ids of sessions begin"
    assert {request.status for request in s3.requests()} <= {200, 204, 206}


def test_a_table_that_a_transaction_creates_is_written_and_read_with_its_keys(
    spark: Any, lake: Any, s3: CountingProxy, table: str
) -> None:
    s3.clear()
    with lake.transaction():
        spark.sql(f"CREATE TABLE vended.{table}_new AS SELECT id FROM vended.{table}")
        spark.sql(f"INSERT INTO vended.{table}_new VALUES (2)")
        spark.sql(f"INSERT INTO vended.{table} SELECT max(id) FROM vended.{table}_new")
    assert [sorted(row.id for row in spark.table(f"vended.{name}").collect()) for name in (table, f"{table}_new")] == [
        [1, 2],
        [1, 2],
    ]
    assert {request.access_key[:4] for request in s3.requests()} == {"ASIA"}


def test_a_table_has_keys_of_its_own(spark: Any, lake: Any, s3: CountingProxy, table: str) -> None:
    spark.sql(f"CREATE TABLE vended.{table}_other (id BIGINT)")
    keys = []
    for name in (table, f"{table}_other"):
        s3.clear()
        spark.sql(f"INSERT INTO vended.{name} VALUES (3)")
        lake.context.checksums.flush()
        keys.append({request.access_key for request in s3.requests()})
    assert not keys[0] & keys[1]


def test_no_key_is_in_the_log_or_among_the_properties(spark: Any, lake: Any, table: str) -> None:
    options = lake.context.credentials.of_table(lake.table(table).id, "s3a://lake")
    secrets = {options["fs.s3a.init.secret.key"], options["fs.s3a.init.session.token"]}
    shown = str(spark.sql(f"SHOW TBLPROPERTIES vended.{table}").collect())
    state = lake.context.load(*table.split("."))
    for place in (shown, str(state)):
        assert "fs.s3a" not in place
        assert not [secret for secret in secrets if secret in place]


def test_one_request_for_keys_serves_many_statements(spark: Any, lake: Any, api: CountingProxy, table: str) -> None:
    api.clear()
    for number in range(3):
        spark.sql(f"INSERT INTO vended.{table} VALUES ({number})")
    assert not [request for request in api.requests() if "credentials" in request.path]


def test_keys_are_renewed_before_they_expire(spark: Any, lake: Any, api: CountingProxy, s3: CountingProxy) -> None:
    conf = spark._jsparkSession.sparkContext().hadoopConfiguration()
    name = f"default.keys{next(_numbers)}"
    conf.set("fs.unitycatalog.renewal.leadTimeMillis", ALWAYS)
    try:
        spark.sql(f"CREATE TABLE vended.{name} (id BIGINT)")
        spark.sql(f"INSERT INTO vended.{name} VALUES (1)")
        api.clear()
        spark.sql(f"INSERT INTO vended.{name} VALUES (2)")
        assert [request for request in api.requests() if request.path.endswith("/temporary-table-credentials")]
    finally:
        conf.unset("fs.unitycatalog.renewal.leadTimeMillis")


def test_a_vacuum_lists_and_removes_with_keys_of_the_server(
    spark: Any, lake: Any, s3: CountingProxy, table: str, vending_server: ServerOnS3
) -> None:
    handle = lake.table(table)
    spark.sql(f"INSERT OVERWRITE vended.{table} SELECT id FROM range(3)")
    handle.publish()
    lake.context.checksums.flush()
    bucket, _, folder = lake.context.load(*table.split(".")).location.partition("://")[2].partition("/")
    store = vending_server.aws("s3")

    def stored() -> set[str]:
        pages = store.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{folder}/")
        return {each["Key"].removeprefix(f"{folder}/") for page in pages for each in page.get("Contents", ())}

    orphans = {"part-00000-orphan one+ü.snappy.parquet", "deeper/part-00001-orphan.snappy.parquet"}
    for name in orphans:
        store.put_object(Bucket=bucket, Key=f"{folder}/{name}", Body=b"of a writer that died")
    before = stored()
    assert orphans < before
    time.sleep(2)  # S3 has times in whole seconds; what is not older than the vacuum stays
    s3.clear()
    dry = handle.vacuum(0, True, allow_short=True)
    assert {name.rpartition("/")[2] for name in orphans} <= {unquote(path).rpartition("/")[2] for path in dry.paths}
    assert stored() == before
    done = handle.vacuum(0, allow_short=True)
    assert done.files == dry.files == len(orphans), "versions of the kept history stay"
    assert before - stored() == orphans
    assert {request.access_key[:4] for request in s3.requests()} == {"ASIA"}, "that is how ids of sessions begin"
    assert sorted(row.id for row in spark.table(f"vended.{table}").collect()) == [0, 1, 2]
    assert [row.id for row in spark.sql(f"SELECT * FROM vended.{table} VERSION AS OF 1").collect()] == [1]


def test_i28_keys_of_a_branchs_table_read_the_catalogs_files_by_name_and_write_in_their_own_folder(
    spark: Any, lake: Any, s3: CountingProxy, api: CountingProxy, table: str
) -> None:
    spark.sql(f"INSERT INTO vended.{table} SELECT id FROM range(10, 14)")
    lake.context.checksums.flush()
    folder = urlsplit(lake.context.load(*table.split(".")).location).path.strip("/")
    branch = f"b{table.rpartition('.')[2]}"
    lake.branches.create(branch)
    with turnstile_spark.attach(spark, "dev", api.url, catalog=f"main@{branch}", vended=True) as dev:
        s3.clear()
        spark.sql(f"INSERT INTO dev.{table} VALUES (2)")
        spark.sql(f"DELETE FROM dev.{table} WHERE id = 11")
        spark.sql(f"UPDATE dev.{table} SET id = 20 WHERE id = 12")
        dev.context.checksums.flush()
        assert sorted(row.id for row in spark.table(f"dev.{table}").collect()) == [1, 2, 10, 13, 20]
        requests = [(each.kind, each.path.partition(f"{folder}/")[2]) for each in s3.requests()]
        assert {each.access_key[:4] for each in s3.requests()} == {"ASIA"}, "that is how ids of sessions begin"
        of_catalog = {(kind, path) for kind, path in requests if path and not path.startswith("_branches/")}
        assert of_catalog, "the base's files lie in the catalog's folder"
        assert {kind for kind, _ in of_catalog} <= {"HEAD", "GET"}
        assert {path.rpartition(".")[2] for _, path in of_catalog} == {"parquet"}
    lake.branches.promote(branch)
    assert sorted(row.id for row in spark.table(f"vended.{table}").collect()) == [1, 2, 10, 13, 20]
    spark.sql(f"UPDATE vended.{table} SET id = 21 WHERE id = 20")
    handle = lake.table(table)
    handle.publish()
    handle.vacuum(0, allow_short=True)
    assert sorted(row.id for row in spark.table(f"vended.{table}").collect()) == [1, 2, 10, 13, 21]
