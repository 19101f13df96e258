"""Catalogs in memory, as tests of the catalog build them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.catalog import services as bootstrap
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import TABLE, Entity, IcebergTable, Table, decode, kind_of
from turnstile.catalog.core.index import Index, unpack
from turnstile.catalog.core.location_rows import Location
from turnstile.catalog.core.paths import Path, fold, path_of
from turnstile.catalog.core.rows import RECENT
from turnstile.catalog.core.tree import Tree, decode_commit
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.history.dropped import DroppedTables
from turnstile.catalog.history.undrop import Undropper
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.core.head import PINNED, TableHead, new_head_row
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.rights.grants import OPERATOR, Principal
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.limits import Limits, SpillLimits
from turnstile.store.core.locations import ancestors
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Change, Insert, Row, Set, new_row
from turnstile.store.ports import Obj, World

LAKE = "file:///lake"


def fresh(
    world: World | None = None, *, spill: SpillLimits | None = None, history_ms: int = Limits().history_ms
) -> CatalogServices:
    """Services with cold caches on a world that has ``main.default``; ``spill`` when indexes
    spill."""
    if world is None:
        world = fake_world()
        bootstrap.ensure(world, lake_root=LAKE)
    return build(world, lake_root=LAKE, limits=Limits(spill=spill or SpillLimits(), history_ms=history_ms))


def write_zero(services: CatalogServices, location: str, *features: str, txn: str = "create", **more: str) -> None:
    """Version 0 as a client writes it."""
    content = delta.version_zero(txn, services.world.clock.now_ms(), *features, **more)
    services.world.storages.open(location).put_if_absent(published_path(0), content)


def staged(services: CatalogServices, name: str = "t", namespace: str = "default", catalog: str = "main") -> str:
    """Returns the uuid of a staging table with a version 0."""
    made = services.staging.create(catalog, tuple(namespace.split(".")), name)
    write_zero(services, made.location)
    return made.table_id


def create(services: CatalogServices, name: str = "t", namespace: str = "default", catalog: str = "main") -> str:
    """A new table, all three phases; its uuid."""
    table_id = staged(services, name, namespace, catalog)
    services.registrar.register(catalog, tuple(namespace.split(".")), name, table_id)
    return table_id


def head_of(world: World, table_id: str) -> TableHead:
    row = world.refs.read(world.space.table(table_id))
    assert row is not None
    return TableHead.from_row(row)


def set_state(services: CatalogServices, table_id: str, state: str) -> None:
    """Sets another state in a table's HEAD, as its usual writer would."""
    fakes(services).refs.write(Change(services.world.space.table(table_id), (), (Set(("state",), state),)))


def refused(error: type[TurnstileError], services: CatalogServices, call: object) -> TurnstileError:
    """The error of ``call``, which must leave every row and file as it was. (Objs that nothing
    names may stay: the writer deletes them only when the HEAD has moved on, else gc does.)"""
    world = fakes(services)
    before = (dict(world.refs.rows), dict(world.storages.files))
    with pytest.raises(error) as found:
        call()  # type: ignore[operator]
    assert (world.refs.rows, world.storages.files) == before
    return found.value


def names(services: CatalogServices, namespace: str = "default", catalog: str = "main") -> list[str]:
    """Names of the tables in a namespace, as listed."""
    return [table.name for table in services.listings.tables(catalog, tuple(namespace.split("."))).items]


def fakes(services: CatalogServices) -> FakeWorld:
    assert isinstance(services.world, FakeWorld)
    return services.world


