"""The benchmark of failovers counts a lag for the failure that its version waited in."""

from __future__ import annotations

from benchmarks.failover import CALM, THROUGH, by_phase, summary
from tests.histories.kill_fleet import Phase, Report
from tests.histories.lags import Lag

PHASES = [
    Phase(CALM, 0, 1000),
    Phase("kill server", 1000, 2000, frozenset({"a"})),
    Phase("back after kill server", 2000, 3000, frozenset({"a"})),
    Phase(CALM, 3000, 4000),
]


def test_a_version_counts_for_the_failure_that_it_waited_in_also_if_it_was_ratified_before() -> None:
    lags = [
        Lag("b", 1, 100, 130),  # calm
        Lag("a", 1, 990, 2500),  # ratified just before its owner was killed
        Lag("b", 2, 1500, 1510),  # of another owner
        Lag("b", 3, 2900, 3100),  # while the victim came back
        Lag("a", 2, 3500, 3501),
    ]
    phases = by_phase([Report(phases=PHASES, lags=lags)])
    assert list(phases) == [CALM, "back after kill server", "kill server", THROUGH]
    assert phases[CALM]["all"] == {"versions": 2, "p50": 30, "p99": 30, "max": 30} and phases[CALM]["phases"] == 2
    assert phases["kill server"]["all"] == {"versions": 2, "p50": 1510, "p99": 1510, "max": 1510}
    assert phases["kill server"]["victims"] == {"versions": 1, "p50": 1510, "p99": 1510, "max": 1510}
    assert phases["back after kill server"]["all"]["versions"] == 1
    assert phases[THROUGH]["all"]["versions"] == 3 and phases[THROUGH]["seconds"] == 2.0


def test_quantiles_of_no_versions_are_none() -> None:
    assert summary([]) == {"versions": 0, "p50": 0, "p99": 0, "max": 0}
    assert summary(range(1, 101)) == {"versions": 100, "p50": 51, "p99": 100, "max": 100}
