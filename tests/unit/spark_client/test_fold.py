"""Folding: one commit with the effect of several (I8), and never a wrong one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from turnstile_spark.transactions.conflicts.fold import CannotFold, commit_info, file_key, fold, with_timestamp

Action = dict[str, Any]
BASE = 7
"""Version of the base; the folded commits begin at the next."""


def info(number: int, **more: Any) -> Action:
    members = {
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "inCommitTimestamp": 1000 + number,
        "timestamp": 1000 + number,
        "txnId": f"t{number}",
        "engineInfo": "Delta",
        "isBlindAppend": True,
    }
    return {"commitInfo": members | more}


def add(path: str, vector: str = "", data: bool = True, **more: Any) -> Action:
    return {"add": {"path": path, "dataChange": data, **_vector(vector), **more}}


def remove(path: str, vector: str = "", data: bool = True) -> Action:
    return {"remove": {"path": path, "dataChange": data, **_vector(vector)}}


def _vector(vector: str) -> Action:
    return {"deletionVector": {"storageType": "u", "pathOrInlineDv": vector, "offset": 1}} if vector else {}


def content(number: int, *actions: Action, **more: Any) -> str:
    return "".join(json.dumps(action) + "\n" for action in (info(number, **more), *actions))


def folded(*contents: str) -> list[Action]:
    return [json.loads(line) for line in fold(contents, BASE + 1, "group").splitlines()]


def replay(contents: list[str]) -> dict[str, Any]:
    """The state after these commits, as the protocol reconciles actions. Members that say how a
    file came are left out."""
    state: dict[str, Any] = {"files": {}}
    for lines in contents:
        for action in map(json.loads, lines.splitlines()):
            match next(iter(action.items())):
                case ("remove", file):
                    state["files"].pop(file_key(file), None)
                case ("add", file):
                    left_out = ("dataChange", "defaultRowCommitVersion")
                    state["files"][file_key(file)] = {k: v for k, v in file.items() if k not in left_out}
                case ("metaData" | "protocol" as kind, body):
                    state[kind] = body
                case ("domainMetadata", body):
                    state["domain", body["domain"]] = None if body["removed"] else body["configuration"]
                case ("txn", body):
                    state["txn", body["appId"]] = body["version"]
    return {key: value for key, value in state.items() if value is not None}


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A base, and commits on it, each of which a writer could have made after the one before."""
    numbers = iter(range(10_000))
    is_tracked = draw(st.booleans())
    active: dict[str, str] = {f"base{n}": draw(st.sampled_from(["", "vb"])) for n in range(draw(st.integers(0, 4)))}
    base = content(0, *(add(path, vector, size=1) for path, vector in active.items()))
    away = dict.fromkeys(["gone"], "")
    commits = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        actions = []
        touched = set[str]()
        for _ in range(draw(st.integers(0, 5))):
            what = draw(st.sampled_from(["add", "remove", "vector", "again", "back", "meta", "domain", "txn"]))
            there = sorted(set(active) - touched)
            path = draw(st.sampled_from(there)) if there else ""
            data = draw(st.booleans())
            if what == "add":
                path = f"new{next(numbers)}"
                rows = {"defaultRowCommitVersion": BASE + number, "baseRowId": 1} if is_tracked else {}
                actions.append(add(path, "", data, size=2, **rows))
                active[path] = ""
            elif what == "remove" and path:
                actions.append(remove(path, active[path], data))
                away[path] = active.pop(path)
            elif what == "vector" and path:
                vector = f"v{next(numbers)}"
                actions += [remove(path, active[path]), add(path, vector, size=3)]
                active[path] = vector
            elif what == "again" and path:
                actions.append(add(path, active[path], data=False, size=4, stats="{}"))
            elif what == "back" and (backs := sorted(set(away) - touched)):
                path = draw(st.sampled_from(backs))
                active[path] = away.pop(path)
                actions.append(add(path, active[path], size=5))
            elif what == "meta" and "meta" not in touched:
                path = "meta"
                actions += [{"metaData": {"id": next(numbers)}}, {"protocol": {"minReaderVersion": next(numbers)}}]
            elif what in ("domain", "txn") and what not in touched:
                path = what
                removed = draw(st.booleans())
                body = {"domain": "d", "configuration": str(next(numbers)), "removed": removed}
                actions.append(
                    {"domainMetadata": body} if what == "domain" else {"txn": {"appId": "x", "version": number}}
                )
            touched.add(path)
        commits.append(content(number, *actions))
    return base, commits


def folding(commits: list[str]) -> str:
    """The folded commit of a history; rejects files without row ids of tables with row tracking."""
    try:
        return fold(commits, BASE + 1, "group")
    except CannotFold:
        reject()


