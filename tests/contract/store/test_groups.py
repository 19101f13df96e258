"""Groups of commits on every store: racing writers see all of a group or nothing (I1, I3, I8)."""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorages
from tests.support.stack import until
from tests.support.store.backends import FAKE, REALM, SQLITE, Backend
from tests.support.threads import together
from turnstile.adapters import RandomIds, SystemClock
from turnstile.delta.core.content import read_content
from turnstile.delta.core.decide import Conflict
from turnstile.delta.core.head import TableHead, new_head_row, tail_by_version
from turnstile.delta.core.metadata import first_metadata
from turnstile.delta.core.undecided import LARGE_MAX
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.proposals import CommitRequest, GroupRequest, ReadVersion
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatified, GroupRatifier, GroupRefused
from turnstile.delta.transactions.journal import Announcement, Journal
from turnstile.delta.undecided import settle_one
from turnstile.planning.reads import CommitJudge
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, Throttled
from turnstile.store.core.rows import METADATA, Space
from turnstile.store.core.writes import Insert, new_row
from turnstile.store.ports import Obj, World

TURNS = 4
"""Groups that each of eight writers commits."""


class Tables:
    """Some tables of one world on a backend."""

    def __init__(self, backend: Backend, count: int) -> None:
        clock = SystemClock()
        self.world = World(
            backend.refs(), backend.objs(clock=clock), FakeStorages(clock), clock, RandomIds(), Space(REALM)
        )
        self.ids = [str(uuid.uuid4()) for _ in range(count)]
        for id in self.ids:
            self._create(id)

    def _create(self, id: str) -> None:
        metadata = f"metadata/{id}/{0:020d}.{'0' * 24}"
        now = self.world.clock.now_ms()
        first = msgspec.json.encode(first_metadata(read_content(delta.version_zero("zero", 1), first_version=True)))
        self.world.objs.put(Obj(self.world.space.objs("main"), metadata, METADATA.name, first, created_us=1))
        row = new_head_row(
            key=self.world.space.table(id),
            table_id=id,
            catalog="main",
            name=f"main.sales.t{id[:8]}",
            location=f"file:///lake/{id}",
            metadata=metadata,
            version=0,
            ict=now - 60_000,
            row_hwm=None,
            created=now,
            managed=True,
        )
        self.world.refs.write(Insert(row, (new_row("I2"),)))

    def head(self, id: str) -> TableHead:
        row = self.world.refs.read(self.world.space.table(id))
        assert row is not None
        return TableHead.from_row(row)

    def groups(self) -> GroupRatifier:
        return GroupRatifier(self.world, Ratifier(self.world))

    def journal(self) -> Journal:
        return Journal(self.world, self.groups())

    def append(self, id: str, version: int | None, txn: str, base: int | None = None, after: int = 0) -> CommitRequest:
        """A commit with the in-commit timestamp now, or the first that may follow ``after``, as
        engines propose it."""
        ict = max(self.world.clock.now_ms(), after + 1)
        return CommitRequest(id, version, base=base, content=delta.append(txn, ict))


def test_i8_racing_groups_are_in_all_of_their_tables_or_in_none(backend: Backend) -> None:
    tables = Tables(backend, 4)

    def write(writer: int) -> list[tuple[str, list[str]]]:
        service = tables.groups()
        rng = random.Random(writer)
        acknowledged = []
        for turn in range(TURNS):
            named, ticket, read = rng.sample(tables.ids, 3)
            while True:
                id = str(uuid.uuid4())
                head = tables.head(named)
                seen = tables.head(read).latest
                commits = (
                    tables.append(named, head.latest + 1, f"{id}-n", after=head.last_ict),
                    tables.append(ticket, None, f"{id}-t", base=0),
                )
                reads = (ReadVersion(read, seen),) if turn % 2 else ()
                try:
                    answer = service.commit(GroupRequest(id, commits, reads))
                except Throttled:
                    continue
                if isinstance(answer, GroupRatified):
                    acknowledged.append((id, [named, ticket]))
                    break
                assert all(isinstance(member.decision, Conflict) for member in answer.members), answer
        return acknowledged

    acknowledged = [group for mine in together(write) for group in mine]
    in_tables = Counter(
        (place.entry.group, table) for table in tables.ids for place in tail_by_version(tables.head(table))
    )
    assert in_tables == Counter((id, table) for id, members in acknowledged for table in members)
    assert len(acknowledged) == 8 * TURNS


