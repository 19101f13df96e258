"""The rules of a sound log, one by one (I24)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import delta
from turnstile.delta.core.pointer import Pointed
from turnstile.delta.core.segments import parts_with
from turnstile.delta.core.soundness import (
    FAULTS_MAX,
    Fault,
    Listing,
    begins_late,
    begins_with_info,
    count_fault,
    demanded_from,
    first_gap,
    late_fault,
    listing_faults,
    pointer_fault,
)
from turnstile.store.core.names import LOG, published_path


def classic(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def part(version: int, number: int, of: int) -> str:
    return f"{version:020d}.checkpoint.{number:010d}.{of:010d}.parquet"


def log(commits: Any, *checkpoints: int, **sizes: int) -> Listing:
    return Listing(dict.fromkeys(commits, 9), {version: {classic(version): 9} for version in checkpoints})


def found(listing: Listing, upto: int = 5, **more: Any) -> list[tuple[int, str]]:
    ratified = more.pop("ratified", {})
    return [(fault.version, fault.kind) for fault in listing_faults(listing, upto, ratified, **more)]


@pytest.mark.parametrize(
    ("listing", "faults"),
    [
        (log(range(6)), []),
        (log(range(7)), []),
        (log(range(2, 6), 2), []),
        (log(range(2, 6), 4), []),
        (log(()), [(5, "gone")]),
        (log((), 5), [(5, "gone")]),
        (log((6, 7)), [(5, "missing"), (6, "begins late")]),
        (log((0, 1, 3, 5)), [(2, "missing"), (4, "missing")]),
        (log(range(5)), [(5, "missing")]),
        (log(range(1, 6)), [(1, "begins late")]),
        (log(range(3, 6), 2), [(3, "begins late")]),
        (log(range(3, 7), 6), [(3, "begins late")]),
        (Listing({**dict.fromkeys(range(6), 9), 4: 0}, {}), [(4, "damaged")]),
        (Listing(dict.fromkeys(range(6), 9), {3: {classic(3): 0}}), [(3, "checkpoint")]),
        (Listing(dict.fromkeys(range(6), 9), {3: {part(3, 1, 2): 1}}), [(3, "checkpoint")]),
        (Listing(dict.fromkeys(range(6), 9), {3: {part(3, 1, 2): 1, part(3, 2, 2): 1}}), []),
        (Listing(dict.fromkeys(range(7), 9), {6: {classic(6): 0}}), []),
    ],
)
def test_i24_a_listing_shows_what_is_gone_missing_empty_or_begins_late(
    listing: Listing, faults: list[tuple[int, str]]
) -> None:
    assert found(listing) == faults


def test_i24_a_commit_has_the_size_that_it_was_ratified_with() -> None:
    assert found(log(range(6)), ratified={3: 9, 4: 9, 9: 1}) == []
    (fault,) = listing_faults(log(range(6)), 5, {3: 8})
    assert (fault.path, fault.message) == (
        published_path(3),
        f"{published_path(3)} has 9 bytes, and was ratified with 8",
    )


def test_i24_a_log_that_begins_late_was_let_expire_or_begins_at_a_checkpoint() -> None:
    listing = log(range(2, 6), 4)
    assert late_fault(listing, 5, None) is None
    assert late_fault(listing, 5, 2) is None and late_fault(listing, 5, 4) is None
    fault = late_fault(listing, 5, 1)
    assert fault is not None and (fault.version, fault.kind, fault.path) == (1, "missing", published_path(1))
    assert late_fault(log(range(2, 6), 2), 5, 0) is None
    assert late_fault(log(range(6), 4), 5, 0) is None
    assert begins_late(log(()), 5) is False


def test_i24_the_checkpoint_that_the_pointer_leads_to_is_there() -> None:
    listing = log(range(2, 6), 4)
    assert pointer_fault(listing, 5, None) is None
    assert found(listing, pointed=Pointed(5)) == [(5, "checkpoint")]
    assert all(pointer_fault(listing, 5, Pointed(version)) is None for version in (1, 4, 6))
    for version in (2, 5):
        fault = pointer_fault(listing, 5, Pointed(version, name="x.json" if version == 5 else None))
        assert fault is not None and fault.path == LOG + ("x.json" if version == 5 else classic(version))


def test_i24_of_the_parts_of_a_checkpoint_the_first_that_is_missing_is_named() -> None:
    listing = Listing(dict.fromkeys(range(6), 9), {3: {part(3, 2, 3): 1}})
    (fault,) = listing_faults(listing, 5, {})
    assert fault.path == LOG + part(3, 1, 3)
    assert parts_with(classic(3)) == [] and parts_with(part(3, 2, 3)) == [part(3, at, 3) for at in (1, 2, 3)]
    assert parts_with(part(3, 1, 10_001)) == []


def test_i24_the_newest_version_that_is_missing_after_every_checkpoint_is_the_gap() -> None:
    assert first_gap(log((0, 1, 2, 4, 5)), 5) == 3
    assert first_gap(log((0, 2, 4, 5), 2), 5) == 3
    assert first_gap(log((0, 2, 4, 5), 4), 5) is None
    assert first_gap(log((3, 4, 5)), 5) == 2
    assert first_gap(log(range(6)), 5) is None


def test_a_look_reports_a_bounded_number_of_faults() -> None:
    assert len(found(log((0, 10_000)), 10_000)) == FAULTS_MAX


@pytest.mark.parametrize(
    ("features", "configuration", "first"),
    [
        (["catalogManaged"], {"delta.enableInCommitTimestamps": "true"}, 0),
        (
            ["catalogManaged"],
            {"delta.enableInCommitTimestamps": "TRUE", "delta.inCommitTimestampEnablementVersion": "7"},
            7,
        ),
        (
            ["catalogManaged"],
            {"delta.enableInCommitTimestamps": "true", "delta.inCommitTimestampEnablementVersion": "x"},
            0,
        ),
        (["catalogManaged"], {"delta.enableInCommitTimestamps": "false"}, None),
        (["catalogManaged"], {}, None),
        ([], {"delta.enableInCommitTimestamps": "true"}, None),
    ],
)
def test_i24_a_commit_info_comes_first_where_the_protocol_demands_it(
    features: list[str], configuration: dict[str, str], first: int | None
) -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    assert demanded_from(protocol, configuration) == first


@pytest.mark.parametrize(
    ("line", "does"),
    [
        (delta.lines(delta.info("t", 1)), True),
        (delta.lines(delta.add("a")), False),
        (b'{"commitInfo":{"timestamp":1}}', False),
        (b'{"commitInfo":{"inCommitTimestamp":"1"}}', False),
        (b'{"commitInfo":{"inCommitTimestamp":1}', False),
        (b"\xff", False),
    ],
)
def test_i24_the_first_line_of_a_commit(line: bytes, does: bool) -> None:
    assert begins_with_info(line) is does


def test_i24_a_checkpoint_has_as_many_files_as_is_said() -> None:
    assert count_fault(3, "c", 4, {}) is None and count_fault(3, "c", 4, {"a": 4, "b": 4}) is None
    fault = count_fault(3, "c", 4, {"a": 4, "b": 5})
    assert isinstance(fault, Fault) and fault.message == "c has 4 files, and b says 5"
