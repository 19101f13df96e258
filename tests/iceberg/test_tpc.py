"""TPC-H and TPC-DS on Delta tables: Iceberg's Spark, which has every scan planned by the catalog,
answers what Delta Spark does by the tables' logs."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import turnstile_spark
from tests.support.downloads import Missing
from tests.support.iceberg import tpc
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from turnstile_server import Server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3_000)]
READS = ROOT / "tests/support/iceberg/spark_reads.py"
SCALE = 0.01
#: How tables are laid out, so that filters leave out files: partitions, and files in the order of a
#: column.
LAYOUT = {
    "lineitem": ("l_returnflag", "l_shipdate"),
    "orders": ("o_orderstatus", "o_orderdate"),
    "item": ("i_category", None),
    "store_sales": (None, "ss_sold_date_sk"),
    "catalog_sales": (None, "cs_sold_date_sk"),
    "web_sales": (None, "ws_sold_date_sk"),
    "date_dim": (None, "d_date_sk"),
}
#: Some rows that are deleted by deletion vectors, and a filter that leaves out files.
DELETED = {"tpch": "lineitem WHERE l_orderkey % 100 = 7", "tpcds": "store_sales WHERE ss_ticket_number % 100 = 7"}
SELECTIVE = {"tpch": ("lineitem", "l_shipdate < '1993-01-01'"), "tpcds": ("store_sales", "ss_sold_date_sk < 2451000")}
LIMIT = re.compile(r"\s+LIMIT\s+\d+\s*$", re.IGNORECASE)


def generated(suite: str, folder: Path) -> tuple[list[str], list[str]]:
    """The tables, written below the folder, and the queries as Spark's SQL, without their last
    LIMIT: which of equal rows it leaves is anybody's."""
    try:
        interpreter = tpc.python(suite)
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}")
    command = [interpreter, tpc.__file__, suite, folder, str(SCALE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    tables, queries = json.loads(done.stdout)
    return tables, [LIMIT.sub("", query.rstrip().rstrip(";")).replace('"', "`") for query in queries]


def fill(session: Any, folder: Path, tables: list[str]) -> None:
    """Makes the tables in the session's namespace."""
    for table in tables:
        rows = session.read.parquet(f"{folder}/{table}.parquet")
        rows.createOrReplaceTempView("generated")
        partition, order = LAYOUT.get(table, (None, None))
        columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in rows.schema.fields)
        by = f"PARTITIONED BY ({partition})" if partition else ""
        properties = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        session.sql(f"CREATE TABLE {table} ({columns}) {by} {properties}")
        names = ", ".join(field.name for field in rows.schema.fields)
        hint = f"/*+ REPARTITION_BY_RANGE(6, {order}) */" if order else ""
        session.sql(f"INSERT INTO {table} ({names}) SELECT {hint} {names} FROM generated")


@pytest.mark.parametrize(("suite", "count"), [("tpch", 22), ("tpcds", 99)])
def test_every_query_has_the_rows_of_plain_delta(  # noqa: PLR0917 - fixtures
    spark: Any, server: Server, namespace: str, python: Path, tmp_path: Path, suite: str, count: int
) -> None:
    session = spark.newSession()
    tables, queries = generated(suite, tmp_path)
    assert len(queries) == count
    with turnstile_spark.attach(session, f"tpc_{namespace}", server.url, token=server.token or None) as lake:
        session.sql(f"USE {lake.name}.{namespace}")
        fill(session, tmp_path, tables)
        session.sql(f"DELETE FROM {DELETED[suite]}")
        name, predicate = SELECTIVE[suite]
        table = lake.table(f"{namespace}.{name}")
        assert 0 < len(table.planned(predicate).inputFiles()) < len(table.to_df().inputFiles())
        wanted = [tpc.shown(session.sql(query).collect()) for query in queries]
        command = [python, READS, server.url, f"USE lake.{namespace}", *queries]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_500, cwd=ROOT)
        if "UNRESOLVED DEPENDENCIES" in done.stdout + done.stderr:
            pytest.skip("NOT TESTED: Iceberg's runtime for Spark cannot be fetched")
        assert done.returncode == 0, done.stderr[-2000:]
        answers = json.loads(done.stdout.splitlines()[-1])[1:]
        for number, (answer, rows) in enumerate(zip(answers, wanted, strict=True), 1):
            assert answer == rows, f"query {number}"
        assert sum(map(bool, answers)) >= count * 0.6, "most queries find something"
