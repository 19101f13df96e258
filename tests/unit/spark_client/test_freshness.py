"""When an earlier answer of the server may be used again: in the statement that asked for it, and
never after a commit (I6)."""

from __future__ import annotations

from typing import Any

import pytest

from turnstile_http.api import Tail
from turnstile_spark.freshness import Freshness

TAIL = Tail((), 3, 3)


class Analysis:
    """A run of Spark's analyzer, as the JVM shows it: its tracker, and which phases that has
    recorded the end of."""

    def __init__(self) -> None:
        self.ended = False

    def phases(self) -> Analysis:
        return self

    def contains(self, phase: str) -> bool:
        return self.ended and phase == "analysis"

    def equals(self, other: Any) -> bool:
        return self is other


class Jvm:
    """The calling JVM thread: what it analyses now, and which table a running command writes to."""

    def __init__(self) -> None:
        self.analysis: Analysis | None = None

    def cls(self, name: str) -> Jvm:
        assert name.endswith("QueryPlanningTracker")
        return self

    def get(self) -> Any:
        return _Option(self.analysis)

    def getLocalProperty(self, name: str) -> None:
        return None


class _Option:
    def __init__(self, value: Any) -> None:
        self._value = value

    def isDefined(self) -> bool:
        return self._value is not None

    def get(self) -> Any:
        return self._value


@pytest.fixture
def jvm() -> Jvm:
    made = Jvm()
    made.analysis = Analysis()
    return made


@pytest.fixture
def freshness(jvm: Jvm) -> Freshness:
    return Freshness(jvm, jvm, lambda location: None)  # type: ignore[arg-type]


def test_i6_a_load_answers_its_own_statement(freshness: Freshness) -> None:
    freshness.note_load("t", TAIL)
    assert freshness.take("t", freshness.grant()) is TAIL
    assert freshness.take("other", freshness.grant()) is None


def test_i6_a_load_answers_no_later_statement(freshness: Freshness, jvm: Jvm) -> None:
    freshness.note_load("t", TAIL)
    assert jvm.analysis is not None
    jvm.analysis.ended = True
    assert freshness.take("t", freshness.grant()) is None, "the tracker stays for a while after the analysis"
    jvm.analysis = Analysis()
    assert freshness.take("t", freshness.grant()) is None
    jvm.analysis = None
    assert freshness.take("t", freshness.grant()) is None


def test_i6_a_commit_voids_what_was_loaded_before_it(freshness: Freshness) -> None:
    freshness.note_load("t", TAIL)
    freshness.void("t")
    assert freshness.grant() is None
    assert freshness.take("t", freshness.grant()) is None


def test_i6_a_commit_voids_what_was_granted_before_it(freshness: Freshness) -> None:
    """Delta asks on a thread of its own, when another thread of this client may have committed
    meanwhile."""
    freshness.note_load("t", TAIL)
    freshness.note_load("other", TAIL)
    grant = freshness.grant()
    freshness.void("t")
    assert freshness.take("t", grant) is None
    assert freshness.take("other", grant) is TAIL


def test_i6_a_load_after_a_commit_answers_again(freshness: Freshness) -> None:
    freshness.void("t")
    freshness.note_load("t", TAIL)
    assert freshness.take("t", freshness.grant()) is TAIL


def test_what_one_analysis_needs_several_times_is_read_once(freshness: Freshness, jvm: Jvm) -> None:
    reads: list[int] = []

    def read() -> int:
        reads.append(1)
        return len(reads)

    assert [freshness.once_per_analysis("k", read) for _ in range(2)] == [1, 1]
    jvm.analysis = Analysis()
    assert freshness.once_per_analysis("k", read) == 2
    jvm.analysis.ended = True
    assert [freshness.once_per_analysis("k", read) for _ in range(2)] == [3, 4]


def test_loads_that_are_never_asked_for_do_not_pile_up(freshness: Freshness) -> None:
    for number in range(100):
        freshness.note_load(f"t{number}", TAIL)
    assert len(freshness.grant() or {}) == 32
    assert freshness.take("t99", freshness.grant()) is TAIL
