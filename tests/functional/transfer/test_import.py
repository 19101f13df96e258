"""Import of filesystem-based Delta tables: its writes, its refusals, the table afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.catalog import MAIN, complete, create, fakes, fresh, head_of, names, owners_match
from tests.support.fakes import delta
from tests.support.legacy import PLACE, Legacy, legacy_info, legacy_metadata, legacy_protocol
from turnstile.catalog.create import UUID_PROPERTY
from turnstile.catalog.services import CatalogServices, build
from turnstile.delta.core.content import read_content
from turnstile.delta.core.decide import Ratified
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Published, Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    StateConflict,
    TurnstileError,
    UnsupportedTable,
)
from turnstile.store.core.names import MAX_VERSION, published_path
from turnstile.transfer.imports import Importer


def imported(services: CatalogServices, name: str = "t", location: str = PLACE) -> str:
    return Importer(services).run(*MAIN, name, location).table_id


def unchanged(services: CatalogServices) -> Any:
    world = fakes(services)
    return dict(world.refs.rows), dict(world.objs.rows), dict(world.storages.files)


# -- the ordinary way ---------------------------------------------------------------------------------------------


def test_a_dry_run_reports_and_changes_nothing() -> None:
    services = fresh()
    Legacy(services).created().append(3)
    before = unchanged(services)
    report = Importer(services).dry_run(*MAIN, "t", "s3a://old/tables/t/")
    assert unchanged(services) == before
    assert report.possible and report.dry_run
    assert (report.name, report.location) == ("main.default.t", PLACE)
    assert (report.version, report.upgrade_version) == (3, 4)
    assert report.protocol == legacy_protocol()["protocol"]
    assert report.features_added == ["catalogManaged", "vacuumProtocolCheck", "inCommitTimestamp"]
    assert report.properties_set["delta.enableInCommitTimestamps"] == "true"
    assert report.problems == []
    assert report.notes


def test_an_import_upgrades_the_table_by_one_commit_and_takes_it_from_there() -> None:
    services = fresh()
    legacy = Legacy(services).created().append(3)
    files = dict(fakes(services).storages.files)
    id = imported(services)
    actions = legacy.actions(4)
    ict = actions["commitInfo"]["inCommitTimestamp"]
    assert actions["protocol"] == {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["catalogManaged", "vacuumProtocolCheck"],
        "writerFeatures": ["appendOnly", "invariants", "catalogManaged", "vacuumProtocolCheck", "inCommitTimestamp"],
    }
    assert actions["metaData"]["configuration"] == {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "4",
        "delta.inCommitTimestampEnablementTimestamp": str(ict),
        "io.unitycatalog.tableId": id,
    }
    assert {**actions["metaData"], "configuration": {}} == legacy_metadata()["metaData"]
    head = head_of(services.world, id)
    assert (head.latest, head.floor, head.tail_from, head.epoch, head.last_ict) == (4, 4, 5, 4, ict)
    assert (head.managed, head.state, head.location, head.row_hwm) == (False, "active", PLACE, None)
    kept = {path: found for path, found in fakes(services).storages.files.items() if path in files}
    assert kept == files, "I2: nothing that was there is touched"
    complete(fakes(services))


def test_the_upgrade_commit_keeps_the_contract_that_every_commit_must_keep() -> None:
    services = fresh()
    legacy = Legacy(services).created()
    imported(services)
    found = legacy.storage.read(published_path(1))
    assert found is not None
    content = read_content(found[0], first_version=True)
    assert content.txn.startswith("turnstile-import-")
    assert content.read_version == 0


def test_an_imported_table_takes_commits_and_publishes_them() -> None:
    """I1, I4."""
    services = fresh()
    legacy = Legacy(services).created()
    id = imported(services)
    content = delta.append("a", services.world.clock.now_ms())
    answer = Ratifier(services.world).commit(CommitRequest(id, 2, content=content))
    assert isinstance(answer, Ratified) and answer.version == 2
    assert Publisher(services.world).publish(id).floor == 2
    assert legacy.storage.read(published_path(2))[0] == content  # type: ignore[index]


def test_importing_again_answers_as_the_first_time() -> None:
    """I3."""
    services = fresh()
    Legacy(services).created()
    id = imported(services)
    before = unchanged(services)
    again = Importer(fresh(services.world)).run(*MAIN, "T", PLACE + "/")
    assert (again.table_id, again.version, again.replayed) == (id, 1, True)
    assert unchanged(services) == before
    report = Importer(services).dry_run(*MAIN, "t", PLACE)
    assert report.possible and "already" in report.notes[0]


def test_in_commit_timestamps_begin_after_everything_readers_saw_before() -> None:
    """I7: also when the last file is dated ahead of our clock."""
    services = fresh()
    legacy = Legacy(services).created()
    world = fakes(services)
    path, (content, _) = next(iter((k, v) for k, v in world.storages.files.items() if k.startswith(PLACE)))
    ahead = world.clock.now + 60_000
    world.storages.files[path] = (content, ahead)
    imported(services)
    assert legacy.actions(1)["commitInfo"]["inCommitTimestamp"] == ahead + 1


def test_a_table_that_has_in_commit_timestamps_keeps_when_they_began() -> None:
    services = fresh()
    protocol = legacy_protocol(3, 7, readerFeatures=[], writerFeatures=["inCommitTimestamp"])
    legacy = Legacy(services).created(protocol, legacy_metadata(**{"delta.enableInCommitTimestamps": "true"}))
    now = services.world.clock.now_ms()
    legacy.write(delta.info("x", now + 100_000), delta.add("f"))
    imported(services)
    actions = legacy.actions(2)
    assert actions["commitInfo"]["inCommitTimestamp"] == now + 100_001
    assert "delta.inCommitTimestampEnablementVersion" not in actions["metaData"]["configuration"]


@pytest.mark.parametrize(
    ("protocol", "readers", "writers"),
    [
        ((1, 1, {}), [], []),
        ((1, 2, {}), [], ["appendOnly", "invariants"]),
        ((1, 4, {}), [], ["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"]),
        ((2, 5, {}), ["columnMapping"],
         ["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"]),
        ((1, 5, {}), [],
         ["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"]),
        ((2, 6, {}), ["columnMapping"],
         ["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping",
          "identityColumns"]),
        ((1, 7, {"writerFeatures": ["appendOnly"]}), [], ["appendOnly"]),
        ((2, 7, {"writerFeatures": ["columnMapping"]}), ["columnMapping"], ["columnMapping"]),
        ((3, 7, {"readerFeatures": ["deletionVectors"],
                 "writerFeatures": ["deletionVectors", "rowTracking", "domainMetadata"]}), ["deletionVectors"],
                 ["deletionVectors", "rowTracking", "domainMetadata"]),
        ((3, 7, {"readerFeatures": ["vacuumProtocolCheck"],
                 "writerFeatures": ["vacuumProtocolCheck", "inCommitTimestamp"]}), ["vacuumProtocolCheck"],
                 ["vacuumProtocolCheck", "inCommitTimestamp"]),
    ],
)  # fmt: skip
def test_every_protocol_keeps_what_it_supported_and_gains_the_contract(
    protocol: tuple[int, int, dict[str, list[str]]], readers: list[str], writers: list[str]
) -> None:
    """Source: Delta protocol, "Supported Features for Legacy Versions"."""
    services = fresh()
    legacy = Legacy(services).created(legacy_protocol(protocol[0], protocol[1], **protocol[2]))
    imported(services)
    after = legacy.actions(1)["protocol"]
    assert (after["minReaderVersion"], after["minWriterVersion"]) == (3, 7)
    assert after["readerFeatures"] == list(dict.fromkeys([*readers, "catalogManaged", "vacuumProtocolCheck"]))
    assert after["writerFeatures"] == list(
        dict.fromkeys([*writers, "catalogManaged", "vacuumProtocolCheck", "inCommitTimestamp"])
    )


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [(None, -1), ('{"rowIdHighWaterMark":41}', 41), ('{"rowIdHighWaterMark":2,"domainName":"delta.rowTracking"}', 2)],
)
def test_row_ids_go_on_where_they_were(configuration: str | None, expected: int) -> None:
    """I2: no row id twice."""
    services = fresh()
    protocol = legacy_protocol(3, 7, readerFeatures=[], writerFeatures=["rowTracking", "domainMetadata"])
    legacy = Legacy(services).created(protocol)
    if configuration:
        domain = {"domain": "delta.rowTracking", "configuration": configuration, "removed": False}
        legacy.write(legacy_info(), {"domainMetadata": domain})
    other = {"domain": "delta.clustering", "configuration": "{}", "removed": False}
    legacy.write(legacy_info(), {"domainMetadata": other})
    id = imported(services)
    head = head_of(services.world, id)
    assert (head.row_hwm, head.tail_hwm) == (expected, expected)
    assert services.metadata.get("main", head.metadata).domains == {"delta.clustering": "{}"}


# -- refusals -----------------------------------------------------------------------------------------------------


def refused(
    services: CatalogServices, error: type[TurnstileError], location: str = PLACE, name: str = "t"
) -> TurnstileError:
    """The refusal of run, which is the first problem of the dry run, and changes no table and no
    file."""
    report = Importer(services).dry_run(*MAIN, name, location)
    assert not report.possible
    files = dict(fakes(services).storages.files)
    with pytest.raises(error) as found:
        Importer(services).run(*MAIN, name, location)
    assert fakes(services).storages.files == files
    assert (report.problems[0].type, report.problems[0].message) == (found.value.type, found.value.message)
    assert found.value.remedy
    owners_match(fakes(services))
    return found.value


def test_names_and_places_that_are_taken_are_refused() -> None:
    services = fresh()
    Legacy(services).created()
    Legacy(services, PLACE + "/inner").created()
    Legacy(services, "s3://old/tables").created()
    create(services, "taken")
    refused(services, AlreadyExists, name="TAKEN")
    imported(services)
    assert refused(services, StateConflict, name="u").type == "LocationOwned"
    for place in (PLACE + "/inner", "s3://old/tables"):
        assert refused(services, StateConflict, place, "u").type == "LocationOwned"
    for place in ("file:///lake", "file:///lake/x", "file:///lake/main/default/x/y"):
        assert refused(services, StateConflict, place, "u").type == "LocationOwned"


@pytest.mark.parametrize("location", ["s3://bucket", "file:///", "x", "s3://b/../c"])
def test_places_that_are_no_tables_folder_are_refused_at_once(location: str) -> None:
    services = fresh()
    for call in (Importer(services).dry_run, Importer(services).run):
        with pytest.raises(InvalidRequest):
            call(*MAIN, "t", location)


def test_what_is_no_delta_table_or_a_broken_one_is_refused_with_the_reason() -> None:
    services = fresh()
    assert "no Delta table" in refused(services, UnsupportedTable).message
    legacy = Legacy(services).created()
    legacy.version += 1
    legacy.append()
    assert "version 1 is missing" in refused(services, UnsupportedTable).message
    other = Legacy(services, "s3://old/other")
    other.storage.put_if_absent(published_path(0), b"{nonsense\n")
    assert "not readable" in refused(services, UnsupportedTable, "s3://old/other").message
    third = Legacy(services, "s3://old/third")
    third.write(legacy_info(), delta.add("f"))
    assert "no protocol" in refused(services, UnsupportedTable, "s3://old/third").message


@pytest.mark.parametrize("mark", ["", "{", "{}", '{"rowIdHighWaterMark":"x"}', '{"rowIdHighWaterMark":-2}'])
def test_row_ids_that_cannot_be_read_are_noticed_before_the_table_is_touched(mark: str) -> None:
    services = fresh()
    features = ["rowTracking", "domainMetadata"]
    legacy = Legacy(services).created(legacy_protocol(3, 7, readerFeatures=[], writerFeatures=features))
    domain = {"domain": "delta.rowTracking", "configuration": mark, "removed": False}
    legacy.write(legacy_info(), {"domainMetadata": domain})
    assert "high-water mark" in refused(services, UnsupportedTable).message


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("partitionColumns", [{}]),
        ("partitionColumns", ["nosuch"]),
        ("partitionColumns", "id"),
        ("configuration", "x"),
        ("configuration", {"delta.appendOnly": "perhaps"}),
        ("configuration", {"delta.columnMapping.mode": "name"}),
        ("format", "parquet"),
        ("id", 7),
    ],
)
def test_metadata_that_no_commit_may_hold_is_refused_before_the_table_is_touched(member: str, value: Any) -> None:
    """I2: it would be ratified by the upgrade, and one such table broke the list of all in its
    namespace."""
    services = fresh()
    metadata = legacy_metadata()
    metadata["metaData"][member] = value
    Legacy(services).created(metadata=metadata)
    assert "cannot be read" in refused(services, UnsupportedTable).message


@pytest.mark.parametrize(
    "action",
    [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": 3, "writerFeatures": []}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [{}], "writerFeatures": [{}]}},
        {"domainMetadata": {"domain": 1, "configuration": {}, "removed": "no"}},
        {"domainMetadata": {}},
        legacy_protocol("x", 2),  # type: ignore[arg-type]
    ],
)
def test_a_protocol_or_domain_of_other_types_is_refused_with_its_version(action: dict[str, Any]) -> None:
    services = fresh()
    Legacy(services).created().write(legacy_info(), action)
    assert "of version 1" in refused(services, UnsupportedTable).message


def test_a_log_that_has_no_next_version_is_refused() -> None:
    """Later it would be a number that no store takes."""
    services = fresh()
    last = MAX_VERSION
    legacy = Legacy(services)
    legacy.write(legacy_info(txnId="last"), version=last)
    definition = {"protocol": legacy_protocol()["protocol"], "metadata": legacy_metadata()["metaData"]}
    legacy.checksum(last, txnId="last", **definition)
    assert "no version after" in refused(services, UnsupportedTable).message


@pytest.mark.parametrize("version", [(4, 7), (3, 8), (0, 2)])
def test_an_unknown_protocol_is_refused(version: tuple[int, int]) -> None:
    services = fresh()
    Legacy(services).created(legacy_protocol(*version))
    assert "not known" in refused(services, UnsupportedTable).message


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"])
def test_a_table_of_another_catalog_is_left_to_it(feature: str) -> None:
    """I10: an import never takes a table that another catalog decides about."""
    services = fresh()
    Legacy(services).created(legacy_protocol(3, 7, readerFeatures=[feature], writerFeatures=[feature]))
    assert "a catalog already" in refused(services, UnsupportedTable).message


def lost(feature: str = "catalogManaged", **configuration: str) -> tuple[CatalogServices, Legacy]:
    """A table that a catalog decided about of which nothing is known here."""
    services = fresh()
    protocol = legacy_protocol(3, 7, readerFeatures=[feature], writerFeatures=[feature, "inCommitTimestamp"])
    properties = {"delta.enableInCommitTimestamps": "true", **configuration}
    legacy = Legacy(services)
    legacy.write(delta.info("made", services.world.clock.now_ms()), protocol, legacy_metadata(**properties))
    legacy.write(delta.info("there", services.world.clock.now_ms()), delta.add("f"))
    return services, legacy


def test_i10_a_table_of_a_lost_catalog_is_taken_over_where_that_is_asked_for() -> None:
    services, legacy = lost(**{UUID_PROPERTY: "11111111-1111-4111-8111-111111111111"})
    assert "a catalog already" in refused(services, UnsupportedTable).message
    report = Importer(services).dry_run(*MAIN, "t", PLACE, take_over=True)
    assert report.possible and report.upgrade_version == 2
    assert any("11111111-1111-4111-8111-111111111111" in note for note in report.notes)
    done = Importer(services).run(*MAIN, "t", PLACE, take_over=True)
    assert legacy.actions(2)["metaData"]["configuration"][UUID_PROPERTY] == done.table_id
    assert Importer(services).run(*MAIN, "t", PLACE).replayed
    assert "another catalog" not in str(Importer(services).dry_run(*MAIN, "t", PLACE, take_over=True).notes)
    head = head_of(services.world, done.table_id)
    assert (head.state, head.latest, head.floor) == ("active", 2, 2)


@pytest.mark.parametrize("feature", ["catalogOwned-preview", "coordinatedCommits-preview"])
def test_i10_what_others_than_catalogs_may_decide_about_is_not_taken_over(feature: str) -> None:
    services, _ = lost(feature)
    with pytest.raises(UnsupportedTable, match="a catalog already"):
        Importer(services).run(*MAIN, "t", PLACE, take_over=True)


def test_i10_a_table_that_this_catalog_decides_about_is_never_taken_over() -> None:
    services = fresh()
    Legacy(services).created()
    id = imported(services)
    services.dropper.drop(*MAIN, "t")
    fakes(services).refs.rows[services.world.space.table(id)]["reason"] = "purging"
    with pytest.raises(UnsupportedTable, match="a catalog already"):
        Importer(services).run(*MAIN, "t", PLACE, take_over=True)


def test_a_log_of_a_lost_catalog_with_a_version_missing_is_refused_and_nothing_changes() -> None:
    """Files that replication has not brought yet."""
    services, legacy = lost()
    legacy.write(delta.info("late", services.world.clock.now_ms() + 1), delta.add("g"), version=3)
    with pytest.raises(UnsupportedTable) as caught:
        Importer(services).run(*MAIN, "t", PLACE, take_over=True)
    assert "2" in caught.value.message
    assert legacy.version == 3, "no upgrade was written"


def test_a_table_dated_far_ahead_is_refused_lest_it_be_poisoned() -> None:
    services = fresh()
    protocol = legacy_protocol(3, 7, readerFeatures=[], writerFeatures=["inCommitTimestamp"])
    legacy = Legacy(services).created(protocol)
    legacy.write(delta.info("x", 9_999_999_999_999), delta.add("f"))
    assert refused(services, TurnstileError).type == "TimestampAhead"


def test_all_problems_are_in_the_report_at_once() -> None:
    services = fresh()
    report = Importer(services).dry_run("main", ("nowhere",), "t", "file:///lake/x")
    assert [problem.type for problem in report.problems] == ["NoSuchNamespace", "LocationOwned", "UnsupportedTable"]
    report = Importer(services).dry_run("nowhere", ("n",), "t", PLACE)
    assert [problem.type for problem in report.problems] == ["NoSuchCatalog", "UnsupportedTable"]
    with pytest.raises(NotFound):
        Importer(services).run("nowhere", ("n",), "t", PLACE)


# -- drop and back ------------------------------------------------------------------------------------------------


def test_a_dropped_import_keeps_its_files_in_use_and_may_come_back() -> None:
    """I10, I11: everything ratified is published first, nothing is purged, and the versions go
    on."""
    services = fresh()
    legacy = Legacy(services).created()
    first = imported(services)
    Ratifier(services.world).commit(CommitRequest(first, 2, content=delta.append("a", services.world.clock.now_ms())))
    services.dropper.drop(*MAIN, "t")
    head = head_of(services.world, first)
    assert (head.state, head.floor, head.latest) == ("dropped", 2, 2)
    assert legacy.storage.stat(published_path(2)) is not None
    report = Importer(services).dry_run(*MAIN, "t", PLACE)
    assert report.possible and report.upgrade_version == 3
    assert "come back under a new id" in report.notes[-1]
    second = imported(services)
    assert second != first
    assert head_of(services.world, second).latest == 3
    assert legacy.actions(3)["metaData"]["configuration"]["io.unitycatalog.tableId"] == second
    assert names(services) == ["t"]
    complete(fakes(services))


def test_an_import_that_was_dropped_at_once_comes_back_by_another_upgrade() -> None:
    """Its latest version is the upgrade commit of the dropped table, not one that waits to be
    finished."""
    services = fresh()
    legacy = Legacy(services).created()
    first = imported(services)
    services.dropper.drop(*MAIN, "t")
    report = Importer(services).dry_run(*MAIN, "t", PLACE)
    assert report.possible and report.upgrade_version == 2
    second = imported(services)
    assert legacy.actions(2)["commitInfo"]["txnId"].endswith(second) and second != first
    complete(fakes(services))


def test_a_cascade_publishes_imported_tables_before_it_drops_them() -> None:
    services = fresh()
    Legacy(services).created()
    services.namespaces.create("main", ("n",))
    id = Importer(services).run("main", ("n",), "t", PLACE).table_id
    create(services, "managed", "n")
    Ratifier(services.world).commit(CommitRequest(id, 2, content=delta.append("a", services.world.clock.now_ms())))
    services.namespace_dropper.drop("main", ("n",), cascade=True)
    head = head_of(services.world, id)
    assert (head.state, head.floor) == ("dropped", 2)
    complete(fakes(services))


def test_a_commit_that_comes_between_publishing_and_dropping_is_published_too() -> None:
    """I11: an acknowledged commit of a table that stays in use elsewhere is in its log."""
    services = fresh()
    legacy = Legacy(services).created()
    id = imported(services)
    ratifier = Ratifier(services.world)
    original = services.publisher.publish
    late: list[object] = []

    def publish(table_id: str) -> Published:
        done = original(table_id)
        if len(late) < 2:
            content = delta.append(f"late{len(late)}", services.world.clock.now_ms())
            late.append(ratifier.commit(CommitRequest(id, 2 + len(late), content=content)))
        return done

    services.publisher.publish = publish  # type: ignore[method-assign,assignment]
    services.dropper.drop(*MAIN, "t")
    head = head_of(services.world, id)
    assert (head.state, head.latest, head.floor, len(late)) == ("dropped", 3, 3, 2)
    assert legacy.actions(3)["commitInfo"]["txnId"] == "late1"
    complete(fakes(services))


def test_an_import_that_gc_was_asked_to_purge_does_not_come_back_half_purged() -> None:
    """I10."""
    services = fresh()
    Legacy(services).created()
    first = imported(services)
    services.dropper.drop(*MAIN, "t")
    fakes(services).refs.rows[services.world.space.table(first)]["reason"] = "purging"
    assert "a catalog already" in refused(services, UnsupportedTable).message


def test_a_lake_root_cannot_be_laid_over_an_imported_table_nor_below_one() -> None:
    """I10."""
    services = fresh()
    Legacy(services).created()
    imported(services)
    for root in ("s3://old", "s3://old/tables", PLACE, PLACE + "/lake"):
        other = build(services.world, lake_root=root)
        with pytest.raises(StateConflict) as refused:
            other.staging.create(*MAIN, "x")
        assert refused.value.type == "LocationOwned"
    build(services.world, lake_root="s3://old/lake").staging.create(*MAIN, "x")
    complete(fakes(services))


@pytest.mark.parametrize("content", [b"", b"\n \n", b'{"add":{"path":"x"'])
def test_i24_a_log_with_a_damaged_commit_is_not_imported_and_the_file_is_named(content: bytes) -> None:
    services = fresh()
    legacy = Legacy(services).created().append(5)
    legacy.storage.replace("_delta_log/00000000000000000003.json", content)
    assert "_delta_log/00000000000000000003.json" in refused(services, UnsupportedTable).message
