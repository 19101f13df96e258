"""Due work on a table with its reasons: thresholds, budgets, work that is left for later, and
predicates for partitions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from turnstile.catalog.core.policies import HOUR_MS, Policy, policy_of
from turnstile.catalog.core.windows import DAY_MS, windows_of
from turnstile.maintenance.core import candidates
from turnstile.maintenance.core.candidates import (
    JOB_PARTITIONS,
    Job,
    LastRun,
    PartitionColumn,
    Plan,
    RunHistory,
    Survey,
    held_up,
    partition_columns,
    plan,
    predicate,
    too_soon,
)

MB = 2**20
NOW_MS = 4 * DAY_MS + 12 * HOUR_MS
DAY = (PartitionColumn("day", "day", "date"),)


def policy(**values: Any) -> Policy:
    usual = {
        "enabled": True,
        "target_file_bytes": 100 * MB,
        "min_small_files": 3,
        "min_commits": 5,
        "min_bytes": 50 * MB,
    }
    return msgspec.structs.replace(policy_of([]).policy, **(usual | values))


def survey(*files: tuple[str, int], since_ms: int = 0, modified_ms: int = 0) -> Survey:
    made = Survey(100 * MB, since_ms)
    for day, size in files:
        made.add((day,) if day else (), size, modified_ms)
    return made


def due(made: Plan, operation: str) -> Job | None:
    return next((job for job in made.due if job.operation == operation), None)


def why_not(made: Plan, operation: str) -> str:
    return next(each.reason for each in made.not_due if each.operation == operation)


def planned(
    rules: Policy, seen: Survey, columns: Any = (), history: RunHistory | None = None, version: int = 9
) -> Plan:
    return plan(rules, seen, columns, history or RunHistory(), version=version, now_ms=NOW_MS)


def test_enough_small_files_are_due_and_what_is_below_the_target_is_rewritten() -> None:
    job = due(planned(policy(), survey(*[("", MB)] * 3, ("", 60 * MB), ("", 100 * MB))), "optimize")
    assert job is not None and (job.files, job.bytes, job.where, job.complete) == (4, 63 * MB, None, True)
    assert job.reason == f"3 of 5 files are below {50 * MB} bytes"


@pytest.mark.parametrize(
    ("files", "ratio"), [([MB] * 2, 0.0), ([50 * MB] * 9, 0.0), ([MB] * 3 + [200 * MB] * 4, 0.5), ([], 0.0)]
)
def test_too_few_small_files_are_not(files: list[int], ratio: float) -> None:
    made = planned(policy(small_file_ratio=ratio), survey(*[("", size) for size in files]))
    assert due(made, "optimize") is None and "files are small" in why_not(made, "optimize")


def test_the_limits_themselves_count() -> None:
    assert due(planned(policy(small_file_ratio=0.5), survey(*[("", MB)] * 3, *[("", 200 * MB)] * 3)), "optimize")


def test_only_partitions_that_are_due_are_named_those_with_most_to_gain_first() -> None:
    seen = survey(*[("2026-01-01", 40 * MB)] * 3, *[("2026-01-02", MB)] * 3, *[("2026-01-03", MB)] * 2)
    job = due(planned(policy(), seen, DAY), "optimize")
    assert job is not None
    assert [part.values["day"] for part in job.partitions] == ["2026-01-02", "2026-01-01"]
    assert job.where == "(`day` = CAST('2026-01-02' AS DATE)) OR (`day` = CAST('2026-01-01' AS DATE))"
    assert "in 2 of 3 partitions" in job.reason


def test_a_job_names_so_many_partitions_and_the_rest_is_left_for_another_run() -> None:
    seen = survey(*[(f"{day:05}", MB) for day in range(JOB_PARTITIONS + 1) for _ in range(3)])
    job = due(planned(policy(), seen, DAY), "optimize")
    assert job is not None and len(job.partitions) == JOB_PARTITIONS and not job.complete and job.where is not None


def test_deleted_rows_are_due_by_their_share_of_the_files_that_have_some() -> None:
    seen = Survey(100 * MB, 0)
    seen.add((), 100 * MB, 0)
    seen.add((), 200 * MB, 0, 5, 100)
    seen.add((), 300 * MB, 0, 7, None)  # nobody knows of how many
    job = due(planned(policy(deleted_row_ratio=0.05), seen), "reorg")
    assert job is not None and (job.files, job.bytes) == (2, 500 * MB)
    assert job.reason == "deletion vectors delete 5 of 100 rows in 2 files"
    assert due(planned(policy(deleted_row_ratio=0.051), seen), "reorg") is None
    assert due(planned(policy(deleted_row_ratio=0.0), survey(("", MB))), "reorg") is None


def history(version: int, **more: Any) -> RunHistory:
    return RunHistory({"optimize": LastRun(version, NOW_MS - HOUR_MS)}, **more)


def test_after_a_run_commits_or_bytes_count() -> None:
    seen = survey(*[("", MB)] * 3)
    assert due(planned(policy(), seen, history=history(4), version=9), "optimize")
    made = planned(policy(), seen, history=history(5), version=9)
    assert "4 commits and 0 bytes since the last run" in why_not(made, "optimize")
    new = survey(*[("", 20 * MB)] * 3, since_ms=10, modified_ms=11)
    assert due(planned(policy(), new, history=history(8)), "optimize")
    assert due(planned(policy(), new, history=history(9)), "optimize") is None  # no commit at all
    assert too_soon(policy(), LastRun(8, 0), 9, None) == ""  # bytes are not known yet
    assert too_soon(policy(), LastRun(9, 0), 9, None) and too_soon(policy(), LastRun(8, 0), 9, 50 * MB - 1)
    assert too_soon(policy(), LastRun(8, 0), 9, 50 * MB) == "" == too_soon(policy(), None, 4, 0)
    assert too_soon(policy(), None, 3, 0)
    old = survey(*[("", 20 * MB)] * 3, since_ms=10, modified_ms=10)
    assert due(planned(policy(), old, history=history(8)), "optimize") is None


def test_what_holds_up_everything_is_said_and_what_would_be_done_too() -> None:
    seen = survey(*[("", MB)] * 3)
    cases = {
        "enabled is false": (policy(enabled=False), RunHistory()),
        "set aside for 2 min after 3 failures: broken": (policy(),
                                                         RunHistory(failures=3, reason="broken",
                                                                    again_ms=NOW_MS + 60_001)),
        "outside its windows, the next opens in 60 min": (policy(windows=windows_of("13:00-14:00")), RunHistory()),
        "bytes for today is used up": (policy(budget_bytes=10), RunHistory(day=NOW_MS // DAY_MS, spent_bytes=10)),
        "2.5 DPU-hours for today is used up": (
            policy(budget_dpu_hours=2.5), RunHistory(day=NOW_MS // DAY_MS, spent_dpu_ms=9_000_000)
        ),
    }  # fmt: skip
    for reason, (rules, known_history) in cases.items():
        made = planned(rules, seen, history=known_history)
        assert made.due == () and all(reason in each.reason for each in made.not_due), reason
        assert made.not_due[0].files == 3
        assert reason in held_up(rules, known_history, NOW_MS)
    assert held_up(policy(budget_bytes=10), RunHistory(day=NOW_MS // DAY_MS - 1, spent_bytes=10), NOW_MS) == ""
    assert held_up(policy(), RunHistory(failures=3, again_ms=NOW_MS), NOW_MS) == ""
    assert held_up(policy(windows=windows_of("11:00-13:00")), RunHistory(), NOW_MS) == ""
    some = RunHistory(day=NOW_MS // DAY_MS, spent_bytes=9, spent_dpu_ms=8_999_999)
    assert held_up(policy(budget_dpu_hours=2.5, budget_bytes=10), some, NOW_MS) == ""
    assert "optimize is false" in why_not(planned(policy(optimize=False), seen), "optimize")


def test_within_a_window_work_stops_at_its_end() -> None:
    assert planned(policy(windows=windows_of("11:00-13:00")), survey()).stop_ms == NOW_MS + HOUR_MS
    assert planned(policy(), survey()).stop_ms is None


def test_partitions_that_do_not_fit_into_the_budget_wait() -> None:
    seen = survey(*[("a", 2 * MB)] * 3, *[("b", 10 * MB)] * 3, *[("c", 3 * MB)] * 3)
    job = due(planned(policy(budget_bytes=15 * MB), seen, DAY), "optimize")
    assert job is not None and [part.values["day"] for part in job.partitions] == ["a", "c"] and not job.complete
    spent = RunHistory(day=NOW_MS // DAY_MS, spent_bytes=10 * MB)
    made = planned(policy(budget_bytes=15 * MB), seen, DAY, spent)
    assert why_not(made, "optimize") == f"{45 * MB} bytes in 9 files, and {5 * MB} bytes are left of today's budget"


def test_what_optimize_takes_of_the_budget_reorg_does_not_get() -> None:
    seen = survey(*[("", 3 * MB)] * 3)
    seen.add((), 200 * MB, 0, 50, 100)
    made = planned(policy(budget_bytes=205 * MB), seen)
    assert due(made, "optimize") and "left of today's budget" in why_not(made, "reorg")
    assert due(planned(policy(budget_bytes=209 * MB), seen), "reorg")


def test_vacuum_is_off_until_it_is_switched_on_and_then_due_by_its_interval() -> None:
    assert "vacuum is false" in why_not(planned(policy(), survey()), "vacuum")
    on = policy(vacuum=True, vacuum_interval_ms=10 * HOUR_MS)
    assert due(planned(on, survey()), "vacuum")
    for age_ms, version, reason in (
        (10 * HOUR_MS, 8, ""),
        (10 * HOUR_MS - 1, 8, "again in 1 h"),
        (99 * HOUR_MS, 9, "no commit"),
    ):
        last = RunHistory({"vacuum": LastRun(version, NOW_MS - age_ms)})
        made = planned(on, survey(), history=last)
        assert (due(made, "vacuum") is not None) == (not reason)
        assert not reason or reason in why_not(made, "vacuum")
    recent = RunHistory({"vacuum": LastRun(9, NOW_MS - 1)})
    assert "vacuum is false" in why_not(planned(policy(), survey(), history=recent), "vacuum")
    assert "again in 10 h" in why_not(planned(on, survey(), history=recent), "vacuum")


def test_memory_is_bounded_and_the_worst_partitions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "PARTITIONS", 10)
    seen = Survey(100 * MB, 0)
    for _ in range(5):
        seen.add(("bad",), MB, 0)
    for day in range(1000):
        seen.add((f"{day}",), 200 * MB, 0)
    seen.add(("x" * 5000,), MB, 0)
    assert (
        len(seen.partitions) <= 10 and ("x" * 5000,) not in seen.partitions and seen.partitions["bad",].small_files == 5
    )
    assert seen.left_out > 0 and seen.table.files == 1006
    job = due(planned(policy(), seen, DAY), "optimize")
    assert job is not None and job.where == "(`day` = CAST('bad' AS DATE))" and not job.complete


def test_values_of_a_partition_may_be_so_long() -> None:
    seen = Survey(100 * MB, 0)
    seen.add(("x" * (candidates.KEY_BYTES - 1), "y", None), MB, 0)
    assert len(seen.partitions) == 1 and seen.left_out == 0


def test_a_partition_may_be_null() -> None:
    seen = Survey(100 * MB, 0)
    for _ in range(3):
        seen.add((None,), MB, 0)
    job = due(planned(policy(), seen, DAY), "optimize")
    assert job is not None and job.where is None and job.partitions[0].values == {"day": None}


def test_spending_is_counted_by_the_day() -> None:
    first = RunHistory().spending(NOW_MS, 5, 7).spending(NOW_MS + 1, 1, 1)
    assert first.spent(NOW_MS) == (6, 8) and first.spent(NOW_MS + DAY_MS) == (0, 0)
    assert first.spending(NOW_MS + DAY_MS, 2, 3).spent(NOW_MS + DAY_MS) == (2, 3)


# -- predicates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type", "value", "sql"),
    [
        ("string", "a b", "`c` = 'a b'"), ("string", "o'neil", "`c` = CAST(unhex('6f276e65696c') AS STRING)"),
        ("string", "\\", "`c` = CAST(unhex('5c') AS STRING)"), ("string", None, "`c` IS NULL"),
        ("string", "", "`c` IS NULL"),
        ("integer", "5", "`c` = CAST('5' AS INT)"), ("decimal(10,2)", "1.50", "`c` = CAST('1.50' AS DECIMAL(10,2))"),
        ("timestamp", "2026-01-01 00:00:00", "`c` = CAST('2026-01-01 00:00:00' AS TIMESTAMP)"),
    ],
)  # fmt: skip
def test_a_partition_is_named_by_its_value_in_the_columns_type(type: str, value: str | None, sql: str) -> None:
    assert predicate((PartitionColumn("c", "c", type),), (value,)) == sql


@given(st.text(), st.text(min_size=1))
@settings(max_examples=examples(200))
def test_no_value_and_no_name_ends_its_quotes(name: str, value: str) -> None:
    text = predicate((PartitionColumn(name, name, "string"),), (value,))
    quoted = f"`{name.replace('`', '``')}`"
    rest = text.removeprefix(f"{quoted} = ")
    assert text.startswith(quoted) and rest.count("'") == 2 and "\\" not in rest


def test_partition_columns_are_found_by_name_and_looked_up_by_the_physical_one() -> None:
    schema = {"fields": [{"name": "Day", "type": "date", "metadata": {"delta.columnMapping.physicalName": "col-1"}}]}
    metadata = {"partitionColumns": ["day", "gone"], "schemaString": msgspec.json.encode(schema).decode()}
    columns = partition_columns(metadata)
    assert columns == (PartitionColumn("day", "col-1", "date"), PartitionColumn("gone", "gone", "string"))
