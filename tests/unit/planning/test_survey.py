"""What rewriting a table is worth is the same by its index and by its log; without an index the log
is read (I16)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.examples import examples
from tests.unit.planning.tables import SMALL, History
from turnstile.maintenance.core.candidates import partition_columns
from turnstile.maintenance.state import open_state
from turnstile.maintenance.survey import LoggedFiles, SurveyedFiles, survey_of
from turnstile.planning.planner import Planner
from turnstile.planning.survey import IndexedSurvey
from turnstile.planning.upkeep import IndexUpkeep
from turnstile.store.core.errors import StorageFault


def summed(history: History, files: SurveyedFiles) -> Any:
    columns = partition_columns(files.metadata)
    survey = survey_of(files, columns, target_bytes=40, since_ms=0, clock=history.world.clock, until_ms=10**15)
    return survey.table, survey.partitions, survey.new_bytes, survey.complete


def logged(history: History) -> LoggedFiles:
    return LoggedFiles(open_state(history.world.storages.open(history.head.location), history.head.floor))


@pytest.mark.parametrize("seed", range(examples(6)))
def test_i16_the_sums_by_the_index_are_those_of_the_log(seed: int) -> None:
    history = History(seed)
    planner = Planner(history.world)
    seen = Counter[str]()
    for _ in range(30):
        history.step()
        history.publish()
        if history.rng.random() < 0.4:
            IndexUpkeep(history.world, sizes=SMALL).keep_up(history.head)
        indexed = IndexedSurvey(planner)(history.head, history.head.floor)
        seen["none" if indexed is None else "indexed"] += 1
        if indexed is not None:
            assert summed(history, indexed) == summed(history, logged(history))
    assert seen["indexed"] > 10
    vectors = summed(history, logged(history))[0].vector_files
    assert vectors or seed, "some seed has deletion vectors"


def test_without_an_index_and_with_one_that_lost_a_leaf_the_log_is_read() -> None:
    history = History(1)
    for _ in range(12):
        history.step()
    history.publish()
    assert IndexedSurvey(Planner(history.world))(history.head, history.head.floor) is None
    IndexUpkeep(history.world, sizes=SMALL).keep_up(history.head)
    found = IndexedSurvey(Planner(history.world))(history.head, history.head.floor)
    assert found is not None
    for path in [path for path in history.world.storages.files if "_turnstile_index" in path]:
        del history.world.storages.files[path]
    with pytest.raises(StorageFault):
        summed(history, found)
