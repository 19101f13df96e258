"""The state of a version is read from its newest readable checkpoint and the commits after it
(I15)."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.fakes import delta
from tests.support.fakes.storage import FakeClock, FakeIds, FakeStorage, FakeStorages
from turnstile.delta.core.segments import complete_checkpoints, file_key, starts, vector_id
from turnstile.delta.log.files import list_log
from turnstile.maintenance.checkpoint import CheckpointWriter
from turnstile.maintenance.columns import OTHER, other_array
from turnstile.maintenance.core.upkeep import upkeep_of
from turnstile.maintenance.file_actions import ROWS, Columns
from turnstile.maintenance.state import TableState, open_state
from turnstile.store.core.errors import TurnstileError, UnsupportedTable
from turnstile.store.core.names import LOG, published_path

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 2,
}


def log_of(*commits: list[dict[str, Any]]) -> FakeStorage:
    storage = FakeStorages(FakeClock()).open("s3://lake/t")
    for version, actions in enumerate(commits):
        info = [] if "commitInfo" in actions[0] else [delta.info(f"t{version}", version + 1)]
        storage.put_if_absent(published_path(version), delta.lines(*info, *actions))
    return storage


def first(*actions: dict[str, Any]) -> list[dict[str, Any]]:
    return [delta.info("t0", 1), delta.protocol(), delta.metadata(), *actions]


def removal(path: str, at_ms: int) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": at_ms, "dataChange": True}}


def paths(state: TableState) -> list[str]:
    return sorted(add.path for add in state.files())


def tombstones(state: TableState) -> list[str]:
    return sorted(remove.path for chunk in state.chunks() for remove in chunk.removes or ())


def txn(app: str, version: int) -> dict[str, Any]:
    return {"txn": {"appId": app, "version": version}}


def domain(name: str, *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": "{}", "removed": removed}}


def test_i15_of_each_logical_file_the_newest_action_counts() -> None:
    deleted = {**delta.add("b", deletionVector=VECTOR)["add"]}
    storage = log_of(
        first(delta.add("a"), delta.add("b"), delta.add("c")),
        [delta.remove("b"), {"add": deleted}, delta.add("a", rows=7)],
        [delta.remove("c")],
        [delta.add("c", rows=9)],
    )
    state = open_state(storage, 3)
    files = {add.path: add for add in state.files()}
    assert sorted(files) == ["a", "b", "c"]
    assert json.loads(files["a"].stats or "")["numRecords"] == 7
    assert json.loads(files["c"].stats or "")["numRecords"] == 9
    assert vector_id(files["b"].deletionVector) == "uab^-aqEH.-t@S}K{vb[*k^@4"
    assert tombstones(state) == ["b"], "the file with the vector is another one than the file without"
    assert paths(open_state(storage, 2)) == ["a", "b"]
    assert tombstones(open_state(storage, 2)) == ["b", "c"]


def test_i15_the_newest_of_what_is_not_about_files_counts() -> None:
    storage = log_of(
        first(txn("x", 5), txn("y", 1), domain("kept"), domain("gone")),
        [delta.metadata(later="1"), txn("x", 4), domain("gone", removed=True)],
    )
    state = open_state(storage, 1)
    assert {app: body["version"] for app, body in state.transactions.items()} == {"x": 4, "y": 1}
    assert list(state.domains) == ["kept"]
    assert state.metadata["configuration"]["later"] == "1"


@pytest.mark.parametrize("named", ["80a083e8-7026-4e79-81be-64bd76c43a11", "a-b"])
def test_i15_a_checkpoint_stands_for_the_commits_before_it(named: str) -> None:
    storage = log_of(first(delta.add("a"), delta.add("b")), [delta.remove("a"), delta.add("c")], [delta.remove("b")])
    actions = [{"checkpointMetadata": {"version": 1}}, *first()[1:], delta.add("b"), delta.add("c"), delta.remove("a")]
    storage.put_if_absent(f"{LOG}{1:020d}.checkpoint.{named}.json", delta.lines(*actions))
    storage.delete(published_path(0))
    storage.delete(published_path(1))
    state = open_state(storage, 2)
    assert state.start == 1
    assert paths(state) == ["c"]
    assert tombstones(state) == ["a", "b"]


def test_i15_a_checkpoint_that_cannot_be_read_is_passed_over() -> None:
    storage = log_of(first(delta.add("a")), [delta.add("b")], [delta.add("c")])
    storage.put_if_absent(f"{LOG}{1:020d}.checkpoint.parquet", b"no parquet")
    storage.put_if_absent(f"{LOG}{2:020d}.checkpoint.x.json", b'{"sidecar":{"path":"gone.parquet"}}\n')
    state = open_state(storage, 2)
    assert state.start == -1
    assert paths(state) == ["a", "b", "c"]


def test_i15_a_later_checkpoint_says_nothing_of_an_earlier_version() -> None:
    storage = log_of(first(delta.add("a")), [delta.remove("a")])
    storage.put_if_absent(f"{LOG}{1:020d}.checkpoint.x.json", delta.lines(*first()[1:]))
    assert paths(open_state(storage, 0)) == ["a"]


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_i15_a_log_with_a_hole_has_no_state(gone: int) -> None:
    storage = log_of(first(delta.add("a")), [delta.add("b")], [delta.add("c")])
    storage.delete(published_path(gone))
    with pytest.raises(TurnstileError):
        open_state(storage, 2)


def test_i15_a_log_without_protocol_or_metadata_has_no_state() -> None:
    for actions in ([delta.protocol()], [delta.metadata()]):
        storage = log_of([delta.info("t0", 1), *actions, delta.add("a")])
        with pytest.raises(UnsupportedTable, match="no protocol or no metadata"):
            open_state(storage, 0)


def test_i15_a_file_that_goes_while_the_log_is_read_is_reported() -> None:
    storage = log_of(first(delta.add("a")), [delta.add("b")], [delta.add("c")])
    files = list_log(storage)
    state = open_state(storage, 2)
    storage.delete(published_path(1))
    with pytest.raises(UnsupportedTable, match="version 1 is missing"):
        open_state(storage, 2, files)
    with pytest.raises(UnsupportedTable, match="version 1 is missing"):
        paths(state)


@pytest.mark.parametrize("ending", ["parquet", "x.json"])
def test_i15_a_checkpoint_that_goes_while_it_is_read_is_reported(ending: str) -> None:
    storage = log_of(first(delta.add("a")), [delta.add("b")], [delta.add("c")])
    path = f"{LOG}{1:020d}.checkpoint.{ending}"
    if ending == "parquet":
        state = open_state(storage, 1)
        assert (
            CheckpointWriter(storage, state, upkeep_of(state.protocol, state.metadata), FakeIds()).write(0) is not None
        )
    else:
        storage.put_if_absent(path, delta.lines(*first(delta.add("a"), delta.add("b"))[1:]))
    files = list_log(storage)
    state = open_state(storage, 2)
    assert (state.start, paths(state)) == (1, ["a", "b", "c"])
    storage.delete(path)
    assert open_state(storage, 2, files).start == -1
    with pytest.raises(UnsupportedTable, match=r"checkpoint.* is missing"):
        paths(state)


def test_lines_that_are_empty_are_passed_over_and_those_that_are_no_action_refused() -> None:
    storage = log_of(first(delta.add("a")))
    storage.put_if_absent(published_path(1), b"\n  \n" + delta.lines(delta.info("t1", 2), delta.add("b")) + b"\n")
    assert paths(open_state(storage, 1)) == ["a", "b"]
    storage.put_if_absent(published_path(2), delta.lines(delta.info("t2", 3)) + b'{"add":{"path":"c"}}\n')
    with pytest.raises(UnsupportedTable, match="version 2 is not readable"):
        paths(open_state(storage, 2))


def test_i15_a_checkpoint_of_the_first_version_is_a_start() -> None:
    storage = log_of(first(delta.add("a")), [delta.add("b")])
    storage.put_if_absent(f"{LOG}{0:020d}.checkpoint.x.json", delta.lines(*first(delta.add("a"))[1:]))
    state = open_state(storage, 1)
    assert (state.start, paths(state)) == (0, ["a", "b"])
    storage.delete(f"{LOG}{0:020d}.checkpoint.x.json")
    storage.put_if_absent(f"{LOG}{0:020d}.checkpoint.parquet", b"no parquet")
    state = open_state(storage, 1)
    assert (state.start, paths(state)) == (-1, ["a", "b"])


def test_more_files_of_a_checkpoint_than_are_held_at_once() -> None:
    storage = log_of(first(), [delta.add("z")])
    actions = [*first()[1:], *(delta.add(f"f{number}") for number in range(ROWS + 5)), delta.add("z")]
    storage.put_if_absent(f"{LOG}{1:020d}.checkpoint.x.json", delta.lines(*actions))
    state = open_state(storage, 1)
    assert len(paths(state)) == ROWS + 6
    assert max(len(chunk.adds or ()) for chunk in state.chunks()) == ROWS


def test_i15_a_checkpoint_of_tombstones_only_has_them() -> None:
    storage = log_of(first(delta.add("a")), [removal("a", 5)])
    state = open_state(storage, 1)
    assert CheckpointWriter(storage, state, upkeep_of(state.protocol, state.metadata), FakeIds()).write(6) is not None
    after = open_state(storage, 1)
    assert after.start == 1
    columns = [chunk.removes for chunk in after.chunks() if isinstance(chunk, Columns) and chunk.removes is not None]
    assert [paths.field("path").to_pylist() for paths in columns] == [["a"]]
    assert not list(after.files())


def test_i15_two_actions_of_one_file_in_a_commit_are_refused() -> None:
    storage = log_of(first(delta.add("a"), delta.remove("a")))
    with pytest.raises(UnsupportedTable, match="two actions of 'a'"):
        paths(open_state(storage, 0))


def test_more_files_than_are_held_at_once() -> None:
    storage = log_of(first(*(delta.add(f"f{number}") for number in range(2 * ROWS + 1))), [delta.remove("f7")])
    state = open_state(storage, 1)
    assert len(paths(state)) == 2 * ROWS
    assert max(len(chunk.adds or ()) for chunk in state.chunks()) == ROWS


def test_complete_checkpoints_are_those_with_every_part_and_no_empty_file() -> None:
    classic = f"{3:020d}.checkpoint.parquet"
    unique = f"{3:020d}.checkpoint.0a-1.json"
    of_two = [f"{3:020d}.checkpoint.{part:010d}.{2:010d}.parquet" for part in (1, 2)]
    of_three = [f"{3:020d}.checkpoint.{part:010d}.{3:010d}.parquet" for part in (1, 3)]
    sizes = dict.fromkeys([classic, unique, *of_two, *of_three], 1)
    assert [checkpoint.names for checkpoint in complete_checkpoints(sizes)] == [(unique,), (classic,), tuple(of_two)]
    assert complete_checkpoints({classic: 0, of_two[0]: 1, of_two[1]: 0}) == []
    wrong = [f"{3:020d}.checkpoint.{part:010d}.{2:010d}.parquet" for part in (0, 3)]
    assert complete_checkpoints(dict.fromkeys(wrong, 1)) == []


def test_a_state_starts_where_no_commit_after_it_is_missing() -> None:
    assert list(starts([2, 5, 9], range(10), 7)) == [5, 2, -1]
    assert list(starts([2, 5, 9], range(3, 10), 7)) == [5, 2]
    assert list(starts([2, 5, 9], range(4, 10), 7)) == [5]
    assert list(starts([5], [6, 7], 7)) == [5]
    assert list(starts([5], [7], 7)) == []
    assert list(starts([], range(8), 7)) == [-1]


def test_keys_tell_a_path_from_its_vector() -> None:
    assert file_key("a", "b") != file_key("ab", "") != file_key("a\0b", "")
    assert file_key("a", "") == file_key("a", "")
    assert len(file_key("a" * 5000, "")) == 16


def test_i15_a_parquet_checkpoint_of_few_members_is_read_as_it_is() -> None:
    """Older writers leave out what they do not know; maps have names of their own."""
    kind = pa.struct([("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string())),
                      ("size", pa.int64()),
                      ("modificationTime", pa.int64()), ("tags", pa.map_(pa.string(), pa.string()))])  # fmt: skip
    adds = [
        {"path": path, "partitionValues": [("p", "x")], "size": 1, "modificationTime": 2, "tags": [("k", "v")]}
        for path in "ab"
    ]
    adds[1]["tags"] = None
    storage = log_of(first(), [delta.add("z")], [delta.remove("b"), delta.add("c")])
    actions = list(first()[1:])
    columns = {"add": pa.array([None, None, *adds], kind)}
    for body in actions:
        ((name, members),) = body.items()
        columns[name] = pa.concat_arrays([other_array(name, [members]), pa.nulls(3, OTHER[name])])
    sink = io.BytesIO()
    parquet.write_table(pa.table(columns), sink)
    storage.put_if_absent(f"{LOG}{1:020d}.checkpoint.parquet", sink.getvalue())
    state = open_state(storage, 2)
    assert state.start == 1
    files = {add.path: add for add in state.files()}
    assert sorted(files) == ["a", "c"]
    assert (files["a"].partitionValues, files["a"].tags, files["a"].stats) == ({"p": "x"}, {"k": "v"}, None)
    assert state.metadata["configuration"] == {"delta.enableInCommitTimestamps": "true"}


def test_i15_a_version_that_is_not_published_has_no_state() -> None:
    storage = log_of(first(delta.add("a")))
    storage.put_if_absent(f"{LOG}{1:020d}.checkpoint.x.json", delta.lines(*first()[1:]))
    with pytest.raises(UnsupportedTable, match="version 1 is missing"):
        open_state(storage, 1)
