"""Due work, a table's own settings, and the small files beside checkpoints."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.fakes import delta
from turnstile.delta.core.features import KNOWN_FEATURES
from turnstile.delta.core.pointer import WrittenCheckpoint, canonical, pointed_version, pointer_of
from turnstile.delta.core.pointer import checksum_of as pointer_checksum
from turnstile.maintenance.core.checksums import Totals, checksum_of
from turnstile.maintenance.core.due import (
    COMPACTED,
    FIRST_PAUSE_MS,
    LONGEST_PAUSE_MS,
    STEP_BYTES,
    Due,
    due,
    pause_ms,
)
from turnstile.maintenance.core.parsed import (
    columns_with_statistics,
    decimal_of,
    parse_value,
    parsed_partition,
    parsed_stats,
    partition_types,
    type_of,
)
from turnstile.maintenance.core.upkeep import Upkeep, upkeep_of
from turnstile.store.core.errors import UnsupportedTable

PROTOCOL = delta.protocol("v2Checkpoint")["protocol"]
DAY_MS = 86_400_000


def upkeep(**configuration: str) -> Upkeep:
    return upkeep_of(PROTOCOL, {"configuration": {f"delta.{name}": value for name, value in configuration.items()}})


# -- due ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("floor", "newest", "interval", "expected"),
    [
        (9, -1, 10, Due((), (), 10)),
        (10, -1, 10, Due((10,), (), 20)),
        (10, 0, 10, Due((10,), (), 20)),
        (19, 10, 10, Due((), (), 20)),
        (27, 10, 10, Due((27,), (), 37)),
        (1, -1, 1, Due((1,), (), 2)),
        (29, 10, 100, Due((), ((20, 29),), 39)),
        (28, 10, 100, Due((), (), 29)),
        (40, 9, 100, Due((), ((10, 19), (20, 29), (30, 39)), 49)),
        (105, 98, 100, Due((), (), 109)),
        (110, 10, 100, Due((110,), (), 129)),
        (110, 10, 11, Due((110,), (), 121)),
    ],
)
def test_checkpoints_and_compactions_are_due_by_versions(floor: int, newest: int, interval: int, expected: Due) -> None:
    assert due(floor, newest, interval, {}) == expected


def test_a_compaction_that_is_there_is_not_due_again_nor_one_that_is_too_large() -> None:
    assert due(40, 9, 100, {}, {(20, 29)}).compactions == ((10, 19), (30, 39))
    sizes = {12: STEP_BYTES, 13: 1, 25: STEP_BYTES}
    assert due(40, 9, 100, sizes).compactions == ((20, 29), (30, 39))
    assert COMPACTED == 10


def test_i15_a_long_log_is_done_in_steps_of_bounded_size() -> None:
    half = STEP_BYTES // 2
    assert due(12, -1, 10, dict.fromkeys(range(13), half)).checkpoints == (1, 3, 5, 7, 9, 11, 12)
    assert due(12, 2, 10, dict.fromkeys(range(13), half + 1)).checkpoints == tuple(range(3, 13))
    assert due(12, -1, 10, {3: 5 * STEP_BYTES}).checkpoints == (3, 12)
    assert due(12, -1, 10, {3: 5 * STEP_BYTES, 4: 1}).checkpoints == (3, 12)
    assert due(12, -1, 10, {0: 1, 3: STEP_BYTES}).checkpoints == (2, 12)


def test_pauses_double_up_to_a_day() -> None:
    assert [pause_ms(1), pause_ms(2), pause_ms(3)] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS]
    assert pause_ms(11) == 1024 * FIRST_PAUSE_MS
    assert pause_ms(12) == pause_ms(1000) == LONGEST_PAUSE_MS == DAY_MS


# -- what a table asks for ---------------------------------------------------------------------------------------------


def test_defaults_are_those_of_delta() -> None:
    assert upkeep() == Upkeep(
        interval=10, v2=False, stats_as_json=True, stats_as_struct=False, indexed=32, indexed_names=None,
        tombstones_ms=7 * DAY_MS, transactions_ms=None, log_ms=30 * DAY_MS, codec="ZSTD",
    )  # fmt: skip


def test_properties_say_otherwise() -> None:
    names = {
        "checkpointInterval": "3",
        "checkpointPolicy": "V2",
        "checkpoint.writeStatsAsJson": "False",
        "checkpoint.writeStatsAsStruct": "True",
        "dataSkippingNumIndexedCols": "-1",
        "dataSkippingStatsColumns": "a, `b`.c",
        "deletedFileRetentionDuration": "interval 2 hours",
        "setTransactionRetentionDuration": "interval 1 day",
        "logRetentionDuration": "1 day",
        "parquet.compression.codec": "Snappy",
    }
    hour = 3_600_000
    assert upkeep(**names) == Upkeep(3, True, False, True, -1, ("a", "b.c"), 2 * hour, DAY_MS, DAY_MS, "SNAPPY")


@pytest.mark.parametrize("wrong", ["", "x", "0", "-2", "1.5"])
def test_what_cannot_be_read_counts_as_the_default_or_for_ever(wrong: str) -> None:
    table = upkeep(
        checkpointInterval=wrong, dataSkippingNumIndexedCols=wrong if wrong != "0" else "x",
        deletedFileRetentionDuration=wrong, setTransactionRetentionDuration=wrong, logRetentionDuration=wrong,
    )  # fmt: skip
    assert (table.interval, table.indexed) == (10, 32)
    assert (table.tombstones_ms, table.transactions_ms, table.log_ms) == (None, None, None)
    assert table.keeps_tombstone(None, 10**15)


def test_a_checkpoint_of_the_v2_spec_needs_the_feature_too() -> None:
    metadata = {"configuration": {"delta.checkpointPolicy": "v2"}}
    assert upkeep_of(PROTOCOL, metadata).v2
    assert not upkeep_of(delta.protocol()["protocol"], metadata).v2


@pytest.mark.parametrize("member", ["readerFeatures", "writerFeatures"])
def test_i15_an_unknown_feature_is_refused_by_its_name(member: str) -> None:
    protocol = {**PROTOCOL, member: [*PROTOCOL[member], "adaptiveMetadata"]}
    with pytest.raises(UnsupportedTable, match="the feature adaptiveMetadata, which is not known"):
        upkeep_of(protocol, {})


def test_the_features_of_the_protocol_are_known() -> None:
    assert upkeep_of({"minReaderVersion": 2, "minWriterVersion": 6}, {}).interval == 10
    assert {"deletionVectors", "rowTracking", "columnMapping", "clustering"} <= KNOWN_FEATURES
    with pytest.raises(UnsupportedTable):
        upkeep_of({"minReaderVersion": 4, "minWriterVersion": 7}, {})


def test_tombstones_and_transactions_expire() -> None:
    table = upkeep(deletedFileRetentionDuration="1 day", setTransactionRetentionDuration="1 day")
    now = 10 * DAY_MS
    assert table.keeps_tombstone(9 * DAY_MS + 1, now)
    assert not table.keeps_tombstone(9 * DAY_MS, now)
    assert not table.keeps_tombstone(None, now)
    assert table.keeps_transaction({"lastUpdated": 9 * DAY_MS + 1}, now)
    assert not table.keeps_transaction({"lastUpdated": 9 * DAY_MS}, now)
    assert not table.keeps_transaction({}, now)
    assert upkeep().keeps_transaction({}, now)


# -- the pointer -------------------------------------------------------------------------------------------------------


def test_the_example_of_the_protocol_has_its_canonical_form_and_checksum() -> None:
    members = {
        "k0": "'v 0'", "checksum": "adsaskfljadfkjadfkj",
        "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]},
    }  # fmt: skip
    assert pointer_checksum(members) == "6a92d155a59bf2eecbd4b4ec7fd1f875"
    assert canonical([None, "hi ho", 2.71]) == '0=null,1="hi%20ho",2=2.71'
    assert canonical({"a": 10, "b": {"y": None, "x": "https://delta.io"}, "c": True}) == (
        '"a"=10,"b"+"x"="https%3A%2F%2Fdelta.io","b"+"y"=null,"c"=true'
    )
    with pytest.raises(ValueError, match="no JSON"):
        canonical(float("nan"))


def test_a_pointer_says_what_was_written_and_has_its_checksum() -> None:
    classic = WrittenCheckpoint(7, 5, 3, 900, "7.checkpoint.parquet", 900, 11, unique=False)
    members = json.loads(pointer_of(classic))
    checksum = members.pop("checksum")
    assert members == {"version": 7, "size": 5, "sizeInBytes": 900, "numOfAddFiles": 3}
    assert checksum == pointer_checksum(members)
    unique = WrittenCheckpoint(7, 5, 3, 900, "7.checkpoint.x.json", 100, 11, unique=True)
    members = json.loads(pointer_of(unique))
    assert members["v2Checkpoint"] == {"path": "7.checkpoint.x.json", "sizeInBytes": 100, "modificationTime": 11}
    assert members["checksum"] == pointer_checksum(members)


def test_a_pointer_that_cannot_be_read_leads_nowhere() -> None:
    assert pointed_version(b'{"version": 7}') == 7
    for content in (b"", b"{", b"[]", b'{"version": "7"}', b'{"version": true}', b"\xff", b"{}"):
        assert pointed_version(content) is None


def test_a_checksum_has_all_that_is_required() -> None:
    info = {"txnId": "t", "inCommitTimestamp": 5}
    metadata = delta.metadata()["metaData"]
    totals = Totals(actions=9, adds=3, size_bytes=30, vectors=1, deleted=2)
    members = json.loads(
        checksum_of(info, protocol=PROTOCOL, metadata=metadata, transactions=[], domains=[], totals=totals)
    )
    assert members == {
        "tableSizeBytes": 30, "numFiles": 3, "numDeletedRecordsOpt": 2, "numDeletionVectorsOpt": 1, "numMetadata": 1,
        "numProtocol": 1, "setTransactions": [], "domainMetadata": [], "metadata": metadata, "protocol": PROTOCOL,
        "txnId": "t", "inCommitTimestampOpt": 5,
    }  # fmt: skip
    plain = {**metadata, "configuration": {}}
    members = json.loads(
        checksum_of(
            {"inCommitTimestamp": 5}, protocol=PROTOCOL, metadata=plain, transactions=[], domains=[], totals=totals
        )
    )
    assert "inCommitTimestampOpt" not in members
    assert "txnId" not in members


# -- statistics and partition values -----------------------------------------------------------------------------------


def column(name: str, kind: Any, physical: str = "") -> dict[str, Any]:
    metadata = {"delta.columnMapping.physicalName": physical} if physical else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def table(*columns: dict[str, Any], partitions: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"schemaString": json.dumps({"type": "struct", "fields": columns}), "partitionColumns": list(partitions)}


NESTED = {"type": "struct", "fields": [column("x", "long", "c-x"), column("y", "void"), column("z", "binary")]}


def test_columns_with_statistics_are_those_that_delta_collects_them_of() -> None:
    made = table(
        column("p", "date"),
        column("a", "long", "c-a"),
        column("s", NESTED, "c-s"),
        column("b", "string"),
        partitions=("p",),
    )
    assert columns_with_statistics(made, upkeep()).members.keys() == {"c-a", "c-s", "b"}
    inner = columns_with_statistics(made, upkeep()).members["c-s"]
    assert not isinstance(inner, str)
    assert inner.members == {"c-x": "long", "z": "binary"}
    assert columns_with_statistics(made, upkeep(dataSkippingNumIndexedCols="1")).members.keys() == {"c-a"}
    assert columns_with_statistics(made, upkeep(dataSkippingNumIndexedCols="0")).members == {}
    assert columns_with_statistics(made, upkeep(dataSkippingNumIndexedCols="-1")) == columns_with_statistics(
        made, upkeep()
    )
    named = columns_with_statistics(made, upkeep(dataSkippingStatsColumns="s,`b`", dataSkippingNumIndexedCols="0"))
    assert named.members.keys() == {"c-s", "b"}
    assert columns_with_statistics(made, upkeep(dataSkippingStatsColumns="s.x")).members.keys() == {"c-s"}
    assert partition_types(made) == {"p": "date"}
    with pytest.raises(UnsupportedTable, match="schema cannot be read"):
        columns_with_statistics({"schemaString": "{"}, upkeep())


def test_statistics_that_are_not_there_or_of_another_shape_are_left_out() -> None:
    array = {"type": "array", "elementType": "long", "containsNull": True}
    made = table(column("a", array), column("s", NESTED))
    given = parsed_stats(
        '{"numRecords":2,"minValues":[],"nullCount":{"a":1,"s":7}}', columns_with_statistics(made, upkeep())
    )
    assert given == {
        "numRecords": 2, "tightBounds": None, "minValues": None, "maxValues": None, "nullCount": {"a": 1, "s": None},
    }  # fmt: skip
    given = parsed_stats('{"minValues":{"a":[1],"s":{"c-x":5}}}', columns_with_statistics(made, upkeep()))
    assert given is not None
    assert (given["numRecords"], given["minValues"], given["nullCount"]) == (None, {"s": {"c-x": 5}}, None)


def test_statistics_become_values_of_their_columns() -> None:
    made = table(column("a", "decimal(5,2)"), column("t", "timestamp"), column("s", NESTED), column("f", "boolean"))
    stats = {
        "numRecords": 3, "tightBounds": True,
        "minValues": {"a": 1.25, "t": "2026-01-02T03:04:05.678+01:00", "s": {"c-x": 1}, "f": True},
        "maxValues": {"a": 12345, "t": "soon"}, "nullCount": {"a": 1, "s": {"z": 2}},
    }  # fmt: skip
    given = parsed_stats(json.dumps(stats), columns_with_statistics(made, upkeep()))
    assert given == {
        "numRecords": 3,
        "tightBounds": True,
        "minValues": {"a": Decimal("1.25"), "t": datetime(2026, 1, 2, 2, 4, 5, 678000, UTC), "s": {"c-x": 1}},
        "maxValues": {"a": None, "t": None, "s": None},
        "nullCount": {"a": 1, "t": None, "s": {"c-x": None, "z": 2}, "f": None},
    }
    for text in (None, "", "{", "[]", '"x"'):
        assert parsed_stats(text, columns_with_statistics(made, upkeep())) is None


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (127, "byte", 127), (128, "byte", None), (-129, "byte", None), (2**63 - 1, "long", 2**63 - 1),
        (2**63, "long", None),
        (1, "double", 1.0), ("Infinity", "float", float("inf")), (True, "integer", None), (Decimal(2), "short", 2),
        (Decimal("2.5"), "short", None), (Decimal("9.99"), "decimal(3,2)", Decimal("9.99")), (10, "decimal(3,2)", None),
        (Decimal("0.001"), "decimal(3,2)", None), ("NaN", "decimal(3,2)", None), ("Infinity", "decimal(3,2)", None),
        ("x", "decimal(3,2)", None),
        ("2026-02-28", "date", date(2026, 2, 28)), ("+12026-02-28", "date", None), ("2026-02-30", "date", None),
        (5, "date", None),
        ("2026-01-02T03:04:05", "timestamp", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05.1Z", "timestamp_ntz", datetime(2026, 1, 2, 3, 4, 5, 100000)),
        ("text", "string", "text"), ("text", "varchar(3)", "text"), ("text", "string collate UNICODE", "text"),
        (5, "string", None),
        (None, "string", None),
    ],
)  # fmt: skip
def test_a_value_that_its_column_cannot_hold_is_left_out(value: Any, kind: str, expected: Any) -> None:
    assert parse_value(value, kind) == expected
    assert (type_of("decimal(3,2)"), decimal_of("decimal(3, 2)"), decimal_of("decimal")) == ("decimal", (3, 2), (10, 0))


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("", "string", None), ("true", "string", "true"), ("5", "string", "5"), (None, "long", None),
        ("+5", "integer", 5), ("007", "long", 7), ("true", "boolean", True),
        ("FALSE", "boolean", False), ("a%b", "string", "a%b"), ("\u0001", "binary", b"\x01"),
        ("1.50", "decimal(5,2)", Decimal("1.50")),
        ("1.5", "double", 1.5), ("2026-01-02 03:04:05.5", "timestamp", datetime(2026, 1, 2, 3, 4, 5, 500000, UTC)),
        ("2026-01-02", "date", date(2026, 1, 2)),
    ],
)  # fmt: skip
def test_partition_values_become_values_of_their_columns(text: str | None, kind: str, expected: Any) -> None:
    assert parsed_partition(text, kind) == expected


@pytest.mark.parametrize(
    ("text", "kind"), [("x", "long"), ("1e3", "integer"), ("128", "byte"), ("soon", "date"), ("1", "boolean")]
)
def test_i15_a_partition_value_that_its_column_cannot_hold_is_refused(text: str, kind: str) -> None:
    with pytest.raises(UnsupportedTable, match="partition value"):
        parsed_partition(text, kind)
