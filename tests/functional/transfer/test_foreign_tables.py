"""Tables as other engines leave them: what Delta opens is imported, by what is in force in its log;
a feature that is not known by its name is refused before anything is written. Spark's own judgement
of the same tables is in tests/journeys."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.catalog import MAIN, fakes, fresh, head_of
from tests.support.journeys.foreign import PASSED_OVER, USES, Foreign, all_foreign
from tests.support.legacy import PLACE
from turnstile.catalog.services import CatalogServices
from turnstile.delta.soundness.judge import judge
from turnstile.delta.verify import Verifier
from turnstile.maintenance.checkpoint import CheckpointWriter
from turnstile.maintenance.core.upkeep import upkeep_of
from turnstile.maintenance.state import open_state
from turnstile.planning.planner import Planner
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import published_path
from turnstile.transfer.imports import Importer

TABLES = {table.name: table for table in all_foreign()}
TAKEN = [table for table in TABLES.values() if not table.refusal]
REFUSED = [table for table in TABLES.values() if table.refusal]


def placed(table: Foreign) -> CatalogServices:
    services = fresh()
    storage = services.world.storages.open(PLACE)
    for version, content in enumerate(table.lines()):
        storage.put_if_absent(published_path(version), content)
    return services


def everything(services: CatalogServices) -> Any:
    world = fakes(services)
    return dict(world.refs.rows), dict(world.objs.rows), dict(world.storages.files)


@pytest.mark.parametrize("table", REFUSED, ids=lambda table: table.name)
def test_i10_what_is_not_known_is_named_by_the_dry_run_and_refused_before_anything_is_written(table: Foreign) -> None:
    services = placed(table)
    before = everything(services)
    report = Importer(services).dry_run(*MAIN, "t", PLACE)
    assert (report.possible, table.refusal in report.problems[0].message) == (False, True), report.problems
    assert report.problems[0].remedy
    with pytest.raises(UnsupportedTable) as refused:
        Importer(services).run(*MAIN, "t", PLACE)
    assert table.refusal in refused.value.message
    assert everything(services) == before


@pytest.mark.parametrize("table", TAKEN, ids=lambda table: table.name)
def test_i24_what_delta_opens_is_imported_planned_checkpointed_and_found_sound(table: Foreign) -> None:
    services = placed(table)
    world = services.world
    report = Importer(services).dry_run(*MAIN, "t", PLACE)
    assert (report.possible, report.problems) == (True, [])
    head = head_of(world, Importer(services).run(*MAIN, "t", PLACE).table_id)
    storage = world.storages.open(PLACE)
    state = open_state(storage, head.floor)
    assert state.protocol == report.protocol_after
    assert len(Planner(world).plan(head, explain=True, limit=10).files) == 1
    assert judge(storage, head.floor).faults == ()
    assert Verifier(world).verify(head.table_id).deviations == []
    upkeep = upkeep_of(state.protocol, state.metadata)
    assert CheckpointWriter(storage, state, upkeep, world.ids).write(world.clock.now_ms()) is not None


@pytest.mark.parametrize(
    ("name", "feature"), [(name, feature) for name, (_, feature) in {**USES, **PASSED_OVER}.items()]
)
def test_what_metadata_uses_under_an_old_protocol_is_listed_afterwards_for_delta_opens_no_other(
    name: str, feature: str
) -> None:
    services = placed(TABLES[f"{name} under an old protocol"])
    report = Importer(services).dry_run(*MAIN, "t", PLACE)
    assert report.protocol_after is not None
    assert feature in report.protocol_after["writerFeatures"]
    for_readers = feature in ("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "v2Checkpoint")
    assert (feature in report.protocol_after["readerFeatures"]) == for_readers


def test_all_unknown_features_are_named_at_once() -> None:
    services = placed(TABLES["liquid for all"])
    storage = services.world.storages.open(PLACE)
    features = ["a", "b", "deletionVectors"]
    upgrade = (
        b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["b"],"writerFeatures":["a","b",'
        b'"deletionVectors"]}}\n'
    )
    storage.put_if_absent(published_path(1), upgrade)
    problem = Importer(services).dry_run(*MAIN, "t", PLACE).problems[0]
    assert f"the features {', '.join(features[:2])}, which are not known here" in problem.message


def test_the_greatest_id_of_a_mapped_column_is_put_right() -> None:
    for name in ("mapped without the greatest id", "mapped above the greatest id"):
        report = Importer(placed(TABLES[name])).dry_run(*MAIN, "t", PLACE)
        assert report.properties_set["delta.columnMapping.maxColumnId"] == "7"
