"""Where the ratified bytes are found, and what is never taken for them (I2, I4)."""

from __future__ import annotations

import pytest

from tests.fakes import delta
from tests.fakes.world import fake_world
from tests.unit.publish_kit import TABLE, Table
from turnstile.core.positions import positioned
from turnstile.services.content import ContentMissing, content_of, transaction_of
from turnstile.services.paths import published_path, staged_path
from turnstile.services.publish import Publisher


def test_the_transaction_of_anything_but_a_commit_is_nobodys() -> None:
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
        content_of(table.world, table.head, positioned(table.head)[0])
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
    for place in positioned(head):  # a reader that still holds the HEAD from before publication
        assert content_of(table.world, head, place) == table.ratified[place.version]
