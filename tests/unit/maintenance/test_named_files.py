"""The files that a Delta table names are looked at: what is missing or has another size is found,
and nothing else (I24)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delta_table import TABLE, Table, publish, with_metadata
from tests.support.fakes import delta
from turnstile.delta.core.actions import DeletionVector
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.named_files import NamedFile, fault_of, vector_file
from turnstile.delta.proposals import CommitRequest
from turnstile.maintenance import named_files
from turnstile.maintenance.named_files import DeltaFiles, FilesLooked
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.names import published_path

FILES = 12
VECTOR: dict[str, Any] = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}
VECTOR_FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def commit(table: Table, *actions: dict[str, Any]) -> None:
    version = table.head.latest + 1
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    content = delta.lines(delta.info(f"txn-{version}", stamp), *actions)
    assert isinstance(table.ratifier.commit(CommitRequest(TABLE, version, content=content)), Ratified)
    publish(table)


def put(table: Table, path: str, size: int = 10) -> None:
    table.storage.put_if_absent(path, b"x" * size)


@pytest.fixture
def table() -> Table:
    """Versions 1 to 12, each with a file of ten bytes."""
    table = with_metadata()
    for number in range(1, FILES + 1):
        put(table, f"p=a b/{number}.parquet")
        commit(table, delta.add(f"p=a%20b/{number}.parquet"))
    return table


def look(table: Table, after: str = "", until_ms: int | None = None) -> FilesLooked:
    return DeltaFiles(table.world).look(TABLE, after, until_ms=until_ms)


def found(table: Table) -> list[tuple[str, str]]:
    return sorted((fault.path, fault.kind) for fault in look(table).deviations)


def test_a_table_whose_files_are_as_it_says_has_no_deviation(table: Table) -> None:
    requests = len(table.world.storages.requests)
    assert look(table) == FilesLooked(TABLE, FILES, FILES, [])
    assert table.world.storages.requests[requests:].count("stat") == FILES, "one request for each file"
    assert look(with_metadata()) == FilesLooked(TABLE, 0, 0, [])


def test_i24_a_file_that_is_missing_empty_cut_or_longer_is_found(table: Table) -> None:
    table.storage.delete("p=a b/1.parquet")
    for number, size in ((2, 0), (3, 9), (4, 11)):
        table.storage.replace(f"p=a b/{number}.parquet", b"y" * size)
    kinds = ("missing", "size", "size", "size")
    assert found(table) == [(f"p=a b/{number}.parquet", kind) for number, kind in enumerate(kinds, 1)]
    cut = next(fault for fault in look(table).deviations if fault.path.endswith("3.parquet"))
    assert cut.message == "it has 9 bytes, and the table says 10" and "backup" in cut.remedy


def test_files_that_were_removed_from_the_table_are_not_looked_at(table: Table) -> None:
    commit(table, delta.remove("p=a%20b/1.parquet"))
    table.storage.delete("p=a b/1.parquet")
    assert look(table) == FilesLooked(TABLE, FILES + 1, FILES - 1, [])


def test_i24_the_file_of_a_deletion_vector_is_looked_at_and_may_hold_others(table: Table) -> None:
    assert vector_file(DeletionVector(**VECTOR)) == VECTOR_FILE
    assert vector_file(DeletionVector("p", "s3://b/a%20b.bin", 1, 1)) == "s3://b/a b.bin"
    assert vector_file(DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6)) is None
    put(table, "v.parquet")
    upgraded = delta.protocol("deletionVectors")
    upgraded["protocol"]["readerFeatures"] = [*delta.FEATURES, "deletionVectors"]
    commit(table, upgraded, delta.add("v.parquet", deletionVector=VECTOR))
    assert found(table) == [(VECTOR_FILE, "missing")]
    put(table, VECTOR_FILE, 4 + 40 + 8 - 1)
    assert found(table) == [(VECTOR_FILE, "size")]
    table.storage.replace(VECTOR_FILE, b"x" * (4 + 40 + 8))
    assert found(table) == []
    table.storage.replace(VECTOR_FILE, b"x" * 1000)
    assert found(table) == []


def test_i12_files_elsewhere_are_not_looked_at_and_said_so(table: Table) -> None:
    at = table.head.location
    table.world.storages.open("file:///other").put_if_absent("secret", b"0123456789")
    put(table, "here.parquet")
    commit(
        table, delta.add("file:///other/secret"), delta.add("../secret"), delta.add(f"{at}2/x"),
        delta.add(f"{at}/here.parquet"),
    )  # fmt: skip
    answer = look(table)
    assert (answer.deviations, answer.files) == ([], FILES + 4)
    (elsewhere,) = answer.not_judged
    assert "3 files are not below the table's location" in elsewhere.reason


@pytest.mark.parametrize("most", [1, 5, FILES, FILES + 1])
def test_a_call_looks_at_some_files_and_the_next_goes_on_until_all_were_seen(
    table: Table, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(named_files, "FILES_MAX", most)
    monkeypatch.setattr(named_files, "_BATCH", 1)
    for number in range(1, FILES + 1):
        table.storage.delete(f"p=a b/{number}.parquet")
    after = ""
    paths = list[str]()
    calls = 0
    while True:
        answer = look(table, after)
        paths += [fault.path for fault in answer.deviations]
        calls += 1
        if answer.next is None:
            break
        assert answer.files == most
        after = answer.next
    assert sorted(paths) == sorted(f"p=a b/{number}.parquet" for number in range(1, FILES + 1))
    assert calls >= -(-FILES // most)


@pytest.mark.parametrize("bound", ["time", "faults"])
def test_a_call_ends_when_its_time_is_up_or_its_answer_grows(
    table: Table, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(named_files, "_BATCH", 2)
    if bound == "faults":
        monkeypatch.setattr(named_files, "FAULTS_MAX", 2)
        for number in range(1, FILES + 1):
            table.storage.delete(f"p=a b/{number}.parquet")
    answer = look(table, until_ms=table.world.clock.now_ms() if bound == "time" else None)
    assert answer.files == 2 and answer.next is not None
    exact = table.world.clock
    exact.step = 0
    assert look(table, until_ms=exact.now_ms() + 1).files == (FILES if bound == "time" else 2)


def test_what_the_table_lets_go_of_meanwhile_is_no_deviation(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "FILES_MAX", 3)
    monkeypatch.setattr(named_files, "_BATCH", 1)
    first = look(table)
    assert first.next is not None
    rest = [f"p=a b/{number}.parquet" for number in range(1, FILES + 1)]
    commit(table, delta.remove("p=a%20b/1.parquet"))
    for path in rest[:2]:
        table.storage.delete(path)
    after = first.next
    said = list[str]()
    while after:
        answer = look(table, after)
        assert answer.at == FILES, "the version of the first call"
        said += [fault.path for fault in answer.deviations]
        after = answer.next or ""
    assert said == rest[1:2], "the table still names it"


def test_i24_a_log_that_cannot_be_read_is_not_judged(table: Table) -> None:
    table.storage.delete(published_path(7))
    answer = look(table)
    assert (answer.files, answer.deviations, answer.next) == (0, [], None)
    assert "version 7" in answer.not_judged[0].reason and answer.not_judged[0].path.endswith("_delta_log")


@pytest.mark.parametrize("after", ["x", "1", "12.0000000000000000", "99.0000000000000000.0", "12.zzzzzzzzzzzzzzzz.0"])
def test_a_place_that_is_none_is_refused(table: Table, after: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        look(table, after)
    assert refused.value.field == "after"


def test_a_place_of_another_order_begins_at_the_first_file(table: Table) -> None:
    answer = look(table, f"{FILES}.{'0' * 16}.5")
    assert (answer.files, answer.at) == (FILES, FILES)
    with pytest.raises(NotFound):
        DeltaFiles(table.world).look("22222222-2222-4222-8222-222222222222")


def test_a_file_s_faults() -> None:
    exact = NamedFile("f", 10)
    least = NamedFile("f", 10, least=True)
    kinds = [(fault_of(exact, size), fault_of(least, size)) for size in (None, 0, 9, 10, 11)]
    named = [tuple(fault and fault.kind for fault in pair) for pair in kinds]
    assert named == [("missing",) * 2, ("size",) * 2, ("size",) * 2, (None,) * 2, ("size", None)]
