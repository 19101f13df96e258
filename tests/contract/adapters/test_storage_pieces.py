"""Large files: written and read piece by piece, and still there as a whole or not at all (I2,
I4)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.store.backends import BUCKET, Backend, s3_place
from tests.support.store.clients import Deaf, Scripted, error, timeout
from tests.support.store.own_clock import OwnTime
from turnstile.adapters import s3 as s3_calls
from turnstile.adapters.opening import s3
from turnstile.adapters.s3 import S3Storage
from turnstile.delta.commits import pieces_of
from turnstile.store.core.errors import StorageFault
from turnstile.store.ports import PIECE_BYTES, LogStorage
from turnstile.store.retry import Patience

COMMIT = "_delta_log/00000000000000000007.json"
LARGE = [bytes([number]) * PIECE_BYTES for number in range(2)] + [b"the rest"]
WHOLE = b"".join(LARGE)


class Broken(Exception):
    """What the pieces come from has failed."""


def broken(pieces: list[bytes]) -> Iterator[bytes]:
    yield from pieces
    raise Broken


@pytest.mark.parametrize(
    "pieces", [[], [b""], [b"a", b"bc", b"d"], LARGE, LARGE[:2]], ids=["0", "1", "3", "large", "even"]
)
def test_i2_i4_a_file_in_pieces_is_their_sequence_and_the_first_one_stays(
    storage: LogStorage, pieces: list[bytes]
) -> None:
    assert storage.put_if_absent(COMMIT, iter(pieces)) is True
    file = storage.read(COMMIT)
    assert file is not None and file[0] == b"".join(pieces)
    assert storage.put_if_absent(COMMIT, iter([b"x" * PIECE_BYTES, b"other"])) is False
    assert storage.put_if_absent(COMMIT, iter([b"other"])) is False
    assert storage.read(COMMIT) == file
    assert [stat.path for stat in storage.list_all()] == [COMMIT], "nothing is left beside it"


@pytest.mark.parametrize("pieces", [[], [b"a"], LARGE], ids=["0", "1", "large"])
def test_i4_pieces_that_end_in_an_error_leave_no_file(storage: LogStorage, pieces: list[bytes]) -> None:
    with pytest.raises(Broken):
        storage.put_if_absent(COMMIT, broken(pieces))
    assert storage.stat(COMMIT) is None
    assert list(storage.list_all()) == []
    assert storage.put_if_absent(COMMIT, iter(pieces)) is True


def test_a_part_of_a_file_is_read_with_the_stat_of_the_whole(storage: LogStorage) -> None:
    storage.put_if_absent(COMMIT, b"0123456789")
    stat = storage.stat(COMMIT)
    assert storage.read(COMMIT, 3, 4) == (b"456", stat)
    assert storage.read(COMMIT, offset=8) == (b"89", stat)
    assert storage.read(COMMIT, 5, 8) == (b"89", stat)
    assert storage.read(COMMIT, 5, 10) == (b"", stat)
    assert storage.read("_delta_log/none", 5, 10) is None


def test_i4_a_file_that_changes_between_two_pieces_is_not_read_on(storage: LogStorage) -> None:
    storage.put_if_absent(COMMIT, WHOLE)
    file = storage.read(COMMIT, PIECE_BYTES)
    assert file is not None
    assert b"".join(pieces_of(storage, COMMIT, *file)) == WHOLE
    pieces = pieces_of(storage, COMMIT, *file)
    next(pieces)
    storage.delete(COMMIT)
    storage.put_if_absent(COMMIT, WHOLE + b"more")
    with pytest.raises(StorageFault, match="changed while it was read"):
        list(pieces)


# -- S3 ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_calls, "time", OwnTime())
    for patience in ("PATIENCE", "LONG_PATIENCE"):
        monkeypatch.setattr(s3_calls, patience, Patience(deadline_s=0.2, first_s=0.002, longest_s=1.0))


def test_i2_the_one_request_that_makes_the_file_makes_none_over_another(quick: None) -> None:
    client = Scripted({"UploadId": "u", "ETag": "e"})
    assert S3Storage(client, "bucket", "prefix").put_if_absent("a", iter(LARGE)) is True  # type: ignore[arg-type]
    assert [operation for operation, _ in client.asked] == [
        "create_multipart_upload", *("upload_part",) * 3, "complete_multipart_upload",
    ]  # fmt: skip
    assert client.asked[-1][1]["IfNoneMatch"] == "*"
    assert [asked["PartNumber"] for operation, asked in client.asked if operation == "upload_part"] == [1, 2, 3]


@pytest.mark.parametrize("lost", range(1, 6))
def test_i4_an_upload_whose_answers_are_lost_makes_one_whole_file(stack: Backend, lost: int) -> None:
    s3_place(stack)
    storage = S3Storage(Deaf(s3(stack.url), lost), BUCKET, f"lost-part-{lost}")  # type: ignore[arg-type]
    storage.put_if_absent("a", iter(LARGE))  # perhaps it is told that the file exists: it does
    file = storage.read("a")
    assert file is not None and file[0] == WHOLE


def test_i4_a_race_that_s3_cannot_decide_is_a_fault_and_the_upload_is_given_up(quick: None) -> None:
    outcomes: list[Any] = [{"UploadId": "u", "ETag": "e"}] * 4 + [error("ConditionalRequestConflict", 409)]
    client = Scripted(*outcomes)
    with pytest.raises(StorageFault):
        S3Storage(client, "bucket", "prefix").put_if_absent("a", iter(LARGE))  # type: ignore[arg-type]
    operations = [operation for operation, _ in client.asked]
    assert operations[-2:] == ["complete_multipart_upload", "abort_multipart_upload"], "it is not completed again"


@pytest.mark.parametrize("exists", [True, False])
def test_i4_an_upload_that_is_gone_was_completed_only_if_there_is_a_file(quick: None, exists: bool) -> None:
    part = {"UploadId": "u", "ETag": "e"}
    head = {"ContentLength": 3, "LastModified": datetime(2026, 11, 21, tzinfo=UTC)} if exists else error("404", 404)
    client = Scripted(*[part] * 4, timeout(), error("NoSuchUpload", 404), head)
    storage = S3Storage(client, "bucket", "prefix")  # type: ignore[arg-type]
    if exists:
        assert storage.put_if_absent("a", iter(LARGE)) is False
        return
    with pytest.raises(StorageFault):
        storage.put_if_absent("a", iter(LARGE))


def test_no_upload_is_left_behind_by_pieces_that_fail_or_come_second(stack: Backend) -> None:
    s3_place(stack)
    client = s3(stack.url)
    storage = S3Storage(client, BUCKET, "uploads")
    storage.put_if_absent("a", iter(LARGE))
    storage.put_if_absent("a", iter(LARGE))
    with pytest.raises(Broken):
        storage.put_if_absent("b", broken(LARGE))
    assert client.list_multipart_uploads(Bucket=BUCKET, Prefix="uploads/").get("Uploads", []) == []
