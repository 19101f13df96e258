"""Checkpoints that are written without Spark are read by Delta Spark and DuckDB, and have the
content of Delta's own (I15)."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from tests.support.clients.duck import extension
from tests.support.fakes.storage import FakeIds
from turnstile.adapters.files import FileStorage
from turnstile.delta.log.files import list_log
from turnstile.maintenance.checkpoint import CheckpointWriter, write_checksum, write_pointer
from turnstile.maintenance.compaction import write_compaction
from turnstile.maintenance.core.upkeep import upkeep_of
from turnstile.maintenance.state import TableState, open_state

COLUMNS = "id BIGINT, p STRING, t TIMESTAMP, n TIMESTAMP_NTZ, d DECIMAL(20, 4), f DOUBLE, s STRUCT<a: INT, b: DATE>"
BOTH = "'delta.checkpoint.writeStatsAsStruct' = 'true'"
#: kind -> columns beside, how it is made
KINDS = {
    "plain": "",
    "structs": f"TBLPROPERTIES ({BOTH})",
    "structs only": f"TBLPROPERTIES ({BOTH}, 'delta.checkpoint.writeStatsAsJson' = 'false')",
    "partitions": f"PARTITIONED BY (p) TBLPROPERTIES ({BOTH})",
    "partitions by times": f"PARTITIONED BY (t, d) TBLPROPERTIES ({BOTH})",
    "deletion vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "column mapping": f"PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', {BOTH})",
    "row tracking": "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "clustering": "CLUSTER BY (id)",
    "v2": "TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
    "all of it": "PARTITIONED BY (p) TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.enableDeletionVectors' = "
    "'true', "
    f"'delta.columnMapping.mode' = 'id', 'delta.enableRowTracking' = 'true', 'delta.enableInCommitTimestamps' = "
    f"'true', {BOTH})",
}
MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z?")
USUAL = ("all of it",)
"""Those that every run has."""
ODD = ("a b", "ä%20/=:#?", "'x'\"y\\", "NULL", "2026-01-01", "日本")


def fill(sql: Any, table: str) -> None:
    """Commits of several kinds, six at least, none of them a multiple of the checkpoint
    interval."""
    selects = [
        f"SELECT id + {number * 100}, {_text(text)}, timestamp'2026-01-0{number + 1} 01:02:03.456789', "
        f"timestamp_ntz'1969-12-31 23:59:5{number}', {number}.25, {number} / 3, "
        f"named_struct('a', {number}, 'b', date'2026-02-0{number + 1}') FROM range(0, 10, 1, 1)"
        for number, text in enumerate(ODD)
    ]
    for at in range(0, len(selects), 2):
        sql(f"INSERT INTO {table} {' UNION ALL '.join(selects[at : at + 2])}")
    sql(f"INSERT INTO {table} SELECT id + 900, null, null, null, null, double('NaN'), null FROM range(0, 5, 1, 1)")
    sql(f"DELETE FROM {table} WHERE id IN (3, 205, 901)")
    sql(f"UPDATE {table} SET f = 0.5 WHERE id = 301")


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def shown(state: TableState) -> list[dict[str, Any]]:
    """The files of a state in an order, statistics as values; how a number is written does not
    count."""
    files = []
    for add in state.files():
        plain = msgspec.to_builtins(add)
        plain.pop("dataChange")
        plain["tags"] = plain["tags"] or None
        plain["stats"] = values(json.loads(plain["stats"])) if plain["stats"] else None
        files.append(plain)
    return sorted(files, key=lambda add: (add["path"], json.dumps(add["deletionVector"])))


def values(stats: dict[str, Any]) -> dict[str, Any]:
    """Statistics without members that are null or empty, and without NaN, which JSON has not."""
    kept = {}
    for name, value in stats.items():
        plain = values(value) if isinstance(value, dict) else value
        if plain not in (None, {}, "NaN"):
            moment = isinstance(plain, str) and MOMENT.fullmatch(plain)
            kept[name] = moment[1] + (moment[2] or "").rstrip("0").rstrip(".") if moment else plain
    return kept


@pytest.fixture(
    scope="module", params=[kind if kind in USUAL else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def table(request: pytest.FixtureRequest, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of one kind in plain Delta, without checkpoints; tests copy it."""
    path = tmp_path_factory.mktemp("light") / "t"
    name = f"delta.`{path}`"
    how = KINDS[request.param]
    interval = "'delta.checkpointInterval' = '1000'"
    how = how[:-1] + f", {interval})" if "TBLPROPERTIES" in how else f"{how} TBLPROPERTIES ({interval})"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING delta {how}")
    fill(spark.sql, name)
    return path


def rows(spark: Any, path: Path) -> list[str]:
    return sorted(str(tuple(row)) for row in spark.sql(f"SELECT * FROM delta.`{path}`").collect())


def in_duckdb(path: Path) -> tuple[Any, ...]:
    with duckdb.connect() as db:
        db.execute(f"LOAD '{extension('delta')}'")
        one = db.execute(
            f"SELECT count(*), sum(id), count(DISTINCT p), sum(d), max(t) FROM delta_scan('{path}')"
        ).fetchone()
        assert one is not None
        return one


