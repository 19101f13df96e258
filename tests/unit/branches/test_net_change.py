"""The net change of a branch's commits (I28): it has the effect of all of them, with the paths of
the catalog's table, and each conflict is named."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile.branches.core.net_change import NetChange, RowIds, commit_lines, conflict_of, moved_change
from turnstile.branches.core.paths import BranchPaths, below_branch
from turnstile.delta.core.actions import DeletionVector
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN
from turnstile.delta.core.named_files import vector_file
from turnstile.store.core.errors import UnsupportedTable

ID = "ab^-aqEH.-t@S}K{vb[*k^"[:20]
PATHS = BranchPaths("_branches/own")


def add(path: str, *, data: bool = True, vector: str = "", rows: int | None = 1) -> dict[str, Any]:
    body: dict[str, Any] = {"path": path, "dataChange": data, "size": 1}
    if rows is not None:
        body["stats"] = json.dumps({"numRecords": rows})
    return {"add": _with_vector(body, vector)}


def remove(path: str, *, data: bool = True, vector: str = "") -> dict[str, Any]:
    return {"remove": _with_vector({"path": path, "dataChange": data}, vector)}


def _with_vector(body: dict[str, Any], prefix: str) -> dict[str, Any]:
    if not prefix:
        return body
    vector = {"storageType": "u", "pathOrInlineDv": prefix.strip(".") + ID, "sizeInBytes": 1, "cardinality": 1}
    return {**body, "deletionVector": {**vector, "offset": 1}}


def info(operation: str = "WRITE", *, blind: bool | None = None) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, **({} if blind is None else {"isBlindAppend": blind})}}


def net(*commits: list[dict[str, Any]], first: int = 1) -> NetChange:
    change = NetChange()
    for version, actions in enumerate(commits, start=first):
        change.take(version, actions)
    return change


# -- the net change ---------------------------------------------------------------------------------------------------

FILES = st.sampled_from("abcdef")


@settings(max_examples=examples(200))
@given(base=st.sets(FILES), steps=st.lists(st.tuples(st.sets(FILES), st.sets(FILES)), max_size=8))
def test_i28_the_net_change_leads_from_the_base_to_the_last_commit(
    base: set[str], steps: list[tuple[set[str], set[str]]]
) -> None:
    files = set(base)
    commits = []
    for wanted, gone in steps:
        removed = gone & files
        added = wanted - (files - removed)
        files = (files - removed) | added
        commits.append([info(), *map(remove, sorted(removed)), *map(add, sorted(added))])
    change = net(*commits)
    gone_paths = {path for path, _ in change.removed}
    new_paths = {path for path, _ in change.added}
    assert gone_paths <= base and not new_paths & (base - gone_paths)
    assert (base - gone_paths) | new_paths == files


def test_a_file_that_comes_and_goes_on_the_branch_is_not_in_its_change() -> None:
    assert net([info(blind=True), add("x")], [info("DELETE"), remove("x")]).is_empty
    assert not net([info(), {"txn": {"appId": "s", "version": 1}}]).is_empty


def test_only_appends_that_say_so_are_blind() -> None:
    assert net([info(blind=True), add("x")], [info(blind=True), add("y")]).blind
    assert not net([info(blind=True), add("x")], [info(), add("y")]).blind
    assert not net([info(blind=False), add("x")]).blind
    assert not net([info(blind=True), add("x"), {"metaData": {}}]).blind


def test_a_new_file_that_has_new_rows_and_rewritten_ones_changes_rows() -> None:
    change = net([info(blind=True), add("x")], [info("OPTIMIZE"), remove("x", data=False), add("y", data=False)])
    lines = commit_lines({}, change, set(), RowIds(None, 2)).splitlines()
    assert [json.loads(line)["add"]["dataChange"] for line in lines if b'"add"' in line] == [True]
    only = net([info("OPTIMIZE"), remove("a", data=False), add("b", data=False)])
    lines = commit_lines({}, only, set(), RowIds(None, 2)).splitlines()
    assert {body["dataChange"] for line in lines for body in json.loads(line).values() if "path" in body} == {False}


# -- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["a.parquet", "p=1%20%25/a.parquet", "s3://other/a.parquet", "file:/tmp/a", "../x"])
@pytest.mark.parametrize("prefix", ["", ".", "xy"])
def test_a_file_of_the_catalog_has_its_own_path_again_after_a_branch(path: str, prefix: str) -> None:
    body = add(path, vector=prefix)["add"]
    assert PATHS.relocate(below_branch(body)) == body
    assert not PATHS.is_of_branch(below_branch(body))


@pytest.mark.parametrize("prefix", [".", "xy"])
def test_a_file_of_a_branch_gets_the_path_of_its_folder(prefix: str) -> None:
    body = add("p=1/new.parquet", vector=prefix)["add"]
    moved = PATHS.relocate(body)
    assert moved["path"] == "_branches/own/p=1/new.parquet" and PATHS.is_of_branch(body)

    def file(of: dict[str, Any]) -> str:
        return str(vector_file(DeletionVector(**of["deletionVector"])))

    assert file(moved) == f"_branches/own/{file(body)}"
    assert file(below_branch(body)) == f"../../{file(body)}"


def test_vectors_inside_the_log_and_absolute_ones_stay_as_they_are() -> None:
    for kind in ("i", "p"):
        body = add("a", vector=".")["add"]
        body["deletionVector"]["storageType"] = kind
        assert below_branch(body)["deletionVector"] == body["deletionVector"]
        assert PATHS.relocate(body)["deletionVector"] == body["deletionVector"]


# -- row ids ----------------------------------------------------------------------------------------------------------


def test_i2_new_files_get_row_ids_above_the_mark_and_files_of_the_base_keep_theirs() -> None:
    kept = add("../../a", vector=".")
    kept["add"] |= {"baseRowId": 3, "defaultRowCommitVersion": 1}
    change = moved_change(net([info(), remove("../../a"), kept, add("x", rows=5), add("y", rows=2)]), PATHS.relocate)
    new = {key for key in change.added if key[0].startswith("_branches")}
    actions = [json.loads(line) for line in commit_lines({}, change, new, RowIds(10, 7)).splitlines()]
    ids = {body["path"]: (body.get("baseRowId"), body.get("defaultRowCommitVersion")) for (body,) in (
        tuple(action.values()) for action in actions) if "stats" in body}  # fmt: skip
    assert ids == {"a": (3, 1), "_branches/own/x": (10, 7), "_branches/own/y": (15, 7)}
    mark = next(a["domainMetadata"] for a in actions if "domainMetadata" in a)
    assert (mark["domain"], json.loads(mark["configuration"])) == (ROW_TRACKING_DOMAIN, {"rowIdHighWaterMark": 16})


def test_a_new_file_without_statistics_is_refused_where_rows_have_ids() -> None:
    change = net([info(), add("x", rows=None)])
    with pytest.raises(UnsupportedTable, match="no statistics"):
        commit_lines({}, change, set(change.added), RowIds(0, 1))
    assert b"baseRowId" not in commit_lines({}, change, set(change.added), RowIds(None, 1))


# -- conflicts --------------------------------------------------------------------------------------------------------

BLIND = [info(blind=True), add("new")]
DELETES_A = [info("DELETE"), remove("a")]
DELETES_C = [info("DELETE"), remove("c")]
VECTOR_ON_A = [info("DELETE"), remove("a"), add("a", vector=".")]
VECTOR_ON_C = [info("DELETE"), remove("c"), add("c", vector=".")]
UPDATES_C = [info("UPDATE"), remove("c"), add("c", vector="."), add("new")]
RESTORES_C = [info("RESTORE"), remove("c", vector="."), add("c")]
NAMELESS_ON_C = [remove("c"), add("c", vector=".")]
READS = [info(blind=False), add("new")]
REWRITES_A = [info("OPTIMIZE"), remove("a", data=False), add("b", data=False)]
DEFINES = [info("SET TBLPROPERTIES"), {"metaData": {"id": "m"}}]
DOMAIN = [info("CLUSTER BY"), {"domainMetadata": {"domain": "delta.clustering", "configuration": "{}"}}]
STREAM = [info("STREAMING UPDATE", blind=True), {"txn": {"appId": "app", "version": 1}}, add("s")]


@pytest.mark.parametrize(
    ("mine", "theirs", "words"),
    [
        (BLIND, DEFINES, "definition of 't' was changed in version 4 .SET TBLPROPERTIES"),
        (BLIND, DOMAIN, "definition of 't' was changed in version 4 .CLUSTER BY"),
        (DEFINES, BLIND, "the branch changes the definition of 't', which got version 4"),
        (DOMAIN, BLIND, "the branch changes the definition"),
        (DELETES_A, DELETES_A, "changed 'a' of 't'"),
        (DELETES_A, VECTOR_ON_A, "changed 'a' of 't'"),
        (REWRITES_A, VECTOR_ON_A, "changed 'a' of 't'"),
        (VECTOR_ON_A, REWRITES_A, "changed 'a' of 't'"),
        (DELETES_A, BLIND, "'t' got rows in version 4 .WRITE., which the branch's operations .DELETE. did not see"),
        (DELETES_A, UPDATES_C, "'t' got rows in version 4 .UPDATE."),
        (DELETES_A, RESTORES_C, "'t' got rows in version 4 .RESTORE."),
        (DELETES_A, NAMELESS_ON_C, "'t' got rows in version 4"),
        (READS, DELETES_A, "'t' lost rows in version 4 .DELETE., which the branch's operations .WRITE. may"),
        (
            READS,
            VECTOR_ON_C,
            "'t' lost rows in version 4 .DELETE., which the branch's operations .WRITE. may have read",
        ),
        (READS, BLIND, "'t' got rows in version 4"),
        (NAMELESS_ON_C, DELETES_A, "'t' lost rows in version 4"),
        (STREAM, STREAM, "transactions of the application 'app'"),
    ],
)
def test_a_conflict_says_what_both_did(mine: Any, theirs: Any, words: str) -> None:
    reason = conflict_of(net(mine), net(theirs, first=4), "t")
    assert reason is not None
    assert re.search(words, reason), reason


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (BLIND, BLIND),
        (BLIND, DELETES_A),
        (BLIND, REWRITES_A),
        (REWRITES_A, BLIND),
        (REWRITES_A, DELETES_C),
        (REWRITES_A, VECTOR_ON_C),
        (REWRITES_A, UPDATES_C),
        (DELETES_A, DELETES_C),
        (DELETES_A, VECTOR_ON_C),
        (UPDATES_C, VECTOR_ON_A),
        (READS, REWRITES_A),
        (STREAM, BLIND),
        (BLIND, STREAM),
    ],
)
def test_changes_that_do_not_touch_each_other_are_no_conflict(mine: Any, theirs: Any) -> None:
    assert conflict_of(net(mine), net(theirs, first=4), "t") is None
    for change in (mine, theirs, DEFINES, DELETES_A):
        assert conflict_of(net(change), NetChange(), "t") is None


def test_appends_and_rewrites_of_their_files_pass_where_the_catalog_got_or_lost_rows() -> None:
    both = net(BLIND, [info("OPTIMIZE"), remove("new", data=False), add("b", data=False)])
    for theirs in (BLIND, DELETES_A, VECTOR_ON_C, UPDATES_C):
        assert conflict_of(both, net(theirs, first=4), "t") is None


def test_rows_that_an_update_brought_count_after_a_delete_of_some_of_them() -> None:
    theirs = net(UPDATES_C, [info("DELETE"), remove("new"), add("new", vector=".")], first=4)
    assert "got rows in versions 4 to 5" in (conflict_of(net(DELETES_A), theirs, "t") or "")


def test_the_versions_of_a_conflict_are_named_from_the_first_to_the_last() -> None:
    reason = conflict_of(net(DELETES_A), net(BLIND, BLIND, first=4), "t")
    assert reason is not None and "versions 4 to 5" in reason
