"""Light work describes exactly the state of a published version, with any failure and any other
worker (I15)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.delta_table import Killed, Table, alter, kill_at, table_id
from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorage
from tests.support.fakes.world import copied, fake_world
from turnstile.coordination.heartbeat import LEASE_MS, Heartbeat
from turnstile.coordination.tasks import Attempt, Tasks
from turnstile.delta.core.actions import Add
from turnstile.delta.core.decide import Ratified
from turnstile.delta.log.files import list_log
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.soundness.checkpoints import SIDECARS
from turnstile.maintenance import compaction, work
from turnstile.maintenance.compaction import compacted_path
from turnstile.maintenance.core.due import FIRST_PAUSE_MS
from turnstile.maintenance.state import open_state
from turnstile.maintenance.work import MARGIN_MS, TERM_MS, Maintainer, MaintenanceTarget, OutOfTime
from turnstile.store.core.errors import StateConflict, UnsupportedTable
from turnstile.store.core.names import LOG, published_path
from turnstile.store.faults import no_faults

POINTS = (
    "maintenance.begun", "checkpoint.written", "checkpoint.pointed", "checkpoint.checksum", "maintenance.written",
)  # fmt: skip
MONTH_MS = 30 * 86_400_000


def commit(table: Table, *actions: dict[str, Any]) -> int:
    """A commit of the next version with these actions."""
    version = table.head.latest + 1
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    content = delta.lines(delta.info(f"c-{version}", stamp), *actions)
    answer = table.ratifier.commit(CommitRequest(table.id, version, content=content))
    assert isinstance(answer, Ratified), answer
    return table._ratified(answer, content, "")


def removed(path: str, at_ms: int) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": at_ms, "dataChange": True}}


def busy(table: Table, count: int = 12) -> None:
    """``count`` commits that add, remove and replace files, published."""
    for number in range(table.head.latest + 1, table.head.latest + 1 + count):
        actions = [delta.add(f"f{number}"), delta.add(f"g{number}", rows=number)]
        if number > 3:
            actions.append(removed(f"f{number - 3}", table.world.clock.now_ms()))
        actions.append({"txn": {"appId": f"app{number % 3}", "version": number}})
        commit(table, *actions)
    Publisher(table.world).publish(table.id)
    table.check_all_published()


def model(table: Table, version: int) -> dict[str, Any]:
    """The state of a version from its commits, in the plainest way: newest action of each key
    wins."""
    files: dict[str, dict[str, Any]] = {}
    state: dict[str, Any] = {"txn": {}}
    for at in range(version + 1):
        for line in table.ratified[at].splitlines():
            ((name, body),) = json.loads(line).items()
            match name:
                case "add":
                    files[body["path"]] = body
                case "remove":
                    files.pop(body["path"], None)
                case "txn":
                    state["txn"][body["appId"]] = body
                case "metaData" | "protocol":
                    state[name] = body
    return {**state, "files": {path: json.loads(body["stats"]) for path, body in files.items()}}


def seen(table: Table, version: int) -> dict[str, Any]:
    """The same, as it is read from the newest checkpoint and the commits after it."""
    state = open_state(table.storage, version)

    def plain(add: Add) -> Any:
        return json.loads(add.stats or "null")

    return {
        "txn": {app: {name: body[name] for name in ("appId", "version")} for app, body in state.transactions.items()},
        "protocol": state.protocol,
        "metaData": {**state.metadata},
        "files": {add.path: plain(add) for add in state.files()},
    }


def only_checkpoint(table: Table, version: int) -> None:
    """Removes the commits before ``version``, so that readers need the checkpoint."""
    for at in range(version):
        table.storage.delete(published_path(at))


def check(table: Table, version: int) -> None:
    expected = model(table, version)
    assert seen(table, version) == expected
    files = list_log(table.storage)
    assert all(at <= table.head.floor for at in files.checkpoints)
    for at in files.checkpoints:
        if at <= version:
            pruned = Table.__new__(Table)
            pruned.__dict__.update(table.__dict__)
            pruned.world = copied(table.world)
            pruned.storage = pruned.world.storages.open(table.location)
            only_checkpoint(pruned, at)
            assert open_state(pruned.storage, version).start >= at
            assert seen(pruned, version) == expected


@pytest.fixture
def table() -> Table:
    return Table(fake_world())


def v2_table() -> Table:
    """A table with checkpoints that have sidecars, and statistics as structs."""
    table = Table(fake_world())
    now = table.world.clock.now_ms()
    protocol = delta.protocol("v2Checkpoint")
    protocol["protocol"]["readerFeatures"] = [*protocol["protocol"]["readerFeatures"], "v2Checkpoint"]
    asked = {"delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsStruct": "true"}
    content = delta.lines(delta.info("v2", now), protocol, delta.metadata(**asked))
    answer = table.ratifier.commit(CommitRequest(table.id, 1, content=content))
    table._ratified(answer, content, "")
    return table


@pytest.fixture(params=["classic", "v2"])
def any_table(request: pytest.FixtureRequest) -> Table:
    return v2_table() if request.param == "v2" else Table(fake_world())


# -- what is written ---------------------------------------------------------------------------------------------------


def test_i15_a_checkpoint_is_written_when_it_is_due_and_not_before(any_table: Table) -> None:
    maintainer = Maintainer(any_table.world)
    busy(any_table, 9 - any_table.head.latest)
    assert maintainer.maintain(any_table.id).outcome == "done"
    assert list_log(any_table.storage).checkpoints == {}
    assert maintainer.maintain(any_table.id).outcome == "nothing due"
    busy(any_table, 1)
    done = maintainer.maintain(any_table.id)
    assert (done.outcome, done.checkpoints, done.checksums) == ("done", (10,), (10,)), done
    check(any_table, 10)
    busy(any_table, 5)
    assert maintainer.maintain(any_table.id, 15).outcome == "nothing due"
    check(any_table, 15)
    busy(any_table, 5)
    assert maintainer.maintain(any_table.id, 20).checkpoints == (20,)
    check(any_table, 12)
    check(any_table, 20)


def test_i15_nothing_is_written_beyond_the_floor(table: Table) -> None:
    busy(table, 10)
    for number in range(11):
        commit(table, delta.add(f"later{number}"))
    assert table.head.latest == 21
    assert Maintainer(table.world).maintain(table.id).checkpoints == (10,)
    assert max(list_log(table.storage).checkpoints) == 10
    names = {
        stat.path.removeprefix(LOG)[:20] for stat in table.storage.list(LOG) if stat.path != f"{LOG}_last_checkpoint"
    }
    assert max(int(name) for name in names) == 10


def test_i15_a_tombstone_stays_until_it_expires_and_then_goes(table: Table) -> None:
    old = table.world.clock.now_ms() - MONTH_MS
    commit(table, delta.add("young"), delta.add("old"), delta.add("kept"))
    commit(table, removed("young", table.world.clock.now_ms()), removed("old", old))
    busy(table, 10)
    assert Maintainer(table.world).maintain(table.id).checkpoints == (12,)
    only_checkpoint(table, 12)
    chunks = list(open_state(table.storage, 12).chunks())
    paths = {path for chunk in chunks for path in getattr(chunk.removes, "field", lambda _: [])("path")}
    assert "young" in {str(path) for path in paths}
    assert "old" not in {str(path) for path in paths}


def test_i15_the_pointer_leads_to_the_checkpoint_and_never_back(any_table: Table) -> None:
    busy(any_table, 12)
    maintainer = Maintainer(any_table.world)
    any_table.put(f"{LOG}_last_checkpoint", b'{"version":999,"size":1}')
    maintainer.maintain(any_table.id)
    pointer = any_table.storage.read(f"{LOG}_last_checkpoint")
    assert pointer is not None
    assert json.loads(pointer[0])["version"] == 999
    any_table.put(f"{LOG}_last_checkpoint", b'{"version":3,"size":1}')
    busy(any_table, 12)
    maintainer.maintain(any_table.id)
    pointer = any_table.storage.read(f"{LOG}_last_checkpoint")
    assert pointer is not None
    members = json.loads(pointer[0])
    assert members["version"] == any_table.head.floor
    assert members["numOfAddFiles"] == len(model(any_table, any_table.head.floor)["files"])


def test_i15_a_checksum_says_what_the_state_is_and_none_is_overwritten(any_table: Table) -> None:
    busy(any_table, 12)
    floor = any_table.head.floor
    Maintainer(any_table.world).maintain(any_table.id)
    file = any_table.storage.read(f"{LOG}{floor:020d}.crc")
    assert file is not None
    members = json.loads(file[0])
    expected = model(any_table, floor)
    assert members["numFiles"] == len(expected["files"])
    assert members["tableSizeBytes"] == 10 * len(expected["files"])
    assert {txn["appId"]: txn["version"] for txn in members["setTransactions"]} == {
        app: body["version"] for app, body in expected["txn"].items()
    }
    info = json.loads(any_table.ratified[floor].splitlines()[0])["commitInfo"]
    assert (members["txnId"], members["inCommitTimestampOpt"]) == (info["txnId"], info["inCommitTimestamp"])
    other = Table(fake_world())
    busy(other, 10)
    other.put(f"{LOG}{10:020d}.crc", b"of an engine")
    assert Maintainer(other.world).maintain(other.id).checksums == ()
    assert other.storage.read(f"{LOG}{10:020d}.crc")[0] == b"of an engine"  # type: ignore[index]


def test_i15_a_transaction_stays_until_it_expires_in_the_checkpoint_as_in_the_checksum(table: Table) -> None:
    alter(table, **{"delta.setTransactionRetentionDuration": "1 day"})
    now = table.world.clock.now_ms()
    for app, at_ms in (("young", now), ("old", now - MONTH_MS)):
        commit(table, {"txn": {"appId": app, "version": 1, "lastUpdated": at_ms}})
    for number in range(10):
        commit(table, delta.add(f"f{number}"))
    Publisher(table.world).publish(table.id)
    (version,) = Maintainer(table.world).maintain(table.id).checkpoints
    file = table.storage.read(f"{LOG}{version:020d}.crc")
    assert file is not None
    assert [txn["appId"] for txn in json.loads(file[0])["setTransactions"]] == ["young"]
    only_checkpoint(table, version)
    assert list(open_state(table.storage, version).transactions) == ["young"]


def test_i15_a_compaction_stands_for_its_commits(table: Table) -> None:
    alter(table, **{"delta.checkpointInterval": "100"})
    busy(table, 30)
    done = Maintainer(table.world).maintain(table.id)
    assert done.compactions == ((0, 9), (10, 19), (20, 29)), done
    file = table.storage.read(compacted_path(10, 19))
    assert file is not None
    actions = [json.loads(line) for line in file[0].splitlines()]
    files: dict[str, str] = {}
    for version in range(10, 20):
        for line in table.ratified[version].splitlines():
            ((name, body),) = json.loads(line).items()
            if name in ("add", "remove"):
                files[body["path"]] = name
    assert {body["path"]: name for action in actions for name, body in action.items() if "path" in body} == files
    assert sum("path" in body for action in actions for body in action.values()) == len(files)
    newest = {body["appId"]: body["version"] for action in actions for name, body in action.items() if name == "txn"}
    assert newest == {"app0": 18, "app1": 19, "app2": 17}
    assert not any("commitInfo" in action for action in actions)


def test_a_compaction_is_written_piece_by_piece_and_not_of_commits_that_are_gone(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy(table, 12)
    monkeypatch.setattr(compaction, "_BYTES", 200)
    pieces: list[bytes] = []

    class Storage:
        stat = table.storage.stat
        read = table.storage.read

        def put_if_absent(self, path: str, content: Any) -> bool:
            pieces.extend(content)
            return True

    assert compaction.write_compaction(Storage(), 2, 11)  # type: ignore[arg-type]
    assert len(pieces) > 5
    assert {b"\n"} == {piece[-1:] for piece in pieces if piece}
    table.storage.delete(published_path(4))
    with pytest.raises(UnsupportedTable, match="version 4 is missing"):
        compaction.write_compaction(table.storage, 2, 11)
    assert table.storage.stat(compacted_path(2, 11)) is None


# -- what fails --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", POINTS)
def test_i15_a_crash_at_any_step_leaves_the_same_state_and_the_next_one_goes_on(any_table: Table, point: str) -> None:
    busy(any_table, 12)
    floor = any_table.head.floor
    with pytest.raises(Killed):
        Maintainer(any_table.world, faults=kill_at(point)).maintain(any_table.id)
    check(any_table, floor)
    assert Maintainer(any_table.world).maintain(any_table.id).outcome == "busy"
    any_table.world.clock.now += TERM_MS
    assert Maintainer(any_table.world).maintain(any_table.id).outcome in ("done", "nothing due")
    assert floor in list_log(any_table.storage).checkpoints
    check(any_table, floor)


def test_i15_a_crash_between_sidecars_leaves_none_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = v2_table()
    monkeypatch.setattr("turnstile.maintenance.checkpoint.SIDECAR_ACTIONS", 3)
    monkeypatch.setattr("turnstile.maintenance.state.ROWS", 2)
    monkeypatch.setattr("turnstile.maintenance.file_actions.ROWS", 2)
    busy(table, 12)
    floor = table.head.floor
    with pytest.raises(Killed):
        Maintainer(table.world, faults=kill_at("checkpoint.sidecar", 3)).maintain(table.id)
    assert len(list(table.storage.list(SIDECARS))) == 3
    assert list_log(table.storage).checkpoints == {}
    check(table, floor)
    table.world.clock.now += TERM_MS
    assert Maintainer(table.world).maintain(table.id).checkpoints == (floor,)
    assert len(list(table.storage.list(SIDECARS))) > 6
    check(table, floor)


def test_i15_two_workers_with_one_version_do_no_harm(any_table: Table) -> None:
    busy(any_table, 12)
    floor = any_table.head.floor
    others = list[object]()

    def other(point: str) -> None:
        if point == "maintenance.begun" and not others:
            any_table.world.clock.now += TERM_MS
            others.append(Maintainer(any_table.world).maintain(any_table.id))

    first = Maintainer(any_table.world, faults=other).maintain(any_table.id)
    assert others[0].checkpoints == (floor,)  # type: ignore[attr-defined]
    assert first.checkpoints == ()
    assert first.outcome == "done" or "takes too long" in first.reason
    check(any_table, floor)
    assert len([stat for stat in any_table.storage.list(LOG) if ".checkpoint." in stat.path]) == 1


def test_i15_a_checkpoint_that_another_worker_wrote_meanwhile_stays(
    any_table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy(any_table, 12)
    floor = any_table.head.floor
    decide = work.due
    others = list[object]()

    def late(*given: Any) -> Any:
        """The other one does all of it after this one has listed the log."""
        if not others:
            others.append(None)
            any_table.world.clock.now += TERM_MS
            others.append(Maintainer(any_table.world).maintain(any_table.id))
        return decide(*given)

    monkeypatch.setattr(work, "due", late)
    first = Maintainer(any_table.world).maintain(any_table.id)
    files = {path: content for path, (content, _) in any_table.world.storages.files.items()}
    assert (first.outcome, first.checkpoints, first.checksums) == ("done", (), ())
    assert others[1].checkpoints == (floor,)  # type: ignore[attr-defined]
    assert len([path for path in files if ".checkpoint." in path]) == 1
    check(any_table, floor)


def test_i10_an_attempt_may_write_until_the_margin_before_its_end(table: Table) -> None:
    busy(table, 12)
    attempt = Tasks(table.world).begin(f"maintain.{table.id}", TERM_MS)
    assert isinstance(attempt, Attempt)
    heartbeat = Heartbeat(Tasks(table.world), attempt, table.world.clock)
    guard = work._Work(table.world, table.head, heartbeat, no_faults).guard
    table.world.clock.step = 0
    table.world.clock.now = attempt.task.began + TERM_MS - MARGIN_MS
    guard()
    table.world.clock.now += 1
    with pytest.raises(StateConflict, match="takes too long"):
        guard()


@pytest.mark.parametrize(("member", "value"), [("location", "file:///lake/other"), ("floor", 3)])
def test_i15_a_table_that_moved_or_was_restored_meanwhile_is_left_alone(
    any_table: Table, member: str, value: object
) -> None:
    busy(any_table, 12)

    def meanwhile(point: str) -> None:
        if point == "maintenance.begun":
            any_table.row[member] = value

    done = Maintainer(any_table.world, faults=meanwhile).maintain(any_table.id)
    assert (done.outcome, done.reason) == ("failed", "its HEAD was restored or moved meanwhile")
    assert list_log(any_table.storage).checkpoints == {}


@pytest.mark.parametrize("state", ["stuck", "leaving", "recovering", "dropped", "pinned"])
def test_i15_only_active_tables_have_light_work(table: Table, state: str) -> None:
    busy(table, 12)
    table.row["state"] = state
    assert Maintainer(table.world).maintain(table.id).outcome == "not maintained"
    assert list_log(table.storage).checkpoints == {}


def test_i10_a_worker_that_was_frozen_writes_nothing_when_the_table_is_gone(any_table: Table) -> None:
    busy(any_table, 12)
    before = set(any_table.world.storages.files)

    def dropped(point: str) -> None:
        any_table.row["state"] = "dropped"

    done = Maintainer(any_table.world, faults=dropped).maintain(any_table.id)
    assert done.outcome == "failed"
    assert "it is dropped" in done.reason
    assert set(any_table.world.storages.files) == before


def test_i10_an_attempt_that_takes_too_long_writes_nothing(table: Table) -> None:
    busy(table, 12)

    def frozen(point: str) -> None:
        table.world.clock.now += TERM_MS - MARGIN_MS + 1

    done = Maintainer(table.world, faults=frozen).maintain(table.id)
    assert "takes too long" in done.reason
    assert list_log(table.storage).checkpoints == {}


@pytest.mark.parametrize("point", POINTS)
def test_i15_work_that_a_kill_interrupted_is_due_and_goes_on_within_minutes(table: Table, point: str) -> None:
    busy(table, 12)
    maintainer = Maintainer(table.world)
    assert maintainer.standing(table.head)[1], "never begun"
    with pytest.raises(Killed):
        Maintainer(table.world, faults=kill_at(point)).maintain(table.id)
    assert maintainer.standing(table.head)[1], "shown as due while nobody knows whether it is done"
    assert maintainer.maintain(table.id).outcome == "busy"
    table.world.clock.now += LEASE_MS
    assert LEASE_MS <= 3 * 60_000
    assert maintainer.maintain(table.id).outcome == "done"
    assert not maintainer.standing(table.head)[1]
    check(table, 12)


def test_i10_a_long_attempt_keeps_its_lease_by_what_it_reads(any_table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    busy(any_table, 12)
    read = FakeStorage.read
    others = list[str]()

    def slow(storage: Any, path: str, *arguments: Any) -> Any:
        any_table.world.clock.now += LEASE_MS // 4
        others.append(Maintainer(any_table.world).maintain(any_table.id).outcome)
        return read(storage, path, *arguments)

    monkeypatch.setattr(work, "TERM_MS", 100 * TERM_MS)
    monkeypatch.setattr(FakeStorage, "read", slow)
    done = Maintainer(any_table.world).maintain(any_table.id)
    assert done.outcome == "done" and set(others) == {"busy"} and len(others) > 12
    monkeypatch.undo()
    check(any_table, 12)


def test_i10_an_attempt_that_another_one_has_replaced_writes_nothing(table: Table) -> None:
    busy(table, 12)

    def frozen(point: str) -> None:
        table.world.clock.now += LEASE_MS
        assert isinstance(Tasks(table.world).begin(f"maintain.{table.id}", LEASE_MS), Attempt)

    done = Maintainer(table.world, faults=frozen).maintain(table.id)
    assert (done.outcome, done.reason) == ("failed", "another attempt has been begun meanwhile")
    assert list_log(table.storage).checkpoints == {}


def test_a_table_that_fails_is_left_alone_for_a_while_and_holds_up_no_other() -> None:
    world = fake_world()
    bad = Table(world, table_id(1))
    good = Table(world, table_id(2))
    busy(bad)
    busy(good)
    bad.put(published_path(5), b"damaged\n")
    records: list[Any] = []
    target = MaintenanceTarget(Maintainer(world), records.append)
    events = [
        SimpleNamespace(type="turnstile.table.published", subject=table.id, data={"version": table.head.floor})
        for table in (bad, good)
    ]
    target.send(events)
    assert [record.outcome for record in records] == ["failed", "done"]
    assert "version 5 is not readable" in records[0].reason
    target.send(events)
    assert [record.outcome for record in records[2:]] == ["paused", "nothing due"]
    world.clock.now += FIRST_PAUSE_MS
    target.send(events[:1])
    assert records[-1].outcome == "failed"
    assert Maintainer(world).upkept(bad.id).failures == 2
    again_ms = Maintainer(world).upkept(bad.id).again_ms
    world.clock.now = again_ms - 2
    assert Maintainer(world).maintain(bad.id).outcome == "paused"
    assert world.clock.now == again_ms - 1, "the next look is at the end of the pause"
    bad.put(published_path(5), bad.ratified[5])
    world.clock.now = again_ms - 1
    others = Maintainer(world).maintain_all(lambda: True, chosen=lambda row: row["table_id"] != bad.id)
    assert [done.outcome for done in others] == ["nothing due"], "the other one is not this caller's"
    assert [done.outcome for done in Maintainer(world).maintain_all(lambda: True)] == ["done", "nothing due"]
    assert Maintainer(world).upkept(bad.id).failures == 0
    check(bad, bad.head.floor)


def test_i15_a_feature_that_is_not_known_is_named_and_nothing_is_written(table: Table) -> None:
    busy(table, 11)
    strange = delta.protocol("strangeFeature")
    raw = b"\n".join([table.ratified[11].splitlines()[0], json.dumps(strange).encode()]) + b"\n"
    table.put(published_path(11), raw + b" " * (len(table.ratified[11]) - len(raw)))
    done = Maintainer(table.world).maintain(table.id)
    assert "the feature strangeFeature, which is not known" in done.reason
    assert list_log(table.storage).checkpoints == {}


def test_a_copy_of_a_dropped_table_goes_when_the_table_is_met_again(table: Table) -> None:
    busy(table, 12)
    maintainer = Maintainer(table.world)
    maintainer.maintain(table.id)
    table.row["state"] = "dropped"
    assert maintainer.maintain(table.id).outcome == "not maintained"
    assert not any("maintain." in key for key in table.world.refs.rows)
    del table.world.refs.rows[table.key]
    assert maintainer.maintain(table.id).reason == "there is no such table"


def test_only_events_of_published_versions_are_work(table: Table) -> None:
    busy(table, 12)
    records: list[Any] = []
    target = MaintenanceTarget(Maintainer(table.world), records.append)
    for type, data in (
        ("turnstile.table.ratified", {"version": 12}),
        ("turnstile.table.published", {}),
        ("turnstile.table.published", {"version": "12"}),
    ):
        target.send([SimpleNamespace(type=type, subject=table.id, data=data)])
    assert records == []
    assert list_log(table.storage).checkpoints == {}


def test_a_batch_ends_when_the_time_is_up(table: Table) -> None:
    busy(table, 12)
    target = MaintenanceTarget(Maintainer(table.world), go_on=lambda: False)
    with pytest.raises(OutOfTime):
        target.send([SimpleNamespace(type="turnstile.table.published", subject=table.id, data={"version": 12})])
    assert list_log(table.storage).checkpoints == {}


def test_what_is_kept_of_a_table_goes_with_it(table: Table) -> None:
    busy(table, 12)
    target = MaintenanceTarget(Maintainer(table.world))
    target.send([SimpleNamespace(type="turnstile.table.published", subject=table.id, data={"version": 12})])
    assert any("maintain." in key for key in table.world.refs.rows)
    target.send(
        [
            SimpleNamespace(type="turnstile.table.published", subject=table.id, data={"version": 12}),
            SimpleNamespace(type="turnstile.table.dropped", subject=table.id, data={}),
        ]
    )
    assert not any("maintain." in key for key in table.world.refs.rows)


def test_i15_a_long_log_is_done_in_steps(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    busy(table, 12)
    monkeypatch.setattr("turnstile.maintenance.core.due.STEP_BYTES", 1500)
    done = Maintainer(table.world).maintain(table.id)
    assert done.checkpoints[-1] == 12
    assert len(done.checkpoints) > 3
    for version in range(13):
        check(table, version)


def test_a_table_that_asks_for_checkpoints_more_often_gets_them_at_the_next_pass_over_all(table: Table) -> None:
    alter(table, **{"delta.checkpointInterval": "1000"})
    busy(table, 12)
    maintainer = Maintainer(table.world)
    assert maintainer.maintain(table.id).checkpoints == ()
    alter(table, **{"delta.checkpointInterval": "3"})
    assert [done.outcome for done in maintainer.maintain_all(lambda: True)] == ["done"], "not published yet"
    Publisher(table.world).publish(table.id)
    (done,) = maintainer.maintain_all(lambda: True)
    assert done.checkpoints == (14,)
    assert [done.outcome for done in maintainer.maintain_all(lambda: True)] == ["nothing due"]
    assert list(maintainer.maintain_all(lambda: False)) == []


def test_the_work_of_a_batch_costs_a_read_where_nothing_is_due(table: Table) -> None:
    busy(table, 12)
    maintainer = Maintainer(table.world)
    maintainer.maintain(table.id)
    reads: list[str] = []
    read = table.world.refs.read

    def counting(key: str) -> Any:
        reads.append(key)
        return read(key)

    table.world.refs.read = counting  # type: ignore[method-assign]
    assert maintainer.maintain(table.id, 13).outcome == "nothing due"
    assert len(reads) == 1


def test_a_pass_over_all_leaves_out_tables_that_are_not_active(table: Table) -> None:
    busy(table, 12)
    table.world.refs.rows[table.key]["state"] = "stuck"
    assert list(Maintainer(table.world).maintain_all(lambda: True)) == []


@pytest.mark.parametrize("fate", ["taken", "removed"])
def test_i15_no_pointer_leads_to_a_checkpoint_that_is_another_workers_or_gone(
    any_table: Table, monkeypatch: pytest.MonkeyPatch, fate: str
) -> None:
    """The name is taken right before this worker's file is created, or the file is removed at
    once."""
    busy(any_table, 12)
    put = FakeStorage.put_if_absent

    def meets(self: FakeStorage, path: str, content: Any) -> bool:
        is_checkpoint = ".checkpoint." in path
        if is_checkpoint and fate == "taken":
            put(self, path, b"another worker's")
        created = put(self, path, content)
        if is_checkpoint and fate == "removed":
            self.delete(path)
            return False
        return created

    monkeypatch.setattr(FakeStorage, "put_if_absent", meets)
    done = Maintainer(any_table.world).maintain(any_table.id)
    assert (done.outcome, done.checkpoints, done.checksums) == ("done", (), ())
    assert any_table.storage.stat(f"{LOG}_last_checkpoint") is None
