"""Which snapshots scopes share, and when they are released."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from turnstile_spark.transactions.scopes import shared_snapshots
from turnstile_spark.transactions.scopes.shared_snapshots import AGE_MOST_MS, SHARED_MOST, SharedSnapshots


class Compiled:
    """The Java snapshot; ``released``: how often it was."""

    def __init__(self, of: Any) -> None:
        self.of = of
        self.released = 0

    def release(self) -> None:
        self.released += 1


class Site:
    def __init__(self) -> None:
        self.now_ms = 1
        self.shared = SharedSnapshots(SimpleNamespace(), lambda: self.now_ms)

    def read(self, version: int, scope: str = "s", table_id: str = "t") -> Any:
        return self.shared.of(table_id, SimpleNamespace(version=lambda: version), scope)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(shared_snapshots, "java_object", lambda jvm, name, of: Compiled(of))
    return Site()


def test_the_second_scope_shares_its_snapshot_and_the_third_gets_it(site: Site) -> None:
    assert site.read(3, "first") is None
    second = site.read(3, "second")
    assert (second.origin, second.snapshot.of.version()) == ("second", 3)
    assert site.read(3, "third") is second


def test_versions_and_tables_are_apart(site: Site) -> None:
    site.read(3)
    assert site.read(4) is None
    assert site.read(3, table_id="u") is None
    assert site.read(4).snapshot is not site.read(3).snapshot


def test_an_old_snapshot_is_released_and_made_anew(site: Site) -> None:
    site.read(3)
    old = site.read(3)
    site.now_ms += AGE_MOST_MS - 1
    assert site.read(3) is old
    site.now_ms += 1
    assert site.read(3).snapshot is not old.snapshot
    assert old.snapshot.released == 1


def test_a_snapshot_from_a_clock_that_was_ahead_is_released(site: Site) -> None:
    site.read(3)
    ahead = site.read(3)
    site.now_ms -= 1
    assert site.read(3) is not ahead
    assert ahead.snapshot.released == 1


def test_the_snapshot_that_was_not_read_for_longest_is_released(site: Site) -> None:
    for version in range(SHARED_MOST):
        site.read(version)
    shared = [site.read(version).snapshot for version in range(SHARED_MOST)]
    site.read(0)
    site.read(SHARED_MOST)
    site.read(SHARED_MOST)
    assert [snapshot.released for snapshot in shared[:3]] == [0, 1, 0]


def test_close_releases_all_once(site: Site) -> None:
    site.read(3)
    shared = site.read(3)
    site.shared.close()
    site.shared.close()
    assert shared.snapshot.released == 1
