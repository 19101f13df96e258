"""Delta Spark and the judge of commits agree (I2): every commit that Spark writes is accepted, and
Spark reads every accepted one. On path-based tables, with their logs at hand."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes import delta
from turnstile.delta.core.content import Content, _check_paths, check_uses, read_content, rules_of
from turnstile.delta.core.definition import check_definition
from turnstile.delta.core.metadata import DeltaMetadata, apply, first_metadata
from turnstile.delta.core.partition_values import is_value
from turnstile.store.core.errors import InvalidCommit

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ICT = "'delta.enableInCommitTimestamps'='true'"

# -- what Spark writes is accepted ------------------------------------------------------------------------------------


def managed(raw: bytes) -> bytes:
    """A commit of a path-based table as it would be if a catalog managed the table."""
    lines = []
    for line in raw.splitlines():
        action = json.loads(line)
        if "protocol" in action:
            protocol = action["protocol"]
            protocol["readerFeatures"] = [*protocol.get("readerFeatures", []), "catalogManaged"]
            protocol["writerFeatures"] = [*protocol["writerFeatures"], "catalogManaged"]
            protocol["minReaderVersion"] = 3
        lines.append(json.dumps(action) if "protocol" in action else line.decode())
    return ("\n".join(lines) + "\n").encode()


def judged(raw: bytes, version: int, before: DeltaMetadata | None) -> tuple[Content, DeltaMetadata]:
    """The content of a commit and the metadata after it; raises InvalidCommit as ratification
    would."""
    content = read_content(raw, first_version=version == 0)
    after = first_metadata(content) if before is None else apply(before, content, version)
    if content.changes_metadata:
        check_definition(after.protocol, after.metadata)
    check_uses(content.uses, rules_of(after.protocol, after.metadata))
    return content, after


def check_log(table: str) -> int:
    """Judges every version of the log; their number."""
    before = None
    files = sorted(Path(table, "_delta_log").glob("*.json"))
    for version, file in enumerate(files):
        try:
            _, before = judged(managed(file.read_bytes()), version, before)
        except InvalidCommit as error:
            raise AssertionError(f"{file.name}: {error}\n{file.read_text()[:3000]}") from error
    return len(files)


STATEMENTS = {
    "deletion vectors": (
        (
            f"CREATE TABLE {{t}} (id BIGINT, day STRING) USING delta TBLPROPERTIES ({ICT}, "
            f"'delta.enableDeletionVectors'='true')"
        ),
        "INSERT INTO {t} SELECT id, 'a' FROM range(100)",
        "DELETE FROM {t} WHERE id % 7 = 0",
        "UPDATE {t} SET day = 'b' WHERE id = 3",
        (
            "MERGE INTO {t} USING (SELECT 4L AS id, 'm' AS day) s ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        ),
        "OPTIMIZE {t}",
        "REORG TABLE {t} APPLY (PURGE)",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "INSERT OVERWRITE {t} VALUES (1, 'x')",
        "TRUNCATE TABLE {t}",
        "CREATE OR REPLACE TABLE {t} (a INT, b VARCHAR(5)) USING delta",
    ),
    "change data feed, partitions": (
        (
            f"CREATE TABLE {{t}} (id BIGINT, day STRING, at DATE) USING delta PARTITIONED BY (day, at) "
            f"TBLPROPERTIES ({ICT}, 'delta.enableChangeDataFeed'='true')"
        ),
        "INSERT INTO {t} VALUES (1, 'a b/c%', DATE'2020-01-01'), (2, NULL, NULL), (3, 'é', DATE'2021-01-01')",
        "UPDATE {t} SET id = id + 1 WHERE day = 'é'",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} SET TBLPROPERTIES ('mine' = 'x', 'delta.appendOnly' = 'false')",
        "COMMENT ON TABLE {t} IS 'said'",
        "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)",
        "ALTER TABLE {t} ADD COLUMNS (n STRUCT<x: INT, y: ARRAY<MAP<STRING, DECIMAL(38,18)>>> COMMENT 'c')",
    ),
    "row tracking, clustering": (
        (
            f"CREATE TABLE {{t}} (id BIGINT, v INT) USING delta CLUSTER BY (id) "
            f"TBLPROPERTIES ({ICT}, 'delta.enableRowTracking'='true')"
        ),
        "INSERT INTO {t} SELECT id, 1 FROM range(10)",
        "UPDATE {t} SET v = 2 WHERE id = 1",
        "OPTIMIZE {t}",
        "ALTER TABLE {t} CLUSTER BY NONE",
        "DELETE FROM {t}",
    ),
    "column mapping": (
        (
            f"CREATE TABLE {{t}} (id BIGINT, `a b` STRING, n STRUCT<x: INT>, p INT) USING delta PARTITIONED BY (p) "
            f"TBLPROPERTIES ({ICT}, 'delta.columnMapping.mode'='name')"
        ),
        "INSERT INTO {t} VALUES (1, 'a', struct(1), 5)",
        "ALTER TABLE {t} RENAME COLUMN p TO q",
        "ALTER TABLE {t} RENAME COLUMN n.x TO y",
        "ALTER TABLE {t} DROP COLUMN id",
        "INSERT INTO {t} VALUES ('a', struct(1), 6)",
        "DELETE FROM {t} WHERE q = 6",
    ),
    "types": (
        (
            f"CREATE TABLE {{t}} (id BIGINT GENERATED ALWAYS AS IDENTITY, v VARIANT, n TIMESTAMP_NTZ, c CHAR(3), s "
            f"SMALLINT, g INT GENERATED ALWAYS AS (s + 1), b BINARY, d DOUBLE, f FLOAT, t TINYINT, o BOOLEAN) USING "
            f"delta TBLPROPERTIES ({ICT}, 'delta.enableTypeWidening'='true', "
            f"'delta.feature.allowColumnDefaults'='supported')"
        ),
        "INSERT INTO {t} (v, n, c, s) VALUES (parse_json('{{}}'), TIMESTAMP_NTZ'2020-01-01 00:00:00', 'abc', 1)",
        "ALTER TABLE {t} ALTER COLUMN t TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN d SET DEFAULT 1.5",
        "INSERT INTO {t} (c) VALUES ('x')",
        "ALTER TABLE {t} ADD COLUMNS (w ARRAY<VARIANT>, x STRING FIRST)",
    ),
    "features come and go": (
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({ICT}) AS SELECT id, NULL AS nothing FROM range(3)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy'='v2')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking'='true')",
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} DROP FEATURE checkConstraints",
        "VACUUM {t}",
    ),
}
"""Statements that write commits. Statements that Delta refuses write none."""


@pytest.mark.parametrize("what", STATEMENTS)
def test_i2_what_spark_writes_is_accepted(spark: Any, tmp_path: Path, what: str) -> None:
    table = f"{tmp_path}/t"
    refused = []
    for statement in STATEMENTS[what]:
        try:
            spark.sql(statement.format(t=f"delta.`{table}`")).collect()
        except Exception as error:
            refused.append(f"{statement}: {str(error).splitlines()[0][:200]}")
    assert check_log(table) >= len(STATEMENTS[what]) - 3, refused


def test_i2_what_streams_and_schema_evolution_write_is_accepted(spark: Any, tmp_path: Path) -> None:
    source = f"{tmp_path}/s"
    table = f"{tmp_path}/t"
    spark.sql(f"CREATE TABLE delta.`{source}` (id BIGINT) USING delta TBLPROPERTIES ({ICT})")
    spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT) USING delta TBLPROPERTIES ({ICT})")
    spark.range(5).write.format("delta").mode("append").save(source)
    stream = spark.readStream.format("delta").load(source).writeStream.format("delta").trigger(availableNow=True)
    stream.option("checkpointLocation", f"{tmp_path}/c").start(table).awaitTermination()
    more = spark.range(3).selectExpr("id", "named_struct('a', array(id)) AS more")
    more.write.format("delta").mode("append").option("mergeSchema", "true").save(table)
    more.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("id").save(table)
    assert check_log(table) == 4 and check_log(source) == 2


# -- what is accepted Spark reads -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def base(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A partitioned table with deletion vectors, domains and one row."""
    path = tmp_path_factory.mktemp("judged") / "base"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, day STRING) USING delta PARTITIONED BY (day) TBLPROPERTIES ({ICT}, "
        "'delta.enableDeletionVectors'='true', 'delta.feature.domainMetadata'='supported')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'mon')")
    for checksum in Path(path, "_delta_log").glob("*.crc"):
        checksum.unlink()
    return path


