"""A fleet whose servers and processes are killed, frozen and restarted under writers keeps every
promise it made (I1 to I6, I11, I19, I21)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.histories.check import needs_go
from tests.histories.kill_fleet import FAILURES, Report, Work, campaign
from tests.histories.killing import needs_proc
from tests.support.store.backends import DYNOXIDE
from tests.support.store.fleets import Fleet
from tests.support.store.servers import Servers

pytestmark = [needs_go, needs_proc, pytest.mark.timeout(900)]

BUDGET_S = 15.0
"""The longest time after which a server gives up what it was asked for."""


def holds(report: Report, failures: Sequence[str]) -> None:
    assert not report.problems, report.problems
    assert [phase.name for phase in report.phases if phase.name in FAILURES] == list(failures)
    assert len(report.lags) >= report.acknowledged > len(failures), "nothing was committed"
    assert report.changes, "no change of the catalog was acknowledged"


def test_i1_to_i6_i11_i19_i21_a_fleet_under_kills_and_freezes_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    failures = ("kill background", "freeze owner", "kill server", "freeze server")
    with Fleet(tmp_path, 3) as fleet:
        holds(campaign(fleet, failures, Work(away_s=3.0, calm_s=0.5)), failures)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", DYNOXIDE])
def test_i1_to_i6_i11_i19_i21_whatever_fails_for_longer_than_any_time_out(
    servers: Servers, tmp_path: Path, store: str
) -> None:
    endpoint = "" if store == "sqlite" else servers.get(store).url or ""
    with Fleet(tmp_path, 3, endpoint=endpoint) as fleet:
        for failures in (FAILURES[:3], FAILURES[3:6], FAILURES[6:]):
            holds(campaign(fleet, failures, Work(away_s=BUDGET_S + 2)), failures)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", DYNOXIDE])
def test_i1_to_i6_i11_i19_i21_a_rolling_upgrade_loses_nothing(servers: Servers, tmp_path: Path, store: str) -> None:
    endpoint = "" if store == "sqlite" else servers.get(store).url or ""
    failures = ("restart server",) * 3
    with Fleet(tmp_path, 3, endpoint=endpoint) as fleet:
        holds(campaign(fleet, failures, Work(away_s=0.5)), failures)
