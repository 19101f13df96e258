"""gc on the embedded stack: the real tables, the real files, the deployed function (I10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.support.stack import Functions, StackTable, world_of
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import HOUR_MS, Grace
from turnstile.store.ports import World

if TYPE_CHECKING:
    from turnstile_local import Stack

pytestmark = pytest.mark.stack

DAY = 24 * HOUR_MS


class Later:
    """The world's clock, some days ahead."""

    def __init__(self, world: World, days: float) -> None:
        self._clock = world.clock
        self._ahead = int(days * DAY)

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead


def collect(world: World, *kinds: str, days: float, dry_run: bool = False) -> Report:
    """A run that thinks it is some days later."""
    ahead = World(world.refs, world.objs, world.storages, Later(world, days), world.ids, world.space)
    return Collector(ahead, Grace()).collect(kinds, dry_run=dry_run)  # type: ignore[arg-type]


def of(report: Report, table_id: str) -> list[tuple[str, str, int]]:
    """The items of one table: other tests use the same stack."""
    return sorted((item.kind, item.id, item.bytes) for item in report.items if table_id in item.id)


@pytest.fixture
def world(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in stack.env.items():
        monkeypatch.setenv(name, value)
    return world_of(stack, Functions(stack))


@pytest.fixture
def table(stack: Stack, world: World) -> Iterator[StackTable]:
    table = StackTable(stack, world, f"t{uuid4().hex[:8]}")
    yield table
    table.close()


def names(table: StackTable) -> set[str]:
    return {stat.path.rpartition("/")[2] for stat in table.storage.list("_delta_log/_staged_commits/")}


def test_i10_losers_and_published_winners_go_and_replays_still_get_their_version(
    table: StackTable, world: World
) -> None:
    loser = table.stage(lose=True)
    first = table.stage()
    table.mixed(8)
    table.check_all_published()
    open_still = table.stage(lose=True)
    assert of(collect(world, "staged", days=0.5), table.id) == []
    dry = of(collect(world, "staged", days=2, dry_run=True), table.id)
    before = names(table)
    assert before == names(table)
    assert of(collect(world, "staged", days=2), table.id) == dry
    gone = before - names(table)
    assert {loser["staged"]["name"], first["staged"]["name"]} <= gone
    assert {id.rpartition("/")[2] for _, id, _ in dry} == gone
    assert open_still["staged"]["name"] in names(table)
    answer = table.commit(first)
    assert (answer["outcome"], answer["commit"]["version"]) == ("replayed", 1)
    table.mixed(2)
    table.check_all_published()


def test_i10_inline_objs_of_published_commits_go_and_of_unpublished_ones_stay(table: StackTable, world: World) -> None:
    for _ in range(6):
        table.inline(size=12_000)
    table.check_all_published()
    prefix = f"inline/{table.id}/"
    space = world.space.objs("main")
    assert len(list(world.objs.list(space, prefix))) == 6
    report = collect(world, "objs", days=3)
    assert len(of(report, table.id)) == 3, "the tail's three stay"
    assert len(list(world.objs.list(space, prefix))) == 3
    table.inline(size=12_000)
    table.check_all_published()


def test_a_staging_table_that_was_never_registered_goes_with_its_files(stack: Stack, world: World) -> None:
    with stack.client() as http:
        route = "/v1/catalogs/main/namespaces/default"
        staged = http.post(f"{route}/staging-tables", json={"name": f"s{uuid4().hex[:8]}"}).json()
        storage = world.storages.open(staged["location"])
        storage.put_if_absent("part-0.parquet", b"x" * 10)
        id = staged["table_id"]
        assert of(collect(world, "staging", days=0.5), id) == []
        assert of(collect(world, "staging", days=2, dry_run=True), id) == [("staging", id, 10)]
        assert of(collect(world, "staging", days=2), id) == [("staging", id, 10)]
        assert list(storage.list_all()) == []
        late = http.post(f"{route}/tables", json={"name": "late", "table_id": id})
        assert (late.status_code, late.json()["error"]["type"]) == (404, "NoSuchStagingTable")


def test_a_dropped_table_is_purged_after_its_grace_and_its_tombstone_stays(
    stack: Stack, table: StackTable, world: World
) -> None:
    table.mixed(4)
    table.check_all_published()
    name = table.head.name.rpartition(".")[2]
    with stack.client() as http:
        assert http.delete(f"/v1/catalogs/main/namespaces/default/tables/{name}").status_code == 204
    assert of(collect(world, "dropped", days=6), table.id) == []
    size = sum(stat.size for stat in table.storage.list_all())
    assert of(collect(world, "dropped", days=8), table.id) == [("dropped", table.id, size)]
    assert list(table.storage.list_all()) == []
    assert (table.head.state, table.head.reason) == ("dropped", "purged")
    assert world.refs.read(world.space.location(table.location)) is None
    assert of(collect(world, "dropped", days=8), table.id) == []


def test_the_deployed_functions_collect_and_answer_a_dry_run_and_the_api_says_the_same(
    stack: Stack, table: StackTable
) -> None:
    table.mixed(6)
    table.check_all_published()
    functions = Functions(stack)
    assert functions.invoke("app.collect", {"kinds": ["staging"]})["complete"] is True
    report = functions.invoke("app.collect", {"dry_run": True})
    assert (report["deleted"], report["items"]) == (0, [])
    totals = functions.invoke("app.sweep", {})
    assert totals["unreadable"] == 0
    with stack.client() as http:
        answer = http.post("/v1/gc", json={"dry_run": True})
        assert answer.status_code == 200
        assert answer.json()["deleted"] == 0