def actions(path: Path, version: int) -> Iterator[Any]:
    for line in Path(path, "_delta_log", f"{version:020d}.json").read_text().splitlines():
        yield json.loads(line)


_scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
_values = st.recursive(
    _scalars | st.text("ab /%#:\r\n\u00e9\u2028[]{}\"'\\", max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "day", "a", "type"]), inner, max_size=3)
    ),
    max_leaves=5,
)
_types = st.recursive(
    st.sampled_from([
        "string", "long", "integer", "decimal(10,2)", "decimal(38,38)", "decimal(39,0)", "decimal(3,5)", "void",
        "interval",
        "interval year to month", "char(3)", "quux", "binary", "variant", "timestamp_ntz", "time(6)",
        "string collate UTF8_LCASE",
    ]),
    lambda inner: st.builds(lambda element, null: {"type": "array", "elementType": element, "containsNull": null},
                            inner,
                            st.sampled_from([True, False, None]))
    | st.builds(lambda key, value: {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True},
                inner, inner)
    | st.builds(lambda name, kind: {"type": "struct", "fields": [column(name, kind)]}, st.sampled_from(["a", "A", ""]),
                inner),
    max_leaves=4,
)  # fmt: skip


def column(name: Any, type: Any, metadata: Any = None) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": {} if metadata is None else metadata}