def complete(world: FakeWorld, *, importing: bool = False, past: bool = True) -> None:
    """I9 and the owners' half of I10, from the rows alone: every HEAD leads to a complete tree,
    names and live tables match one to one, every location has one owner and markers count them.
    ``importing``: claims without a table are allowed; ``past``: the whole history is there as well,
    nothing of it was collected."""
    live = {row["table_id"]: row for row in world.refs.scan("table") if row["state"] != "dropped"}
    named: dict[str, str] = {}
    for row in world.refs.scan("catalog"):
        assert row["recent"][0] == row["head"] and len(row["recent"]) == min(row["seq"] + 1, RECENT)
        space = world.space.objs(row["name"])
        commit = decode_commit(world.objs.stored(space, row["head"]).payload)
        assert commit.seq == row["seq"]
        behind = row["head"]
        older = commit
        while past and older.parents:  # the whole history
            behind = older.parents[0]
            before = decode_commit(world.objs.stored(space, behind).payload)
            assert before.seq == older.seq - 1
            older = before
        tree = Tree.of(row["name"], row["head"], commit, RowSegments(world, space))
        assert row.get("spilled", b"") in (commit.segments, b"")
        for key, entry in tree.subtree(()):
            entity = decode(world.objs.stored(space, entry.obj).payload)
            assert kind_of(entity) == entry.kind and fold(entity.name) == path_of(key)[-1]
            for depth in range(1, len(path_of(key))):
                tree.namespace(path_of(key)[:depth])
            if entry.kind == TABLE:
                assert entry.table_id not in named, "one table under two names"
                named[entry.table_id] = fold(".".join((row["name"], *path_of(key))))
    assert named.keys() == live.keys()
    for table_id, row in live.items():
        assert fold(row["name"]) == named[table_id]
        owner = world.refs.rows[world.space.location(row["location"])]
        assert owner["table_id"] == row.get("source", table_id)
        snapshot = world.objs.stored(world.space.objs(row["catalog"]), row["metadata"])
        assert snapshot.type == "metadata"
    holds_match(world, live)
    owners_match(world, importing=importing)


def holds_match(world: FakeWorld, live: Mapping[str, Row]) -> None:
    """Locations are held for exactly the present clones (of Delta tables), and none of those is
    being purged."""
    held = {(row["key"], id) for row in world.refs.scan("location") for id in row.get("clones", ())}
    assert held == {(world.space.location(row["location"]), id) for id, row in live.items() if row["state"] == PINNED}
    for key, _ in held:
        assert "purging" not in world.refs.rows[key]


class RowSegments:
    """Index segments straight from the rows."""

    def __init__(self, world: FakeWorld, space: str) -> None:
        self._world = world
        self._space = space

    def load(self, id: str) -> Index:
        obj = self._world.objs.stored(self._space, id)
        assert obj.type == "segment"
        return unpack(obj.payload)

    peek = load


def owners_match(world: FakeWorld, *, importing: bool = False) -> None:
    """No owner above or below another (zones own nothing below them that is not theirs to give),
    markers exact."""
    prefix = world.space.location("")
    rows = {row["key"][len(prefix) :]: Location.from_row(row) for row in world.refs.scan("location")}
    heads = {row["table_id"]: row for row in world.refs.scan("table")}
    below: dict[str, int] = {}
    for location, found in rows.items():
        if found.marker:
            continue
        if found.table_id and not importing:
            assert heads[found.table_id]["location"] == location
            assert not found.importing, "the claim of an import that made no table"
        above = [rows[one] for one in ancestors(location) if one in rows]
        if any(one.zone for one in above):
            continue
        assert all(one.marker for one in above), f"{location} lies below another owner"
        for one in ancestors(location):
            below[one] = below.get(one, 0) + 1
    assert below == {location: found.below for location, found in rows.items() if found.marker}


def filled(size: int) -> CatalogServices:
    """A catalog with ``size`` tables, made in one change."""
    services = fresh()
    world = fakes(services)
    tables: dict[Path, Entity] = {}
    for n in range(size):
        id = f"22222222-2222-4222-8222-{n:012d}"
        location = f"file:///lake/main/default/{id}"
        tables["default", f"filler_table_{n:05d}"] = Table(f"filler_table_{n:05d}", id, location, 1)
    services.committer.commit("main", lambda view: Edit("fill", put=tables))
    for path, table in tables.items():
        assert isinstance(table, Table)
        metadata = services.metadata.put("main", table.table_id, DeltaMetadata(0, {}, {}, {}), 1)
        head = new_head_row(
            key=world.space.table(table.table_id),
            table_id=table.table_id,
            catalog="main",
            name=".".join(("main", *path)),
            location=table.location,
            metadata=metadata,
            version=0,
            ict=1,
            row_hwm=None,
            created=1,
            managed=True,
        )
        world.refs.write(Insert(head, (new_row("I2"),)))
        owner = {"kind": "location", "table_id": table.table_id, "catalog": "main", "created": 1, "below": 0}
        world.refs.write(Insert({"key": world.space.location(table.location), **owner}, ()))
    return services


