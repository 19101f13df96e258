"""Conditions of whole tables: numbers of rows and nulls, keys, ages, within bounds of work."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.support.fakes.checked_table import Lake
from tests.support.fakes.rows import column, mapped_column
from turnstile.delta.core.actions import Add
from turnstile.expectations import delta_source, table_check
from turnstile.expectations.core.conditions import expectations_of
from turnstile.expectations.core.row_outcomes import NotEvaluated
from turnstile.expectations.row_check import RowCheck
from turnstile.expectations.table_check import TableCheck
from turnstile.store.core.errors import InvalidRequest
from turnstile_rows.errors import TableError

STRUCT = {"name": "nested", "nullable": True, "metadata": {}, "type": {"type": "struct", "fields": []}}
MAPPED = mapped_column("p", "string", 3, "col-p")


class Whole:
    """A table whose files are given."""

    def __init__(self, *fields: dict[str, Any], partitions: tuple[str, ...] = (), **configuration: str) -> None:
        self.lake = Lake()
        if fields:
            schema = json.dumps({"type": "struct", "fields": list(fields)})
            given = {"schemaString": schema, "partitionColumns": list(partitions), "configuration": configuration}
            metadata = {**self.lake.metadata.metadata, **given}
            self.lake.metadata = msgspec.structs.replace(self.lake.metadata, metadata=metadata)

    def problem(self, text: str, *files: dict[str, Any]) -> str | None:
        lake = self.lake
        source = lake.source()
        adds = [msgspec.convert(file, Add) for file in files]
        source.__dict__["_state"] = SimpleNamespace(files=lambda: iter(adds))
        check = TableCheck(source, 0)
        (expectation,) = expectations_of({"turnstile.expect.e": text})
        return check.problem(expectation.condition, None)


def without(file: dict[str, Any], *names: str) -> dict[str, Any]:
    """The file with less in its statistics."""
    stats = {name: value for name, value in json.loads(file["stats"]).items() if name not in names}
    return {**file, "stats": json.dumps(stats)}


def test_rows_are_counted_without_the_deleted_ones_and_not_guessed() -> None:
    whole = Whole()
    add = whole.lake.add
    assert whole.problem("row_count = 4", add(1, 2), add(3, 4, 5, deleted=(0,))) is None
    assert whole.problem("row_count > 4", add(1, 2), add(3, 4)) == "the table has 4 rows"
    assert whole.problem("row_count = 0") is None
    for file in (add(1, stats=False), without(add(1), "numRecords"), {**add(1), "stats": "no json"}):
        with pytest.raises(NotEvaluated, match="do not say how many rows"):
            whole.problem("row_count > 0", file)


def test_files_are_counted_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_source, "FILES_MAX", 2)
    whole = Whole()
    files = [whole.lake.add(1) for _ in range(3)]
    assert whole.problem("row_count = 2", *files[:2]) is None
    with pytest.raises(NotEvaluated, match="more than 2 files"):
        whole.problem("row_count = 3", *files)


def test_nulls_are_counted_by_statistics() -> None:
    whole = Whole()
    add = whole.lake.add
    assert whole.problem("null_fraction(id) <= 0.25", add(1, None), add(2, 3)) is None
    assert whole.problem("null_fraction(id) < 0.25", add(1, None), add(2, 3)) == "it is null in 1 of 4 rows"
    assert whole.problem("null_fraction(id) = 0", add(1, 2, deleted=(0,))) is None
    for file in (without(add(1), "nullCount"), add(1, None, deleted=(0,))):
        with pytest.raises(NotEvaluated, match="how many nulls"):
            whole.problem("null_fraction(id) = 0", file)


def test_nulls_of_a_partition_column_are_those_of_its_values() -> None:
    for name, whole in (
        ("p", Whole(column("id", "long"), column("p", "string"), partitions=("p",))),
        ("col-p", Whole(column("id", "long"), MAPPED, partitions=("p",), **{"delta.columnMapping.mode": "name"})),
    ):
        files = [
            {**whole.lake.add(1, 2), "partitionValues": {name: value}, "path": f"p{value}"} for value in ("a", None, "")
        ]
        assert whole.problem("null_fraction(p) < 0.5", *files) == "it is null in 4 of 6 rows"
    absent = {**whole.lake.add(1), "partitionValues": {}}
    plain = Whole(column("id", "long"), column("p", "string"), partitions=("p",))
    assert plain.problem("null_fraction(p) < 1", absent) == "it is null in 1 of 1 rows"


def test_a_column_without_statistics_is_not_counted() -> None:
    whole = Whole(column("id", "long"), STRUCT)
    with pytest.raises(NotEvaluated, match="a type without statistics"):
        whole.problem("null_fraction(nested) = 0", whole.lake.add(1))
    with pytest.raises(InvalidRequest, match="another type"):
        whole.problem("freshness(nested) < interval 1 day", whole.lake.add(1))


def test_keys_are_compared_up_to_a_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Whole()
    add = whole.lake.add
    assert whole.problem("unique(id)") is None
    assert whole.problem("unique(id)", add(1, 2), add(3, None), add(4, None)) is None
    found = whole.problem("unique(id)", add(1, 2), add(2, 1))
    assert str(found).startswith("2 keys occur more than once, such as ") and '{"id": 2}' in str(found)
    monkeypatch.setattr(table_check, "UNIQUE_ROWS", 3)
    assert whole.problem("unique(id)", add(1, 2), add(3, None)) is None
    with pytest.raises(NotEvaluated, match="more than 3 rows with keys"):
        whole.problem("unique(id)", add(1, 2), add(3, 4))


def test_the_age_of_a_partition_needs_a_zone_and_empty_files_have_none() -> None:
    whole = Whole(column("id", "long"), column("ts", "timestamp"), partitions=("ts",))

    def file(ts: str | None) -> dict[str, Any]:
        return {**whole.lake.add(1), "partitionValues": {"ts": ts}}

    fresh = "freshness(ts) < interval 1 day"
    assert whole.problem(fresh, file("1970-01-01T00:00:00.000000Z"), file(None)) is None
    with pytest.raises(NotEvaluated, match="has no zone"):
        whole.problem(fresh, file("1970-01-01 00:00:00"))
    empty = {**file("1970-01-01 00:00:00"), "stats": json.dumps({"numRecords": 0})}
    assert whole.problem(fresh, empty) == "ts has no value"


def test_a_predicate_that_rows_cannot_be_compared_by_is_not_evaluated() -> None:
    whole = Whole(column("id", "long"), column("small", "float"))
    with pytest.raises(NotEvaluated, match="another type"):
        whole.problem("small >= 0.1 OR id > 100", whole.lake.add(1))


def test_a_table_with_an_unknown_feature_is_not_read() -> None:
    whole = Whole()
    protocol = {**whole.lake.metadata.protocol, "readerFeatures": ["future"]}
    whole.lake.metadata = msgspec.structs.replace(whole.lake.metadata, protocol=protocol)
    with pytest.raises(TableError, match="future"):
        whole.problem("row_count > 0", whole.lake.add(1))


def test_a_file_is_read_once_for_all_predicates_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake()
    files = [lake.add(1, 2, stats=False), lake.add(3)]
    reads: list[str] = []
    read = RowCheck.read
    monkeypatch.setattr(RowCheck, "read", lambda self, file, names: reads.append(file.path) or read(self, file, names))
    texts = ["id > 1", "unknown > 1", "row_count > 5", "id < 2"]
    given = {f"turnstile.expect.e{at}": text for at, text in enumerate(texts)}
    source = lake.source()
    adds = [msgspec.convert(file, Add) for file in files]
    source.__dict__["_state"] = SimpleNamespace(files=lambda: iter(adds))
    few, unknown, rows, many = TableCheck(source, 0).problems([each.condition for each in expectations_of(given)], None)
    assert str(few).startswith("1 rows in 1 of 2 files") and str(many).startswith("2 rows in 2 of 2 files")
    assert isinstance(unknown, InvalidRequest) and isinstance(rows, NotEvaluated)
    assert reads == ["1.parquet", "2.parquet"]
