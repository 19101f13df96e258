"""A server that is killed under writers keeps every promise it made (I1, I2, I3, I5, I11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.histories.check import needs_go
from tests.histories.kill_server import campaign


@needs_go
@pytest.mark.timeout(600)
def test_i1_i2_i3_i5_i11_a_server_that_is_killed_again_and_again_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    report = campaign(tmp_path / "home", 3, each=3)
    assert not report.problems, report.problems
    assert report.acknowledged, "nothing was acknowledged: nothing was tested"