def test_i8_of_groups_that_read_what_the_other_writes_one_is_refused(backend: Backend) -> None:
    """Write skew: each is right on its reads, both together are not."""
    for _ in range(5):
        tables = Tables(backend, 2)

        def write(writer: int, tables: Tables = tables) -> GroupRatified | GroupRefused | None:
            if writer > 1:
                return None
            written = tables.ids[writer]
            read = tables.ids[1 - writer]
            commit = tables.append(written, 1, f"w{writer}")
            while True:
                try:
                    return tables.groups().commit(GroupRequest(str(uuid.uuid4()), (commit,), (ReadVersion(read, 0),)))
                except Throttled:
                    continue

        answers = together(write)[:2]
        assert sum(isinstance(answer, GroupRatified) for answer in answers) == 1, answers
        assert sorted(tables.head(id).latest for id in tables.ids) == [0, 1]


@pytest.mark.parametrize(("predicate", "accepted"), [("id = 5", 1), ("id > 5", 2)])
def test_i20_of_groups_that_read_rows_which_the_other_writes_one_is_refused(
    backend: Backend, predicate: str, accepted: int
) -> None:
    """Both write rows of one id, and read the other's table: by that id, or by others."""
    stats = '{"numRecords":1,"minValues":{"id":5},"maxValues":{"id":5},"nullCount":{"id":0}}'
    for _ in range(5):
        tables = Tables(backend, 2)
        world = tables.world

        def write(writer: int, tables: Tables = tables, world: World = world) -> GroupRatified | GroupRefused | None:
            if writer > 1:
                return None
            judge = CommitJudge(world, MetadataStore(world.objs, world.space))
            service = GroupRatifier(world, Ratifier(world), judge=judge)
            content = delta.lines(delta.info(f"w{writer}", world.clock.now_ms()), delta.add("five", stats=stats))
            commit = CommitRequest(tables.ids[writer], 1, content=content)
            read = ReadVersion(tables.ids[1 - writer], 0, predicate=predicate)
            while True:
                try:
                    return service.commit(GroupRequest(str(uuid.uuid4()), (commit,), (read,)))
                except Throttled:
                    continue

        answers = [answer for answer in together(write) if answer is not None]
        assert sum(isinstance(answer, GroupRatified) for answer in answers) == accepted
        assert sum(tables.head(id).latest for id in tables.ids) == accepted


def test_i1_i8_racing_large_groups_are_in_all_of_their_tables_or_in_none(backend: Backend) -> None:
    """Every table is prepared by a write of its own, among single commits; one in four coordinators
    stops on the way."""
    tables = Tables(backend, 4)
    stopped = set[str]()

    def write(writer: int) -> list[tuple[str, list[str]]]:
        rng = random.Random(writer)
        acknowledged = []
        for turn in range(TURNS):
            id = str(uuid.uuid4())
            groups = GroupRatifier(tables.world, Ratifier(tables.world, pause=time.sleep), part=1)
            first, second, read = rng.sample(tables.ids, 3)
            commits = tuple(tables.append(table, None, f"{id}-{table[:4]}", base=0) for table in (first, second))
            group = GroupRequest(id, commits, (ReadVersion(read, tables.head(read).latest),) if turn % 2 else ())
            if rng.random() < 0.25:
                stopped.add(id)
                with suppress(_Stopped):
                    _stopping(groups, tables.world, rng.randrange(1, 6)).commit(group)
                continue
            for _ in range(40):
                try:
                    answer = groups.commit(group)
                except (Throttled, OutcomeUnknown):
                    continue
                if isinstance(answer, GroupRatified):
                    acknowledged.append((id, [first, second]))
                    break
        return acknowledged

    with patch("turnstile.delta.core.undecided.OPEN_MS", 300):
        acknowledged = [group for mine in together(write) for group in mine]
    # A group that stopped half-way is open for 0.3 s.
    until(lambda: not any(settle_one(tables.world, tables.head(id)).undecided for id in tables.ids))
    heads = {id: tables.head(id) for id in tables.ids}
    in_tables = Counter((place.entry.group, id) for id, head in heads.items() for place in tail_by_version(head))
    assert set(in_tables.values()) <= {1}
    assert in_tables.keys() >= {(id, table) for id, members in acknowledged for table in members}
    others = Counter(
        id for id, _ in in_tables.keys() - {(id, table) for id, members in acknowledged for table in members}
    )
    assert others.keys() <= stopped and set(others.values()) <= {2}


