"""Where the ratified bytes are found, and what is never taken for them (I2, I4)."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from turnstile.delta.commits import Commits, ContentChanged, ContentMissing, content_of, transaction_of
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import Entry, cost, digest_of, tail_by_version
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.repair import Repairer
from turnstile.store.core.names import published_path, staged_path


def test_anything_but_a_commit_has_no_transaction() -> None:
    assert transaction_of(delta.append("mine", 5)) == "mine"
    for raw in (
        b"",
        b"\n",
        b"{",
        b"[]",
        b"\xff",
        b'{"add":{}}\n',
        b'{"commitInfo":{}}\n',
        b'{"commitInfo":{"txnId":7}}',
    ):
        assert transaction_of(raw) == ""


@pytest.mark.parametrize("published", ["other transaction", "other size", "not a commit"])
def test_i2_another_commit_in_the_log_is_not_taken_for_a_lost_staged_one(published: str) -> None:
    table = Table(fake_world())
    name = table.stage()
    mine = table.ratified[1]
    others = {
        "other transaction": mine.replace(b"s-1", b"x-1"),
        "other size": mine + b"\n",
        "not a commit": b"#" * len(mine),
    }
    table.put(published_path(1), others[published])
    table.storage.delete(staged_path(name))
    with pytest.raises(ContentMissing):
        content_of(table.world, table.head, tail_by_version(table.head)[0])
    table.world.clock.now += 60_000
    answer = Publisher(table.world).publish(TABLE)
    assert (answer.floor, answer.state) == (0, "stuck")
    assert table.published()[1] == others[published]


def test_i2_a_lost_ticket_is_known_by_its_transaction_whatever_its_final_size() -> None:
    table = Table(fake_world())
    table.inline(size=12_000)
    table.ticket("t")
    head = table.head
    Publisher(table.world).publish(TABLE)
    for key in [key for key in table.world.objs.rows if key[1].startswith("inline/")]:
        table.world.objs.delete(*key)
    for place in tail_by_version(head):  # a reader that still holds the HEAD from before publication
        assert content_of(table.world, head, place) == table.ratified[place.version]


OTHERS = {"another transaction": (b"s-1-", b"z-9-"), "the same transaction": (b".parquet", b".PARQUET")}
"""Rewritten contents of the same size."""


@pytest.mark.parametrize("how", OTHERS)
def test_i2_i4_a_staged_file_that_was_rewritten_with_the_same_size_is_not_published(how: str) -> None:
    table = Table(fake_world())
    name = table.stage()
    mine = table.ratified[1]
    other = mine.replace(*OTHERS[how])
    assert len(other) == len(mine) and other != mine
    table.put(staged_path(name), other)
    with pytest.raises(ContentChanged, match="other content"):
        content_of(table.world, table.head, tail_by_version(table.head)[0])
    publisher = Publisher(table.world)
    answer = publisher.publish(TABLE)
    assert (answer.floor, answer.state, 1 in table.published()) == (0, "stuck", False)
    repairer = Repairer(table.world, publisher)
    assert repairer.diagnose(TABLE).finding == "changed"
    table.put(staged_path(name), mine)
    assert publisher.publish(TABLE).problem is None
    table.check_all_published()


def test_i4_what_was_judged_is_what_counts_also_when_the_file_changes_before_it_is_ratified() -> None:
    """Between the storage's read and the row's write somebody rewrites the file: the row says what
    was read."""
    table = Table(fake_world())
    name = table.stage(lose=True)
    read = table.storage.read(staged_path(name))
    assert read is not None
    judged = read[0]
    write = table.world.refs.write

    def rewritten(one: object) -> object:
        table.put(staged_path(name), judged.replace(b".parquet", b".PARQUET"))
        return write(one)  # type: ignore[arg-type]

    table.world.refs.write = rewritten  # type: ignore[method-assign,assignment]
    answer = table.ratifier.commit(CommitRequest(TABLE, 1, staged=name, size=len(judged)))
    assert isinstance(answer, Ratified)
    table.world.refs.write = write  # type: ignore[method-assign]
    assert Publisher(table.world).publish(TABLE).state == "stuck"


@pytest.mark.parametrize("how", OTHERS)
def test_i4_a_published_file_of_the_same_size_is_not_taken_for_a_lost_staged_one(how: str) -> None:
    table = Table(fake_world())
    name = table.stage()
    table.put(published_path(1), table.ratified[1].replace(*OTHERS[how]))
    table.storage.delete(staged_path(name))
    with pytest.raises(ContentMissing):
        content_of(table.world, table.head, tail_by_version(table.head)[0])


def test_i4_a_file_too_large_to_be_read_whole_is_known_by_its_transaction_and_size() -> None:
    table = Table(fake_world())
    table.stage()
    (entry,) = table.head.tail
    assert entry.digest == digest_of(table.ratified[1])
    unread = msgspec.structs.replace(entry, digest=0)
    table.row["tail"] = [unread.pack()]
    assert content_of(table.world, table.head, tail_by_version(table.head)[0]) == table.ratified[1]
    table.put(staged_path(table.names[1]), table.ratified[1].replace(b"s-1-", b"z-9-"))
    with pytest.raises(ContentChanged):
        content_of(table.world, table.head, tail_by_version(table.head)[0])


def test_i4_a_rewritten_file_is_not_given_to_a_caller_that_asks_for_a_replay() -> None:
    table = Table(fake_world())
    name = table.stage()
    table.put(staged_path(name), table.ratified[1].replace(b"s-1-", b"z-9-"))
    with pytest.raises(ContentChanged):
        Commits(table.world).earlier(TABLE, 1)


def test_i11_a_digest_costs_a_waiting_staged_commit_nine_bytes_and_every_other_entry_none() -> None:
    plain = Entry(
        txn="5c3a4bb2-6f4e-4f8e-9a51-3f1f0f3f9a51", ict=1_770_000_000_000, size=12_345, changed="append",
        operation="WRITE", unique="0d9a36b4-2a9c-4c4b-8e61-0f5a0d2c7f10", modified_ms=1_770_000_000_000, rows=-1,
        ratified_ms=1_770_000_000_123,
    )  # fmt: skip
    kept = msgspec.structs.replace(plain, digest=(1 << 64) - 1)
    assert (len(plain.pack()), cost(plain), cost(kept)) == (132, 176, 185)
    assert cost(kept.without_content()) == cost(plain)
    for entry in (plain, kept, msgspec.structs.replace(kept, apps=2), msgspec.structs.replace(plain, apps=2)):
        assert msgspec.msgpack.decode(entry.pack(), type=Entry) == entry
