"""Expiry is a change of the catalog like every other, of tables that ask for it (I9, I10)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.support.catalog import before_swaps
from tests.support.faults import Crash, Faulty
from tests.support.gc import DAY, everything
from tests.support.iceberg.client import SALES, T1, Iceberg, add_snapshot, set_properties, set_ref
from turnstile.catalog.core.entities import IcebergTable
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import Grace
from turnstile.iceberg.core.expiry import EXPIRE, GC_ENABLED, MAX_SNAPSHOT_AGE, Expired
from turnstile.iceberg.expiry import Expiry
from turnstile.iceberg.files import MetadataFiles

GRACE = Grace(history_ms=2 * DAY)
ASKED = {EXPIRE: "true", MAX_SNAPSHOT_AGE: "0"}


def expire(client: Iceberg, *, dry_run: bool = False) -> Report:
    return Collector(client.world, GRACE, workers=1).collect(["iceberg-snapshots"], dry_run=dry_run)


def append(client: Iceberg, id: int, parent: int | None = None, path: str = T1) -> None:
    more = {"timestamp-ms": client.world.clock.now_ms()}
    answer = client.commit(add_snapshot(id, parent, id, **more), set_ref(id), path=path)
    assert answer.status == 200, answer.text
    client.world.clock.now += 1_000


def ids(client: Iceberg, path: str = T1) -> list[int]:
    return [one["snapshot-id"] for one in client.load(path)["metadata"]["snapshots"]]


@pytest.fixture
def client() -> Iceberg:
    api = Iceberg()
    api.create("t1", properties=ASKED)
    for id in (1, 2, 3):
        append(api, id, id - 1 or None)
    return api


def test_a_dry_run_says_which_and_a_run_commits_it(client: Iceberg) -> None:
    table_id = client.load()["metadata"]["table-uuid"]
    before = everything(client.world)
    report = expire(client, dry_run=True)
    wanted = [f"{table_id}/snapshot/1", f"{table_id}/snapshot/2"]
    assert [item.id for item in report.items] == wanted and everything(client.world) == before
    assert expire(client).deleted == 2
    assert ids(client) == [3]
    said = client.load()
    assert said["metadata"]["current-snapshot-id"] == 3 and said["metadata"]["metadata-log"]
    assert expire(client).items == ()
    assert "expire snapshots of sales.t1" in [
        commit.message for commit in client.services.open_catalog.history.log("main").commits
    ]


@pytest.mark.parametrize("properties", [{EXPIRE: "false"}, {GC_ENABLED: "false"}])
def test_i10_a_table_that_does_not_ask_or_forbids_it_keeps_everything(
    client: Iceberg, properties: dict[str, str]
) -> None:
    assert client.commit(set_properties(**properties)).status == 200
    assert expire(client).items == () and ids(client) == [1, 2, 3]


def test_i10_a_table_at_a_location_of_its_own_choice_is_left_alone(client: Iceberg) -> None:
    client.create("t2", location="s3://other/t2", properties=ASKED)
    path = f"{SALES}/tables/t2"
    append(client, 1, path=path)
    append(client, 2, 1, path=path)
    expire(client)
    assert ids(client, path) == [1, 2] and ids(client) == [3]


def test_i10_a_property_that_is_no_number_is_a_problem_and_keeps_everything(client: Iceberg) -> None:
    assert client.commit(set_properties(**{MAX_SNAPSHOT_AGE: "5 days"})).status == 200
    (problem,) = expire(client).problems
    assert "sales.t1" in problem.message and "5 days" in problem.message and ids(client) == [1, 2, 3]


def test_i9_a_tag_that_comes_between_keeps_its_snapshot(client: Iceberg) -> None:
    """Decided again from the HEAD that is replaced."""
    world = client.world
    collector = Collector(Racing(client).world, GRACE, workers=1)
    report = collector.collect(["iceberg-snapshots"], dry_run=False)
    assert report.problems == () and ids(client) == [1, 3]
    assert client.load()["metadata"]["refs"]["late"]["snapshot-id"] == 1
    current = client.load()["metadata-location"]
    log = [entry["metadata-file"] for entry in client.load()["metadata"]["metadata-log"]]
    assert {path for path in world.storages.files if path.endswith("json")} == {current, *log}, "no attempt left a file"


def test_a_drop_that_comes_between_leaves_no_file_of_the_attempt(client: Iceberg) -> None:
    catalog = client.services.open_catalog
    expiry = Expiry(client.world, catalog.committer, MetadataFiles(client.world.storages, client.world.ids))
    table_id = client.load()["metadata"]["table-uuid"]
    before = client.files()
    drops = iter([lambda: client.delete(T1)])

    def drop_once() -> None:
        next(drops, lambda: None)()

    before_swaps(client.world, drop_once)
    assert expiry.expire("main", ("sales", "t1"), table_id) == Expired()
    assert client.get(T1).status == 404 and client.files() == before


class Racing:
    """A world in which a tag is committed just before the first metadata file is written."""

    def __init__(self, client: Iceberg) -> None:
        from dataclasses import replace

        self._client = client
        self._left = 1
        inner = client.world.storages

        class Storages:
            def open(_self, location: str) -> Any:
                storage = inner.open(location)
                put = storage.put_if_absent

                def put_if_absent(path: str, content: Any) -> bool:
                    if self._left and path.startswith("metadata/"):
                        self._left = 0
                        assert client.commit(set_ref(1, "late", "tag")).status == 200
                    return put(path, content)

                storage.put_if_absent = put_if_absent  # type: ignore[method-assign]
                return storage

        self.world = replace(client.world, storages=Storages())


@pytest.mark.parametrize("how", ["before", "after", "unsent", "lost"])
@pytest.mark.parametrize("at", range(3))
def test_i9_wherever_it_dies_the_table_is_whole_and_the_next_run_finishes(client: Iceberg, at: int, how: Any) -> None:
    with suppress(Crash):
        Collector(Faulty(client.world, at, how).world, GRACE, workers=1).collect(["iceberg-snapshots"], dry_run=False)
    assert ids(client) in ([1, 2, 3], [3])
    expire(client)
    assert ids(client) == [3]


def test_another_table_by_that_name_and_one_of_which_nothing_expired_are_left_as_they_are(client: Iceberg) -> None:
    catalog = client.services.open_catalog
    expiry = Expiry(client.world, catalog.committer, MetadataFiles(client.world.storages, client.world.ids))
    before = everything(client.world)
    assert expiry.expire("main", ("sales", "t1"), "another") == Expired()
    assert expiry.expire("main", ("sales",), "") == Expired() == expiry.expire("main", ("sales", "none"), "")
    assert everything(client.world) == before
    table_id = client.load()["metadata"]["table-uuid"]
    now = client.world.clock.now_ms()
    assert expiry.expire("main", ("sales", "t1"), table_id).snapshot_ids == (1, 2)
    entry = catalog.reader.current("main").find(("sales", "t1"))
    assert entry is not None
    entity = catalog.reader.store.entity("main", entry.obj)
    assert isinstance(entity, IcebergTable) and entity.updated >= now
    after = everything(client.world)
    assert expiry.expire("main", ("sales", "t1"), table_id) == Expired() and everything(client.world) == after
