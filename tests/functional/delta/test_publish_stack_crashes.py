"""The deployed publisher is killed at every named point (I4, I5, I11); a stack of its own, since
others need theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.support.stack import Functions, StackTable, until, world_of
from turnstile.store.core.names import published_path
from turnstile.store.faults import POINTS

if TYPE_CHECKING:
    from turnstile_local import Stack

pytestmark = [pytest.mark.stack, pytest.mark.slow]

STREAM = "app.on_refs"
SWEEP = "app.sweep"
DIED = "errorMessage=Worker process"  # died, or exited at once: what the emulator says of the batch


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    from turnstile_local import Stack

    with Stack.start(tmp_path_factory.mktemp("publish"), port=0) as running:
        yield running


@pytest.mark.parametrize(
    "point", [point for point in POINTS if point.startswith("publish.") and not point.endswith("stuck")]
)
def test_i4_i5_i11_a_function_that_dies_at_any_point_loses_nothing_and_the_sweeper_heals(
    point: str, own_stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in own_stack.env.items():
        monkeypatch.setenv(name, value)
    functions = Functions(own_stack)
    table = StackTable(own_stack, world_of(own_stack, functions), f"t{uuid4().hex[:8]}")
    deaths = own_stack.log.read_text().count(DIED)
    functions.set(STREAM, TURNSTILE_FAULT_POINT=point)
    try:
        if point == "publish.verified":
            table.stage(engine_publishes=True)
        table.mixed(6)
        until(lambda: own_stack.log.read_text().count(DIED) > deaths, f"the function dies at {point}")
        table.check_prefix()
        table.mixed(2)
        assert functions.invoke(SWEEP, {})["failures"] == 0
        table.check_all_published()
        assert table.head.tail_from > 1
    finally:
        functions.set(STREAM, TURNSTILE_FAULT_POINT="")
    assert published_path(1) in {stat.path for stat in table.storage.list("_delta_log/")}
    table.inline()
    table.check_all_published()
    table.close()
