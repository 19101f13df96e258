"""A server that is killed keeps every promise that it made: under writers (I1, I2, I3, I5, I11),
under senders of rows (I26), and in the midst of work, which is ended (I2, I3, I8 to I11, I15,
I28)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.histories import kill_rows, kill_server
from tests.histories.check import needs_go
from tests.histories.interrupted import campaign
from tests.histories.kill_work import KINDS


@needs_go
@pytest.mark.timeout(600)
def test_i1_i2_i3_i5_i11_a_server_that_is_killed_again_and_again_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    report = kill_server.campaign(tmp_path / "home", 3, each=3)
    assert not report.problems, report.problems
    assert report.acknowledged, "nothing was acknowledged: nothing was tested"


@pytest.mark.timeout(600)
def test_i26_a_server_that_is_killed_again_and_again_has_each_row_once(tmp_path: Path) -> None:
    report = kill_rows.campaign(tmp_path / "home", 2)
    assert not report.problems, report.problems
    assert report.acknowledged, "nothing was acknowledged: nothing was tested"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_i2_i3_i8_i9_i10_i11_i15_i28_work_that_a_kill_interrupts_is_ended_and_loses_nothing(
    kind: str, tmp_path: Path
) -> None:
    report = campaign(tmp_path / "home", KINDS[kind], 2)
    assert not report.problems, report.problems
    assert report.kills == 2
