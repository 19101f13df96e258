"""Files of a table are rewritten: the rows and their ids stay, other writers win, and a run that
ends early is continued."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from delta.exceptions import ConcurrentAppendException, ConcurrentDeleteReadException

from tests.support.repository import snippets
from tests.support.rewritten_tables import KINDS, USUAL, count_files, fill
from turnstile_spark import TransactionConflict, TurnstileError
from turnstile_spark.maintenance import Progress, Rewrite, main

SMALL = 10_000_000


def rows(sql: Any, table: str) -> list[Any]:
    return sql.values(f"SELECT * FROM {table}")  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "kind", [kind if kind in USUAL else pytest.param(kind, marks=pytest.mark.slow, id=kind) for kind in KINDS]
)
def test_rows_and_definition_stay_and_there_are_fewer_files(lake: Any, sql: Any, name: str, kind: str) -> None:
    table = f"lake.{name}"
    parts = KINDS[kind].split(" TBLPROPERTIES ")
    sql(f"CREATE TABLE {table} {' TBLPROPERTIES '.join(parts)}")
    if kind == "not null":
        sql(f"ALTER TABLE {table} ADD CONSTRAINT small CHECK (id < 10000)")
    fill(sql, table)
    if kind != "append only":
        sql(f"DELETE FROM {table} WHERE id % 10 = 3")
    definition = [tuple(r) for r in sql(f"DESCRIBE {table}")], sql(f"SHOW TBLPROPERTIES {table}")
    before = rows(sql, table)
    files = count_files(sql, table)
    tracked = f"SELECT id, _metadata.row_id, _metadata.row_commit_version FROM {table}"
    ids = sql.values(tracked) if kind == "row tracking" else []
    result = lake.table(name).optimize(target_bytes=SMALL)
    assert rows(sql, table) == before
    assert count_files(sql, table) < files
    assert (result.files_before, result.files_after) == (files, count_files(sql, table))
    assert result.left_files == 0
    assert result.versions == list(range(result.base_version + 1, result.latest_version + 1))
    assert lake.table(name).head().latest == result.latest_version
    if kind != "clustering":  # its bins are chosen again by Delta's own rules
        assert lake.table(name).optimize(target_bytes=SMALL).versions == []
    if ids:
        assert sql.values(tracked) == ids
        assert lake.table(name).reorg().versions == []
        sql(f"INSERT INTO {table} VALUES (7777, 1)")
        assert len({row_id for _, row_id, _ in sql.values(tracked)}) == len(before) + 1
    if kind == "change data feed":
        assert sql(f"SELECT * FROM table_changes('{table}', {result.base_version + 1})") == []
    if kind == "not null":
        with pytest.raises(Exception, match="CHECK"):
            sql(f"INSERT INTO {table} VALUES (99999, 1)")
    assert definition == ([tuple(r) for r in sql(f"DESCRIBE {table}")], sql(f"SHOW TBLPROPERTIES {table}"))


@pytest.mark.slow
def test_a_purge_leaves_no_deletion_vector(lake: Any, sql: Any, name: str) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, k INT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    fill(sql, table)
    sql(f"DELETE FROM {table} WHERE id IN (3, 105)")
    before = rows(sql, table)
    result = lake.table(name).reorg(target_bytes=SMALL)
    assert rows(sql, table) == before
    assert result.rewritten_files == 2
    assert result.skipped_files == 2
    assert lake.table(name).history(1)[0].operation == "REORG"
    assert lake.table(name).reorg().versions == []


def test_where_and_z_order(lake: Any, sql: Any, name: str) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, k INT) PARTITIONED BY (k)")
    fill(sql, table)
    before = rows(sql, table)
    result = lake.table(name).optimize(where="k = 1", z_order_by=["id"])
    assert (result.files_before, result.files_after, result.rewritten_files) == (2, 1, 2)
    assert rows(sql, table) == before
    assert count_files(sql, table) == 3
    for wrong in ({"z_order_by": ["k"]}, {"target_bytes": 0}, {"attempts": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            lake.table(name).optimize(**wrong)
    with pytest.raises(TypeError, match="z_order_by"):
        lake.table(name).optimize(z_order_by="id")
    with pytest.raises(Exception, match="id"):
        lake.table(name).optimize(where="id = 1")
    with pytest.raises(ValueError, match="purge"):
        lake.table(name).reorg(purge=False)
    assert lake.table(name).head().latest == result.latest_version
    sql(f"INSERT INTO {table} VALUES (1, 5), (2, 6)")
    fill(sql, table)
    before = rows(sql, table)
    result = lake.table(name).optimize(where="k = 0 OR k = 1")
    assert (len(result.versions), result.rewritten_files, result.lost_bins) == (2, 7, 0), "a bin for each partition"
    assert rows(sql, table) == before


def test_an_unexamined_feature_is_refused_by_name(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT) TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    with pytest.raises(TurnstileError, match="typeWidening"):
        lake.table(name).optimize()


def test_inside_of_a_transaction_it_is_refused(lake: Any, sql: Any, name: str) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT)")
    with lake.transaction(), pytest.raises(TurnstileError, match="inside of a transaction"):
        lake.table(name).optimize()


def partitioned(sql: Any, table: str) -> list[Any]:
    sql(
        f"CREATE TABLE {table} (id BIGINT, k INT) PARTITIONED BY (k) TBLPROPERTIES ('delta.enableDeletionVectors' = "
        f"'true')"
    )
    fill(sql, table)
    return rows(sql, table)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["planned", "rewritten", "committed"])
def test_a_run_that_is_killed_at_a_step_is_gone_on_with(lake: Any, sql: Any, name: str, step: str) -> None:
    """I1: committed rows stay, and no others appear."""
    table = f"lake.{name}"
    before = partitioned(sql, table)

    def killed(progress: Progress) -> None:
        if progress.step == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.table(name).optimize(progress=killed)
    assert rows(sql, table) == before
    done = 1 if step == "committed" else 0
    assert count_files(sql, table) == 4 - done
    result = lake.table(name).optimize()
    assert len(result.versions) == 2 - done
    assert (rows(sql, table), count_files(sql, table)) == (before, 2)


class Once:
    """A progress that runs something at the first bin that is rewritten and not yet committed."""

    def __init__(self, do: Any) -> None:
        # type: ignore[var-annotated]
        self._do = do
        self.steps = []

    def __call__(self, progress: Progress) -> None:
        self.steps.append(progress.step)
        if progress.step == "rewritten" and self.steps.count("rewritten") == 1:
            self._do()


@pytest.mark.parametrize(
    ("statement", "most_lost"),
    [
        pytest.param("INSERT INTO {} VALUES (5000, 0), (5001, 1)", 0, marks=pytest.mark.slow),
        pytest.param("DELETE FROM {} WHERE id = 3", 1, marks=pytest.mark.slow),
        pytest.param("UPDATE {} SET id = 6000 WHERE id = 105", 1, marks=pytest.mark.slow),
        pytest.param("DELETE FROM {} WHERE id < 50", 1, marks=pytest.mark.slow),
    ],
)
def test_a_commit_that_came_between_stays_and_only_its_files_are_planned_anew(
    lake: Any, sql: Any, *, name: str, statement: str, most_lost: int
) -> None:
    """I1, I2: no row comes back, none is lost. (Which of two bins comes first is Delta's
    choice.)"""
    table = f"lake.{name}"
    model = f"lake.{name}_model"
    partitioned(sql, table)
    sql(f"CREATE TABLE {model} AS SELECT * FROM {table}")
    sql(statement.format(model))
    once = Once(lambda: sql(statement.format(table)))
    result = lake.table(name).optimize(progress=once)
    assert rows(sql, table) == rows(sql, model)
    assert result.left_files == 0
    assert once.steps.count("lost") == result.lost_bins <= most_lost
    assert len(result.versions) >= 1


def test_files_that_are_changed_every_time_are_left_and_said_so(lake: Any, sql: Any, name: str) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, k INT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    fill(sql, table)
    deleted = iter(range(20))

    def delete(progress: Progress) -> None:
        if progress.step == "rewritten":
            sql(f"DELETE FROM {table} WHERE id = {next(deleted)}")

    result = lake.table(name).optimize(attempts=2, progress=delete)
    assert (result.versions, result.lost_bins, result.left_files) == ([], 2, 4)
    assert sql(f"SELECT count(*) AS n FROM {table}")[0].n == 78


@pytest.mark.slow
def test_appends_meanwhile_never_fail_and_none_is_lost(lake: Any, sql: Any, spark: Any, name: str) -> None:
    """I1, I2."""
    table = f"lake.{name}"
    partitioned(sql, table)
    written: list[int] = []
    failures: list[BaseException] = []
    stop = threading.Event()

    def append() -> None:
        session = spark.newSession()
        try:
            while not stop.is_set():
                n = 10_000 + len(written)
                session.sql(f"INSERT INTO {table} VALUES ({n}, {n % 2})")
                written.append(n)
        except BaseException as e:
            failures.append(e)

    writer = threading.Thread(target=append)
    writer.start()
    results: list[Rewrite] = []
    try:
        while len(results) < 3:
            results.append(lake.table(name).optimize())
    finally:
        stop.set()
        writer.join()
    assert not failures
    assert [r.lost_bins for r in results] == [0, 0, 0]
    expected = sorted([id + k * 100 for k in range(4) for id in range(20)] + written)
    assert sql.ids(table) == expected


@pytest.mark.slow  # the conflict check is Delta's own
def test_a_delete_that_read_what_was_rewritten_meanwhile_gets_deltas_conflict_and_runs_again(
    lake: Any, shaky: Any, flaky: Any, *, sql: Any, name: str
) -> None:
    """A case that does not work: Delta's own conflict checker fails the statement, and it has to be
    run again."""
    before = partitioned(sql, f"lake.{name}")
    flaky.first("POST /v1/tables", lambda: lake.table(name).optimize())
    with pytest.raises((ConcurrentAppendException, ConcurrentDeleteReadException)):
        sql(f"DELETE FROM shaky.{name} WHERE id = 3")
    assert rows(sql, f"lake.{name}") == before
    sql(f"DELETE FROM shaky.{name} WHERE id = 3")
    assert rows(sql, f"lake.{name}") == [row for row in before if row[0] != 3]


@pytest.mark.slow  # the conflict is the one of a statement, above
def test_a_transaction_that_changed_what_was_rewritten_meanwhile_runs_again_by_retry(
    lake: Any, sql: Any, name: str
) -> None:
    before = partitioned(sql, f"lake.{name}")
    runs: list[int] = []

    def delete(txn: Any) -> None:
        sql(f"DELETE FROM lake.{name} WHERE id = 3")
        runs.append(1)
        if len(runs) == 1:
            other = threading.Thread(target=lambda: lake.table(name).optimize())
            other.start()
            other.join()

    lake.retry(delete)
    assert len(runs) == 2
    assert rows(sql, f"lake.{name}") == [row for row in before if row[0] != 3]
    assert issubclass(TransactionConflict, Exception)


@pytest.mark.slow
def test_a_thread_without_a_session_of_its_own_may_rewrite(lake: Any, sql: Any, spark: Any, name: str) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, k INT) TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    for _ in range(3):
        fill(sql, table, 2)
    lake.table(name).publish()
    sql(f"INSERT INTO {table} VALUES (7777, 1)")
    log = Path(sql(f"DESCRIBE DETAIL {table}")[0].location.removeprefix("file:")) / "_delta_log"
    assert list(log.glob("*.checkpoint*.parquet")), "a checkpoint is what Delta reads with the thread's session"
    before = rows(sql, table)
    outcomes = list[Any]()

    def forget_session() -> None:
        spark._jvm.org.apache.spark.sql.SparkSession.clearActiveSession()

    def work() -> None:
        try:
            forget_session()
            rewritten = lake.table(name).optimize(target_bytes=SMALL, progress=lambda _: forget_session())
            forget_session()
            outcomes.extend((len(rewritten.versions), lake.table(name).reorg().versions))
        except Exception as error:
            outcomes.append(error)

    # the snapshot is this thread's, and its checkpoint is not read yet
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    lake.table(name).head()
    spark._jvm.io.delta.tables.DeltaTable.forName(spark._jsparkSession, table).toDF().schema()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert outcomes == [1, []]
    assert rows(sql, table) == before


def test_the_command_rewrites_and_says_what_it_did(
    lake: Any, file_server: Any, sql: Any, *, name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT, k INT)")
    fill(sql, f"lake.{name}")
    if file_server.token:
        monkeypatch.setenv("TURNSTILE_TOKEN", file_server.token)
    assert main(["optimize", name, "--uri", file_server.url]) == 0
    out = capsys.readouterr()
    assert "rewritten_files=4" in out.out
    assert "committed: 1 bins, 4 files" in out.err
    assert main(["optimize", name, "--uri", file_server.url, "--z-order-by", "nothing"]) == 2


@pytest.mark.slow  # as pages about transactions are: what they show is tested above
def test_the_page_does_what_it_says(lake: Any, spark: Any) -> None:
    names = {"spark": spark, "lake": lake}
    blocks = [s for s in snippets() if s.page == "docs/maintenance.md" and s.language == "python"]
    for block in blocks:
        exec(compile(block.code, block.id, "exec"), names)
    assert len(blocks) == 2
