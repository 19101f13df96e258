"""A lake in memory behind the real commit handler: catalog ``main``, namespace ``sales``, table
``orders``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Answer, Http, function
from turnstile.catalog.core.entities import NAMESPACE, TABLE, Entity, Namespace, Table
from turnstile.catalog.core.index import Index, IndexEntry, pack
from turnstile.catalog.core.paths import key_of
from turnstile.catalog.core.rows import new_catalog
from turnstile.catalog.core.tree import CatalogCommit
from turnstile.catalog.store import CatalogStore
from turnstile.delta.core.content import read_content
from turnstile.delta.core.head import TableHead, new_head_row
from turnstile.delta.core.metadata import first_metadata
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.publish import Publisher
from turnstile.store.core.writes import Insert, new_row

ORDERS = "11111111-1111-4111-8111-111111111111"
UNKNOWN = "99999999-9999-4999-8999-999999999999"
LOCATION = "s3://lake/orders"
START = 1_770_000_000_000


@dataclass
class Lake:
    """The world, its handler, and the few things that tests do to a table."""

    world: FakeWorld
    http: Http

    @property
    def head(self) -> TableHead:
        return TableHead.from_row(self.world.refs.rows[self.world.space.table(ORDERS)])

    def now(self) -> int:
        return self.world.clock.now_ms()

    def set(self, **attributes: Any) -> None:
        """Change attributes of the HEAD behind everybody's back."""
        self.world.refs.rows[self.world.space.table(ORDERS)].update(attributes)

    def propose(self, proposal: Any, table_id: str = ORDERS, **options: Any) -> Answer:
        return self.http.post(f"/v1/tables/{table_id}/commits", proposal, **options)

    def inline(self, version: int | None, content: bytes, **more: Any) -> Answer:
        """Propose inline content."""
        return self.propose({"version": version, "inline": {"content": content.decode()}, **more})

    def append(self, version: int | None, txn: str, **more: Any) -> Answer:
        """Propose a blind append, stamped with the server's time."""
        tracked = version is not None and self.head.row_hwm is not None
        ids = {"baseRowId": 10 * (version or 0), "defaultRowCommitVersion": version} if tracked else {}
        return self.inline(
            version, delta.lines(delta.info(txn, self.now()), delta.add(f"{txn}.parquet", **ids)), **more
        )

    def stage(self, version: int, content: bytes, unique: str = "aaaa") -> dict[str, Any]:
        """Write a staged file; the ``staged`` member that proposes it."""
        name = f"{version:020d}.{unique}.json"
        self.world.storages.open(LOCATION).put_if_absent(f"_delta_log/_staged_commits/{name}", content)
        return {"name": name, "size": len(content), "modified": START}

    def publish(self) -> None:
        Publisher(self.world).publish(ORDERS)

    def get(self, operation: str, **query: Any) -> Answer:
        return self.http.get(f"/v1/tables/{ORDERS}/{operation}", **query)

    def file(self, path: str) -> bytes | None:
        found = self.world.storages.files.get(f"{LOCATION}/{path}")
        return found[0] if found else None

    def staged(self, name: str) -> bytes | None:
        return self.file(f"_delta_log/_staged_commits/{name}")

    def state(self) -> Any:
        """Everything that is stored, to show that nothing changed."""
        world = self.world  # writes replace rows, they do not change them
        return dict(world.refs.rows), dict(world.objs.rows), dict(world.storages.files)

    def forget_requests(self) -> None:
        for port in (self.world.refs, self.world.objs, self.world.storages):
            port.requests.clear()


def make_lake(*features: str, **configuration: str) -> Lake:
    """A lake whose table has published version 0 with these table features and properties."""
    world = fake_world()
    content = delta.version_zero("zero", START, *features, **configuration)
    snapshot = first_metadata(read_content(content, first_version=True))
    etag = MetadataStore(world.objs, world.space).put("main", ORDERS, snapshot, START)
    store = CatalogStore(world)
    entities: dict[str, Entity] = {
        "entity/1": Namespace("sales", "22222222-2222-4222-8222-222222222222", START),
        "entity/2": Table("orders", ORDERS, LOCATION, START),
    }
    index = Index().with_changes(
        {
            key_of(["sales"]): IndexEntry(NAMESPACE, "entity/1"),
            key_of(["sales", "orders"]): IndexEntry(TABLE, "entity/2", ORDERS),
        }
    )
    store.write("main", "commit/1", CatalogCommit(0, (), "made by a test", START, pack(index)), entities)
    world.refs.write(new_catalog(world.space.catalog("main"), "main", "commit/1", START))
    row = new_head_row(
        key=world.space.table(ORDERS),
        table_id=ORDERS,
        catalog="main",
        name="main.sales.orders",
        location=LOCATION,
        metadata=etag,
        version=0,
        ict=START,
        row_hwm=-1 if "rowTracking" in features else None,
        created=START,
        managed=True,
    )
    world.refs.write(Insert(row, (new_row("I2"),)))
    world.storages.open(LOCATION).put_if_absent("_delta_log/00000000000000000000.json", content)
    app = function("commit")
    app.use_world(world)
    lake = Lake(world, Http(app.app))
    lake.forget_requests()
    return lake


def check_refused(lake: Lake, before: Any, answer: Answer, *expected: Any) -> dict[str, Any]:
    """The error has the expected status, type and field, and a remedy, and no stored row has
    changed."""
    error = answer.error
    assert (answer.status, error["type"], error.get("field")) == expected, error
    assert error.get("remedy"), error
    assert error["message"]
    assert lake.state() == before
    return error