@given(histories())
def test_i8_the_folded_commit_has_the_effect_of_all(history: tuple[str, list[str]]) -> None:
    base, commits = history
    assert replay([base, folding(commits)]) == replay([base, *commits])


@given(histories())
def test_i2_a_folded_commit_is_one_that_a_writer_could_have_made(history: tuple[str, list[str]]) -> None:
    _, commits = history
    text = folding(commits)
    actions = [json.loads(line) for line in text.splitlines()]
    assert next(iter(actions[0])) == "commitInfo"
    assert commit_info(text)["inCommitTimestamp"] == 1000 + len(commits)  # I7
    adds, removes = ([a[kind] for a in actions if kind in a] for kind in ("add", "remove"))
    for files in (adds, removes):
        assert len({file["path"] for file in files}) == len(files)
    assert not {file_key(file) for file in adds} & {file_key(file) for file in removes}
    for kind in ("metaData", "protocol", "commitInfo", "txn", "domainMetadata"):
        assert sum(kind in action for action in actions) <= 1
    if len(commits) > 1:
        assert all(file.get("defaultRowCommitVersion", 0) <= BASE + 1 for file in adds)


def test_a_file_that_came_and_went_is_left_out_and_what_is_left_of_its_rows_is_a_change_of_data() -> None:
    """A follower of the table skips commits that change no data: here it is all that there is."""
    compacted = [content(1, add("a")), content(2, remove("a", data=False), add("b", data=False))]
    assert folded(*compacted)[1:] == [add("b")]
    assert folded(content(1, add("a")), content(2, add("c", data=False)))[1:] == [add("a"), add("c", data=False)]


def test_a_file_of_the_base_that_was_described_anew_and_removed_is_removed() -> None:
    assert folded(content(1, add("a", data=False)), content(2, remove("a")))[1:] == [remove("a")]


def test_one_commit_stays_as_it_is_byte_for_byte() -> None:
    """I2."""
    text = content(1, add("a"))
    assert fold([text], BASE + 1, "group") == text


def test_what_other_programs_take_for_the_end_of_a_line_is_a_character_like_others() -> None:
    """Jackson, which Delta writes with, leaves it as it is."""
    separated = json.dumps(info(1, operation="a\u2028b\x85c"), ensure_ascii=False) + "\n"
    statements = json.loads(fold([separated, content(2)], BASE + 1, "group").split("\n")[0])
    assert "a\u2028b\x85c" in statements["commitInfo"]["operationParameters"]["statements"]


def test_the_history_tells_the_statements_and_blind_is_blind_only_if_all_are() -> None:
    info = folded(content(1, add("a")), content(2, remove("b"), isBlindAppend=False, operation="DELETE"))[0][
        "commitInfo"
    ]
    statements = json.loads(info["operationParameters"]["statements"])
    assert (info["operation"], [s["operation"] for s in statements]) == ("TRANSACTION", ["WRITE", "DELETE"])
    assert (info["isBlindAppend"], info["txnId"], info["readVersion"]) == (False, "group", BASE)
    assert folded(content(1, add("a")), content(2, add("b")))[0]["commitInfo"]["isBlindAppend"] is True


@pytest.mark.parametrize(
    ("commits", "why"),
    [
        ([content(1, add("a")), content(2, {"cdc": {"path": "c"}}, remove("b"), add("d"))], "change data feed"),
        ([content(1, add("a")), content(2, {"surprise": {}})], "'surprise'"),
        (
            [
                content(1, add("x")),
                content(2, add("a", defaultRowCommitVersion=BASE + 2)),
                content(3, remove("a"), add("b", defaultRowCommitVersion=BASE + 3)),
            ],
            "row tracking",
        ),
    ],
)  # fmt: skip
def test_what_has_no_commit_of_the_same_effect_is_refused(commits: list[str], why: str) -> None:
    with pytest.raises(CannotFold, match=why):
        fold(commits, BASE + 1, "group")


def test_change_data_of_a_single_statement_is_kept_beside_commits_without_files() -> None:
    changed = content(1, {"cdc": {"path": "c"}}, remove("b"), add("d"))
    assert {"cdc": {"path": "c"}} in folded(changed, content(2, {"txn": {"appId": "x", "version": 1}}))


def test_i7_another_in_commit_timestamp_changes_nothing_else() -> None:
    before = content(1, add("ä"))
    after = with_timestamp(before, 77)
    assert commit_info(after) == {**commit_info(before), "inCommitTimestamp": 77}
    assert after.partition("\n")[2] == before.partition("\n")[2]