_MEMBERS = {
    "add": ["path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "tags", "deletionVector",
            "more",
            "clusteringProvider"],
    "remove": ["path", "deletionTimestamp", "dataChange", "extendedFileMetadata", "partitionValues", "size", "tags"],
    "txn": ["appId", "version", "lastUpdated"],
    "domainMetadata": ["domain", "configuration", "removed"],
    "commitInfo": ["timestamp", "operation", "operationParameters", "readVersion", "isolationLevel", "isBlindAppend",
                   "operationMetrics", "engineInfo", "tags", "userMetadata", "job", "notebook", "clusterId", "version"],
    "metaData": ["id", "name", "description", "format", "partitionColumns", "createdTime", "more"],
    "new": ["a"],
}  # fmt: skip
_ABSENT = object()


@st.composite
def commits(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, str, Any]], Any, str]:
    """Which actions a commit has, which of their members are changed, more columns, and the white
    space after colons."""
    names = [
        "commitInfo",
        *draw(
            st.lists(st.sampled_from([*[*_MEMBERS][:-1][:4], "metaData", "new"]), min_size=1, max_size=3, unique=True)
        ),
    ]
    changes = []
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(names) - 1))
        member = draw(st.sampled_from(_MEMBERS[names[at]]))
        changes.append((at, member, draw(st.just(_ABSENT) | _values)))
    columns = [column(draw(st.sampled_from(["x", "ID", "y"])), draw(_types), draw(st.none() | _values))
               for _ in range(draw(st.integers(0, 1)))]  # fmt: skip
    return names, changes, columns, draw(st.sampled_from(["", "", "", " ", "\t", "\r", "\r\n", "\n"]))


