"""What statements read, as their plans knew it: never less than they did (serializability)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from turnstile_predicates.file_stats import TableSchema
from turnstile_spark.transactions.conflicts.conflict_check import Read, Winner, assess
from turnstile_spark.transactions.reads.read_sets import Collector

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("planned_in_stages")]


class Reads:
    """Runs something in a collector of its own and says what it read, by table name."""

    def __init__(self, lake: Any, spark: Any, tables: dict[str, str]) -> None:
        self._lake = lake
        self._spark = spark
        self._tables = tables
        self._names = {self._path(full): short for short, full in tables.items()}

    def _path(self, name: str) -> str:
        return str(self._lake.table(name).head().location).replace("file:///", "file:/")

    def of(self, run: Callable[[], Any] | str) -> dict[str, list[Read]]:
        touched = dict.fromkeys(self._names, 0)
        with Collector(self._lake.jvm, self._spark) as collector:
            self._spark.sql(self.sql(run)).collect() if isinstance(run, str) else run()
            reads = collector.reads(touched)
        result: dict[str, list[Read]] = {}
        for read in reads:
            result.setdefault(self._names.get(read.table, "another"), []).append(read)
        return result

    def predicates(self, run: Callable[[], Any] | str) -> dict[str, list[str]]:
        """Only the predicates, as text."""
        return {name: sorted(str(read.predicate) for read in reads) for name, reads in self.of(run).items()}

    def sql(self, text: str) -> str:
        return text.format(**{short: f"lake.{full}" for short, full in self._tables.items()})


@pytest.fixture(scope="module")
def reads(lake: Any, spark: Any) -> Iterator[Reads]:
    """Table ``a`` (three partitions), table ``b``, and ``c`` to write to."""
    tables = {short: f"default.reads_{short}_{id(lake)}" for short in "abc"}
    helper_sql = {
        "a": "(id BIGINT, name STRING, ts TIMESTAMP, d DECIMAL(10, 2), st STRUCT<x: INT>, p INT) USING delta "
        "PARTITIONED BY (p)",
        "b": "(id BIGINT, qty INT)",
        "c": "(id BIGINT, qty INT)",
    }
    for short, definition in helper_sql.items():
        spark.sql(f"CREATE TABLE lake.{tables[short]} {definition}")
    spark.sql(
        f"INSERT INTO lake.{tables['a']} SELECT id, concat('n', id), timestamp'2024-01-01', 1.5, named_struct('x', 1), "
        f"int(id) FROM range(1, 4)"
    )
    spark.sql(f"INSERT INTO lake.{tables['b']} VALUES (1, 10), (2, 20), (30, 30)")
    yield Reads(lake, spark, tables)
    for full in tables.values():
        spark.sql(f"DROP TABLE lake.{full}")


def test_filters_of_a_query_with_the_files_and_columns_that_are_left(reads: Reads) -> None:
    (read,) = reads.of("SELECT id FROM {a} WHERE p = 1 AND id > 0 AND name LIKE 'n%' AND upper(name) = 'N1'")["a"]
    assert str(read.predicate) == (
        "(NOT id IS NULL AND NOT name IS NULL AND NOT p IS NULL AND id > 0 AND name starts with 'n' AND p = 1)"
    )
    assert read.version == 1
    assert read.columns == {("id",), ("p",), ("name",)}
    assert read.files is not None
    assert len(read.files) == 1
    assert not read.is_time_travel


@pytest.mark.parametrize(
    ("where", "predicate"),
    [
        ("p IN (1, 2)", "p IN (1, 2)"),
        ("5 > id OR name IS NULL", "(id < 5 OR name IS NULL)"),
        ("NOT (p <=> 2)", "NOT p <=> 2"),
        ("ts >= timestamp'2024-01-01 00:00:00+00:00'", "(NOT ts IS NULL AND ts >= 1704067200000000)"),
        ("d < 2.25", "(NOT d IS NULL AND d < 2.25)"),
        ("st.x = 1", "(NOT st.x IS NULL AND st.x = 1)"),
        ("id % 2 = 1", "NOT id IS NULL"),
        ("rand() >= 0", "None"),
    ],
)
def test_filters_of_every_kind(reads: Reads, where: str, predicate: str) -> None:
    """Some are made simpler, or more, by Spark; what is not understood leaves the rest."""
    (text,) = reads.predicates("SELECT * FROM {a} WHERE " + where)["a"]
    # A struct's own null check has no statistics, and may be there or not.
    assert text.replace("NOT st IS NULL AND ", "") == predicate


def test_subqueries_and_joins_are_reads_of_their_tables(reads: Reads) -> None:
    tables_read = reads.predicates(
        "SELECT 1 FROM {a} WHERE id IN (SELECT id FROM {b} WHERE qty > 15) AND p <> (SELECT max(qty) FROM {b} WHERE id "
        "= 1)"
    )
    assert tables_read == {
        "a": ["(NOT ? AND NOT p IS NULL)"],
        "b": ["(NOT id IS NULL AND id = 1)", "(NOT qty IS NULL AND qty > 15)"],
    }
    pruned = reads.predicates("SELECT a.id FROM {a} a JOIN {b} b ON a.p = b.id WHERE b.qty = 10")
    assert pruned == {"a": ["NOT p IS NULL"], "b": ["(NOT id IS NULL AND NOT qty IS NULL AND qty = 10)"]}


def test_what_delta_answers_from_statistics_reads_the_whole_table(reads: Reads) -> None:
    assert reads.predicates("SELECT count(*) FROM {a}") == {"a": ["None"]}
    both = reads.predicates("WITH c AS (SELECT * FROM {b}) SELECT (SELECT count(*) FROM c), id FROM c WHERE id = 1")
    assert "None" in both["b"], "one use of the table has a scan, the other has none"


def test_a_blind_insert_reads_nothing(reads: Reads) -> None:
    assert reads.of("INSERT INTO {c} VALUES (7, 7)") == {}


def test_an_insert_reads_its_source(reads: Reads) -> None:
    assert reads.predicates("INSERT INTO {c} SELECT id, p FROM {a} WHERE p = 2") == {"a": ["(NOT p IS NULL AND p = 2)"]}
    assert reads.predicates("INSERT INTO {c} SELECT id + 100, qty FROM {c} WHERE qty = 3") == {
        "c": ["(NOT qty IS NULL AND qty = 3)"]
    }


def test_an_overwrite_reads_what_it_replaces(reads: Reads) -> None:
    assert reads.predicates("INSERT OVERWRITE {c} SELECT id, p FROM {a} WHERE p = 1") == {
        "a": ["(NOT p IS NULL AND p = 1)"],
        "c": ["None"],
    }
    assert reads.predicates("INSERT INTO {c} REPLACE WHERE qty = 3 SELECT 1 AS id, 3 AS qty") == {"c": ["qty = 3"]}


def test_update_and_delete_read_by_their_condition(reads: Reads) -> None:
    (update,) = reads.of("UPDATE {c} SET qty = qty + 1 WHERE id = 1")["c"]
    assert str(update.predicate) == "id = 1"
    assert reads.predicates("UPDATE {c} SET qty = qty + 1") == {"c": ["None"]}
    assert reads.predicates("DELETE FROM {c} WHERE id = 5 AND qty % 2 = 1") == {"c": ["id = 5"]}


def test_a_delete_that_finds_nothing_and_commits_nothing_is_a_read(reads: Reads) -> None:
    assert reads.predicates("DELETE FROM {c} WHERE id = 999") == {"c": ["id = 999"]}
    assert reads.predicates("DELETE FROM {a} WHERE p = 77") == {"a": ["p = 77"]}


def test_merge_reads_its_source_and_the_rows_that_may_match(reads: Reads) -> None:
    merge = "MERGE INTO {c} t USING (SELECT id, p FROM {a} WHERE p = 3) s ON t.id = s.id AND t.qty > 5 "
    update = "WHEN MATCHED THEN UPDATE SET qty = p WHEN NOT MATCHED THEN INSERT (id, qty) VALUES (s.id, s.p)"
    assert reads.predicates(merge + update) == {"a": ["(NOT p IS NULL AND p = 3)"], "c": ["qty > 5"]}
    by_source = reads.of(merge + "WHEN NOT MATCHED BY SOURCE THEN DELETE")["c"]
    assert [read.predicate for read in by_source] == [None]


def test_a_merge_whose_source_is_materialised_reads_it_whole_at_least(reads: Reads) -> None:
    source = "(SELECT id, p, rand() AS r FROM {b} JOIN {a} USING (id))"
    tables_read = reads.of(
        "MERGE INTO {c} t USING " + source + " s ON t.id = s.id WHEN MATCHED THEN UPDATE SET qty = 1"
    )
    assert set(tables_read) == {"a", "b", "c"}


def test_a_new_table_made_from_a_query_reads_it(reads: Reads, spark: Any, name: str) -> None:
    assert reads.predicates(f"CREATE TABLE lake.{name} AS SELECT * FROM {{a}} WHERE p > 1") == {
        "a": ["(NOT p IS NULL AND p > 1)"]
    }
    spark.sql(f"DROP TABLE lake.{name}")


def test_views_are_reads_of_their_tables(reads: Reads, spark: Any) -> None:
    spark.sql(reads.sql("CREATE OR REPLACE TEMPORARY VIEW reads_view AS SELECT id AS key, p FROM {a} WHERE p = 1"))
    assert reads.predicates("SELECT key FROM reads_view WHERE key = 4") == {
        "a": ["(NOT id IS NULL AND NOT p IS NULL AND id = 4 AND p = 1)"]
    }


def test_time_travel_is_distinguished(reads: Reads) -> None:
    (read,) = reads.of("SELECT * FROM {a} VERSION AS OF 1 WHERE p = 1")["a"]
    assert (read.version, read.is_time_travel) == (1, True)


def test_dataframes_that_were_planned_or_cached_before_count_with_their_version(reads: Reads, spark: Any) -> None:
    frame = spark.sql(reads.sql("SELECT * FROM {b} WHERE qty = 20"))
    assert len(frame.collect()) == 1
    expected = "(NOT qty IS NULL AND qty = 20)"
    assert reads.predicates(frame.collect) == {"b": [expected]}
    frame.cache().count()
    try:
        assert reads.predicates(frame.collect) == {"b": [expected]}
        assert reads.predicates(frame.where("id = 2").collect) == {"b": [expected]}
    finally:
        frame.unpersist()


@pytest.mark.parametrize("how", ["toLocalIterator", "toPandas", "isEmpty"])
def test_every_way_to_fetch_rows_is_seen(reads: Reads, spark: Any, how: str) -> None:
    frame = spark.sql(reads.sql("SELECT * FROM {b} WHERE qty = 20"))
    assert reads.predicates(getattr(frame, how))["b"] == ["(NOT qty IS NULL AND qty = 20)"]


def test_an_rdd_outside_of_a_query_makes_every_table_read_whole(reads: Reads, spark: Any) -> None:
    def fetch() -> None:
        spark.sql(reads.sql("SELECT * FROM {b} WHERE qty = 20")).rdd.collect()

    tables_read = reads.of(fetch)
    assert {name: [read.predicate for read in r] for name, r in tables_read.items()} == {n: [None] for n in "abc"}
    assert "an RDD was read" in tables_read["b"][0].why


def test_a_query_that_failed_is_a_read(reads: Reads, spark: Any) -> None:
    def fail() -> None:
        with pytest.raises(Exception, match="stop here"):
            spark.sql(reads.sql("SELECT raise_error('stop here') FROM {b} WHERE qty = 20")).collect()

    assert reads.predicates(fail) == {"b": ["(NOT qty IS NULL AND qty = 20)"]}


def test_looking_at_a_definition_is_no_read(reads: Reads) -> None:
    assert reads.of("DESCRIBE HISTORY {a}") == {}
    assert reads.of("DESCRIBE TABLE {a}") == {}


def test_other_threads_are_not_collected_unless_they_join(reads: Reads, lake: Any, spark: Any) -> None:
    text = reads.sql("SELECT * FROM {b} WHERE qty = 20")
    with Collector(lake.jvm, spark) as collector:
        outside = threading.Thread(target=lambda: spark.sql(text).collect())
        outside.start()
        outside.join()
        assert collector.reads({}) == []

        def inside() -> None:
            collector.join_thread()
            spark.sql(text).collect()
            collector.leave_thread()

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        assert len(collector.reads({})) == 1


def test_two_collectors_see_only_their_own(reads: Reads, lake: Any, spark: Any) -> None:
    with Collector(lake.jvm, spark) as outer:
        spark.sql(reads.sql("SELECT * FROM {a} WHERE p = 1")).collect()
        outer.leave_thread()
        with Collector(lake.jvm, spark) as inner:
            spark.sql(reads.sql("SELECT * FROM {b} WHERE qty = 1")).collect()
            assert [str(r.predicate) for r in inner.reads({})] == ["(NOT qty IS NULL AND qty = 1)"]
        outer.join_thread()
        assert [str(r.predicate) for r in outer.reads({})] == ["(NOT p IS NULL AND p = 1)"]


def test_without_its_tag_nothing_is_sure_and_everything_read_whole(reads: Reads, lake: Any, spark: Any) -> None:
    with Collector(lake.jvm, spark) as collector:
        spark.sparkContext._jsc.sc().clearJobTags()
        (read,) = collector.reads({"file:/t": 3})
        assert (read.table, read.version, read.predicate) == ("file:/t", 3, None)
        assert "clearJobTags" in read.why


def test_a_plan_that_is_not_understood_makes_every_table_read_whole(reads: Reads, spark: Any, name: str) -> None:
    spark.sql(f"CREATE TABLE lake.{name} (id BIGINT) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql(f"INSERT INTO lake.{name} VALUES (1)")
    tables_read = reads.of(f"SELECT * FROM table_changes('lake.{name}', 1)")
    assert {n: [read.predicate for read in tables_read[n]] for n in "abc"} == {n: [None] for n in "abc"}
    assert "a read of" in tables_read["a"][0].why
    spark.sql(f"DROP TABLE lake.{name}")


def test_a_collector_that_is_not_open_says_so(lake: Any, spark: Any) -> None:
    collector = Collector(lake.jvm, spark)
    with pytest.raises(RuntimeError, match="not open"):
        collector.reads({})
    collector.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        ("SELECT * FROM {t} WHERE p = 1", "INSERT INTO {t} VALUES (9, 'n', timestamp'2024-01-01', 1.5, 2)", False),
        ("SELECT * FROM {t} WHERE p = 1", "INSERT INTO {t} VALUES (9, 'n', timestamp'2024-01-01', 1.5, 1)", True),
        ("SELECT * FROM {t} WHERE id < 5", "INSERT INTO {t} VALUES (9, 'n', timestamp'2024-01-01', 1.5, 1)", False),
        ("SELECT * FROM {t} WHERE id < 5", "INSERT INTO {t} VALUES (4, 'n', timestamp'2024-01-01', 1.5, 1)", True),
        ("SELECT * FROM {t} WHERE name LIKE 'x%'", "INSERT INTO {t} VALUES (9, repeat('y', 50), null, 1.5, 1)", False),
        ("SELECT * FROM {t} WHERE name > 'yz'", "INSERT INTO {t} VALUES (9, repeat('z', 50), null, 1.5, 1)", True),
        ("SELECT * FROM {t} WHERE ts IS NOT NULL", "INSERT INTO {t} VALUES (9, 'n', null, 1.5, 1)", False),
        ("SELECT * FROM {t} WHERE ts > timestamp'2024-01-01 00:00:00.0004'",
         "INSERT INTO {t} VALUES (9, 'n', timestamp'2024-01-01 00:00:00.0008', 1.5, 1)", True),
        ("SELECT * FROM {t} WHERE ts > timestamp'2024-01-02'",
         "INSERT INTO {t} VALUES (9, 'n', timestamp'2024-01-01', 1.5, 1)", False),
        ("SELECT * FROM {t} WHERE d >= 2.5", "INSERT INTO {t} VALUES (9, 'n', null, 2.49, 1)", False),
        ("SELECT * FROM {t} WHERE d >= 2.5", "INSERT INTO {t} VALUES (9, 'n', null, 2.50, 1)", True),
        ("SELECT * FROM {t} WHERE p = 1", "DELETE FROM {t} WHERE p = 2", False),
        ("SELECT * FROM {t} WHERE p = 1", "UPDATE {t} SET id = 100 WHERE id = 1", True),
        ("SELECT * FROM {t} WHERE id = 2", "UPDATE {t} SET id = 100 WHERE id = 1", False),
        ("DELETE FROM {t} WHERE id = 77", "INSERT INTO {t} VALUES (77, 'n', null, 1.5, 1)", True),
        ("DELETE FROM {t} WHERE id = 77", "INSERT INTO {t} VALUES (78, 'n', null, 1.5, 1)", False),
    ],
)  # fmt: skip
def test_a_read_is_judged_against_what_delta_really_commits(
    lake: Any, spark: Any, name: str, case: tuple[str, str, bool]
) -> None:
    query, statement, conflicts = case
    table = f"lake.{name}"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING, ts TIMESTAMP, d DECIMAL(10, 2), p INT) USING delta PARTITIONED "
        f"BY (p)"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, 'x', timestamp'2024-01-01', 2.5, 1), (2, 'y', null, null, 2)")
    with Collector(lake.jvm, spark) as collector:
        spark.sql(query.format(t=table)).collect()
        reads = collector.reads({})
    before = lake.table(name).head().latest
    spark.sql(statement.format(t=table))
    lake.table(name).publish()
    head = lake.table(name).head()
    log = Path(head.location.removeprefix("file://").removeprefix("file:")) / "_delta_log"
    winners = [Winner.parse(v, (log / f"{v:020d}.json").read_text()) for v in range(before + 1, head.latest + 1)]
    assert winners
    first = Winner.parse(0, (log / f"{0:020d}.json").read_text())
    schema = TableSchema.of(next(a["metaData"] for a in first.actions if "metaData" in a))
    own: list[Any] = []
    assessment = assess(reads, own, winners, "serializable", schema=schema, base=before)
    assert assessment.is_rebase != conflicts, [str(c) for c in assessment.conflicts]
    assert assess(reads, own, winners, "snapshot", schema=schema, base=before).is_rebase
