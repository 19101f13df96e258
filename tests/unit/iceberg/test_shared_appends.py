"""Appends that share a metadata file and a swap leave the table that the same appends leave one
after the other, and each is answered as it would be alone (I21, I23)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadataUtil

from tests.support.examples import examples
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.iceberg.appends import append, change_of, rows_of
from turnstile.catalog.changes.idempotency import IdempotentCommitter
from turnstile.catalog.core.entities import IcebergTable
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.services import CatalogServices, build
from turnstile.iceberg.commits import Commits
from turnstile.iceberg.context import Context
from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.metadata import TableMetadata, encode
from turnstile.iceberg.core.requirements import AssertCurrentSchemaId, CommitFailed
from turnstile.iceberg.core.schema import Field, Schema
from turnstile.iceberg.core.shared_appends import Answer, Written, answer, fits, may_share
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile.iceberg.core.table_updates import TableChange
from turnstile.iceberg.files import MetadataFiles
from turnstile.iceberg.shared_appends import Alone, AppendGroup, AppendQueue, WaitingAppend
from turnstile.iceberg.tables import CreateTable, LoadedTable, Tables
from turnstile.iceberg.turns import TURN_MS
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import NotFound, OutcomeUnknown, PermissionDenied, TurnstileError
from turnstile.store.core.writes import Write

CATALOG = "main"
T = ("sales", "t")
SCHEMA = Schema(fields=(Field(id=1, name="id", type="long", required=True),))


class Lake:
    """A table, and the groups of one server."""

    def __init__(self, **properties: str) -> None:
        self.world: FakeWorld = fake_world()
        self.services: CatalogServices = build(self.world, lake_root="file:///lake")
        self.services.catalogs.create(CATALOG)
        self.services.namespaces.create(CATALOG, T[:1])
        self.files = MetadataFiles(self.world.storages, self.world.ids)
        self.context = Context(self.services, self.services.committer, self.files, OPERATOR, lambda: None)
        Tables(self.context).create(CATALOG, T[:1], CreateTable(T[1], SCHEMA, properties=properties))
        self.base = self.load()

    def put(self, path: str, content: bytes) -> None:
        self.world.storages.files[path] = (content, self.world.clock.now_ms())

    def get(self, path: str) -> bytes:
        return self.world.storages.files[path][0]

    def load(self) -> TableMetadata:
        return Tables(self.context).load(CATALOG, T).metadata

    def append(self, id: int, base: TableMetadata | None = None) -> TableChange:
        """An append computed from ``base``, by default from the empty table."""
        made = append(self.put, self.get, base or self.base, id, self.world.clock.now_ms())
        return change_of(T, self.base, made)

    def alone(self, change: TableChange) -> LoadedTable:
        return Commits(self.context).commit(CATALOG, [change])[0]

    def group(self, *changes: TableChange, context: Context | None = None) -> list[LoadedTable | TurnstileError | None]:
        """What a group answers to each of ``changes``; None: it is to be committed alone."""
        waiting = [WaitingAppend(context or self.context, change) for change in changes]
        AppendGroup(self.context, CATALOG, waiting).run()
        return [outcome_of(one) for one in waiting]

    def metadata_files(self) -> set[str]:
        return {path for path in self.world.storages.files if path.endswith(".metadata.json")}

    def lists(self) -> set[str]:
        return {path for path in self.world.storages.files if "/snap-" in path and "-1-00000000-" in path}


def outcome_of(waiting: WaitingAppend) -> LoadedTable | TurnstileError | None:
    assert waiting.is_settled
    try:
        return waiting.outcome()
    except TurnstileError as error:
        return error
    except Alone:
        return None


def ids(metadata: TableMetadata) -> list[int]:
    return [one.snapshot_id for one in metadata.snapshots]


@pytest.fixture
def lake() -> Lake:
    return Lake()


# -- what a group leaves -----------------------------------------------------------------------------------------------


def test_i21_a_group_is_one_metadata_file_one_commit_and_one_swap(lake: Lake) -> None:
    changes = [lake.append(id) for id in (1, 2, 3)]
    files = lake.metadata_files()
    seq = lake.services.reader.current(CATALOG).commit.seq
    lake.world.refs.requests.clear()
    answers = lake.group(*changes)
    after = lake.load()
    assert lake.services.reader.current(CATALOG).commit.seq == seq + 1
    assert len(lake.metadata_files() - files) == 1
    assert [one for one in lake.world.refs.requests if one.startswith(("write", "transact", "update"))] == ["write"]
    assert ids(after) == [1, 2, 3] and after.current_snapshot_id == 3
    assert [one.parent_snapshot_id for one in after.snapshots] == [None, 1, 2]
    assert [one.sequence_number for one in after.snapshots] == [1, 2, 3]
    assert [one.snapshot_id for one in after.snapshot_log] == [1, 2, 3], "each was current after its commit"
    assert len(after.metadata_log) == 1
    for each in answers:
        assert isinstance(each, LoadedTable) and each.entity is not None
        assert each.metadata == after and each.content == lake.get(each.entity.metadata) == encode(after)


def test_i23_each_snapshot_of_a_group_has_the_rows_of_those_before_it(lake: Lake) -> None:
    lake.group(*(lake.append(id) for id in (1, 2, 3)))
    rows = [rows_of(lake.get, one) for one in lake.load().snapshots]
    data = [f"{lake.base.location}/data/{id}.parquet" for id in (1, 2, 3)]
    assert rows == [dict(zip(data[:n], range(1, n + 1), strict=True)) for n in (1, 2, 3)]
    assert [one.summary["total-records"] for one in lake.load().snapshots] == ["1", "2", "3"]


def test_the_answer_is_what_its_metadata_location_has(lake: Lake) -> None:
    """A client that kept other metadata under that name would not notice the other members when it
    refreshes."""
    for each in lake.group(*(lake.append(id) for id in (1, 2))):
        assert isinstance(each, LoadedTable) and each.entity is not None
        TableMetadataUtil.parse_raw(lake.get(each.entity.metadata).decode())
        assert each.metadata == lake.files.table(each.entity) == lake.load()


def test_files_that_nothing_names_are_deleted_and_all_others_are_there(lake: Lake) -> None:
    lake.group(*(lake.append(id) for id in (1, 2, 3)))
    after = lake.load()
    assert {one.manifest_list for one in after.snapshots} >= lake.lists()
    assert all(one.manifest_list in lake.world.storages.files for one in after.snapshots)


KINDS = st.sampled_from(["now", "start", "start", "stale", "again", "lost list", "other table", "no ancestor"])


@settings(max_examples=examples(60))
@given(st.lists(st.lists(KINDS, min_size=1, max_size=6), min_size=1, max_size=4))
def test_i21_i23_a_group_leaves_what_its_appends_leave_one_after_the_other(plan: list[list[str]]) -> None:
    together = Lake()
    apart = Lake()
    number = 0
    for kinds in plan:
        pairs: list[tuple[TableChange, TableChange]] = []
        for kind in kinds:
            number += 1
            pairs.append((made(together, kind, number), made(apart, kind, number)))
        answers = together.group(*(one for one, _ in pairs))
        answers = [
            result(partial(together.alone, one)) if each is None else each
            for each, (one, _) in zip(answers, pairs, strict=True)
        ]
        singles = [result(partial(apart.alone, one)) for _, one in pairs]
        # one that is refused may be refused for what a member did, which came at the same time
        assert [isinstance(one, LoadedTable) for one in answers] == [isinstance(one, LoadedTable) for one in singles]
        for change, each in zip((one for one, _ in pairs), answers, strict=True):
            if isinstance(each, LoadedTable):
                assert each.metadata.snapshot(added(change).snapshot_id) is not None
        assert comparable(together) == comparable(apart)
        TableMetadataUtil.parse_raw(encode(together.load()).decode())


def made(lake: Lake, kind: str, id: int) -> TableChange:
    """An append of ``kind``; all but the first three are refused, whenever they come."""
    now = lake.load()
    match kind:
        case "now":
            return lake.append(id, now)
        case "stale" if len(now.snapshots) > 1:
            older = msgspec.structs.replace(
                now,
                current_snapshot_id=now.snapshots[-2].snapshot_id,
                last_sequence_number=now.snapshots[-2].sequence_number,
            )
            return lake.append(id, older)
        case "again" if now.snapshots:
            change = lake.append(id, now)
            return with_snapshot(change, snapshot_id=now.snapshots[0].snapshot_id, parent_snapshot_id=None)
        case "lost list":
            change = lake.append(id, now)
            return with_snapshot(change, manifest_list=f"{now.location}/metadata/none.avro")
        case "other table":
            change = lake.append(id, now)
            return msgspec.structs.replace(
                change, requirements=(msgspec.structs.replace(change.requirements[0], uuid="0"),)
            )
        case "no ancestor":
            change = with_snapshot(lake.append(id, now), parent_snapshot_id=10**6)
            required = msgspec.structs.replace(change.requirements[1], snapshot_id=10**6)
            return msgspec.structs.replace(change, requirements=(change.requirements[0], required))
        case _:
            return lake.append(id)


def added(change: TableChange) -> Snapshot:
    first = change.updates[0]
    assert isinstance(first, u.AddSnapshot)
    return first.snapshot


def with_snapshot(change: TableChange, **members: Any) -> TableChange:
    snapshot = msgspec.structs.replace(added(change), **members)
    ref = u.SetSnapshotRef("main", snapshot.snapshot_id, "branch")
    return msgspec.structs.replace(change, updates=(u.AddSnapshot(snapshot), ref))


def result(call: Callable[[], LoadedTable]) -> LoadedTable | TurnstileError:
    try:
        return call()
    except TurnstileError as error:
        return error


def comparable(lake: Lake) -> Any:
    """The table without names of files and without times; the rows of each snapshot in place of its
    list."""
    now = lake.load()
    snapshots = [
        (
            msgspec.structs.replace(one, manifest_list="", timestamp_ms=0),
            {path.rpartition("/")[2]: sequence for path, sequence in rows_of(lake.get, one).items()},
        )
        for one in now.snapshots
    ]
    log = [one.snapshot_id for one in now.snapshot_log]
    numbers = now.last_sequence_number, now.current_snapshot_id, now.refs, now.properties, now.next_row_id
    return snapshots, log, numbers


# -- members that have no place in it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["again", "lost list", "other table", "no ancestor"])
def test_i21_a_member_that_is_refused_spoils_nothing_and_has_no_answer_from_the_group(lake: Lake, kind: str) -> None:
    lake.alone(lake.append(1))
    changes = [lake.append(2), made(lake, kind, 3), lake.append(4)]
    answers = lake.group(*changes)
    assert [type(one) for one in answers] == [LoadedTable, type(None), LoadedTable]
    assert ids(lake.load()) == [1, 2, 4]


def test_i21_a_group_of_which_all_are_refused_changes_nothing(lake: Lake) -> None:
    lake.alone(lake.append(1))
    files = set(lake.world.storages.files)
    heads = dict(lake.world.refs.rows)
    changes = [made(lake, "other table", 2), made(lake, "other table", 3)]
    written = set(lake.world.storages.files) - files
    assert lake.group(*changes) == [None, None]
    assert set(lake.world.storages.files) == files | written
    assert lake.world.refs.rows == heads


def test_i12_a_member_without_the_right_leaves_the_group_and_the_leader_needs_none_of_its_own(lake: Lake) -> None:
    class Closed:
        def authorize(self, tree: Any) -> None:
            raise PermissionDenied("modify", "table")

        def authorize_missing(self, catalog: str) -> None:
            raise PermissionDenied("modify", "table")

    closed = replace(lake.context, catalog=lake.services.authorized_by(Closed()))  # type: ignore[arg-type]
    for leader in (0, 1):
        changes = [lake.append(10 * leader + id) for id in (1, 2, 3)]
        contexts = [closed if position == leader else lake.context for position in range(3)]
        waiting = [WaitingAppend(context, change) for context, change in zip(contexts, changes, strict=True)]
        AppendGroup(contexts[0], CATALOG, waiting).run()
        answers = [type(outcome_of(one)) for one in waiting]
        assert answers == [type(None) if position == leader else LoadedTable for position in range(3)]
    assert ids(lake.load()) == [2, 3, 11, 13]


def test_appends_of_a_group_wait_for_a_rewrite_that_has_its_turn(lake: Lake) -> None:
    lake.alone(lake.append(1))
    changes = [lake.append(2), lake.append(3)]
    give_turn(lake, lake.world.clock.now_ms() + TURN_MS)
    assert lake.group(*changes) == [None, None]
    assert ids(lake.load()) == [1]
    give_turn(lake, lake.world.clock.now_ms())
    assert [type(one) for one in lake.group(*changes)] == [LoadedTable] * 2


def give_turn(lake: Lake, until_ms: int) -> None:
    from turnstile.catalog.changes.waiting import Edit
    from turnstile.iceberg.tables import entity_at

    def change(view: Any) -> Edit:
        table = entity_at(view, T, IcebergTable)
        return Edit("turn", put={T: msgspec.structs.replace(table, turn_until=until_ms)})

    lake.services.committer.commit(CATALOG, change)


def test_i21_a_table_that_is_gone_answers_nobody_from_the_group(lake: Lake) -> None:
    changes = [lake.append(1), lake.append(2)]
    Tables(lake.context).drop(IcebergTable, CATALOG, T, purge=False)
    assert lake.group(*changes) == [None, None]
    with pytest.raises(NotFound):
        lake.alone(changes[0])


def test_i10_metadata_that_are_too_large_for_all_members_are_no_reason_to_refuse_each(lake: Lake) -> None:
    lake.alone(lake.append(1))
    size = len(encode(lake.load()))
    changes = [lake.append(2), lake.append(3), lake.append(4)]
    before = set(lake.world.storages.files)
    lake.files._limit = size * 2
    assert lake.group(*changes) == [None, None, None]
    assert set(lake.world.storages.files) == before, "nothing is left of the attempt"
    assert isinstance(result(partial(lake.alone, changes[0])), LoadedTable)


def test_a_member_that_would_make_the_table_unreadable_spoils_nothing(lake: Lake) -> None:
    lake.alone(lake.append(1))
    changes = [lake.append(2), with_snapshot(lake.append(3), first_row_id=5), lake.append(4)]
    before = set(lake.world.storages.files)
    assert lake.group(*changes) == [None, None, None]
    assert set(lake.world.storages.files) == before
    answers = [result(partial(lake.alone, change)) for change in changes]
    assert [isinstance(one, LoadedTable) for one in answers] == [True, False, True]


# -- the swap ----------------------------------------------------------------------------------------------------------


def test_i21_a_group_that_lost_is_computed_anew_from_the_new_table(lake: Lake) -> None:
    changes = [lake.append(id) for id in (1, 2)]
    other = lake.append(7)
    interrupt(lake, lambda: lake.alone(other))
    assert [type(one) for one in lake.group(*changes)] == [LoadedTable, LoadedTable]
    after = lake.load()
    assert ids(after) == [7, 1, 2]
    assert lake.lists() == {one.manifest_list for one in after.snapshots} & lake.lists(), (
        "of lost attempts nothing is left"
    )
    assert len(lake.metadata_files()) == 3


def test_a_group_that_lost_to_another_table_keeps_its_files(lake: Lake) -> None:
    changes = [lake.append(id) for id in (1, 2)]
    interrupt(lake, lambda: lake.services.namespaces.create(CATALOG, ("other",)))
    files = lake.metadata_files()
    lake.group(*changes)
    assert len(lake.metadata_files() - files) == 1


def test_i8_what_else_changed_of_the_table_while_a_group_lost_is_kept(lake: Lake) -> None:
    changes = [lake.append(id) for id in (1, 2)]
    lake.world.clock.now += 5_000
    now_ms = lake.world.clock.now_ms()
    interrupt(lake, lambda: give_turn(lake, now_ms - 1))
    answers = lake.group(*changes)
    entity = Tables(lake.context).find(CATALOG, T)
    assert entity.turn_until == now_ms - 1 and entity.updated >= now_ms
    assert [each.entity for each in answers if isinstance(each, LoadedTable)] == [entity, entity]


def test_i21_members_that_lose_to_others_until_the_deadline_are_refused_and_leave_nothing(lake: Lake) -> None:
    changes = [lake.append(id) for id in (1, 2)]
    before = set(lake.world.storages.files)
    write = lake.world.refs.write

    def late(given: Write) -> Any:
        if given.key == lake.services.reader.key(CATALOG):
            lake.world.refs.write = write  # type: ignore[method-assign]
            lake.services.namespaces.create(CATALOG, (f"n{lake.world.clock.now}",))
            lake.world.clock.now += 4_000
            lake.world.refs.write = late  # type: ignore[method-assign]
        return write(given)

    lake.world.refs.write = late  # type: ignore[method-assign]
    answers = lake.group(*changes)
    lake.world.refs.write = write  # type: ignore[method-assign]
    assert [type(one) for one in answers] == [CommitFailed, CommitFailed]
    assert set(lake.world.storages.files) == before and ids(lake.load()) == []


def interrupt(lake: Lake, act: Callable[[], object]) -> None:
    """Lets ``act`` happen before the next write of the catalog's HEAD."""
    write = lake.world.refs.write
    left = [act]

    def interrupted(given: Write) -> Any:
        if left and given.key == lake.services.reader.key(CATALOG):
            left.pop()()
        return write(given)

    lake.world.refs.write = interrupted  # type: ignore[method-assign]


