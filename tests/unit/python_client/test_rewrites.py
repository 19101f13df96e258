"""Decisions of a rewrite without an engine: bins of files, and commits that are in the way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile_client.core.rewrites import Bin, Changes, purged_bins, small_bins, within
from turnstile_rows import commits
from turnstile_rows.commits import DataFile
from turnstile_rows.definitions import Definition, check_rewritable
from turnstile_rows.errors import Unsupported
from turnstile_rows.statistics import indexed_columns
from turnstile_rows.tracking import RowTracking, row_tracking, with_row_ids


def file(path: str, size: int, day: str | None = None, **more: Any) -> dict[str, Any]:
    return {"path": path, "size": size, "partitionValues": {"day": day}, **more}


def paths(bins: list[Bin]) -> list[list[str]]:
    return [[each["path"] for each in one.files] for one in bins]


def test_files_below_the_target_are_put_together_the_smallest_first() -> None:
    files = [file("d", 9), file("a", 1), file("e", 10), file("c", 4), file("b", 2)]
    assert paths(small_bins(files, 10)) == [["a", "b", "c"]]  # d and e are alone in the next bins
    assert paths(small_bins([file("a", 4), file("b", 6)], 10)) == [["a", "b"]], "a bin may have the size itself"


def test_a_bin_is_of_one_partition_where_an_empty_text_is_null() -> None:
    files = [file("a", 1, "1"), file("b", 1, "2"), file("c", 1, None), file("d", 1, ""), file("e", 1, "1")]
    assert paths(small_bins(files, 10)) == [["a", "e"], ["c", "d"]]


def test_files_with_deletion_vectors_are_purged_also_alone_and_when_they_are_large() -> None:
    vector = {"storageType": "u"}
    files = [file("a", 99, deletionVector=vector), file("b", 1), file("c", 1, deletionVector=vector)]
    assert paths(purged_bins(files, 10)) == [["c"], ["a"]]
    assert paths(purged_bins(files[:1], 10)) == [["a"]]


def test_files_are_chosen_by_the_values_of_their_partitions() -> None:
    files = [file("a", 1, "1"), file("b", 1, "2"), file("c", 1, "")]
    assert [each["path"] for each in within(files, [{"day": "2"}, {"day": None}])] == ["b", "c"]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["1", "2", None])), max_size=40),
    target=st.integers(1, 60),
)
def test_each_file_is_in_one_bin_at_most_and_no_bin_is_larger_than_the_target(
    sizes: list[tuple[int, str | None]], target: int
) -> None:
    files = [file(f"f{at}", size, day) for at, (size, day) in enumerate(sizes)]
    bins = small_bins(files, target)
    chosen = [path for one in paths(bins) for path in one]
    assert len(chosen) == len(set(chosen))
    for one in bins:
        assert one.size <= target
        assert len(one.files) > 1
        assert len({each["partitionValues"]["day"] for each in one.files}) == 1
    again = [each for each in files if each["path"] not in chosen] + [
        file(f"n{at}", one.size, one.files[0]["partitionValues"]["day"]) for at, one in enumerate(bins)
    ]
    assert len(again) <= len(files)


def test_a_gradual_rewrite_leaves_a_file_that_is_much_larger_than_the_smaller_ones() -> None:
    files = [file("a", 10), file("b", 11), file("c", 42), file("d", 200), file("e", 210)]
    assert paths(small_bins(files, 1000, gradual=True)) == [["a", "b", "c"], ["d", "e"]]
    assert len(small_bins(files, 1000)) == 1


@pytest.mark.parametrize("size", [1, 7, 40])
def test_gradual_rewrites_after_every_few_appends_write_each_row_a_few_times(size: int) -> None:
    files: list[dict[str, Any]] = []
    written = 0
    most = 0
    for round in range(2_000):
        files += [file(f"{round}-{at}", size + at % 3) for at in range(8)]
        for number, one in enumerate(small_bins(files, 100_000, gradual=True)):
            files = [each for each in files if each["path"] not in {own["path"] for own in one.files}]
            files.append(file(f"r{round}-{number}", one.size))
            written += one.size
        most = max(most, len(files))
    added = sum(each["size"] for each in files)
    assert written < 10 * added
    assert most < 40


# -- commits in between ------------------------------------------------------------------------------------------------


def lines(*actions: dict[str, Any]) -> str:
    return "".join(json.dumps(action) + "\n" for action in ({"commitInfo": {"txnId": "x"}}, *actions))


TWO = Bin((file("a%20b", 1), file("c", 1)))


@pytest.mark.parametrize(
    ("action", "leaves"),
    [
        ({"add": {"path": "new"}}, True),
        ({"txn": {"appId": "a", "version": 1}}, True),
        ({"remove": {"path": "other"}}, True),
        ({"remove": {"path": "c"}}, False),
        ({"remove": {"path": "a b"}}, False),
        ({"add": {"path": "a%20b", "deletionVector": {}}}, False),
        ({"metaData": {"id": "m"}}, False),
        ({"protocol": {"minReaderVersion": 3}}, False),
        ({"domainMetadata": {"domain": "delta.rowTracking"}}, True),
    ],
)
def test_i27_a_commit_is_in_the_way_if_it_touched_a_file_or_the_definition(
    action: dict[str, Any], leaves: bool
) -> None:
    changes = Changes(7, 100)
    changes.add(lines(action))
    assert changes.version == 8
    assert changes.leave(TWO) is leaves
    changes.add(lines({"add": {"path": "later"}}))
    assert (changes.version, changes.leave(TWO), changes.timestamp) == (9, leaves, 100)
    changes.add(json.dumps({"commitInfo": {"inCommitTimestamp": 200}}))
    assert changes.timestamp == 200


# -- the commit --------------------------------------------------------------------------------------------------------


def test_the_commit_changes_no_data_and_keeps_partition_and_vector_of_the_removed_files() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    removed = [file("a", 5, "1", deletionVector=vector, baseRowId=0, defaultRowCommitVersion=1)]
    files = [DataFile("n", {"day": "1"}, 4, 9, "{}", 3), DataFile("m", {"day": "1"}, 4, 9, "{}", 2)]
    text = commits.rewrite("id", 9, 7, files=files, removed=removed, purges=True, high_water=20)
    info, remove, domain, first, second = map(json.loads, text.splitlines())
    assert info["commitInfo"]["operation"] == "REORG"
    assert info["commitInfo"]["tags"] == {"delta.rowTracking.preserved": "true"}
    assert (remove["remove"]["dataChange"], remove["remove"]["deletionVector"]) == (False, vector)
    assert json.loads(domain["domainMetadata"]["configuration"]) == {"rowIdHighWaterMark": 25}
    ids = [(each["add"]["baseRowId"], each["add"]["defaultRowCommitVersion"]) for each in (first, second)]
    assert ids == [(21, 8), (24, 8)]
    assert not first["add"]["dataChange"]


def test_without_row_tracking_the_commit_has_no_row_ids() -> None:
    text = commits.rewrite("id", 9, 7, files=[DataFile("n", {}, 4, 9, "{}", 3)], removed=[], purges=False)
    info, added = map(json.loads, text.splitlines())
    assert "tags" not in info["commitInfo"] and "baseRowId" not in added["add"]


# -- row tracking ------------------------------------------------------------------------------------------------------

LONG = {"name": "n", "type": "long", "nullable": True, "metadata": {}}
NAMES = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_version",
}


def definition(properties: dict[str, str], *features: str, clustering: tuple[str, ...] = ()) -> Definition:
    return Definition((LONG,), (), properties, frozenset(), frozenset(features), clustering)


def test_the_columns_of_row_ids_are_written_and_have_no_statistics() -> None:
    table = definition({"delta.enableRowTracking": "true", **NAMES}, "rowTracking")
    found = row_tracking(table)
    assert found == RowTracking("_row-id", "_version")
    files = with_row_ids(table, found)
    assert files.schema.names == ["n", "_row-id", "_version"]
    assert indexed_columns(files) == {("n",)}
    assert row_tracking(definition(NAMES, "rowTracking")) is None


def test_a_table_that_does_not_name_the_columns_is_refused() -> None:
    with pytest.raises(Unsupported, match="materializedRowIdColumnName"):
        row_tracking(definition({"delta.enableRowTracking": "true"}, "rowTracking"))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (definition({}, "icebergCompatV2"), "icebergCompatV2"),
        (definition({}, "clustering", clustering=("n",)), "clustered by n"),
        (definition({"delta.columnMapping.mode": "other"}, "columnMapping"), "maps its columns"),
    ],
)
def test_a_table_that_cannot_be_rewritten_is_refused_by_name(table: Definition, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        check_rewritable(table)
