"""The cost of catalog operations: requests and capacity units, counted at the ports by DynamoDB's
rules. Sources: DynamoDB, "Capacity unit consumption" (1 kB a write unit by the larger of the item
before and after, twice that in a transaction; 4 kB a consistent read unit) and "Item sizes".

``python -m tests.support.meter`` prints the table of ``docs/decisions/0013-spilled-indexes.md``.
"""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Callable
from typing import Any

from tests.support.catalog import LAKE, staged
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.adapters.dynamo.models import model_of, to_item
from turnstile.catalog import services as bootstrap
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity, Table
from turnstile.catalog.core.paths import Path
from turnstile.catalog.load import Loader
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.commits import Commits
from turnstile.store.core.rows import COMMIT
from turnstile.store.core.writes import Check, Row, Write
from turnstile.store.ports import Obj

MAIN = ("main", ("default",))
SIZES = (10, 1_000, 100_000)


class SpreadIds:
    """Ids as random as real ones, which share few characters with each other; the same in every
    run."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self._now = 1_770_000_000_000

    def uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def obj_id(self) -> str:
        self._now += self._random.randrange(1, 5_000)
        return f"{self._now:012x}{self._random.getrandbits(80):020x}"


@dataclasses.dataclass
class Meter:
    """Sums over the requests since the last ``reset``; ``objs`` sizes of those that were written,
    by id; ``commit`` bytes of the last commit obj's payload. In ``read_units`` parts of scans are
    counted, by all rows that they pass, at half the price; whole scans and lists are not."""

    requests: list[str] = dataclasses.field(default_factory=list)
    write_units: int = 0
    read_units: float = 0
    objs: dict[str, int] = dataclasses.field(default_factory=dict)
    commit: int = 0

    def reset(self) -> None:
        self.requests = []
        self.write_units = 0
        self.read_units = 0
        self.objs = {}
        self.commit = 0


def size_of(value: Any) -> int:
    """Bytes of an attribute value as the service counts them, near enough for names and numbers."""
    if isinstance(value, dict):
        return sum(len(name) + size_of(one) + 1 for name, one in value.items())
    if isinstance(value, list):
        return 3 + sum(size_of(one) + 1 for one in value)
    return len(value) if isinstance(value, str | bytes) else 1


def bytes_of(row: Row | None) -> int:
    item = to_item(model_of(row["key"]), row) if row else {}
    return sum(len(name) + sum(size_of(one) for one in typed.values()) for name, typed in item.items())


def _units(row: Row | None) -> int:
    return max(1, -(-bytes_of(row) // 1024))


def _read_units(row: Row | None) -> int:
    """Of a consistent read; one of a row that is not there costs as one of the least."""
    return max(1, -(-bytes_of(row) // 4096))


class _Refs:
    def __init__(self, world: FakeWorld, meter: Meter) -> None:
        self._refs = world.refs
        self.transact_max = world.refs.transact_max
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            self._meter.requests.append(f"refs.{name}")
            writes = {"write": args[:1], "transact": args[0] if name == "transact" else ()}.get(name, ())
            before = {write.key: self._refs.rows.get(write.key) for write in writes}
            answer = getattr(self._refs, name)(*args, **named)
            if name == "scan_part":
                self._meter.read_units += self._passed_units(named["after"], named["limit"])
            keys = {"read": args[:1], "read_many": args[0] if name == "read_many" else ()}.get(name, ())
            self._meter.read_units += sum(_read_units(self._refs.rows.get(key)) for key in keys)
            self._meter.write_units += sum(self._cost(write, before[write.key], name) for write in writes)
            return answer

        return call

    def _passed_units(self, after: str, limit: int) -> float:
        keys = [key for key in sorted(self._refs.rows) if key > after][:limit]
        return max(1, -(-sum(bytes_of(self._refs.rows[key]) for key in keys) // 4096)) / 2

    def _cost(self, write: Write, before: Row | None, name: str) -> int:
        after = before if isinstance(write, Check) else self._refs.rows.get(write.key)
        return max(_units(before), _units(after)) * (2 if name == "transact" else 1)


class _Objs:
    def __init__(self, world: FakeWorld, meter: Meter) -> None:
        self._objs = world.objs
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            self._meter.requests.append(f"objs.{name}")
            if name in ("put", "put_many"):
                args = (args[0],) if name == "put" else (list(args[0]),)
                for obj in [args[0]] if name == "put" else args[0]:
                    self._put(obj)
            self._meter.read_units += {"get": 1, "newest": 1}.get(name, 0)
            self._meter.read_units += len(args[1]) if name == "get_many" else 0
            return getattr(self._objs, name)(*args, **named)

        return call

    def _put(self, obj: Obj) -> None:
        if obj.type == COMMIT.name:
            self._meter.commit = len(obj.payload)
        size = len(obj.payload) + len(obj.space) + len(obj.id) + len(obj.type) + 40
        self._meter.objs[obj.id] = size
        self._meter.write_units += -(-size // 1024)


@dataclasses.dataclass
class Metered:
    """A catalog of some size, with metered sandboxes."""

    world: FakeWorld
    meter: Meter
    services: CatalogServices

    def cold(self) -> CatalogServices:
        """A sandbox that has seen nothing."""
        return build(self.services.world, lake_root=LAKE)

    def cost(self, call: Callable[..., object], *args: Any, **named: Any) -> Meter:
        """The cost of a call."""
        self.meter.reset()
        call(*args, **named)
        found = dataclasses.replace(self.meter)
        self.meter.reset()
        return found


def metered(fake: FakeWorld, meter: Meter) -> FakeWorld:
    """The same world; ``meter`` counts its requests."""
    return FakeWorld(
        refs=_Refs(fake, meter),  # type: ignore[arg-type]
        objs=_Objs(fake, meter),  # type: ignore[arg-type]
        storages=fake.storages,
        clock=fake.clock,
        ids=SpreadIds(),  # type: ignore[arg-type]
        space=fake.space,
    )


def filled(size: int) -> Metered:
    """A catalog with ``size`` tables in its index, which no HEAD or location stands behind: made in
    one change."""
    fake = fake_world()
    meter = Meter()
    world = metered(fake, meter)
    bootstrap.ensure(world, lake_root=LAKE)
    services = build(world, lake_root=LAKE)
    tables: dict[Path, Entity] = {}
    for number in range(size):
        name = f"filler_table_{number:06d}"
        id = world.ids.uuid()
        tables["default", name] = Table(name, id, f"{LAKE}/main/default/{id}", 1)
    services.committer.commit("main", lambda _: Edit("fill", put=tables))
    return Metered(fake, meter, services)


def creates(metered: Metered, numbers: range) -> list[Meter]:
    """The cost of each registration, one for each of ``numbers``, all over the range of names."""
    found = []
    for number in numbers:
        name = _spread(number)
        id = staged(metered.services, name)
        found.append(metered.cost(metered.services.registrar.register, *MAIN, name, id))
    return found


def renames(metered: Metered, created: range, count: int) -> list[Meter]:
    """The cost of each of ``count`` renames, of tables that ``creates`` made, at random, to another
    name at random."""
    chance = random.Random(2)
    names = [_spread(number) for number in created]
    found = []
    for number in range(count):
        at = chance.randrange(len(names))
        to = f"filler_table_{chance.randrange(100_000):06d}_r{number}"
        found.append(metered.cost(metered.services.renamer.rename, *MAIN, names[at], to))
        names[at] = to
    return found


def loads(metered: Metered, name: str) -> tuple[Meter, Meter]:
    """The cost of a table with its HEAD, tail and metadata: in a fresh sandbox, and again in it."""
    services = metered.cold()
    loader = Loader(services.world, services.reader, services.metadata, Commits(services.world, services.limits))
    cold = metered.cost(loader.load, *MAIN, name)
    return cold, metered.cost(loader.load, *MAIN, name)


def _spread(number: int) -> str:
    return f"filler_table_{number * 7919 % 100_000:06d}_{number}"


def _row(what: str, costs: list[Meter]) -> str:
    def mean(value: Callable[[Meter], int]) -> str:
        return f"{sum(value(cost) for cost in costs) / len(costs):.1f}".removesuffix(".0")

    most = max(len(cost.objs) for cost in costs)
    requests = mean(lambda cost: len(cost.requests))
    units = f"{mean(lambda cost: cost.write_units)} | {max(c.write_units for c in costs)}"
    return f"| {what} | {requests} | {most} | {units} | {mean(lambda c: c.commit)} | {max(c.commit for c in costs)} |"


def table(size: int) -> None:
    """Print the costs in a catalog of ``size`` tables."""
    metered = filled(size)
    services = metered.services
    name = "filler_table_000001"
    numbers = range(min(400, 2 * size))
    made = creates(metered, numbers)
    tree = services.reader.current("main")
    print(f"\n{size} tables: {len(tree.index.directory)} segments, directory {len(tree.commit.segments)} bytes")
    print("| operation | requests | objs at most | write units, mean | most | commit bytes, mean | most |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print(_row("create (register)", made))
    print(_row("load by name, warm", [metered.cost(services.reader.resolve, *MAIN, name)]))
    print(_row("load by name, cold", [metered.cost(metered.cold().reader.resolve, *MAIN, name)]))
    print(_row("list 100, cold", [metered.cost(metered.cold().listings.tables, *MAIN, max_results=100)]))
    cold, warm = loads(metered, _spread(0))
    print(_row("load with HEAD and metadata, cold", [cold]))
    print(_row("load with HEAD and metadata, warm", [warm]))
    print(_row("rename", renames(metered, numbers, 400)))


if __name__ == "__main__":
    for count in SIZES:
        table(count)
