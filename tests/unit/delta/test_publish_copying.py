"""Publishing one version when storage misbehaves for a moment: looked at again within the call (I4,
I11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.storage import FakeStorage
from tests.support.fakes.world import fake_world
from turnstile.delta.publish import Publisher
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.names import published_path, staged_path

Hook = Callable[[str], None]


@pytest.fixture
def table() -> Table:
    made = Table(fake_world())
    made.mixed(2)
    return made


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Hook], None]:
    """``before("read", hook)``: ``hook`` is called with the path before each request of that
    kind."""

    def install(operation: str, hook: Hook) -> None:
        original = getattr(FakeStorage, operation)

        def hooked(self: FakeStorage, path: str, *args: Any, **more: Any) -> Any:
            hook(path)
            return original(self, path, *args, **more)

        monkeypatch.setattr(FakeStorage, operation, hooked)

    return install


def test_i11_a_fault_that_passes_does_not_end_the_call(table: Table, before: Callable[[str, Hook], None]) -> None:
    faults = ["read", "put"]

    def fail_once(path: str) -> None:
        if faults:
            raise StorageFault(faults.pop())

    before("read", fail_once)
    before("put_if_absent", fail_once)
    assert Publisher(table.world).publish(TABLE).problem is None
    table.check_all_published()


def test_a_file_that_is_complete_at_the_second_look_is_fine(table: Table, before: Callable[[str, Hook], None]) -> None:
    path = published_path(1)
    table.put(path, table.ratified[1][:7])
    looks: list[str] = []

    def complete(read: str) -> None:
        if read == path:
            looks.append(read)
            if len(looks) == 2:
                table.put(path, table.ratified[1])

    before("read", complete)
    assert Publisher(table.world).publish(TABLE).problem is None
    table.check_all_published()


def test_a_foreign_file_that_is_gone_at_the_second_look_is_replaced_by_the_ratified_one(
    table: Table, before: Callable[[str, Hook], None]
) -> None:
    path = published_path(1)
    table.put(path, b"foreign\n")
    foreign = [path]

    def vanish(read: str) -> None:
        if read in foreign:
            foreign.remove(read)
            table.storage.delete(read)

    before("read", vanish)
    assert Publisher(table.world).publish(TABLE).problem is None
    table.check_all_published()


def test_i11_a_staged_file_that_shows_up_at_the_second_look_is_published(
    table: Table, before: Callable[[str, Hook], None]
) -> None:
    path = staged_path(table.names[1])
    table.storage.delete(path)
    looks: list[str] = []

    def appear(read: str) -> None:
        looks.append(read)
        if looks.count(path) == 2:
            table.put(path, table.ratified[1])

    before("read", appear)
    assert Publisher(table.world).publish(TABLE).problem is None
    table.check_all_published()


def test_faults_that_do_not_pass_end_the_call_after_a_few_tries(
    table: Table, before: Callable[[str, Hook], None]
) -> None:
    tries: list[str] = []

    def fail(path: str) -> None:
        tries.append(path)
        raise StorageFault("no answer")

    before("put_if_absent", fail)
    problem = Publisher(table.world).publish(TABLE).problem
    assert problem is not None
    assert not problem.stuck
    assert len(tries) == 3
