"""The question of a planned read to the server, and the log that the answer becomes. The question
lets through each row that the predicate lets through (I16)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.unit.spark_client import judged_files as files
from turnstile.planning.core.predicates import TableColumns
from turnstile.planning.core.sql import predicate_parser
from turnstile_predicates.predicates import (
    TRUE,
    UNKNOWN,
    And,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Value,
    outcomes,
)
from turnstile_predicates.sql import sql_of
from turnstile_spark import planned_reads

SCHEMA = files.schema()


def columns() -> TableColumns:
    fields = [
        {"name": name[0], "type": type, "nullable": True, "metadata": {}}
        for name, type, _ in files.COLUMNS
        if len(name) == 1
    ]
    x = {"name": "x", "type": "integer", "nullable": True, "metadata": {}}
    fields.append({"name": "in", "type": {"type": "struct", "fields": [x]}, "nullable": True, "metadata": {}})
    return TableColumns({"schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": ["p"]})


COLUMNS = columns()


def let_through(text: str | None, row: Any, partition: str | None) -> bool:
    """Whether the server keeps a file with this row alone."""
    range_of = SCHEMA.ranges_of(files.add("f", [row], partition))
    if text is None:
        return True
    assert range_of is not None
    return bool(outcomes(predicate_parser(text)(COLUMNS), range_of) & TRUE)


def check(predicate: Predicate, rows: list[Any], partition: str | None) -> None:
    text = sql_of(predicate)
    for row in rows:
        whole = {**row, files.PARTITION: partition or None}
        if files.evaluate(predicate, whole) is True:
            assert let_through(text, whole, partition), text


@settings(max_examples=examples(200))
@given(files.rows, files.partition_values, files.predicates)
def test_i16_every_row_that_satisfies_is_let_through(rows, partition, predicate) -> None:
    check(predicate, rows, partition)


@settings(max_examples=examples(200))
@given(files.close_calls())
def test_i16_rows_next_to_the_literal_are_let_through(drawn) -> None:
    rows, partition, predicate = drawn
    check(predicate, rows, partition)


@settings(max_examples=examples(100))
@given(files.rows, files.partition_values, files.predicates, st.sampled_from(["and", "or", "not", "not and", "not or"]))
def test_i16_a_part_that_is_not_understood_lets_through_what_it_may(rows, partition, predicate, form) -> None:
    """The part is true of some rows and false of others: both are tried in its place."""
    join = Or if "or" in form else And

    def with_part(part: Predicate) -> Predicate:
        inner = part if form == "not" else join((predicate, part))
        return Not(inner) if "not" in form else inner

    text = sql_of(with_part(UNKNOWN))
    for row in rows:
        whole = {**row, files.PARTITION: partition or None}
        for part in (And(()), Or(())):
            if files.evaluate(with_part(part), whole) is True:
                assert let_through(text, whole, partition), text


NUMBER = ("i",)
TEXT = ("s",)


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (Comparison(NUMBER, "=", Value("integer", 5)), "`i` = '5'"),
        (Comparison(("in", "x"), "<=>", None), "`in`.`x` <=> NULL"),
        (Comparison(("day",), ">", Value("date", 20_000)), "`day` > '2024-10-04'"),
        (Comparison(("day",), ">", Value("date", 10**8)), None),
        (Comparison(("t",), "<", Value("timestamp", 1_500_000)), "`t` < '1970-01-01T00:00:01.500000+00:00'"),
        (Comparison(("n",), "<", Value("timestamp_ntz", 0)), "`n` < '1970-01-01T00:00:00'"),
        (Comparison(("b",), "=", Value("boolean", False)), "`b` = FALSE"),
        (Comparison(("a`b",), "=", Value("string", "it's \\")), "`a``b` = 'it\\'s \\\\'"),
        (In(NUMBER, (Value("integer", 1), None)), "`i` IN ('1', NULL)"),
        (In(NUMBER, ()), None),
        (And((IsNull(NUMBER), UNKNOWN)), "(`i` IS NULL)"),
        (And((UNKNOWN, UNKNOWN)), None),
        (Or((IsNull(NUMBER), UNKNOWN)), None),
        (Or((IsNull(NUMBER), IsNull(TEXT))), "(`i` IS NULL OR `s` IS NULL)"),
        (Not(And((IsNull(NUMBER), UNKNOWN))), None),
        (And((Not(IsNull(NUMBER)), Not(StartsWith(TEXT, "a")))), "((NOT `i` IS NULL))"),
        (StartsWith(TEXT, "a"), "`s` LIKE 'a%'"),
        (And(()), "TRUE"),
        (Or(()), "FALSE"),
        (None, None),
    ],
)
def test_what_is_asked(predicate: Predicate | None, text: str | None) -> None:
    assert sql_of(predicate) == text


def test_a_predicate_that_the_server_would_refuse_for_its_length_is_not_sent(monkeypatch) -> None:
    asked = In(NUMBER, tuple(Value("integer", number) for number in range(10)))
    text = sql_of(asked)
    assert text is not None
    for most, kept in ((len(text), text), (len(text) - 1, None)):
        monkeypatch.setattr("turnstile_predicates.sql.MAX_CHARACTERS", most)
        assert sql_of(asked) == kept


def test_the_definition_of_the_log_is_the_tables_except_for_its_writer() -> None:
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["catalogManaged", "deletionVectors", "v2Checkpoint"],
        "writerFeatures": [
            "catalogManaged",
            "deletionVectors",
            "inCommitTimestamp",
            "rowTracking",
            "vacuumProtocolCheck",
            "v2Checkpoint",
        ],
    }
    properties = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "3",
        "delta.columnMapping.mode": "name",
        "io.unitycatalog.tableId": "t",
        "delta.checkpointPolicy": "v2",
        "delta.feature.catalogManaged": "supported",
    }
    made = planned_reads._definition({"protocol": protocol, "metaData": {"id": "m", "configuration": properties}})
    assert made == [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors", "rowTracking"],
            }
        },
        {"metaData": {"id": "m", "configuration": {"delta.columnMapping.mode": "name"}}},
    ]
    old = {"minReaderVersion": 1, "minWriterVersion": 2}
    assert planned_reads._definition({"protocol": old, "metaData": {"id": "m"}})[0] == {"protocol": old}


@pytest.mark.parametrize(
    ("path", "full"),
    [
        ("day=1/a%20b.parquet", "s3a://lake/t/day=1/a%20b.parquet"),
        ("s3://other/a.parquet", "s3a://other/a.parquet"),
        ("file:///x/a.parquet", "file:///x/a.parquet"),
        ("/x/a.parquet", "/x/a.parquet"),
        ("at=10:30/a.parquet", "s3a://lake/t/at=10:30/a.parquet"),
    ],
)
def test_paths_of_files(path: str, full: str) -> None:
    file = {
        "path": path,
        "size": 1,
        "modificationTime": 2,
        "partitionValues": {"p": None},
        "records": None,
        "baseRowId": 7,
    }
    assert planned_reads._add(file, "s3a://lake/t") == {
        "add": {
            "path": full,
            "size": 1,
            "modificationTime": 2,
            "partitionValues": {"p": None},
            "dataChange": True,
            "baseRowId": 7,
        }
    }


def test_deletion_vectors_have_full_paths() -> None:
    """The example of the protocol's section "Derived Fields" of deletion vectors."""
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 4,
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    file = {
        "path": "f",
        "size": 1,
        "modificationTime": 2,
        "partitionValues": {},
        "records": 9,
        "deletionVector": vector,
    }
    add = planned_reads._add(file, "s3a://lake/t")["add"]
    path = "s3a://lake/t/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert add["deletionVector"] == {**vector, "storageType": "p", "pathOrInlineDv": path}
    assert json.loads(add["stats"]) == {"numRecords": 9}
    inline = {"storageType": "i", "pathOrInlineDv": "ab"}
    assert planned_reads._with_full_path(inline, "s3a://lake/t") == inline
    absolute = {"storageType": "p", "pathOrInlineDv": "s3://x/y.bin"}
    assert planned_reads._with_full_path(absolute, "s3a://lake/t")["pathOrInlineDv"] == "s3a://x/y.bin"
