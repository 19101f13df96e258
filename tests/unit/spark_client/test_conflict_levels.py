"""Conflicts by isolation level: the files, definitions and applications of concurrent commits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import And, Comparison, Value
from turnstile_spark.transactions.conflicts.conflict_check import Conflict, Paths, Read, Winner, assess, judge

SCHEMA = TableSchema.of(
    {
        "schemaString": json.dumps(
            {
                "type": "struct",
                "fields": [{"name": n, "type": t, "metadata": {}} for n, t in (("id", "long"), ("p", "integer"))],
            }
        ),
        "partitionColumns": ["p"],
        "configuration": {},
    }
)
P1 = Comparison(("p",), "=", Value("integer", 1))
ID5 = Comparison(("id",), "=", Value("integer", 5))
METADATA = {"metaData": {"id": "x"}}
BASE = 4


def add(path: str, p: int = 1, low: int = 0, high: int = 9, **more: Any) -> dict[str, Any]:
    stats = json.dumps({"numRecords": 2, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}})
    return {"add": {"path": path, "partitionValues": {"p": str(p)}, "dataChange": True, "stats": stats, **more}}


def remove(path: str, p: int = 1, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "partitionValues": {"p": str(p)}, "dataChange": True, **more}}


def kinds(reads: list[Read], own: list[Any], *winners: list[Any], level: Any = "serializable") -> list[str]:
    """The kinds of conflicts with commits of these actions after the base."""
    commits = [Winner(BASE + 1 + at, actions) for at, actions in enumerate(winners)]
    assessment = assess(reads, own, commits, level, schema=SCHEMA, base=BASE)
    assert assessment.is_rebase == (not assessment.conflicts)
    return [c.kind for c in assessment.conflicts]


def read(predicate: Any = None, version: int = BASE, **more: Any) -> Read:
    return Read("t", version, predicate, **more)


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
def test_a_blind_append_conflicts_with_no_change_of_rows(level: str) -> None:
    assert kinds([], [add("own")], [add("a")], [remove("b"), add("c")], level=level) == []


def test_a_read_conflicts_with_rows_that_it_would_have_seen() -> None:
    assert kinds([read(P1)], [add("own")], [add("a", p=1)]) == ["read"]
    assert kinds([read(P1)], [add("own")], [add("a", p=2)]) == []
    assert kinds([read(And((P1, ID5)))], [], [add("a", p=1, low=6)]) == []
    assert kinds([read()], [], [add("a", p=2)]) == ["read"], "without a predicate it is every row"


def test_under_snapshot_isolation_reads_do_not_conflict() -> None:
    assert kinds([read()], [add("own")], [add("a")], [remove("b")], level="snapshot") == []


def test_write_skew_is_refused_under_serializable_though_the_read_table_is_not_written() -> None:
    assert kinds([read(P1)], [], [remove("f")]) == ["read"]
    assert kinds([read(P1)], [], [remove("f")], level="snapshot") == []


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
def test_two_changes_of_one_file_conflict(level: str) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "abcdefghijklmnopqrst"}
    assert kinds([], [remove("f")], [remove("f")], level=level) == ["write"]
    assert kinds(
        [], [remove("f"), add("f", deletionVector=vector)], [remove("f"), add("f", deletionVector=vector)], level=level
    ) == ["write"]
    assert kinds([], [remove("f")], [remove("g")], level=level) == []


def test_a_file_is_the_same_however_its_path_is_written() -> None:
    paths = Paths(["p=a%20b/x.parquet", "s3://bucket/t/y.parquet"])
    assert [
        p in paths for p in ("p=a b/x.parquet", "y.parquet", "s3://other/x.parquet", "z.parquet", "p=c/x.parquet")
    ] == [True, True, True, False, False]


def test_rows_that_only_moved_change_no_read_but_may_not_be_rewritten() -> None:
    moved = [remove("f", dataChange=False), add("g", dataChange=False)]
    assert kinds([read()], [add("own")], moved) == []
    assert kinds([], [remove("f")], moved, level="snapshot") == ["write"]


def test_rows_that_moved_and_were_deleted_then_conflict() -> None:
    """The file that was read is gone; its rows went with the file they had moved to."""
    moved = [remove("f", dataChange=False), add("g", dataChange=False)]
    assert kinds([read(files=frozenset({"f"}))], [], moved, [remove("g")]) == ["read"]
    elsewhere = [remove("f", dataChange=False), add("g", dataChange=False, low=6)]
    assert kinds([read(ID5, files=frozenset({"f"}))], [], elsewhere, [remove("g")]) == [], (
        "by the statistics of the add"
    )


def test_a_removed_file_that_the_scan_left_out_was_not_read() -> None:
    assert kinds([read(ID5, files=frozenset({"f"}))], [], [remove("g")]) == []
    assert kinds([read(ID5, files=frozenset({"f"}))], [], [remove("f")]) == ["read"]
    assert kinds([read(ID5)], [], [remove("g")]) == ["read"], (
        "without statistics and files, any row may have been in it"
    )
    assert kinds([read(P1)], [], [remove("g", p=2)]) == [], "partition values decide"


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
def test_a_changed_definition_conflicts_with_every_write(level: str) -> None:
    assert kinds([], [add("own")], [METADATA], level=level) == ["metadata"]
    assert kinds([], [add("own")], [{"protocol": {}}], level=level) == ["metadata"]
    assert kinds([], [METADATA], [add("a")], level=level) == ["metadata"], "rows that were not checked against it"
    assert kinds([], [METADATA], [remove("a")], level=level) == []
    assert kinds([], [], [METADATA], level=level) == []


def test_a_changed_definition_conflicts_with_every_read() -> None:
    assert kinds([read(P1)], [], [METADATA]) == ["metadata"]


def test_after_an_own_change_of_the_definition_predicates_do_not_count() -> None:
    """A column of the same name may be another one in the base."""
    assert kinds([read(P1)], [METADATA], [remove("f", p=2)]) == ["read"]


@pytest.mark.parametrize("level", ["snapshot", "serializable"])
def test_an_application_or_domain_that_both_set_conflicts(level: str) -> None:
    app = {"txn": {"appId": "a", "version": 1}}
    domain = {"domainMetadata": {"domain": "d", "configuration": ""}}
    rows = {"domainMetadata": {"domain": "delta.rowTracking", "configuration": ""}}
    assert kinds([], [app], [app], level=level) == ["application"]
    assert kinds([], [domain], [domain], level=level) == ["domain"]
    assert kinds([], [app, domain], [{"txn": {"appId": "b", "version": 1}}], level=level) == []
    assert kinds([], [rows], [rows], level=level) == [], "marks of row ids are set anew"


def test_reads_with_slack_and_reads_of_the_past_are_left_out() -> None:
    assert kinds([read(is_stale_allowed=True)], [add("own")], [add("a")]) == []
    assert kinds([read(is_stale_allowed=True, version=1)], [], [add("a")]) == [], "nor are commits from then on needed"
    assert judge(read(is_stale_allowed=True), [Winner(BASE + 1, [add("a")])], SCHEMA) is None
    assert kinds([read(version=BASE - 1, is_time_travel=True)], [], [add("a")]) == []
    assert kinds([read(version=BASE, is_time_travel=True)], [], [add("a")]) == ["read"]


def test_a_read_after_own_commits_counts_from_the_base() -> None:
    assert kinds([read(P1, version=BASE + 7)], [add("own")], [add("a")]) == ["read"]


def test_a_read_from_before_the_base_is_judged_from_then_on() -> None:
    commits = [Winner(BASE, [add("a")]), Winner(BASE + 1, [add("b", p=2)])]
    early = assess([read(P1, version=BASE - 1)], [], commits, "serializable", schema=SCHEMA, base=BASE)
    assert [c.version for c in early.conflicts] == [BASE]
    assert judge(read(P1, version=BASE), commits, SCHEMA) is None


def test_what_was_written_before_the_base_is_no_write_conflict() -> None:
    commits = [Winner(BASE, [remove("f")]), Winner(BASE + 1, [])]
    assert assess([read(version=BASE - 1)], [remove("f")], commits, "snapshot", schema=SCHEMA, base=BASE).is_rebase


@pytest.mark.parametrize("versions", [[6], [5, 7], [6, 5]])
def test_missing_commits_are_an_error(versions: list[int]) -> None:
    with pytest.raises(ValueError, match="they must be all from 5 on"):
        assess([], [], [Winner(v, []) for v in versions], "snapshot", schema=SCHEMA, base=BASE)


def test_another_level_is_an_error() -> None:
    with pytest.raises(ValueError, match="one of snapshot, serializable"):
        assess([], [], [], "read committed", schema=SCHEMA, base=BASE)  # type: ignore[arg-type]


def test_a_conflict_says_which_commit_which_file_which_predicate_and_why() -> None:
    conflict = judge(read(And((P1, ID5))), [Winner.parse(5, json.dumps(add("a")) + "\n")], SCHEMA)
    assert isinstance(conflict, Conflict)
    assert str(conflict) == (
        "version 5, file a: a row of a file that it added may satisfy a predicate of this transaction's reads (read: "
        "(p = 1 AND id = 5))"
    )


@pytest.mark.parametrize(
    ("field", "file"),
    [
        ({"name": "id", "type": "long", "metadata": {}}, {"stats": "{"}),
        ({"name": "id", "type": "long", "metadata": {}},
         {"stats": '{"numRecords": 1, "minValues": {"id": "7"}, "maxValues": {"id": "8"}}'}),
        ({"name": "id", "type": "long", "metadata": {}},
         {"stats": '{"numRecords": 1, "minValues": {"id": 9}, "maxValues": {"id": 7}}'}),
        ({"name": "id", "type": "double", "metadata": {"delta.typeChanges": []}},
         {"stats": '{"numRecords": 1, "minValues": {"id": 7}, "maxValues": {"id": 8}}'}),
        ({"name": "other", "type": "long", "metadata": {}}, {}),
    ],
    ids=["no JSON", "another type", "no range", "widened", "unknown column"],
)  # fmt: skip
def test_statistics_that_cannot_be_relied_on_say_nothing(field: dict[str, Any], file: dict[str, Any]) -> None:
    schema = TableSchema({"fields": [field]})
    value = Value("float" if field["type"] == "double" else "integer", 5)
    action = {"add": {"path": "a", "partitionValues": {}, "dataChange": True, **file}}
    assert judge(read(Comparison(("id",), "=", value)), [Winner(5, [action])], schema) is not None


@pytest.mark.parametrize("key", ["__COLLATIONS", "__CHAR_VARCHAR_TYPE_STRING"])
def test_strings_in_another_order_are_not_judged_by_their_bytes(key: str) -> None:
    schema = TableSchema({"fields": [{"name": "s", "type": "string", "metadata": {key: "x"}}]})
    action = {
        "add": {
            "path": "a",
            "dataChange": True,
            "stats": '{"numRecords": 1, "minValues": {"s": "b"}, "maxValues": {"s": "b"}}',
        }
    }
    assert judge(read(Comparison(("s",), "=", Value("string", "B"))), [Winner(5, [action])], schema) is not None


def test_a_partition_by_time_without_a_zone_may_be_in_any() -> None:
    schema = TableSchema({"fields": [{"name": "t", "type": "timestamp", "metadata": {}}]}, ["t"])
    hour = 3_600_000_000
    for text, hours, conflicts in (
        ("1970-01-02 00:00:00", 20, True),
        ("1970-01-02 00:00:00", 49, False),
        ("1970-01-02T00:00:00.000000Z", 20, False),
    ):
        action = {"add": {"path": "a", "dataChange": True, "partitionValues": {"t": text}}}
        predicate = Comparison(("t",), "=", Value("timestamp", hours * hour))
        assert (judge(read(predicate), [Winner(5, [action])], schema) is not None) == conflicts
