"""Metadata files that nothing leads to go; every HEAD of the kept history still loads (I9, I10)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.faults import Crash, Faulty
from tests.support.gc import DAY, days, everything
from tests.support.iceberg.client import SALES, T1, VIEW, Iceberg, others, set_properties
from turnstile.catalog.history.core import AsOf
from turnstile.gc.collector import Collector, Report
from turnstile.gc.core import HOUR_MS, Grace
from turnstile.store.core.rows import Kind

GRACE = Grace(history_ms=2 * DAY, staging_ms=DAY)


@pytest.fixture
def client() -> Iceberg:
    api = Iceberg()
    api.create("t1")
    return api


def collect(client: Iceberg, *kinds: Kind, dry_run: bool = False, **more: Any) -> Report:
    collector = Collector(client.world, GRACE, workers=1, **more)
    return collector.collect(kinds or ("iceberg",), dry_run=dry_run)


def change(client: Iceberg, value: str, path: str = T1) -> str:
    """A commit; the file that it made the current one."""
    answer = client.commit(set_properties(a=value), path=path)
    assert answer.status == 200, answer.text
    return str(answer.json["metadata-location"])


def crash(client: Iceberg, value: str = "lost", path: str = T1) -> str:
    """A commit whose process dies between the file and the swap; the file."""
    before = client.files()
    client.app.use_world(Faulty(client.world, 2).world)
    with suppress(Crash):
        client.commit(set_properties(a=value), path=path)
    client.services = client.app.use_world(client.world)
    (orphan,) = client.files() - before
    return orphan


def aged(client: Iceberg) -> str:
    """A table of some days with an orphan in its middle."""
    days(client.world, 1)
    change(client, "1")
    orphan = crash(client)
    change(client, "2")
    days(client.world, 4)
    return orphan


def test_what_a_dead_writer_left_goes_and_a_dry_run_says_its_bytes(client: Iceberg) -> None:
    orphan = aged(client)
    before = client.files()
    size = len(client.world.storages.files[orphan][0])
    stored = everything(client.world)
    report = collect(client, dry_run=True)
    assert [(item.kind, item.id, item.bytes) for item in report.items] == [("iceberg", orphan, size)]
    assert (report.bytes, report.deleted) == (size, 0)
    assert everything(client.world) == stored
    assert collect(client).freed == size
    assert client.files() == before - {orphan}
    assert collect(client).items == ()
    assert client.load()["metadata"]["properties"]["a"] == "2"


@pytest.mark.parametrize(
    "change", [lambda raw: raw.replace(b'"metadata-file"', b'"metadata-folder"'), lambda raw: raw + b" "]
)
def test_i10_nothing_is_removed_on_the_word_of_a_file_that_was_altered(
    client: Iceberg, change: Callable[[bytes], bytes]
) -> None:
    """Its log, without the files that it named, would make them garbage."""
    aged(client)
    current = client.load()["metadata-location"]
    files = client.world.storages.files
    files[current] = (change(files[current][0]), *files[current][1:])
    before = client.files()
    report = collect(client)
    assert "was altered, so nothing is removed" in str(report.problems) and client.files() == before


def test_i10_age_counts_from_the_writing_and_two_margins_cover_clocks_and_writes_under_way(client: Iceberg) -> None:
    days(client.world, 1)
    orphan = crash(client)
    client.world.clock.now += GRACE.history_ms + 2 * HOUR_MS - 1_000
    assert collect(client).items == ()
    client.world.clock.now += 2_000
    (item,) = collect(client).items
    assert item.id == orphan and 0 <= item.age_ms - GRACE.history_ms - 2 * HOUR_MS < 2_000


def test_i10_predecessors_in_the_log_stay_and_what_the_log_forgot_goes(client: Iceberg) -> None:
    days(client.world, 1)
    assert client.commit(set_properties(**{"write.metadata.previous-versions-max": "2"})).status == 200
    metadata_files = [change(client, str(number)) for number in range(5)]
    others(client)
    log = [entry["metadata-file"] for entry in client.load()["metadata"]["metadata-log"]]
    assert log == metadata_files[2:4]
    collect(client)
    assert {*metadata_files} & client.files() == {*metadata_files[2:]}


def test_i10_what_a_head_of_the_kept_history_names_stays_until_that_is_over(client: Iceberg) -> None:
    days(client.world, 1)
    assert client.commit(set_properties(**{"write.metadata.previous-versions-max": "1"})).status == 200
    old = change(client, "1")
    days(client.world, 9)
    for number in range(3):
        change(client, str(number))
    days(client.world, 1.5)
    catalog = client.services.open_catalog
    seq = next(commit.seq for commit in catalog.history.log("main").commits if "t1" in commit.message) - 3
    assert collect(client).items == ()
    catalog.resetter.reset("main", AsOf(seq=seq))
    assert client.load()["metadata-location"] == old
    days(client.world, 9)
    collect(client)
    assert client.load()["metadata"]["properties"]["a"] == "1"


def forgetful(client: Iceberg) -> str:
    """A file of the table whose log names one predecessor, written long before the history that is
    kept."""
    days(client.world, 1)
    assert client.commit(set_properties(**{"write.metadata.previous-versions-max": "1"})).status == 200
    return change(client, "old")


def leave_behind(client: Iceberg) -> None:
    """The current file is neither in the log nor in a recent HEAD any more, after half a day."""
    for number in range(3):
        change(client, str(number))
    others(client, 0.025)


def test_i10_what_was_current_when_the_history_began_stays(client: Iceberg) -> None:
    old = forgetful(client)
    days(client.world, 9)
    leave_behind(client)
    collect(client)
    assert old in client.files()
    days(client.world, 3)
    others(client, 0.025)
    assert old in {item.id for item in collect(client).items}


def test_i10_what_a_reset_brought_back_stays_as_long_as_that_is_history(client: Iceberg) -> None:
    old = forgetful(client)
    catalog = client.services.open_catalog
    catalog.named_snapshots.create("main", "kept")
    leave_behind(client)
    days(client.world, 9)
    catalog.resetter.reset("main", AsOf(snapshot="kept"))
    seq = catalog.reader.current("main").commit.seq
    assert client.load()["metadata-location"] == old
    catalog.named_snapshots.drop("main", "kept")
    leave_behind(client)
    collect(client)
    assert catalog.history.tree("main", AsOf(seq=seq)).find(("sales", "t1")) is not None and old in client.files()
    days(client.world, 3)
    others(client, 0.025)
    assert old in {item.id for item in collect(client).items}


def test_i10_what_a_named_snapshot_leads_to_stays(client: Iceberg) -> None:
    days(client.world, 1)
    assert client.commit(set_properties(**{"write.metadata.previous-versions-max": "1"})).status == 200
    old = change(client, "1")
    client.services.open_catalog.named_snapshots.create("main", "kept")
    for number in range(3):
        change(client, str(number))
    others(client)
    orphans = collect(client).items
    assert orphans and old not in {item.id for item in orphans} and old in client.files()
    client.services.open_catalog.named_snapshots.drop("main", "kept")
    others(client)
    assert old in {item.id for item in collect(client).items}


def test_i10_files_of_an_earlier_life_and_of_others_are_never_touched(client: Iceberg) -> None:
    days(client.world, 1)
    orphan = crash(client)
    old = client.load()["metadata-location"]
    location = old.rpartition("/metadata/")[0]
    current = change(client, "1")
    foreign = {f"{location}/metadata/{name}" for name in ("v3.metadata.json", "00001-x.metadata.json", "snap-1.avro",
               "00001-6c1ee2c4-1a4c-4dc4-8b0a-6bd4c1ab3d05.gz.metadata.json")}  # fmt: skip
    for path in foreign:
        client.world.storages.files[path] = (b"{}", client.world.clock.now_ms())
    assert client.delete(T1).status == 204
    days(client.world, 9)
    assert collect(client).items == (), "what was dropped without a purge is nobody's"
    body = {"name": "t1", "metadata-location": current}
    assert client.post(f"{SALES}/register", body).status == 200
    days(client.world, 9)
    again = crash(client, "again")
    days(client.world, 9)
    assert {item.id for item in collect(client).items} == {again}
    assert {orphan, old, current, *foreign} <= {*client.world.storages.files}


def test_i10_a_table_at_a_location_of_its_own_choice_is_left_alone(client: Iceberg) -> None:
    client.create("t2", location="s3://other/t2")
    days(client.world, 1)
    orphan = crash(client, path=f"{SALES}/tables/t2")
    days(client.world, 9)
    assert collect(client).items == () and orphan in client.files()


def test_a_table_that_was_not_to_be_goes_with_its_staging_row(client: Iceberg) -> None:
    before = client.files()
    client.app.use_world(Faulty(client.world, 3).world)
    with suppress(Crash):
        client.post(f"{SALES}/tables", {"name": "t2", "schema": client.load()["metadata"]["schemas"][0]})
    client.app.use_world(client.world)
    (orphan,) = client.files() - before
    days(client.world, 2)
    collect(client, "staging", "iceberg")
    assert client.files() == before and orphan not in client.world.storages.files


def test_views_are_looked_at_as_well(client: Iceberg) -> None:
    assert client.post(f"{SALES}/views", VIEW).status == 200
    path = f"{SALES}/views/v1"
    days(client.world, 1)
    client.app.use_world(Faulty(client.world, 2).world)
    before = client.files()
    with suppress(Crash):
        client.commit(set_properties(a="1"), path=path)
    client.app.use_world(client.world)
    (orphan,) = client.files() - before
    days(client.world, 4)
    assert {item.id for item in collect(client).items} == {orphan}
    assert client.get(path).status == 200


def test_i10_a_table_whose_current_file_cannot_be_read_is_left_alone(client: Iceberg) -> None:
    orphan = aged(client)
    current = client.load()["metadata-location"]
    del client.world.storages.files[current]
    report = collect(client)
    assert report.items == () and orphan in client.files()
    assert [problem.message for problem in report.problems] == [f"{current} cannot be read, so nothing is removed"]


def test_i10_a_location_that_began_another_life_meanwhile_is_left_alone(client: Iceberg) -> None:
    orphan = aged(client)
    owner = next(row for row in client.world.refs.rows.values() if row["kind"] == "location" and row.get("table_id"))
    looked: list[str] = []

    def drop_and_register(path: str) -> None:
        """As if the orphan had been registered between the look and the removal."""
        if path == "look" and not looked:
            looked.append(path)
            owner["created"] += 1

    collector = Collector(client.world, GRACE, workers=1)
    write = client.world.refs.write

    def intercepted(change: Any) -> Any:
        if change.key.startswith("test/catalog/"):
            drop_and_register("look")
        return write(change)

    client.world.refs.write = intercepted  # type: ignore[method-assign]
    report = collector.collect(["iceberg"], dry_run=False)
    assert report.deleted == 0 and orphan in client.files()
    assert "another life" in report.problems[0].message


@pytest.mark.parametrize("point", [1, 2, 3])
def test_a_run_that_dies_is_finished_by_the_next(client: Iceberg, point: int) -> None:
    days(client.world, 1)
    orphans = {crash(client, str(number)) for number in range(3)}
    days(client.world, 4)
    left = [point]

    def die(name: str) -> None:
        left[0] -= name == "collect.deleted"
        if not left[0]:
            raise Crash(name)

    with pytest.raises(Crash):
        collect(client, faults=die)
    assert len(orphans & client.files()) == 3 - point
    collect(client)
    assert not orphans & client.files()
    assert client.get(T1).status == 200


def test_what_is_written_in_the_first_minutes_of_a_table_goes_as_all_else(client: Iceberg) -> None:
    """Its location was chosen for it, so no earlier table can have left files there."""
    orphan = crash(client)
    change(client, "2")
    days(client.world, 5)
    assert {item.id for item in collect(client).items} == {orphan}
    assert orphan not in client.files() and client.load()["metadata"]["properties"]["a"] == "2"


def test_i10_the_first_minutes_after_a_registration_may_be_of_an_earlier_life(client: Iceberg) -> None:
    days(client.world, 1)
    kept = crash(client)
    current = change(client, "1")
    assert client.delete(T1).status == 204
    answer = client.post(f"{SALES}/register", {"name": "t1", "metadata-location": current})
    assert answer.status == 200, answer.text
    days(client.world, 5)
    collect(client)
    assert kept in client.files()
