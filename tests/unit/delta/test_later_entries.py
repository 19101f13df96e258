"""Entries of a tail that a newer release wrote with more members: older code keeps them (I22)."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.fakes.heads import empty_row, entry, floored, must, named
from turnstile.delta.core.head import Entry, LaterEntry, TableHead, cost
from turnstile.delta.core.undecided import Beginning, fold, prepare, undecided_of
from turnstile.delta.core.writes.ratify import named_change
from turnstile.delta.core.writes.state import take_back
from turnstile.store.core.evaluate import apply_actions
from turnstile.store.core.writes import Row

LATER: list[object] = ["added", {"deep": [1, None]}, b"bytes"]


def extended(packed: bytes) -> bytes:
    """The entry as a release with three members more would have packed it."""
    members = msgspec.msgpack.decode(packed, type=list[msgspec.Raw])
    known = len(Entry.__struct_fields__)
    empty = [msgspec.Raw(msgspec.msgpack.encode(value)) for value in (0, "")]  # packed without digest and principal
    filled = [*members, *empty[len(members) - known :]] if len(members) < known else members
    return msgspec.msgpack.encode([*filled, *LATER])


def members(packed: bytes) -> list[object]:
    return msgspec.msgpack.decode(packed, type=list[object])


def tail_of(versions: int) -> Row:
    """A HEAD whose commits were all written by the newer release."""
    row = empty_row()
    for version in range(1, versions + 1):
        row = must(row, named(version, f"t{version}", 2_000_000_000_000 + version, data=b"x" * 100))
        longer = extended(row["tail"][-1])
        row["bytes"] += len(longer) - len(row["tail"][-1])
        row["tail"][-1] = longer
    return row


@pytest.mark.parametrize("digest", [0, 1, 2**64 - 1])
def test_i22_an_entry_keeps_the_members_that_are_not_known(digest: int) -> None:
    longer = extended(entry(digest=digest).pack())
    unpacked = Entry.unpack(longer)
    assert isinstance(unpacked, LaterEntry)
    assert unpacked.pack() == longer
    assert members(unpacked.without_content().pack())[len(Entry.__struct_fields__) :] == LATER
    assert {name: getattr(unpacked, name) for name in Entry.__struct_fields__} == msgspec.structs.asdict(
        entry(digest=digest)
    )


@pytest.mark.parametrize("principal", ["", "ann", "ä" * 128])
@pytest.mark.parametrize("digest", [0, 7])
def test_an_entry_of_this_release_is_no_later_one(digest: int, principal: str) -> None:
    made = entry(digest=digest, principal=principal)
    unpacked = Entry.unpack(made.pack())
    assert type(unpacked) is Entry
    assert unpacked == made


def test_an_entry_without_digest_and_principal_is_as_small_as_before_there_were_these_members() -> None:
    known = len(Entry.__struct_fields__)
    sizes = [len(members(entry(digest=digest, principal=by).pack())) for digest, by in ((0, ""), (7, ""), (0, "ann"))]
    assert sizes == [known - 2, known - 1, known]


def test_an_entry_of_an_early_release_has_fewer_members() -> None:
    assert Entry.unpack(msgspec.msgpack.encode(["t", 5, 10, "data"])) == Entry("t", 5, 10, "data")
    fewer = msgspec.msgpack.encode(members(entry().pack())[:16])
    assert Entry.unpack(fewer).txn == entry().txn


def test_i22_raising_the_floor_strips_an_entry_of_its_bytes_and_of_nothing_else() -> None:
    row = floored(tail_of(6), idle=True)
    head = TableHead.from_row(row)
    assert [len(members(packed)) for packed in row["tail"]] == [len(Entry.__struct_fields__) + 3] * len(head.tail)
    assert all(members(packed)[-3:] == LATER for packed in row["tail"])
    assert all(not each.data for each in head.tail)
    assert row["bytes"] == sum(map(cost, head.tail))


def test_i22_a_commit_of_older_code_leaves_the_entries_before_it_alone() -> None:
    before = tail_of(2)
    after = must(before, named(3, "t3", 2_000_000_000_100))
    assert after["tail"][:2] == before["tail"]


def test_i22_taking_back_keeps_what_stays_as_it_was() -> None:
    row = tail_of(3) | {"state": "stuck", "reason": "version 2: it differs", "floor": 1}
    after = apply_actions(row, take_back(TableHead.from_row(row), "m0", 5).actions)
    assert after["tail"] == row["tail"][:1]


def test_i22_an_undecided_commit_of_newer_code_is_folded_with_all_its_members() -> None:
    row = empty_row()
    proposal = named(1, "t1", 2_000_000_000_000)
    change = prepare(
        Beginning("g", "ref", "token"), named_change(row["key"], proposal, 1), proposal, clock_behind=False
    )
    held = apply_actions(row, change.actions)
    parts = msgspec.msgpack.decode(held["undecided"], type=list[msgspec.Raw])
    parts[4] = msgspec.Raw(extended(bytes(parts[4])))
    held["undecided"] = msgspec.msgpack.encode(parts)
    undecided = undecided_of(TableHead.from_row(held))
    assert undecided is not None
    assert isinstance(undecided.entry, LaterEntry)
    folded = apply_actions(held, fold(row["key"], held["undecided"], 2).actions)
    assert members(folded["tail"][0])[-3:] == LATER


def test_only_small_entries_are_remembered_so_that_their_memory_is_bounded() -> None:
    small = entry().pack()
    large = msgspec.structs.replace(entry(), data=bytes(10_000)).pack()
    assert Entry.unpack(small) is Entry.unpack(small)
    first = Entry.unpack(large)
    second = Entry.unpack(large)
    assert first == second and first is not second
