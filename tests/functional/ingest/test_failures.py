"""Crashes, lost answers and throttling at any request of an append: the same request, sent again,
has its rows in one version (I26)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fakes.rows import RowLake, column, row_lake
from tests.support.fakes.world import FakeWorld, copied
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from tests.support.lake import Lake
from tests.support.v1 import refused
from turnstile.store.core.errors import StorageFault, Throttled, TurnstileError

KEY = {"Idempotency_Key": "0197c9a0-0000-7000-8000-000000000001"}
PRODUCER = {"Turnstile_Producer": "till-1", "Turnstile_Sequence": "7"}
IDENTITIES = [pytest.param(KEY, id="key"), pytest.param(PRODUCER, id="producer")]


def plain_table() -> tuple[RowLake, list[dict[str, Any]]]:
    return row_lake(), [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]


def large_append() -> tuple[RowLake, list[dict[str, Any]]]:
    """An append that is too large for the row of the table: an obj has its content."""
    numbers = random.Random(7)
    columns = [f"c{at}" for at in range(30)]
    lake = row_lake(
        column("p", "long"), column("name", "string"), *(column(name, "string") for name in columns), partitions=["p"]
    )
    rows = [{"p": p // 2, "name": f"n{p}"} | {name: numbers.randbytes(16).hex() for name in columns} for p in range(12)]
    return lake, rows


def table_with_short_tail() -> tuple[RowLake, list[dict[str, Any]]]:
    """A table whose tail has lost entries, and whose producer has sent before."""
    lake, rows = plain_table()
    lake.send([{"id": 0}], Turnstile_Producer="till-1", Turnstile_Sequence="6")
    lake.lake.publish()
    lake.evict(1)
    return lake, rows


Make = Callable[[], tuple[RowLake, list[dict[str, Any]]]]
TABLES = [pytest.param(make, id=make.__name__) for make in (plain_table, large_append, table_with_short_tail)]


def twin(lake: RowLake) -> RowLake:
    """The same lake again, to be changed on its own."""
    world = copied(lake.world)
    return RowLake(Lake(world, lake.lake.http), lake.http)


def count(lake: RowLake, rows: list[dict[str, Any]]) -> int:
    """How many rows the table has of those, which requests without faults did not add."""
    names = {row["name"] for row in rows}
    written = {name.rpartition("/")[2] for name in lake.files()}
    adds = [add for adds in lake.adds().values() for add in adds if add["path"] in written]
    return sum(row["name"] in names and row.get("id") != 0 for add in adds for row in lake.rows_of(add))


@pytest.mark.parametrize("headers", IDENTITIES)
@pytest.mark.parametrize("make", TABLES)
@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_i26_a_failure_at_any_write_and_the_same_request_again_add_the_rows_once(
    make: Make, headers: dict[str, str], how: How
) -> None:
    lake, rows = make()
    without = twin(lake)
    faulty = Faulty(without.world)
    without.open(faulty.world)
    assert without.send(rows, **headers).json["rows"] == len(rows)
    writes = len(faulty.writes)
    assert ("put" in faulty.writes) == (make is large_append)
    for at in range(1, writes + 1):
        own = twin(lake)
        own.open(Faulty(own.world, at, how).world)
        answer = None
        try:
            answer = own.send(rows, **headers)
        except Crash:
            assert how in CRASHES
        if answer is not None:
            expected = {"write": (500, "CommitStateUnknown"), "put_if_absent": (503, "StorageFault")}
            error = answer.error
            name = faulty.writes[at - 1]
            assert (answer.status, error["type"]) == expected.get(name, (500, "CommitStateUnknown")), name
        own.open()
        again = own.send(rows, **headers)
        assert again.status == 200, again.text
        assert count(own, rows) == len(rows)
        replay = own.send(rows, **headers).json
        assert (replay["outcome"], replay["version"]) == ("replayed", again.json["version"])


class Failing:
    """A port of which the ``at``-th request of all fails with an error, or the process dies."""

    def __init__(self, port: Any, requests: list[str], at: int, error: BaseException) -> None:
        self._port = port
        self._requests = requests
        self._at = at
        self._error = error

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._port, name)
        if not callable(call):
            return call

        def request(*args: Any, **named: Any) -> Any:
            if name == "open":
                return Failing(call(*args), self._requests, self._at, self._error)
            self._requests.append(name)
            if len(self._requests) == self._at:
                raise self._error
            return call(*args, **named)

        return request


def failing_world(world: FakeWorld, at: int, error: BaseException) -> tuple[Any, list[str]]:
    """The world with a failure at its ``at``-th request, reads included; and the requests."""
    from turnstile.store.ports import World

    requests: list[str] = []
    refs, objs, storages = (Failing(port, requests, at, error) for port in (world.refs, world.objs, world.storages))
    broken: Any = World(
        refs=refs,
        objs=objs,
        storages=storages,
        clock=world.clock,
        ids=world.ids,
        space=world.space,
    )
    return broken, requests


@pytest.mark.parametrize("headers", IDENTITIES)
@pytest.mark.parametrize("make", TABLES)
@pytest.mark.parametrize(
    "error", [Crash("gone"), StorageFault("no answer"), Throttled()], ids=["crash", "fault", "throttled"]
)
def test_i26_a_failure_at_any_request_also_a_read_is_no_success_and_the_rows_are_added_once(
    make: Make, headers: dict[str, str], error: BaseException
) -> None:
    lake, rows = make()
    without = twin(lake)
    world, requests = failing_world(without.world, 0, error)
    without.open(world)
    assert without.send(rows, **headers).status == 200
    for at in range(1, len(requests) + 1):
        own = twin(lake)
        own.open(failing_world(own.world, at, error)[0])
        try:
            answer = own.send(rows, **headers)
        except Crash:
            assert isinstance(error, Crash)
        else:
            assert isinstance(error, TurnstileError)
            assert answer.status in (429, 500, 503), (requests[at - 1], answer.text)
        added = count(own, rows)
        assert added in (0, len(rows)), requests[at - 1]
        if added and not isinstance(error, Crash):
            refused(answer, 500, "CommitStateUnknown")
        own.open()
        assert own.send(rows, **headers).status == 200
        assert count(own, rows) == len(rows)


@pytest.mark.parametrize("headers", IDENTITIES)
def test_i26_when_earlier_requests_cannot_be_looked_for_the_outcome_is_unknown(headers: dict[str, str]) -> None:
    lake, rows = table_with_short_tail()
    assert lake.send(rows, **headers).status == 200
    lake.lake.publish()
    lake.evict(lake.lake.head.latest)
    for error in (StorageFault("no answer"), Throttled()):
        own = twin(lake)
        world, requests = failing_world(own.world, 0, error)
        own.open(world)
        own.send(rows, **headers)
        own = twin(lake)
        own.open(failing_world(own.world, requests.index("get_many") + 1, error)[0])
        refused(own.send(rows, **headers), 500, "CommitStateUnknown")
        assert count(own, rows) == len(rows)