def content_of(base: Path, drawn: tuple[list[str], list[tuple[int, str, Any]], Any, str]) -> bytes:
    names, changes, columns, space = drawn
    first = list(actions(base, 0))
    second = list(actions(base, 1))
    info = second[0]["commitInfo"]
    add = next(action["add"] for action in second if "add" in action)
    metadata = next(action["metaData"] for action in first if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    schema["fields"] += columns
    usual = {
        "commitInfo": {**info, "inCommitTimestamp": info["inCommitTimestamp"] + 1, "txnId": "drawn"},
        "add": {**add, "path": "day=mon/drawn.parquet"},
        "remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True},
        "txn": {"appId": "a", "version": 1},
        "domainMetadata": {"domain": "d", "configuration": "", "removed": False},
        "metaData": {**metadata, "schemaString": json.dumps(schema)},
        "new": {"a": 1},
    }
    bodies = [dict(usual[name]) for name in names]
    for at, member, value in changes:
        bodies[at].pop(member, None)
        if value is not _ABSENT:
            bodies[at][member] = value
    lines = [json.dumps({name: body}, separators=(",", ":")) for name, body in zip(names, bodies, strict=True)]
    lines[-1] = lines[-1].replace(":", ":" + space, 1)
    return ("\n".join(lines) + "\n").encode()


def check_read(spark: Any, path: Path) -> None:
    """Spark makes a snapshot of the table, plans a scan with it, and tells its history."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.read.format("delta").load(str(path)).where("id > 0").inputFiles()
    spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()


def test_i2_what_is_accepted_spark_reads(spark: Any, base: Path) -> None:
    zero = read_content(managed(Path(base, "_delta_log", f"{0:020d}.json").read_bytes()), first_version=True)
    table = base.parent / "drawn"
    seen = {"accepted": 0, "refused": 0}

    @settings(max_examples=examples(40), suppress_health_check=[*HealthCheck])
    @given(commits())
    def check(drawn: Any) -> None:
        raw = content_of(base, drawn)
        try:
            judged(raw, 2, first_metadata(zero))
        except InvalidCommit:
            seen["refused"] += 1
            return
        seen["accepted"] += 1
        shutil.rmtree(table, ignore_errors=True)
        shutil.copytree(base, table)
        Path(table, "_delta_log", f"{2:020d}.json").write_bytes(raw)
        check_read(spark, table)

    check()
    assert min(seen.values()) > 0, seen


# -- what Spark cannot read -------------------------------------------------------------------------------------------


def test_i2_every_path_that_is_accepted_is_a_uri_to_java(spark: Any) -> None:
    pieces = ["a", "1", ":", "/", "#", "?", "%41", "@", ".", "[", "-", "é", "+", "="]
    paths = ["".join(chosen) for count in range(1, 4) for chosen in itertools.product(pieces, repeat=count)]
    paths += [f"s3:{path}" for path in paths if len(path) < 4]
    accepted = []
    for path in paths:
        with contextlib.suppress(InvalidCommit):
            _check_paths("add", [path])
            accepted.append(path)
    assert 1_000 < len(accepted) < len(paths) - 500
    uris = spark._jvm.java.net.URI
    for path in accepted:
        assert not uris(path).isOpaque(), path


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (type, text)
        for texts in (delta.PARTITION_VALUES, delta.NO_PARTITION_VALUES)
        for type, some in texts.items()
        for text in some
        if text
    ],
)
def test_i2_a_partition_value_is_taken_if_and_only_if_spark_casts_it(spark: Any, type: str, text: str) -> None:
    literal = text.replace("\\", "\\\\").replace("'", "\\'")
    name = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(type, type)
    casts = spark.sql(f"SELECT try_cast('{literal}' AS {name}) IS NOT NULL AS casts").collect()[0].casts
    assert casts or not is_value(type, text)
    if text not in NARROWER:
        assert casts == is_value(type, text)


NARROWER = {" 1", "0x1p3", "now"}
"""Values that Spark casts and the server refuses, since no engine writes them."""
