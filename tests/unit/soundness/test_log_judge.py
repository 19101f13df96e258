"""The facts that a judgement of a log rests on: which start, which commits, and how far (I24)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.clones import clone, commit
from tests.support.damage.checkpointed import Checkpointed
from tests.support.delta_table import Table
from tests.support.fakes.world import fake_world
from turnstile.delta.core.head import tail_by_version
from turnstile.delta.log.lines import NO_INFO
from turnstile.delta.publish import Publisher
from turnstile.delta.soundness import judge as module
from turnstile.delta.soundness.judge import expired_upto, fault_of, judge, ratified_sizes, read_facts
from turnstile.store.core.names import published_path


def faults(table: Checkpointed, **more: Any) -> list[tuple[int, str]]:
    return [(fault.version, fault.kind) for fault in judge(table.storage, table.head.floor, **more).faults]


def test_i24_a_sound_log_has_no_fault_with_a_checkpoint_and_without() -> None:
    for latest in (24, 5):
        judgement = judge(Checkpointed(latest).storage, latest)
        assert (judgement.faults, judgement.not_judged) == ((), ())


def test_i24_a_commit_without_commit_info_is_found_where_the_metadata_in_the_log_or_in_the_checkpoint_demands_it() -> (
    None
):
    for latest in (24, 5):
        table = Checkpointed(latest)
        table.without_info(latest - 1)
        assert NO_INFO in judge(table.storage, latest).faults[0].message
        assert fault_of(read_facts(table.storage, latest - 1), info=False) is None
        assert fault_of(read_facts(table.storage, latest - 1), info=True) is not None


def test_i24_commits_before_the_newest_start_are_not_read_and_the_one_after_it_is() -> None:
    table = Checkpointed()
    table.rewrite(20, b"{" + table.commit_of(20)[1:-2])
    assert faults(table) == []
    table.rewrite(21, b"{")
    assert faults(table) == [(21, "damaged")]


def test_i24_where_the_newest_checkpoint_is_damaged_the_log_is_judged_from_the_one_before() -> None:
    table = Checkpointed()
    table.storage.replace(table.checkpoint_of(20), b"PAR1 and no more PAR1")
    table.rewrite(15, b"{")
    assert [version for version, _ in faults(table)] == [20, 15]
    table.storage.replace(table.checkpoint_of(10), b"PAR1 and no more PAR1")
    table.rewrite(5, b"{")
    assert [version for version, _ in faults(table)] == [20, 10, 5, 15]


def test_i24_a_log_that_begins_at_a_checkpoint_is_judged_behind_it() -> None:
    table = Checkpointed()
    table.remove_before(20)
    assert faults(table) == []
    table.rewrite(22, b"{")
    assert faults(table) == [(22, "damaged")]


def test_i24_a_log_without_any_start_is_reported_and_no_commit_of_it_is_read() -> None:
    table = Checkpointed()
    table.remove_before(22)
    table.rewrite(23, b"{")
    assert faults(table) == [(22, "begins late")]


def test_i24_how_far_a_log_was_let_expire_is_asked_only_where_it_begins_late() -> None:
    table = Checkpointed()
    asked = list[int]()

    def expired(upto: int) -> int:
        asked.append(upto)
        return upto

    assert faults(table, expired_upto=lambda: expired(0)) == [] and asked == []
    table.remove_before(15)
    assert faults(table, expired_upto=lambda: expired(15)) == [] and asked == [15]
    assert faults(table, expired_upto=lambda: expired(5)) == [(14, "missing")]
    assert faults(table) == [], "nobody says how far"


def test_i24_what_is_not_read_for_its_size_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Checkpointed()
    sizes = [len(table.commit_of(version)) for version in range(21, 25)]
    monkeypatch.setattr(module, "COMMIT_BYTES", sum(sizes))
    assert judge(table.storage, 24).not_judged == ()
    monkeypatch.setattr(module, "COMMIT_BYTES", sum(sizes) - 1)
    (left,) = judge(table.storage, 24).not_judged
    assert left.path == published_path(24) and f"more than {sum(sizes) - 1} bytes" in left.reason


def test_i24_a_fault_that_the_listing_shows_is_reported_once() -> None:
    table = Checkpointed()
    table.rewrite(23, b"")
    assert faults(table) == [(23, "damaged")]
    table.storage.replace(table.checkpoint_of(20), b"")
    assert len({(fault.version, fault.path) for fault in judge(table.storage, 24).faults}) == len(faults(table))


def test_i24_without_the_commit_of_the_floor_nothing_else_is_read() -> None:
    table = Checkpointed()
    table.storage.delete(published_path(24))
    table.rewrite(23, b"{")
    assert faults(table) == [(24, "missing")]


def test_i24_a_commit_that_went_after_it_was_listed_is_missing() -> None:
    table = Checkpointed(3)
    fault = fault_of(read_facts(table.storage, 7), info=True)
    assert fault is not None and (fault.version, fault.kind) == (7, "missing")


def test_i24_sizes_are_known_of_published_commits_that_are_no_tickets() -> None:
    world = fake_world()
    table = Table(world)
    table.mixed(9)
    assert ratified_sizes(table.head) == {}
    Publisher(world).publish(table.id)
    head = table.head
    known = {place.version: place.entry for place in tail_by_version(head)}
    assert ratified_sizes(head) == {
        version: entry.size for version, entry in known.items() if not entry.ticket and entry.size
    }
    table.mixed(3)
    assert set(ratified_sizes(table.head)) <= set(range(head.floor + 1))


def test_i24_no_size_is_known_of_a_published_commit_that_was_recorded_without_one() -> None:
    world = fake_world()
    table = Table(world)
    table.mixed(9)
    Publisher(world).publish(table.id)
    sized = ratified_sizes(table.head)
    tail = [msgspec.structs.replace(entry, size=0) for entry in table.head.tail]
    assert sized and ratified_sizes(msgspec.structs.replace(table.head, tail=tail)) == {}


def test_i24_commit_info_is_demanded_from_the_version_on_that_the_metadata_names() -> None:
    table = Checkpointed(5)
    enabled = b'"delta.enableInCommitTimestamps":"true"'
    named = enabled + b',"delta.inCommitTimestampEnablementVersion":"3"'
    assert enabled in table.commit_of(0)
    table.rewrite(0, table.commit_of(0).replace(enabled, named))
    table.without_info(2)
    assert faults(table) == []
    table.without_info(3)
    assert faults(table) == [(3, "damaged")]


def test_i24_the_log_of_a_clone_may_have_expired_as_far_as_its_sources() -> None:
    table = Checkpointed(3)
    table.services.namespaces.create("main", ("copies",))
    (copy,) = clone(table.services, table.head.name.removeprefix("main."), "copies.copy").tables
    commit(table.world, table.id)
    head = table.world.refs.read(table.world.space.table(copy.table_id))
    assert head is not None
    from turnstile.delta.core.head import TableHead

    cloned = TableHead.from_row(head)
    source = table.world.refs.rows[table.head.key]
    source["first"] = 2
    location = table.world.refs.rows[table.world.space.location(table.head.location)]
    location.pop("readable_from", None)
    assert expired_upto(table.world, cloned) == 2
    location["readable_from"] = 3
    assert expired_upto(table.world, cloned) == 3
    del table.world.refs.rows[table.head.key]
    location["readable_from"] = 0
    assert expired_upto(table.world, cloned) == cloned.latest
    del table.world.refs.rows[table.world.space.location(cloned.location)]
    assert expired_upto(table.world, cloned) == cloned.latest