def without(path: Path, target: Path, *patterns: str) -> Path:
    """A copy of a table without some files of its log: a reader has nothing of it in a cache."""
    shutil.copytree(path, target)
    for pattern in patterns:
        for file in (target / "_delta_log").glob(pattern):
            file.unlink(missing_ok=True)
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    return target


def checkpointed(path: Path, *, checksum: bool = True) -> int:
    """Writes the checkpoint of the latest version, and its side files; returns the version."""
    storage = FileStorage(str(path))
    version = max(list_log(storage).commits)
    state = open_state(storage, version)
    assert state.start == -1
    upkeep = upkeep_of(state.protocol, state.metadata)
    now = time.time_ns() // 1_000_000
    writer = CheckpointWriter(storage, state, upkeep, FakeIds())
    written = writer.write(now)
    assert written is not None
    assert write_pointer(storage, written)
    if checksum:
        assert write_checksum(storage, state, writer.totals, upkeep, now)
    return version


def test_i15_delta_spark_and_duckdb_read_it_without_the_commits_before_it(
    table: Path, spark: Any, tmp_path: Path
) -> None:
    before = rows(spark, table)
    seen_before = in_duckdb(table)
    bare = without(table, tmp_path / "bare", "*.crc")
    expected = shown(open_state(FileStorage(str(bare)), max(list_log(FileStorage(str(bare))).commits)))
    version = checkpointed(bare)
    for old in range(version):
        (bare / "_delta_log" / f"{old:020d}.json").unlink()
        (bare / "_delta_log" / f".{old:020d}.json.crc").unlink(missing_ok=True)
    state = open_state(FileStorage(str(bare)), version)
    assert state.start == version
    assert shown(state) == [{**add, "stats": values(add["stats"])} for add in expected]
    assert rows(spark, bare) == before
    assert in_duckdb(bare) == seen_before
    found = spark.sql(
        f"SELECT count(*) FROM delta.`{bare}` WHERE id >= 900 OR p = 'a b' AND t > timestamp'2025-01-01'"
    ).collect()
    assert found[0][0] == 4 + 9
    spark.sql(f"INSERT INTO delta.`{bare}` (id, p) VALUES (5000, 'later')")
    spark.sql(f"DELETE FROM delta.`{bare}` WHERE id = 0")
    assert len(rows(spark, bare)) == len(before)


def test_i15_it_says_what_deltas_own_checkpoint_says(table: Path, spark: Any, tmp_path: Path) -> None:
    ours = without(table, tmp_path / "ours", "*.crc")
    version = checkpointed(ours)
    own = without(table, tmp_path / "own")
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(own))
    log.checkpoint(log.unsafeVolatileSnapshot(), spark._jvm.scala.Option.empty())
    states = []
    for path in (ours, own):
        for old in range(version):
            (path / "_delta_log" / f"{old:020d}.json").unlink()
        states.append(open_state(FileStorage(str(path)), version))
    first, second = states
    assert first.start == second.start == version
    assert shown(first) == shown(second)
    assert (first.protocol, first.metadata, first.domains) == (second.protocol, second.metadata, second.domains)
    assert removed(first) == removed(second)
    checksums = [json.loads((path / "_delta_log" / f"{version:020d}.crc").read_text()) for path in (ours, own)]
    for name in checksums[0].keys() & checksums[1].keys():
        assert comparable(checksums[0][name]) == comparable(checksums[1][name]), name
    required = {"tableSizeBytes", "numFiles", "numMetadata", "numProtocol", "metadata", "protocol"}
    assert required <= checksums[0].keys() & checksums[1].keys()
    assert checksums[1].keys() - checksums[0].keys() <= LEFT_OUT
    more = checksums[0].keys() - checksums[1].keys()
    assert more <= COUNTS and not any(checksums[0][name] for name in more), "Delta leaves out what a table cannot have"


LEFT_OUT = {"histogramOpt", "fileSizeHistogram", "deletedRecordCountsHistogramOpt", "allFiles"}
"""Members of a version checksum that Delta writes, that are optional in the protocol, and that
light work does not write."""
COUNTS = {"numDeletedRecordsOpt", "numDeletionVectorsOpt"}


def comparable(member: Any) -> Any:
    """A member of a checksum, where lists are sets."""
    return sorted(member, key=str) if isinstance(member, list) else member


def removed(state: TableState) -> set[str]:
    """Paths of tombstones."""
    paths: set[str] = set()
    for chunk in state.chunks():
        if chunk.removes is not None:
            listed_removes: Any = chunk.removes
            named = (
                listed_removes.field("path").to_pylist()
                if hasattr(listed_removes, "field")
                else [r.path for r in listed_removes]
            )
            paths |= set(named)
    return paths


def test_i15_delta_spark_reads_log_compaction_files(table: Path, spark: Any, tmp_path: Path) -> None:
    """It takes one that stands for several commits instead of them."""
    before = rows(spark, table)
    bare = without(table, tmp_path / "compacted", "*.crc")
    storage = FileStorage(str(bare))
    latest = max(list_log(storage).commits)
    assert write_compaction(storage, 2, latest)
    assert rows(spark, bare) == before
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(bare))
    deltas = log.unsafeVolatileSnapshot().logSegment().deltas()
    names = [deltas.apply(index).getPath().getName() for index in range(deltas.size())]
    assert f"{2:020d}.{latest:020d}.compacted.json" in names
    assert in_duckdb(bare)[0] == len(before)
