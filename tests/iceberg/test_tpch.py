"""TPC-H on Delta tables: Iceberg's Spark, which has every scan planned by the catalog, answers what Delta Spark does by the tables' logs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import turnstile_spark
from tests.support.downloads import Missing
from tests.support.iceberg import tpch
from tests.support.repository import ROOT

if TYPE_CHECKING:
    from turnstile_server import Server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800)]
READS = ROOT / "tests/support/iceberg/spark_reads.py"
SCALE = 0.01
#: How tables are laid out, so that filters leave out files: partitions, and files in the order of a date.
LAYOUT = {"lineitem": ("l_returnflag", "l_shipdate"), "orders": ("o_orderstatus", "o_orderdate")}


@pytest.fixture
def generated(tmp_path: Path) -> tuple[Path, list[str]]:
    """The folder with the generated tables, and the queries."""
    try:
        interpreter = tpch.python()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}")
    command = [interpreter, tpch.__file__, tmp_path, str(SCALE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    return tmp_path, [query.rstrip().rstrip(";") for query in json.loads(done.stdout)]


def fill(session: Any, folder: Path) -> None:
    """Makes the tables in the session's namespace; some rows of one are deleted by deletion vectors."""
    for table in tpch.TABLES:
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
    session.sql("DELETE FROM lineitem WHERE l_orderkey % 100 = 7")


def test_every_query_of_tpch_has_the_rows_of_plain_delta(
    spark: Any, server: Server, namespace: str, python: Path, generated: tuple[Path, list[str]]
) -> None:
    session, (folder, queries) = spark.newSession(), generated
    with turnstile_spark.attach(session, f"tpch_{namespace}", server.url, token=server.token or None) as lake:
        session.sql(f"USE {lake.name}.{namespace}")
        fill(session, folder)
        lineitem = lake.table(f"{namespace}.lineitem")
        assert 0 < len(lineitem.planned("l_shipdate < '1993-01-01'").inputFiles()) < len(lineitem.to_df().inputFiles())
        command = [python, READS, server.url, f"USE lake.{namespace}", *queries]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_200, cwd=ROOT)
        if "UNRESOLVED DEPENDENCIES" in done.stdout + done.stderr:
            pytest.skip("NOT TESTED: Iceberg's runtime for Spark cannot be fetched")
        assert done.returncode == 0, done.stderr[-2000:]
        answers = json.loads(done.stdout.splitlines()[-1])[1:]
        assert len(queries) == len(answers) == 22
        for number, (query, answer) in enumerate(zip(queries, answers, strict=True), 1):
            rows = sorted(map(str, (tuple(row) for row in session.sql(query).collect())))
            assert answer == rows, f"query {number}"
        assert sum(map(bool, answers)) >= 18, "most queries find something"