def counted(services: CatalogServices, call: Callable[[], object]) -> list[str]:
    """The requests that ``call`` makes, refs and objs alike, in no particular order."""
    world = fakes(services)
    world.refs.requests.clear()
    world.objs.requests.clear()
    call()
    return sorted([f"refs.{one}" for one in world.refs.requests] + [f"objs.{one}" for one in world.objs.requests])


MAIN = ("main", ("default",))


def register(services: CatalogServices, table_id: str, name: str = "t", principal: Principal = OPERATOR) -> bool:
    return services.registrar.register(*MAIN, name, table_id, principal=principal).replayed


def sandbox(services: CatalogServices) -> CatalogServices:
    """Another sandbox on the same world, which waits in earnest between attempts."""
    return build(services.world, lake_root=services.lake_root, pause=time.sleep)


def widen(services: CatalogServices) -> None:
    """Make every swap race: a little waiting between objs and swap."""
    objs = fakes(services).objs
    original = objs.put_many

    def slowly(batch: object) -> None:
        original(batch)  # type: ignore[arg-type]
        time.sleep(random.uniform(0, 0.003))

    objs.put_many = slowly  # type: ignore[method-assign,assignment]


EVENTS = IcebergTable("Events", "11111111-1111-4111-8111-111111111111", "s3://b/e", "s3://b/e/1.json", 5)


def put(services: CatalogServices, entities: dict[Path, Entity]) -> None:
    services.committer.commit("main", lambda view: Edit("put", put=entities))


def sales(services: CatalogServices) -> dict[str, str]:
    """Makes ``Sales`` with tables on two levels, and ``sale`` and ``salesman``, with names that
    begin alike; returns uuids by name."""
    services.namespaces.create("main", ("Sales", "EU"), comment="c", properties={"k": "v"}, owner="ann")
    services.namespaces.create("main", ("sale",))
    services.namespaces.create("main", ("salesman",))
    inside = {"Orders": create(services, "Orders", "sales"), "EU.Items": create(services, "Items", "sales.eu")}
    beside = {name: create(services, "t", name) for name in ("sale", "salesman", "default")}
    return inside | beside


def undrop(
    services: CatalogServices,
    path: tuple[str, ...] = ("default", "t"),
    to: tuple[str, ...] | None = None,
    at: AsOf | None = None,
    elsewhere: Callable[[], None] = lambda: None,
) -> tuple[str, ...]:
    """Undrops one table, for a principal that may do everything."""
    dropped = DroppedTables(services.world, services.reader, services.history, services.limits.history_ms)
    by = Undropper(
        services.world, services.reader, services.committer, dropped, rights=lambda *_: None, elsewhere=elsewhere
    )
    return by.undrop("main", path, to or path, at)


def seq(services: CatalogServices) -> int:
    """The number of the last change of ``main``."""
    return services.reader.current("main").commit.seq


def before_swaps(world: FakeWorld, act: Callable[[], object]) -> None:
    """Runs ``act`` in each attempt to change a catalog: after its objs are stored, before its
    swap."""
    stored = world.objs.put_many

    def put_many(objs: Sequence[Obj]) -> None:
        stored(objs)
        act()

    world.objs.put_many = put_many  # type: ignore[method-assign]


def no_attempt(world: FakeWorld) -> None:
    """Lets each attempt to change a catalog fail the test."""

    def unwanted() -> None:
        raise AssertionError("an attempt was made")

    before_swaps(world, unwanted)
