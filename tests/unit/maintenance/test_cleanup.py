"""Files of a log that may be removed: wherever a removal stops, every needed version can be read
(I15)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes import delta
from turnstile.delta.core.segments import starts
from turnstile.maintenance.core.cleanup import (
    ORPHAN_MS,
    LogFile,
    boundaries,
    cleans,
    expired_files,
    orphans,
    protected_before,
)
from turnstile.maintenance.core.pins import Marks, cut_at

KINDS = ("checkpoint", "checksum", "compaction", "commit")


@st.composite
def logs(draw: st.DrawFn) -> tuple[set[int], set[int], int]:
    """Commits, some of which may be missing, checkpoints, and the floor."""
    floor = draw(st.integers(0, 30))
    first = draw(st.integers(0, floor))
    missing = draw(st.sets(st.integers(0, floor), max_size=2)) if draw(st.booleans()) else set()
    commits = {version for version in range(first, floor + 1) if version not in missing}
    return commits, draw(st.sets(st.integers(0, floor + 3))), floor


def files_of(commits: set[int], checkpoints: set[int]) -> list[LogFile]:
    files = [LogFile(f"{version}.commit", "commit", version) for version in commits]
    files += [LogFile(f"{version}.checksum", "checksum", version) for version in commits]
    files += [
        LogFile(f"{version}.checkpoint.{part}", "checkpoint", version) for version in checkpoints for part in (2, 1)
    ]
    return [*files, *(LogFile(f"{last}.compaction", "compaction", last) for last in commits if last % 3 == 2)]


def versions(files: list[LogFile], kind: str) -> set[int]:
    return {file.last for file in files if file.kind == kind}


def readable(commits: set[int], checkpoints: set[int], version: int) -> bool:
    return version in commits and next(starts(checkpoints, commits, version), None) is not None


@settings(max_examples=examples(400))
@given(logs(), st.integers(0, 33), st.integers(0, 6), st.data())
def test_i15_what_was_readable_and_is_needed_is_readable_wherever_the_removal_stops(
    log: tuple[set[int], set[int], int], upto: int, protected: int, data: st.DataObject
) -> None:
    commits, checkpoints, floor = log
    possible = list(boundaries(checkpoints, commits, floor=floor, upto=upto, protected=protected))
    assert possible == sorted(set(possible), reverse=True)
    for boundary in possible:
        assert boundary in checkpoints and max(protected, min(commits) + 1) <= boundary <= min(upto, floor)
        files = files_of(commits, checkpoints)
        gone = expired_files(files, boundary)
        assert {file.last for file in gone} <= set(range(boundary)), "the boundary's checkpoint stays"
        assert [file for file in files if file.last < boundary and file not in gone] == []
        stop = data.draw(st.integers(0, len(gone)))
        left = [file for file in files if file not in gone[:stop]]
        there = versions(left, "commit")
        starting = versions(left, "checkpoint")
        for version in range(boundary, floor + 1):
            assert readable(there, starting, version)
        assert {version for version in there if version >= boundary} == set(range(boundary, floor + 1)) & commits
        oldest = min(there, default=floor + 1)
        assert all(file.last >= oldest or file.last not in commits for file in left), (
            "nothing is older than the oldest commit"
        )
        assert commits - there == {version for version in commits if version < oldest}, "and no gap is made"


def test_i15_a_version_is_the_oldest_only_with_a_checkpoint_and_without_a_gap_after_it() -> None:
    def found(checkpoints: set[int], commits: set[int], upto: int = 9, protected: int = 0) -> list[int]:
        return list(boundaries(checkpoints, commits, floor=9, upto=upto, protected=protected))

    whole = set(range(10))
    assert found({3, 6, 9}, whole) == [9, 6, 3]
    assert found({3, 6, 9}, whole, upto=6) == [6, 3]
    assert found({3, 6, 9}, whole, upto=5) == [3]
    assert found({3, 6, 9}, whole, upto=2) == []
    assert found({0, 3}, whole) == [3], "before version 0 is nothing to remove"
    assert found({5, 6}, set(range(5, 10))) == [6], "nor before the oldest commit"
    assert found({3, 6, 9}, whole - {4}) == [9, 6]
    assert found({5, 6}, whole - {4}) == [6, 5]
    assert found({3, 6, 9}, whole - {9}) == []
    assert found({3, 6, 9}, whole, protected=6) == [9, 6]
    assert found({3, 6, 9}, whole, protected=7) == [9]
    assert found({3}, set()) == []
    assert list(boundaries({3, 6, 10}, whole | {10}, floor=9, upto=12, protected=0)) == [6, 3], "10 is not published"


def test_i15_the_oldest_version_goes_first_and_its_commit_last() -> None:
    files = files_of({0, 1, 2, 3}, {2, 3})
    order = [(file.last, file.kind) for file in expired_files(files, 3)]
    assert order == [
        (0, "checksum"), (0, "commit"), (1, "checksum"), (1, "commit"),
        (2, "checkpoint"), (2, "checkpoint"), (2, "checksum"), (2, "compaction"), (2, "commit"),
    ]  # fmt: skip
    assert [file.path for file in expired_files(files, 3)][4:6] == ["2.checkpoint.1", "2.checkpoint.2"]
    assert expired_files(files, 0) == []


def test_i15_unnamed_sidecars_go_only_when_they_are_old() -> None:
    now = 10 * ORPHAN_MS
    times = {"named": 0, "young": now - ORPHAN_MS + 1, "b": now - ORPHAN_MS, "a": 0}
    assert orphans(times, {"named"}, now) == ["a", "b"]


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, True),
        ({"delta.enableExpiredLogCleanup": "true"}, True),
        ({"delta.enableExpiredLogCleanup": " TRUE "}, True),
        ({"delta.enableExpiredLogCleanup": "false"}, False),
        ({"delta.enableExpiredLogCleanup": "no"}, False),
        ({"turnstile.allowed-maintenance": "DATA_CLEANUP, metadata_cleanup"}, True),
        ({"turnstile.allowed-maintenance": "DATA_CLEANUP"}, False),
        ({"turnstile.allowed-maintenance": ""}, False),
        ({"turnstile.allowed-maintenance": "METADATA_CLEANUP", "delta.enableExpiredLogCleanup": "false"}, False),
    ],
)
def test_a_tables_properties_say_whether_its_log_is_cleaned_up(properties: dict[str, str], expected: bool) -> None:
    assert cleans(properties) is expected


def test_i15_protected_history_goes_together_or_stays() -> None:
    plain = delta.protocol()["protocol"]
    protected = delta.protocol("checkpointProtection")["protocol"]
    name = "delta.requireCheckpointProtectionBeforeVersion"
    assert protected_before(plain, {name: "5"}) == 0
    assert protected_before(protected, {}) == 0
    assert protected_before(protected, {name: " 57 "}) == 57
    for text in ("", "-1", "many", "٣", "1.5"):
        assert protected_before(protected, {name: text}) is None


def test_i10_marks_of_a_clean_up_leave_no_version_below_the_boundary_and_never_become_wider() -> None:
    before = Marks(5, frozenset({1, 3, 4}))
    assert cut_at(before, 3) == Marks(5, frozenset({3, 4}))
    assert cut_at(before, 4) == Marks(5, frozenset({4}))
    assert cut_at(before, 8) == Marks(8, frozenset())
    assert cut_at(Marks(), 0) == Marks()
