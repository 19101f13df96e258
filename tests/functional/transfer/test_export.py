"""Export: a table goes back to the file system with its whole history, or stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.catalog import LAKE, MAIN, complete, fakes, fresh, head_of, names
from tests.support.fakes import delta
from tests.support.legacy import PLACE, Legacy, legacy_info, managed
from turnstile.delta.core.decide import Refused
from turnstile.delta.core.writes.state import leave_head, stay_head
from turnstile.delta.log.state import read_state
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.store.core.errors import NotFound, StateConflict, StorageFault
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Change, Set
from turnstile.store.ports import Accepted, Rejected
from turnstile.transfer.exports import EXPORTING, Exporter
from turnstile.transfer.imports import Importer


def test_a_dry_run_says_what_would_happen_and_changes_nothing() -> None:
    services, id = managed()
    world = fakes(services)
    before = (dict(world.refs.rows), dict(world.objs.rows), dict(world.storages.files))
    report = Exporter(services).dry_run(*MAIN, "T")
    assert (world.refs.rows, world.objs.rows, world.storages.files) == before
    assert (report.name, report.table_id, report.state) == ("main.default.t", id, "active")
    assert (report.latest, report.unpublished, report.release_version) == (2, 2, 3)
    assert report.possible and report.dry_run
    assert "catalogManaged" not in report.protocol_after["writerFeatures"]  # type: ignore[index]


def test_everything_ratified_is_published_and_the_release_follows_it() -> None:
    """I4, I7, I11."""
    services, id = managed()
    location = head_of(services.world, id).location
    report = Exporter(services).run(*MAIN, "t")
    assert (report.dry_run, report.state, report.unpublished, report.release_version) == (False, "dropped", 2, 3)
    legacy = Legacy(services, location)
    release = legacy.actions(3)
    assert release["protocol"]["readerFeatures"] == []
    assert release["protocol"]["writerFeatures"] == ["inCommitTimestamp", "appendOnly", "invariants", "domainMetadata"]
    configuration = release["metaData"]["configuration"]
    assert configuration["delta.enableInCommitTimestamps"] == "true", "history has them"
    assert "io.unitycatalog.tableId" not in configuration
    head = head_of(services.world, id)
    assert release["commitInfo"]["inCommitTimestamp"] > head.last_ict
    assert (head.state, head.reason, head.managed, head.floor) == ("dropped", "exported", False, 2)
    with pytest.raises(NotFound):
        services.reader.resolve(*MAIN, "t")
    complete(fakes(services))


def test_i7_the_release_is_later_than_the_last_commit_though_the_clock_was_set_back() -> None:
    services, id = managed()
    fakes(services).clock.now -= 3_600_000
    Exporter(services).run(*MAIN, "t")
    head = head_of(services.world, id)
    release = Legacy(services, head.location).actions(3)
    assert release["commitInfo"]["inCommitTimestamp"] == head.last_ict + 1


def test_the_files_of_an_exported_table_are_never_purged() -> None:
    """I10."""
    services, id = managed()
    Exporter(services).run(*MAIN, "t")
    files = dict(fakes(services).storages.files)
    fakes(services).clock.now += 10_000 * 3_600_000
    report = Collector(services.world, Grace()).collect(["dropped", "staging"], dry_run=False, imported=[id])
    assert [(item.kind, item.id) for item in report.items] == [("dropped", id)], "its row, a month after the export"
    assert fakes(services).storages.files == files


def test_what_was_exported_may_be_imported_again_and_exported_again() -> None:
    services = fresh()
    legacy = Legacy(services).created()
    for round in range(3):
        done = Importer(services).run(*MAIN, "t", PLACE)
        Exporter(services).run(*MAIN, "t")
        assert legacy.storage.stat(published_path(2 * round + 2)) is not None
        legacy.version = 2 * round + 2
        state = read_state(legacy.storage, PLACE)
        assert "catalogManaged" not in state.protocol["writerFeatures"]
        assert done.version == 2 * round + 1
        complete(fakes(services))
    legacy.append()
    assert legacy.version == 7, "the file system decides again"


def test_a_table_that_cannot_be_published_takes_commits_again_and_says_why() -> None:
    """I11: no table is left in between."""
    services, id = managed()
    world = fakes(services)
    original = world.storages.open

    class Broken:
        def __init__(self, storage: Any) -> None:
            self._storage = storage

        def __getattr__(self, name: str) -> Any:
            return getattr(self._storage, name)

        def put_if_absent(self, path: str, content: bytes) -> bool:
            raise StorageFault("the disk is full")

        def put_in_order(self, files: Any) -> int:
            raise StorageFault("the disk is full")

    storages: Any = world.storages
    storages.open = lambda location: Broken(original(location))
    with pytest.raises(StateConflict, match="the disk is full") as refused:
        Exporter(services).run(*MAIN, "t")
    assert refused.value.type == "TableNotActive"
    assert (head_of(world, id).state, head_of(world, id).reason) == ("active", "")
    world.storages.open = original  # type: ignore[method-assign]
    Exporter(services).run(*MAIN, "t")
    complete(world)


def test_a_leaving_table_is_never_made_active_once_the_release_may_be_there() -> None:
    """I2: two exports at once; one failed to publish earlier and speaks up when the other has gone
    on."""
    services, id = managed()
    refs = services.world.refs
    assert isinstance(refs.write(leave_head(head_of(services.world, id), EXPORTING, 1)), Accepted)
    slow = head_of(services.world, id)
    Publisher(services.world).publish(id)
    assert isinstance(refs.write(stay_head(slow, EXPORTING, 2)), Rejected)
    assert head_of(services.world, id).state == "leaving"


def test_a_version_written_past_the_catalog_stops_the_export_with_a_remedy() -> None:
    """I2: nothing is overwritten."""
    services, id = managed()
    legacy = Legacy(services, head_of(services.world, id).location)
    legacy.write(legacy_info(), delta.add("rogue"), version=3)
    with pytest.raises(StateConflict, match="past the catalog") as refused:
        Exporter(services).run(*MAIN, "t")
    assert "move" in str(refused.value.remedy)
    assert head_of(services.world, id).state == "leaving"
    legacy.storage.delete(published_path(3))
    Exporter(services).run(*MAIN, "t")
    complete(fakes(services))


@pytest.mark.parametrize("state", ["stuck", "recovering"])
def test_a_table_in_another_state_does_not_leave(state: str) -> None:
    services, id = managed()
    fakes(services).refs.write(Change(services.world.space.table(id), (), (Set(("state",), state),)))
    report = Exporter(services).dry_run(*MAIN, "t")
    assert not report.possible and report.problems[0].type == "TableNotActive"
    before = dict(fakes(services).refs.rows)
    with pytest.raises(StateConflict):
        Exporter(services).run(*MAIN, "t")
    assert fakes(services).refs.rows == before


def test_while_it_leaves_a_table_takes_no_commit_and_cannot_be_renamed_or_dropped() -> None:
    services, id = managed()
    services.world.refs.write(leave_head(head_of(services.world, id), EXPORTING, 1))
    content = delta.append("late", services.world.clock.now_ms())
    answer = Ratifier(services.world).commit(CommitRequest(id, 3, content=content))
    assert isinstance(answer, Refused) and answer.kind == "TableNotActive"
    for call in (
        lambda: services.renamer.rename(*MAIN, "t", "u"),
        lambda: services.dropper.drop(*MAIN, "t"),
    ):
        with pytest.raises(StateConflict):
            call()
    assert names(services) == ["t"]


def test_what_is_not_there_cannot_be_exported() -> None:
    services = fresh()
    for call in (Exporter(services).dry_run, Exporter(services).run):
        with pytest.raises(NotFound):
            call(*MAIN, "t")
    assert services.lake_root == LAKE
