"""A look at the rows of every kind: damaged ones are named, and the look ends when its time is up
(I10)."""

from __future__ import annotations

import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import fake_world
from turnstile.api.doctor import damage
from turnstile.store.core.writes import Row
from turnstile.store.ports import DamagedRow


@pytest.mark.parametrize("kind", ["tabel", "ref", 7, ["table"]])
def test_a_row_with_another_kind_than_its_key_has_is_damaged(kind: object) -> None:
    world = fake_world()
    row = Table(world, table_id(1)).row | {"kind": kind}
    damaged = list[DamagedRow]()
    assert not damage.is_readable(row, damaged)
    (found,) = damaged
    assert found.key == row["key"] and repr(kind) in found.message


def test_a_look_at_rows_goes_on_from_page_to_page_until_its_time_is_up() -> None:
    world = fake_world()
    for number in range(damage._PAGE + 1):
        Table(world, table_id(number))
    seen = list[Row]()
    whole = damage.look_at_rows(world.refs, seen.append, lambda: True)
    assert (whole, len(seen)) == (damage.DamageReport([], ""), len(world.refs.rows))
    del seen[:]
    part = damage.look_at_rows(world.refs, seen.append, lambda: False)
    assert len(seen) == damage._PAGE and part.after == seen[-1]["key"]
