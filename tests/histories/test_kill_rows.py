"""A server that is killed under senders of rows has each acknowledged row once (I26)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.histories.kill_rows import campaign


@pytest.mark.timeout(600)
def test_i26_a_server_that_is_killed_again_and_again_has_each_row_once(tmp_path: Path) -> None:
    report = campaign(tmp_path / "home", 2)
    assert not report.problems, report.problems
    assert report.acknowledged, "nothing was acknowledged: nothing was tested"