def test_i21_an_unknown_outcome_is_unknown_to_all_members_and_their_files_stay(lake: Lake) -> None:
    lake.alone(lake.append(1))
    changes = [lake.append(2), made(lake, "other table", 3), lake.append(4)]
    write = lake.world.refs.write

    def lost(given: Write) -> Any:
        answered = write(given)
        if given.key == lake.services.reader.key(CATALOG):
            lake.world.clock.now += 60_000
            raise OutcomeUnknown("the answer was lost")
        return answered

    lake.world.refs.write = lost  # type: ignore[method-assign]
    answers = lake.group(*changes)
    lake.world.refs.write = write  # type: ignore[method-assign]
    assert [type(one) for one in answers] == [OutcomeUnknown, type(None), OutcomeUnknown]
    assert answers[0] is not answers[2], "each request has an error of its own"
    assert ids(lake.load()) == [1, 2, 4], "it was applied"


def test_i21_a_process_that_ends_leaves_the_outcome_unknown(lake: Lake) -> None:
    changes = [lake.append(1), lake.append(2)]
    waiting = [WaitingAppend(lake.context, change) for change in changes]

    def ends(_: Write) -> Any:
        raise KeyboardInterrupt

    lake.world.refs.write = ends  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        AppendGroup(lake.context, CATALOG, waiting).run()
    assert [type(outcome_of(one)) for one in waiting] == [OutcomeUnknown] * 2


