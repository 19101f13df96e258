"""A Spark session whose catalog is Unity Catalog's own connector: one process, one line of JSON for
each step, each after a line on its standard input.

``python -m tests.support.clients.uc_connector_story URL TOKEN JAR WORK
[OPTION=VALUE...]``, options of the catalog; run by ``test_uc_connector.py``. Nothing of Turnstile's
is in the session.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from tests.support.clients.engine import fresh
from turnstile_spark.session import packages_of

CATALOG = "io.unitycatalog.spark.UCSingleCatalog"


def session(url: str, token: str, jar: str, work: str, more: list[str]) -> Any:
    """As Unity Catalog's documentation configures it."""
    builder = SparkSession.builder.appName("unity").master("local[2]")
    options = {
        "spark.jars": jar,
        "spark.jars.packages": packages_of(pyspark.__version__, s3=False)[0],
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.main": CATALOG,
        "spark.sql.catalog.main.uri": url,
        "spark.sql.catalog.main.token": token or "none",
        "spark.sql.warehouse.dir": f"{work}/warehouse",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={work} -XX:TieredStopAtLevel=1",
    }
    for option in more:
        key, _, value = option.partition("=")
        options[key if key.startswith("spark.") else f"spark.sql.catalog.main.{key}"] = value
    for key, value in options.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


class Story:
    """Steps that each report their observations."""

    def __init__(self, spark: Any, work: Path) -> None:
        self.spark = spark
        self.work = work
        self.table = f"main.default.{fresh('uc')}"

    def sql(self, text: str) -> list[Any]:
        return [tuple(row) for row in self.spark.sql(text.format(t=self.table)).collect()]

    def ids(self, source: str = "{t}") -> list[int]:
        return sorted(row[0] for row in self.sql(f"SELECT id FROM {source}"))

    def create(self) -> Any:
        self.sql("CREATE TABLE {t} (id BIGINT, name STRING COMMENT 'the name') USING delta COMMENT 'one'")
        return [row[0] for row in self.sql("DESCRIBE {t}")][:2]

    def insert(self) -> Any:
        for number in range(3):
            self.sql(f"INSERT INTO {{t}} VALUES ({number}, 'n{number}')")
        return self.ids()

    def one_insert(self) -> Any:
        """A warm one; its requests are counted."""
        self.sql("INSERT INTO {t} VALUES (3, 'n3')")

    def one_read(self) -> Any:
        return self.ids()

    def merge(self) -> Any:
        self.sql(
            "MERGE INTO {t} AS old USING (SELECT 1L AS id, 'merged' AS name UNION ALL SELECT 9L, 'new') AS new"
            " ON old.id = new.id WHEN MATCHED THEN UPDATE SET name = new.name WHEN NOT MATCHED THEN INSERT *"
        )
        return sorted(self.sql("SELECT id, name FROM {t}"))

    def update_and_delete(self) -> Any:
        self.sql("UPDATE {t} SET id = 90 WHERE id = 9")
        self.sql("DELETE FROM {t} WHERE id = 0")
        return self.ids()

    def time_travel(self) -> Any:
        return self.ids("{t} VERSION AS OF 2")

    def history(self) -> Any:
        return [row[0] for row in self.sql("DESCRIBE HISTORY {t}")]

    def alter(self) -> Any:
        self.sql("ALTER TABLE {t} ADD COLUMN more INT")
        self.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'false', 'my.own' = 'x')")
        return [row[0] for row in self.sql("DESCRIBE {t}")][:3]

    def race(self) -> Any:
        """Two sessions append to one table at once."""
        name = f"main.default.{fresh('race')}"
        self.sql(f"CREATE TABLE {name} (id BIGINT) USING delta")

        def write(writer: int) -> None:
            mine = self.spark.newSession()
            for number in range(5):
                mine.sql(f"INSERT INTO {name} VALUES ({10 * writer + number})")

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(write, range(2)))
        versions = [row[0] for row in self.sql(f"DESCRIBE HISTORY {name}")]
        return [self.ids(name), versions]

    def streaming(self) -> Any:
        """The table as a source, another one as the sink."""
        target = f"main.default.{fresh('sink')}"
        self.sql(f"CREATE TABLE {target} (id BIGINT) USING delta")
        seen = []
        for _ in range(2):
            query = (
                self.spark.readStream.table(self.table).select("id").writeStream.format("delta")
                .option("checkpointLocation", str(self.work / "stream")).option("skipChangeCommits", "true")
                .trigger(availableNow=True).toTable(target)
            )  # fmt: skip
            query.awaitTermination()
            seen.append(self.ids(target))
            self.sql("INSERT INTO {t} (id) VALUES (1000)")
        return seen

    def replace(self) -> Any:
        self.sql("CREATE OR REPLACE TABLE {t} USING delta AS SELECT id FROM range(4)")
        return [self.ids(), self.history()[0]]

    def create_as_select(self) -> Any:
        name = f"main.default.{fresh('ctas')}"
        self.sql(f"CREATE TABLE {name} USING delta CLUSTER BY (id) AS SELECT id FROM range(3)")
        return self.ids(name)

    def external(self) -> Any:
        name = f"main.default.{fresh('ext')}"
        place = (self.work / fresh("place")).as_uri()
        self.sql(f"CREATE TABLE {name} (id BIGINT) USING delta LOCATION '{place}'")
        self.sql(f"INSERT INTO {name} VALUES (7)")
        seen = self.ids(name)
        self.sql(f"DROP TABLE {name}")
        return seen

    def schemas(self) -> Any:
        name = fresh("s")
        self.sql(f"CREATE SCHEMA main.{name}")
        shown = name in [row[0] for row in self.sql("SHOW SCHEMAS IN main")]
        self.sql(f"DROP SCHEMA main.{name}")
        return [shown, name in [row[0] for row in self.sql("SHOW SCHEMAS IN main")]]

    def drop(self) -> Any:
        before = self.table.split(".")[2] in [row[1] for row in self.sql("SHOW TABLES IN main.default")]
        self.sql("DROP TABLE {t}")
        return [before, self.table.split(".")[2] in [row[1] for row in self.sql("SHOW TABLES IN main.default")]]


STEPS = ("create", "insert", "one_insert", "one_read", "merge", "update_and_delete", "time_travel", "history", "alter",
         "race", "streaming",
         "replace", "create_as_select", "external", "schemas", "drop")  # fmt: skip


def main() -> None:
    url, token, jar, work, *more = sys.argv[1:]
    story = Story(session(url, token, jar, work, more), Path(work))
    for step in STEPS:
        sys.stdin.readline()  # whoever listens counts requests in between
        act: Callable[[], Any] = getattr(story, step)
        began = time.perf_counter()
        try:
            told = {"saw": act()}
        except Exception as error:  # a step that fails says so, and the others run
            told = {"error": f"{type(error).__name__}: {error}"[:2000]}
        print(json.dumps({"step": step, "seconds": round(time.perf_counter() - began, 2), **told}), flush=True)


if __name__ == "__main__":
    main()
