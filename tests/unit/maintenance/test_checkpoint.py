"""The files of a checkpoint: Parquet in pieces, and the pointer to the newest one (I15)."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.support.fakes.storage import FakeClock, FakeStorages
from turnstile.delta.core.pointer import WrittenCheckpoint, pointed_version
from turnstile.maintenance import checkpoint
from turnstile.maintenance.checkpoint import POINTER, parquet_pieces, write_pointer

SCHEMA = pa.schema([("n", pa.int64())])
BATCHES = [pa.record_batch([pa.array(range(10 * start, 10 * start + 10), pa.int64())], SCHEMA) for start in range(3)]


@pytest.mark.parametrize(("group_bytes", "groups"), [(80, 3), (81, 2), (160, 2), (10**9, 1)])
def test_a_file_is_made_row_group_by_row_group(monkeypatch: pytest.MonkeyPatch, group_bytes: int, groups: int) -> None:
    assert BATCHES[0].nbytes == 80
    monkeypatch.setattr(checkpoint, "GROUP_BYTES", group_bytes)
    pieces = list(parquet_pieces(SCHEMA, BATCHES, "ZSTD"))
    assert len(pieces) == groups + 1
    file = parquet.ParquetFile(io.BytesIO(b"".join(pieces)))
    assert file.num_row_groups == groups
    assert file.read().column("n").to_pylist() == list(range(30))


@pytest.mark.parametrize(("actions", "taken"), [(9, 1), (10, 1), (11, 2), (20, 2), (21, 3), (99, 3)])
def test_a_sidecar_ends_with_the_batch_that_fills_it(monkeypatch: pytest.MonkeyPatch, actions: int, taken: int) -> None:
    monkeypatch.setattr(checkpoint, "SIDECAR_ACTIONS", actions)
    batches = iter(BATCHES)
    assert len(list(checkpoint._some(next(batches), batches))) == taken
    assert len(list(batches)) == 3 - taken


def test_i15_there_is_no_file_that_a_guard_refused() -> None:
    def refused() -> None:
        raise RuntimeError("gone")

    storage = FakeStorages(FakeClock()).open("s3://lake/t")
    with pytest.raises(RuntimeError):
        storage.put_if_absent("f", parquet_pieces(SCHEMA, BATCHES, "ZSTD", refused))
    assert storage.stat("f") is None
    assert not list(storage.list_all())


def test_i15_a_pointer_is_written_anew_for_its_own_version_and_a_later_one() -> None:
    storage = FakeStorages(FakeClock()).open("s3://lake/t")
    for version, written, now in ((7, True, 7), (7, True, 7), (6, False, 7), (8, True, 8)):
        made = WrittenCheckpoint(version, 3, 1, 10, "n", 10, 1, unique=False)
        assert write_pointer(storage, made) is written
        file = storage.read(POINTER)
        assert file is not None
        assert pointed_version(file[0]) == now
    storage.replace(POINTER, b"damaged")
    assert write_pointer(storage, WrittenCheckpoint(1, 3, 1, 10, "n", 10, 1, unique=False))
