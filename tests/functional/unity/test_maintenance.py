"""``allowed-maintenance-operations`` says what may be run on a table now: what a clone, a named
snapshot or the catalog's past needs of its files is withheld (I10)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conformance.actions import config, sets
from tests.support.unity import T1, Unity, metadata
from turnstile.delta.core.metadata import interval_ms
from turnstile.maintenance.core.retention import allowed_maintenance

ALL = ["DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP"]
WEEK_MS = 604_800_000


@pytest.fixture
def unity() -> Unity:
    made = Unity()
    made.create()
    return made


def permitted(unity: Unity, table: str = T1) -> list[str]:
    return list(unity.get(table).json["allowed-maintenance-operations"])


def v1(unity: Unity, method: str, path: str, body: Any = None) -> Any:
    answer = unity.call(method, path, body)
    assert answer.status < 300, answer.text
    return answer


def test_i10_a_clone_withholds_what_removes_files_until_it_is_dropped(unity: Unity) -> None:
    assert permitted(unity) == ALL
    v1(unity, "POST", "/v1/catalogs/main/clones", {"from": "sales.t1", "to": "sales.copy"})
    assert permitted(unity) == ["DATA_REORGANIZATION"]
    assert unity.update(unity.commit(1)).json["allowed-maintenance-operations"] == ["DATA_REORGANIZATION"]
    v1(unity, "DELETE", "/v1/catalogs/main/namespaces/sales/tables/copy")
    assert permitted(unity) == ALL


def test_i10_a_named_snapshot_withholds_it_for_the_tables_that_it_shows(unity: Unity) -> None:
    v1(unity, "POST", "/v1/catalogs/main/snapshots", {"name": "before"})
    later = unity.create("t2")
    assert later["allowed-maintenance-operations"] == ALL
    assert permitted(unity) == ["DATA_REORGANIZATION"]
    assert permitted(unity, T1.replace("t1", "t2")) == ALL
    v1(unity, "DELETE", "/v1/catalogs/main/snapshots/before")
    assert permitted(unity) == ALL


def test_i10_a_table_that_keeps_less_than_the_catalogs_past_may_not_be_cleaned(unity: Unity) -> None:
    short = {"delta.deletedFileRetentionDuration": "interval 2 days", "delta.logRetentionDuration": "interval 7 days"}
    unity.update(unity.commit(1, metadata(**config(unity, **short))), sets(**short))
    assert permitted(unity) == ["DATA_REORGANIZATION", "METADATA_CLEANUP"]


def test_a_table_that_takes_no_commits_permits_nothing_and_a_policy_only_narrows() -> None:
    assert allowed_maintenance({}, active=False, files_needed=False, history_ms=0) == []
    policy = {"turnstile.allowed-maintenance": "data_cleanup, metadata_cleanup"}
    assert allowed_maintenance(policy, active=True, files_needed=False, history_ms=WEEK_MS) == [
        "DATA_CLEANUP",
        "METADATA_CLEANUP",
    ]
    assert allowed_maintenance(policy, active=True, files_needed=True, history_ms=WEEK_MS) == []
    assert allowed_maintenance({}, active=True, files_needed=False, history_ms=WEEK_MS + 1) == [ALL[0], ALL[2]]
    unread = {"delta.deletedFileRetentionDuration": "a while"}
    assert allowed_maintenance(unread, active=True, files_needed=False, history_ms=WEEK_MS) == [ALL[0], ALL[2]]


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("interval 7 days", WEEK_MS), ("interval 1 week", WEEK_MS), ("INTERVAL 168 HOURS", WEEK_MS),
        ("7 days", WEEK_MS),
        ("interval 6 days 24 hours", WEEK_MS), ("interval 0 hours", 0), ("", None), ("interval", None),
        ("a week", None),
        ("interval 1 month", None), ("interval -7 days", None), ("interval 7 days and more", None),
    ],
)  # fmt: skip
def test_an_interval_is_read_as_delta_writes_it_or_not_at_all(text: str, ms: int | None) -> None:
    assert interval_ms(text) == ms