# -- idempotency keys --------------------------------------------------------------------------------------------------


def test_i9_a_defect_after_the_swap_leaves_the_files_that_the_head_names_and_an_unknown_outcome(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(CatalogReader, "adopt", fail)
    waiting = [WaitingAppend(lake.context, lake.append(id)) for id in (1, 2)]
    with pytest.raises(RuntimeError, match="a defect"):
        AppendGroup(lake.context, CATALOG, waiting).run()
    assert all(isinstance(outcome_of(each), OutcomeUnknown) for each in waiting)
    monkeypatch.undo()
    after = Lake.load(lake)
    assert ids(after) == [1, 2]
    assert all(lake.get(snapshot.manifest_list) for snapshot in after.snapshots)


def keyed(lake: Lake, key: str) -> IdempotentCommitter:
    """The committer of a request with ``key``, which has just been read."""
    row = lake.world.space.request(CATALOG, "u", key)
    made = IdempotentCommitter(lake.world, lake.services.reader, key=row, asked="a", final=lambda _: 0)
    made._key_read_at = lake.world.clock.now_ms()
    return made


def test_i3_members_with_keys_are_remembered_by_the_swap_of_the_group(lake: Lake) -> None:
    changes = [lake.append(id) for id in (1, 2, 3)]
    committers = [keyed(lake, "k1"), lake.services.committer, keyed(lake, "k2")]
    waiting = [
        WaitingAppend(replace(lake.context, committer=committer), change)
        for committer, change in zip(committers, changes, strict=True)
    ]
    AppendGroup(lake.context, CATALOG, waiting).run()
    assert [type(outcome_of(one)) for one in waiting] == [LoadedTable] * 3
    seq = lake.services.reader.current(CATALOG).commit.seq
    for key in ("k1", "k2"):
        again = keyed(lake, key).run(lambda: pytest.fail("it was done before"), lambda shown: shown)
        assert again == seq, "the commit that shows the change"


def test_i3_two_requests_with_one_key_in_a_group_are_one(lake: Lake) -> None:
    changes = [lake.append(id) for id in (1, 2)]
    waiting = [WaitingAppend(replace(lake.context, committer=keyed(lake, "k")), change) for change in changes]
    AppendGroup(lake.context, CATALOG, waiting).run()
    assert [type(outcome_of(one)) for one in waiting] == [LoadedTable, type(None)]
    assert ids(lake.load()) == [1]


def test_i3_a_member_whose_key_was_used_meanwhile_leaves_the_group_and_the_others_are_applied(lake: Lake) -> None:
    done = keyed(lake, "k")
    first = lake.append(9)
    done.run(lambda: Commits(replace(lake.context, committer=done)).commit(CATALOG, [first]), lambda _: [])
    changes = [lake.append(id) for id in (1, 2, 3)]
    committers = [lake.services.committer, keyed(lake, "other"), keyed(lake, "k")]
    waiting = [
        WaitingAppend(replace(lake.context, committer=committer), change)
        for committer, change in zip(committers, changes, strict=True)
    ]
    AppendGroup(lake.context, CATALOG, waiting).run()
    assert [type(outcome_of(one)) for one in waiting] == [LoadedTable, LoadedTable, type(None)]
    assert ids(lake.load()) == [9, 1, 2]


def test_i3_the_oldest_key_of_a_group_says_how_old_its_swap_may_be(lake: Lake) -> None:
    """A request that was frozen for longer than its key's row is kept would be applied twice."""
    old = keyed(lake, "k")
    old._key_read_at = lake.world.clock.now_ms() - 16 * 60_000
    waiting = [
        WaitingAppend(lake.context, lake.append(1)),
        WaitingAppend(replace(lake.context, committer=old), lake.append(2)),
    ]
    AppendGroup(lake.context, CATALOG, waiting).run()
    assert ids(lake.load()) == []
    assert all(isinstance(outcome_of(one), TurnstileError) for one in waiting)


# -- decisions ---------------------------------------------------------------------------------------------------------


def test_only_one_snapshot_appended_to_main_shares() -> None:
    lake = Lake()
    change = lake.append(1)
    add, ref = change.updates
    assert isinstance(ref, u.SetSnapshotRef)
    assert may_share(change.requirements, change.updates) and may_share((), change.updates)
    overwrite = with_snapshot(change, summary={"operation": "overwrite"})
    for requirements, updates in [
        ((), (add,)),
        ((), (ref, add)),
        ((), (add, ref, add)),
        ((), (add, u.SetProperties(updates={}))),
        ((), (u.SetProperties(updates={}), ref)),
        ((), (add, msgspec.structs.replace(ref, ref_name="b"))),
        ((), (add, msgspec.structs.replace(ref, type="tag"))),
        ((), (add, msgspec.structs.replace(ref, snapshot_id=2))),
        ((), overwrite.updates),
        ((AssertCurrentSchemaId(0),), change.updates),
    ]:
        assert not may_share(requirements, updates)


def test_i21_answers_of_a_group() -> None:
    assert {(written, member): answer(written, member=member) for written in Written for member in (False, True)} == {
        (Written.APPLIED, True): Answer.TABLE,
        (Written.UNKNOWN, True): Answer.ERROR,
        (Written.BUSY, True): Answer.ERROR,
        (Written.FAILED, True): Answer.ALONE,
        **{(written, False): Answer.ALONE for written in Written},
    }


def test_a_row_takes_part_in_a_transaction_once() -> None:
    assert fits([], set(), 0) and fits(["a"], set(), 1) and fits(["a"], {"b"}, 2)
    assert not fits(["a"], {"a"}, 9)
    assert not fits(["a"], {"b"}, 1)


# -- the line ----------------------------------------------------------------------------------------------------------


def test_one_append_alone_is_committed_as_without_a_line(lake: Lake) -> None:
    queue = AppendQueue()
    change = lake.append(1)
    called: list[LoadedTable] = []

    def alone() -> LoadedTable:
        called.append(lake.alone(change))
        return called[0]

    assert queue.commit(lake.context, CATALOG, change, alone) is called[0]
    assert queue._lines == {}


def test_a_refusal_of_an_append_alone_is_raised(lake: Lake) -> None:
    lake.alone(lake.append(1))
    change = made(lake, "no ancestor", 2)
    with pytest.raises(CommitFailed):
        AppendQueue().commit(lake.context, CATALOG, change, lambda: lake.alone(change))
