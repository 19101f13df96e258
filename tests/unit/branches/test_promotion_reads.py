"""A promotion reads the commits that are not published where they are, and publishes no table for
that (I28)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.support.catalog import LAKE, create, fakes, fresh, head_of, set_state
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld
from turnstile.api.services import Services
from turnstile.api.settings import Settings
from turnstile.branches.promotion import BranchChanges, Promoted, Promoter
from turnstile.branches.promotion_rights import PromotionRights
from turnstile.delta.core.decide import Ratified
from turnstile.delta.proposals import CommitRequest
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import ErrorType, StateConflict, StorageFault
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import published_path, staged_file, staged_path


class Lake:
    """A catalog with a branch ``dev`` and tables ``t0``, ``t1``, ..., by a process that has used
    none of them yet."""

    def __init__(self, tables: int = 1, limits: Limits | None = None) -> None:
        catalog = fresh()
        self.world: FakeWorld = fakes(catalog)
        self.settings = Settings(lake_root=LAKE, limits=limits or Limits())
        self.main = [create(catalog, f"t{number}") for number in range(tables)]
        services = self.services()
        services.open_catalog.branches.create("main", "dev")
        reader = services.open_reader
        self.dev = [reader.resolve("main@dev", ("default",), f"t{number}").table_id for number in range(tables)]
        self.publisher = services.publisher

    def services(self) -> Services:
        return Services(self.world, self.settings)

    def content(self, table_id: str, *actions: dict[str, Any]) -> tuple[int, bytes]:
        head = head_of(self.world, table_id)
        stamp = max(self.world.clock.now_ms(), head.last_ict + 1)
        return head.latest + 1, delta.lines(delta.info(f"c{stamp}", stamp, isBlindAppend=True), *actions)

    def append(self, table_id: str, *files: str, note: str = "") -> None:
        """A commit whose bytes its HEAD carries; an obj, if they are more than a row takes."""
        more = {"tags": {"note": note}} if note else {}
        self.commit(table_id, *(delta.add(file, **more) for file in files))

    def commit(self, table_id: str, *actions: dict[str, Any]) -> None:
        version, content = self.content(table_id, *actions)
        request = CommitRequest(table_id, version, base=version - 1, content=content)
        assert isinstance(self.services().ratifier.commit(request), Ratified)

    def stage(self, table_id: str, file: str) -> str:
        """A commit in a staged file, whose path is returned."""
        version, content = self.content(table_id, delta.add(file))
        name = staged_file(version, self.world.ids.uuid())
        self.world.storages.open(head_of(self.world, table_id).location).put_if_absent(staged_path(name), content)
        modified = self.world.clock.now_ms()
        request = CommitRequest(
            table_id, version, base=version - 1, staged=name, size=len(content), modified_ms=modified
        )
        assert isinstance(self.services().ratifier.commit(request), Ratified)
        return staged_path(name)

    def promoter(self, services: Services | None = None) -> Promoter:
        services = services or self.services()
        return Promoter(services.open_catalog, services.groups, PromotionRights(OPERATOR))

    def changes(self) -> BranchChanges:
        return self.promoter().changes("main", "dev")

    def promote(self) -> Promoted:
        return self.promoter().promote("main", "dev")

    def added(self, number: int = 0) -> list[str]:
        """The files of the last commit of a table of the catalog."""
        self.publisher.publish(self.main[number])
        head = head_of(self.world, self.main[number])
        content, _ = self.world.storages.files[f"{head.location}/{published_path(head.latest)}"]
        actions = [msgspec.json.decode(line) for line in content.splitlines()]
        return sorted(one["add"]["path"].rpartition("/")[2] for one in actions if "add" in one)

    def after_heads(self, act: Callable[[], object]) -> None:
        """Has ``act`` happen once, right after HEADs were read."""
        refs: Any = self.world.refs
        inner = refs.read_many

        def read_many(keys: Any) -> Any:
            rows = inner(keys)
            refs.read_many = inner
            act()
            return rows

        refs.read_many = read_many


def random_text() -> str:
    return random.Random(1).randbytes(6_000).hex()


def inline(lake: Lake, table_id: str) -> str:
    lake.append(table_id, "new")
    return ""


def spilled(lake: Lake, table_id: str) -> str:
    lake.append(table_id, "new", note=random_text())
    assert head_of(lake.world, table_id).tail[-1].obj
    return ""


def staged(lake: Lake, table_id: str) -> str:
    return lake.stage(table_id, "new")


PLACES = [inline, spilled, staged]


@pytest.mark.parametrize("place", PLACES)
def test_i28_commits_that_are_not_published_are_compared_and_nothing_is_written(
    place: Callable[[Lake, str], str],
) -> None:
    lake = Lake()
    place(lake, lake.dev[0])
    lake.append(lake.main[0], "other")
    before = (dict(lake.world.refs.rows), dict(lake.world.storages.files))
    changes = lake.changes()
    assert [(table.files_added, table.latest) for table in changes.tables] == [(1, 1)] and changes.conflicts == []
    assert (lake.world.refs.rows, lake.world.storages.files) == before
    lake.promote()
    assert lake.added() == ["new"]
    log = f"{head_of(lake.world, lake.dev[0]).location}/{published_path(1)}"
    assert log not in lake.world.storages.files, "the branch's table is handed over as it is"


@pytest.mark.parametrize("place", PLACES)
def test_i28_a_publisher_that_moves_commits_between_two_reads_changes_no_result(
    place: Callable[[Lake, str], str],
) -> None:
    lake = Lake()
    path = place(lake, lake.dev[0])
    head = head_of(lake.world, lake.dev[0])

    def publish_and_remove() -> None:
        lake.publisher.publish(lake.dev[0])
        if path:
            lake.world.storages.open(head.location).delete(path)
        if head.tail[-1].obj:
            space = lake.world.space.objs("main")
            assert lake.world.objs.get(space, head.tail[-1].obj) is not None
            lake.world.objs.delete(space, head.tail[-1].obj)

    lake.after_heads(publish_and_remove)
    assert [table.files_added for table in lake.promote().tables] == [1]
    assert lake.added() == ["new"]


def test_i28_a_published_commit_that_the_log_lost_between_two_reads_is_named() -> None:
    lake = Lake()
    lake.append(lake.dev[0], "new")
    lake.publisher.publish(lake.dev[0])
    head = head_of(lake.world, lake.dev[0])
    lake.after_heads(lambda: lake.world.storages.open(head.location).delete(published_path(1)))
    with pytest.raises(StateConflict, match=r"version 1 of .* is not in its log any more") as refused:
        lake.changes()
    assert refused.value.type == ErrorType.VERSIONS_GONE


def test_i28_staged_bytes_that_changed_are_not_promoted() -> None:
    lake = Lake()
    path = lake.stage(lake.dev[0], "new")
    storage = lake.world.storages.open(head_of(lake.world, lake.dev[0]).location)
    storage.replace(path, lake.content(lake.dev[0], delta.add("bad"))[1])
    with pytest.raises(StorageFault):
        lake.promote()
    assert head_of(lake.world, lake.main[0]).latest == 0


def test_i28_a_commit_after_the_heads_were_read_is_compared_before_the_promotion() -> None:
    lake = Lake()
    lake.append(lake.dev[0], "new")
    lake.after_heads(lambda: lake.append(lake.dev[0], "late"))
    assert [table.latest for table in lake.promote().tables] == [2]
    assert lake.added() == ["late", "new"]


def test_a_promotion_of_ten_tables_costs_as_many_requests_as_one_of_two() -> None:
    requests = []
    for tables in (2, 10):
        lake = Lake(tables)
        for table_id in lake.dev:
            lake.append(table_id, "new")
        promoter = lake.promoter()
        world = lake.world
        for port in (world.refs, world.objs, world.storages):
            port.requests.clear()
        promoter.promote("main", "dev")
        assert world.storages.requests == []
        requests.append((list(world.refs.requests), list(world.objs.requests)))
    assert requests[0] == requests[1]
    assert sorted(requests[1][0]) == ["read", "read", "read", "read_many", "transact"]


def test_files_of_many_commits_are_read_in_their_order() -> None:
    lake = Lake(2)
    for number in range(40):
        lake.append(lake.dev[number % 2], f"f{number:02}")
    for table_id in lake.dev:
        lake.publisher.publish(table_id)
    lake.commit(lake.dev[0], delta.remove("f00"))
    lake.promote()
    assert (lake.added(0), lake.added(1)) == (
        [f"f{number:02}" for number in range(2, 40, 2)],
        [f"f{number:02}" for number in range(1, 40, 2)],
    )


def test_i28_a_table_that_takes_no_commits_is_published_and_named() -> None:
    lake = Lake()
    lake.append(lake.dev[0], "new")
    lake.append(lake.main[0], "other")
    set_state(lake.services().open_catalog, lake.main[0], "stuck")
    assert lake.changes().conflicts == ["'default.t0' is stuck in the catalog"]
    assert head_of(lake.world, lake.main[0]).floor == 1


def test_i11_a_table_whose_head_is_full_is_published_first() -> None:
    lake = Lake(limits=Limits(backlog_bytes=3_000))
    lake.append(lake.dev[0], "new")
    while head_of(lake.world, lake.main[0]).bytes <= 1_500:
        lake.append(lake.main[0], "other")
    lake.promote()
    head = head_of(lake.world, lake.main[0])
    assert head.floor == head.latest - 1


def test_i28_a_table_whose_commits_cancel_out_is_the_catalogs_again_once_it_is_published() -> None:
    lake = Lake()
    lake.append(lake.dev[0], "new")
    lake.commit(lake.dev[0], delta.remove("new"))
    assert lake.promote().tables == []
    head = head_of(lake.world, lake.dev[0])
    assert (head.state, head.floor) == ("dropped", 2)
    assert lake.services().open_reader.resolve("main@dev", ("default",), "t0").table_id != lake.dev[0]