class _Stopped(BaseException):
    """The coordinator dies."""


def _stopping(groups: GroupRatifier, world: World, after: int) -> GroupRatifier:
    """A coordinator that dies before its next write to the store."""
    left = [after]

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.refs, name)

        def write(self, write: Any) -> Any:
            return self._counted(lambda: world.refs.write(write))

        def transact(self, writes: Any, token: str) -> Any:
            return self._counted(lambda: world.refs.transact(writes, token))

        def _counted(self, call: Any) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise _Stopped
            return call()

    dying = replace(world, refs=Dying())
    return GroupRatifier(dying, Ratifier(dying), part=1)


def test_i8_a_thousand_tables_are_ratified_and_the_same_again_is_a_replay(backend: Backend) -> None:
    tables = Tables(backend, LARGE_MAX if backend.name in (FAKE, SQLITE) else 250)
    request = GroupRequest(str(uuid.uuid4()), tuple(tables.append(id, 1, f"t-{id}") for id in tables.ids))
    for is_replayed in (False, True):
        answer = tables.groups().commit(request)
        assert isinstance(answer, GroupRatified) and answer.replayed is is_replayed
    assert {(head.latest, head.undecided) for head in map(tables.head, tables.ids)} == {(1, b"")}


def test_i8_a_group_of_a_hundred_tables_is_ratified_and_a_replay_of_itself(backend: Backend) -> None:
    tables = Tables(backend, 100)
    request = GroupRequest(str(uuid.uuid4()), tuple(tables.append(id, 1, f"t-{id}") for id in tables.ids))
    for is_replayed in (False, True):
        answer = tables.groups().commit(request)
        assert isinstance(answer, GroupRatified) and answer.replayed is is_replayed
    assert [tables.head(id).latest for id in tables.ids] == [1] * 100


def test_i3_i8_an_announced_group_is_finished_or_undone_and_never_both(backend: Backend) -> None:
    """Its client, others that resume it, and others that abort it, all at once: all are told of one
    outcome."""
    for _ in range(5):
        tables = Tables(backend, 3)
        commits = tuple(tables.append(id, 1, f"t-{id}") for id in tables.ids[:2])
        group = GroupRequest(str(uuid.uuid4()), commits, (ReadVersion(tables.ids[2], 0),))
        entry = tables.journal().announce(Announcement(group))
        journal = tables.journal()
        assert journal.entry(group.id) == entry and group.id in {row.id for row in journal.entries([])}

        def settle(writer: int, tables: Tables = tables, group: GroupRequest = group) -> str:
            journal = tables.journal()
            commit = writer % 2 == 0
            while True:
                try:
                    if not commit:
                        return journal.abort(journal.entry(group.id)).state
                    answer = journal.commit(group) if writer == 0 else journal.resume(journal.entry(group.id))[1]
                except Throttled:
                    continue
                except StateConflict as error:
                    return {"TransactionAborted": "aborted", "TransactionCommitted": "committed"}[error.type]
                assert isinstance(answer, GroupRatified), answer
                return "committed"

        (outcome,) = set(together(settle))
        assert tables.journal().entry(group.id).state == outcome
        assert [tables.head(id).latest for id in tables.ids] == ([1, 1, 0] if outcome == "committed" else [0, 0, 0])
