"""A server that is killed in the midst of work loses nothing that it acknowledged, and ends the
work (I2, I3, I8 to I11, I15)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.histories.kill_work import KINDS, campaign


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", KINDS)
def test_i2_i3_i8_i9_i10_i11_i15_work_that_a_kill_interrupts_is_ended_and_loses_nothing(
    kind: str, tmp_path: Path
) -> None:
    report = campaign(tmp_path / "home", KINDS[kind], 2)
    assert not report.problems, report.problems
    assert report.kills == 2
