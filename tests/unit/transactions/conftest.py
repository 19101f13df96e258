"""Three tables, whose HEADs and logs are in memory."""

from __future__ import annotations

import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def tables(world: FakeWorld) -> list[Table]:
    return [Table(world, table_id(number)) for number in range(3)]
