"""No damage of a file below a table is believed (I24): ``tests.support.damage`` makes every one;
here is a sample, and all of them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.support.damage.asking import WAYS, Site, run, table_of
from tests.support.damage.tables import LATEST, TABLES, Case, checkpointed, indexed, plain, unsealed, v2
from turnstile.catalog.services import CatalogServices
from turnstile.delta.publish import Publisher
from turnstile.delta.repair import Repairer
from turnstile.delta.verify import Verifier
from turnstile.gc.collector import Collector
from turnstile.maintenance.work import Maintainer
from turnstile.planning.planner import Planner
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.core.names import LOG, published_path

NEVER = ("believed", "crashed", "unnamed")


def total(counts: dict[tuple[str, str], Counter[str]]) -> Counter[str]:
    return sum(counts.values(), Counter[str]())


@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_i24_a_sample_of_damages_is_reported_or_has_no_effect(make: object) -> None:
    counts = run((make,), each=74)
    found = total(counts)
    assert found["told"] and not any(found[outcome] for outcome in NEVER), table_of(counts)


@pytest.mark.slow
@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_i24_every_damage_is_reported_or_has_no_effect(make: object) -> None:
    counts = run((make,))
    found = total(counts)
    assert sum(found.values()) > 50 and not any(found[outcome] for outcome in NEVER), table_of(counts)


def planned(case: Case) -> list[str]:
    return sorted(file.path for file in Planner(case.world).plan(case.head).files)


@pytest.mark.parametrize("way", WAYS)
def test_i24_a_plan_is_refused_where_a_commit_since_the_checkpoint_is_damaged_and_light_work_writes_none(
    tmp_path: Path, way: str
) -> None:
    (tmp_path / "t").mkdir()
    site = Site(checkpointed(tmp_path / "t"))
    outcome, answers = site.outcome(site.case.below / published_path(LATEST - 3), way)
    assert outcome == "told"
    assert {"plan", "detail", "light work"} <= set(answers.typed)
    assert answers.values["repair"] == "damaged" and answers.values["gc"][0] == []


@pytest.mark.parametrize("back", [0, 3])
def test_i24_the_definition_at_a_version_is_not_that_of_the_one_before_it(tmp_path: Path, back: int) -> None:
    """Clones of the past and recoveries read it from the log."""
    (tmp_path / "t").mkdir()
    site = Site(plain(tmp_path / "t"))
    version = site.case.head.floor - back
    outcome, answers = site.outcome(site.case.below / published_path(version), "removed")
    assert (outcome, answers.wrong) == ("told", [])
    assert f"state {version}" in answers.typed


@pytest.mark.parametrize("way", WAYS)
def test_i24_an_index_that_was_made_before_is_read_instead_of_a_damaged_commit(tmp_path: Path, way: str) -> None:
    (tmp_path / "t").mkdir()
    site = Site(indexed(tmp_path / "t"))
    outcome, answers = site.outcome(site.case.below / published_path(3), way)
    assert outcome == "told" and {*answers.typed} <= {"import"}, "another catalog has no index"


@pytest.mark.parametrize("make", [checkpointed, v2, unsealed])
def test_i15_i24_nothing_is_removed_that_a_damaged_checkpoint_is_the_only_other_copy_of(
    tmp_path: Path, make: object
) -> None:
    (tmp_path / "t").mkdir()
    site = Site(make(tmp_path / "t"))  # type: ignore[operator]
    folder = site.case.below / LOG
    path = next(iter([*folder.glob("_sidecars/*.parquet"), *folder.glob("*.checkpoint.*parquet")]))
    assert len(site.undamaged.values["gc"][0]) > 9
    outcome, answers = site.outcome(path, "flipped")
    assert outcome == "told"
    assert answers.values["gc"] == ([], 1)
    assert "plan" not in answers.typed, "an older start says the same"


def test_i24_a_folder_that_is_gone_is_reported_by_each_operation(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    case = plain(tmp_path / "t")
    shutil.rmtree(case.below)
    with pytest.raises(UnsupportedTable, match="the table's folder is gone") as refused:
        planned(case)
    assert "bring the table's folder back" in (refused.value.remedy or "")
    assert [each.kind for each in Verifier(case.world).verify(case.table_id).deviations] == ["gone"]
    diagnosis = Repairer(case.world, Publisher(case.world)).diagnose(case.table_id)
    assert diagnosis.finding == "damaged" and "folder is gone" in diagnosis.message
    assert Maintainer(case.world).maintain(case.table_id).checkpoints == ()
    assert Collector(case.world, workers=1).collect(("log",), dry_run=False).deleted == 0
    assert isinstance(case.services, CatalogServices)
