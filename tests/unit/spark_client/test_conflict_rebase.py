"""A transaction's commit rewritten for a later version: its timestamp (I7), row ids (I2) and
applications (I3)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile_spark.transactions.conflicts.conflict_check import Winner
from turnstile_spark.transactions.conflicts.rebase import NO_ROW_IDS, CannotRebase, TableHead, rebase


def mark(value: int) -> dict[str, Any]:
    return {
        "domainMetadata": {
            "domain": "delta.rowTracking",
            "configuration": json.dumps({"rowIdHighWaterMark": value}),
            "removed": False,
        }
    }


def info(timestamp: int | None = None) -> dict[str, Any]:
    return {"commitInfo": {"txnId": "x"} | ({} if timestamp is None else {"inCommitTimestamp": timestamp})}


def file(path: str, first: int, rows: int, version: int, **more: Any) -> dict[str, Any]:
    stats = json.dumps({"numRecords": rows})
    return {"add": {"path": path, "baseRowId": first, "defaultRowCommitVersion": version, "stats": stats, **more}}


def commit(version: int, timestamp: int, before: int, sizes: list[int], name: str) -> list[dict[str, Any]]:
    """A commit that adds files of these numbers of rows after the mark ``before``."""
    actions = [info(timestamp)]
    following = before + 1
    for at, rows in enumerate(sizes):
        actions.append(file(f"{name}{at}", following, rows, version))
        following += rows
    return [*actions, mark(following - 1)]


def ids_of(actions: list[Any]) -> list[int]:
    adds = [a["add"] for a in actions if "add" in a]
    return [f["baseRowId"] + n for f in adds for n in range(json.loads(f["stats"])["numRecords"])]


_sizes = st.lists(st.integers(1, 4), max_size=3)


@settings(max_examples=examples(100))
@given(_sizes, st.lists(_sizes, min_size=1, max_size=4), st.integers(-1, 50), st.integers(0, 30))
def test_row_ids_and_timestamps_follow_those_of_the_winners(own_sizes, winner_sizes, before, own_time) -> None:
    """I2, I7: no row id is given out twice, none is left out, and time increases."""
    base = TableHead(7, 10, before)
    winners = []
    head = base
    for at, sizes in enumerate(winner_sizes):
        winners.append(Winner(8 + at, commit(8 + at, 11 + at, head.row_id_mark, sizes, f"w{at}-")))
        head = head.after(winners[-1:])
    assert head == base.after(winners)
    own = commit(8, 11 + own_time, before, own_sizes, "own")
    original = copy.deepcopy(own)
    moved = rebase(own, base, head)
    assert own == original, "the arguments are left as they are"
    ids = [i for w in winners for i in ids_of(list(w.actions))] + ids_of(moved)
    assert sorted(ids) == list(range(before + 1, before + 1 + len(ids)))
    after = head.after([Winner(head.version + 1, moved)])
    assert after.row_id_mark == before + len(ids)
    assert after.in_commit_timestamp_ms is not None
    assert head.in_commit_timestamp_ms is not None
    assert after.in_commit_timestamp_ms == max(11 + own_time, head.in_commit_timestamp_ms + 1)
    assert {a["add"]["defaultRowCommitVersion"] for a in moved if "add" in a} <= {head.version + 1}
    assert rebase(own, base, base) == own


def test_files_that_kept_their_row_ids_keep_them() -> None:
    """I2: a file with a deletion vector is the file that it was."""
    own = [
        info(),
        {"remove": {"path": "f"}},
        file("f", 3, 5, 2, deletionVector={"storageType": "u"}),
        file("n", 11, 2, 8),
        mark(12),
    ]
    moved = rebase(own, TableHead(7, None, 10), TableHead(9, None, 20))
    assert [(a["add"]["baseRowId"], a["add"]["defaultRowCommitVersion"]) for a in moved if "add" in a] == [
        (3, 2),
        (21, 10),
    ]
    assert json.loads(moved[-1]["domainMetadata"]["configuration"]) == {"rowIdHighWaterMark": 22}
    assert moved[0] == info(), "a table without in-commit timestamps gets none"


@pytest.mark.parametrize(
    "own",
    [
        [info(), file("a", 11, 2, 8), mark(14)],
        [info(), file("a", 11, 2, 8, deletionVector={"storageType": "u"}), file("b", 13, 2, 8), mark(14)],
        [info(), file("b", 13, 2, 8), mark(14)],
        [info(), {"add": {"path": "a", "baseRowId": 11}}, mark(14)],
        [info(), file("a", 11, 2, 8)],
    ],
    ids=["rows that are gone", "deleted rows", "a file that is gone", "unknown number of rows", "no mark"],
)
def test_rows_that_were_written_and_rewritten_have_to_be_written_again(own: list[Any]) -> None:
    """I2: their row ids may be inside a data file, where winners' rows would have the same."""
    with pytest.raises(CannotRebase):
        rebase(own, TableHead(7, None, 10), TableHead(8, None, 10))


def test_a_streaming_batch_that_a_winner_may_have_brought_is_refused() -> None:
    """I3."""
    own = [info(), {"txn": {"appId": "a", "version": 5}}]
    base = TableHead(7, applications={"a": 4})
    assert rebase(own, base, base.after([Winner(8, [{"txn": {"appId": "b", "version": 5}}])]))
    with pytest.raises(CannotRebase, match="streaming application 'a'"):
        rebase(own, base, base.after([Winner(8, [{"txn": {"appId": "a", "version": 5}}])]))


def test_row_tracking_that_began_anew_is_refused() -> None:
    with pytest.raises(CannotRebase, match="off and on"):
        rebase([info(), file("a", 11, 2, 8), mark(12)], TableHead(7, None, 10), TableHead(9, None, NO_ROW_IDS))


def test_heads_that_do_not_follow_are_an_error() -> None:
    with pytest.raises(ValueError, match="cannot be put on top of 6"):
        rebase([info()], TableHead(7), TableHead(6))
    with pytest.raises(ValueError, match="does not follow"):
        TableHead(7).after([Winner(9, [])])
