"""Publishing on the embedded stack: HTTP commit -> stream -> function -> log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.support.stack import Functions, StackTable, until, world_of
from turnstile.delta.publish import Publisher
from turnstile.store.core.names import published_path
from turnstile.store.ports import World

if TYPE_CHECKING:
    from turnstile_local import Stack

pytestmark = pytest.mark.stack

STREAM = "app.on_refs"
SWEEP = "app.sweep"


@pytest.fixture(scope="module")
def functions(stack: Stack) -> Functions:
    return Functions(stack)


@pytest.fixture(scope="module")
def world(stack: Stack, functions: Functions) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in stack.env.items():
            patch.setenv(name, value)
        yield world_of(stack, functions)


@pytest.fixture
def table(stack: Stack, world: World) -> Iterator[StackTable]:
    made = StackTable(stack, world, f"t{uuid4().hex[:8]}")
    yield made
    made.close()


def test_i4_i11_the_stream_publishes_every_kind_of_commit_with_exactly_its_bytes(table: StackTable) -> None:
    table.mixed(12)
    table.check_all_published()


def test_i3_a_replay_after_publication_gets_the_same_version(table: StackTable) -> None:
    staged = table.stage()
    inline = table.inline()
    table.mixed(8)
    table.check_all_published()
    assert table.head.tail_from > 2
    for version, body in ((1, staged), (2, inline)):
        answer = table.commit(body)
        assert (answer["outcome"], answer["commit"]["version"]) == ("replayed", version)


def test_i11_a_stuck_table_does_not_delay_another_and_heals(
    stack: Stack, world: World, table: StackTable, functions: Functions
) -> None:
    table.mixed(1)
    table.check_all_published()
    assert table.storage.put_if_absent(published_path(2), b"foreign\n")
    table.inline()
    other = StackTable(stack, world, f"o{uuid4().hex[:8]}")
    other.mixed(4)
    other.check_all_published()
    until(lambda: table.head.state == "stuck", "the table says that it is stuck")
    assert table.published()[2] == b"foreign\n"
    table.storage.delete(published_path(2))
    functions.invoke(SWEEP, {})
    table.check_all_published()
    other.close()


def test_i4_two_publishers_and_the_function_at_once_are_harmless(world: World, table: StackTable) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(lambda: [Publisher(world, step=2).publish(table.id) for _ in range(10)]) for _ in "ab"]
        table.mixed(16)
        for one in running:
            one.result()
    table.check_all_published()


def test_the_fault_variable_is_off_in_what_is_deployed(functions: Functions) -> None:
    for handler in (STREAM, SWEEP, "app.collect"):
        assert not functions.environment(handler).get("TURNSTILE_FAULT_POINT")
