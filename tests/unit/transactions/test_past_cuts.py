"""Versions at a moment of the past, by in-commit timestamps (I8)."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.delta_table import Table, table_id
from tests.support.examples import examples
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.delta.core.head import TableHead
from turnstile.delta.past import FIRST_BYTES, AtMoment, version_at
from turnstile.delta.publish import Publisher
from turnstile.delta.transactions.cuts import AHEAD_MS, Cuts
from turnstile.store.core.errors import InvalidRequest, NotFound, UnsupportedTable
from turnstile.store.core.names import published_path


class Log:
    """A table with a log of these in-commit timestamps (None: a commit without), whose HEAD has the
    last ``in_tail`` of them."""

    def __init__(self, timestamps: list[int | None], in_tail: int = 0, cleaned: int = 0) -> None:
        self.world = fake_world()
        table = Table(self.world)
        for version, timestamp in enumerate(timestamps[: len(timestamps) - in_tail]):
            path = f"{table.location}/{published_path(version)}"
            if version < cleaned:
                self.world.storages.files.pop(path, None)
            else:
                info = {
                    "commitInfo": {"operation": "WRITE"}
                    | ({} if timestamp is None else {"inCommitTimestamp": timestamp})
                }
                self.world.storages.files[path] = (delta.lines(info, delta.add(f"{version}.parquet", 1)), 0)
        table.inline()
        (entry,) = table.head.tail
        entries = tuple(msgspec.structs.replace(entry, ict=at or 0) for at in timestamps[len(timestamps) - in_tail :])
        last = timestamps[-1] or 0
        before = timestamps[len(timestamps) - in_tail - 1] or 0
        self.head: TableHead = msgspec.structs.replace(
            table.head,
            latest=len(timestamps) - 1,
            floor=len(timestamps) - 1,
            tail=entries,
            tail_from=len(timestamps) - in_tail,
            tail_ict=before,
            last_ict=last,
        )

    def at(self, at_ms: int) -> AtMoment:
        return version_at(self.world, self.head, at_ms)


def _timestamps(table: Table) -> list[int]:
    commits = [json.loads(content.split(b"\n")[0]) for _, content in sorted(table.ratified.items())]
    return [commit["commitInfo"]["inCommitTimestamp"] for commit in commits]


@st.composite
def _logs(draw: st.DrawFn) -> tuple[list[int | None], int, int]:
    gaps = draw(st.lists(st.integers(1, 5), min_size=1, max_size=40))
    timestamps = [10 + sum(gaps[: index + 1]) for index in range(len(gaps))]
    without = draw(st.integers(0, len(gaps) - 1))
    in_tail = draw(st.integers(0, len(gaps) - 1 - without))
    cleaned = draw(st.integers(0, len(gaps) - in_tail))
    return [None] * without + list(timestamps[without:]), in_tail, cleaned


@settings(max_examples=examples(300), deadline=None)
@given(_logs(), st.integers(0, 230))
def test_i8_the_version_is_the_last_whose_timestamp_is_not_later(
    log: tuple[list[int | None], int, int], at_ms: int
) -> None:
    timestamps, in_tail, cleaned = log
    readable = range(min(cleaned, len(timestamps) - in_tail), len(timestamps))
    earlier = [version for version, at in enumerate(timestamps) if at is None or at <= at_ms]
    version = earlier[-1] if earlier else -1
    if version == len(timestamps) - 1 or (version in readable and timestamps[version] is not None):
        assert Log(*log).at(at_ms) == AtMoment(version, timestamps[version] or 0)
    elif version in readable:
        with pytest.raises(UnsupportedTable, match="no in-commit timestamps yet"):
            Log(*log).at(at_ms)
    else:
        with pytest.raises(NotFound, match="does not exist"):
            Log(*log).at(at_ms)


def test_i8_a_thousand_versions_cost_ten_reads_and_those_in_the_head_none() -> None:
    log = Log([100 + version for version in range(1_000)], in_tail=10)
    reads = log.world.storages.requests
    reads.clear()
    assert log.at(100 + 995) == AtMoment(995, 1_095) and reads == []
    assert log.at(100 + 421) == AtMoment(421, 521) and len(reads) <= 10, "log2 of 990"


def test_i8_a_timestamp_is_read_in_a_first_action_of_any_length() -> None:
    log = Log([10, 20, 30, 40])
    location = log.head.location
    parameters = {"predicate": "x" * (3 * FIRST_BYTES)}
    info = {"commitInfo": {"operationParameters": parameters, "inCommitTimestamp": 20}}
    log.world.storages.files[f"{location}/{published_path(1)}"] = (delta.lines(info), 0)
    assert log.at(25) == AtMoment(1, 20)


def test_i8_a_cut_of_the_past_shows_each_table_at_its_version_of_then(world: FakeWorld) -> None:
    tables = [Table(world, table_id(number)) for number in range(2)]
    for table in tables:
        table.mixed(4)
        Publisher(world).publish(table.id)
    tables[1].mixed(3)
    ids = [table.id for table in tables]
    world.clock.now += 1_000_000
    cuts = Cuts(world)
    cut = cuts.take(ids)
    timestamps = [_timestamps(table) for table in tables]
    for at_ms in sorted({at for of_table in timestamps for at in of_table if at >= max(t[0] for t in timestamps)}):
        versions = [table.version for table in cuts.past(cut, ids, at_ms)]
        assert versions == [sum(at <= at_ms for at in of_table) - 1 for of_table in timestamps]
    assert cuts.past(cut, ids, max(map(max, timestamps))) == cut.tables(ids), "the latest, with etag"
    (earlier,) = cuts.past(cut, ids[:1], timestamps[0][2])
    assert (earlier.version, earlier.etag, earlier.floor) == (2, "", 2)


def test_i8_refusals_say_which_table_or_that_the_moment_is_to_come(world: FakeWorld) -> None:
    tables = [Table(world, table_id(number)) for number in range(2)]
    ids = [table.id for table in tables]
    cuts = Cuts(world)
    cut = cuts.take(ids)
    with pytest.raises(InvalidRequest, match="no moment of the past"):
        cuts.past(cut, ids, cut.taken_at_ms + AHEAD_MS + 1)
    assert cuts.past(cut, ids, cut.taken_at_ms + AHEAD_MS) == cut.tables(ids), "a client's clock may be ahead"
    with pytest.raises(NotFound, match="does not exist") as caught:
        cuts.past(cut, ids, min(table.head.tail_ict for table in tables) - 1)
    assert caught.value.field == "tables[0]"
    later = Table(world, table_id(7))
    cut = cuts.take([tables[0].id, later.id])
    with pytest.raises(NotFound, match="does not exist") as caught:
        cuts.past(cut, [tables[0].id, later.id], tables[0].head.last_ict)
    assert caught.value.field == "tables[1]"
