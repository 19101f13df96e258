"""S3 in particular: races it answers with 409, slow-downs, lost answers, long listings (I2, I4)."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.store.backends import BUCKET, Backend, s3_place
from tests.support.store.clients import Deaf, Scripted, error, timeout
from tests.support.store.own_clock import OwnTime
from turnstile.adapters import s3 as s3_calls
from turnstile.adapters.opening import s3
from turnstile.adapters.s3 import S3Storage
from turnstile.store.core.errors import StorageFault
from turnstile.store.retry import Patience

EXISTS = error("PreconditionFailed", 412)
TRANSIENT = [
    error("ConditionalRequestConflict", 409),
    error("SlowDown", 503),
    error("InternalError", 500),
    error("RequestTimeout", 400),
    error("TooManyRequests", 429),
    timeout(),
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_calls, "time", OwnTime())
    monkeypatch.setattr(s3_calls, "PATIENCE", Patience(deadline_s=0.2, first_s=0.002, longest_s=1.0))


def scripted(*outcomes: Any) -> tuple[S3Storage, Scripted]:
    client = Scripted(*outcomes)
    return S3Storage(client, "bucket", "prefix"), client  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", TRANSIENT, ids=repr)
def test_i2_a_race_or_a_passing_fault_is_tried_again_until_there_is_an_answer(fault: Exception) -> None:
    storage, client = scripted(fault, fault, {})
    assert storage.put_if_absent("a", b"x") is True
    assert len(client.asked) == 3
    assert scripted(fault, EXISTS)[0].put_if_absent("a", b"x") is False


@pytest.mark.parametrize("fault", TRANSIENT, ids=repr)
def test_i4_without_an_answer_until_the_deadline_it_is_a_fault_and_never_a_yes_or_no(fault: Exception) -> None:
    with pytest.raises(StorageFault):
        scripted(fault)[0].put_if_absent("a", b"x")
    for read in (
        lambda storage: storage.read("a"),
        lambda storage: storage.stat("a"),
        lambda storage: [*storage.list("")],
    ):
        with pytest.raises(StorageFault):
            read(scripted(fault)[0])


@pytest.mark.parametrize("fault", [error("AccessDenied", 403), error("NoSuchBucket", 404)], ids=repr)
def test_i5_forbidden_and_missing_buckets_are_reported_at_once_and_are_not_absence(fault: Exception) -> None:
    uses: list[Callable[[S3Storage], object]] = [
        lambda storage: storage.read("a"),
        lambda storage: storage.put_if_absent("a", b"x"),
    ]
    for use in uses:
        storage, client = scripted(fault)
        with pytest.raises(StorageFault):
            use(storage)
        assert len(client.asked) == 1


def test_the_remedy_is_of_the_fault_and_waiting_is_advised_only_where_it_may_help() -> None:
    remedies = {}
    for fault in (
        error("NoSuchBucket", 404),
        error("AccessDenied", 403),
        error("Strange", 400),
        error("SlowDown", 503),
    ):
        with pytest.raises(StorageFault) as refused:
            scripted(fault)[0].put_if_absent("a", b"x")
        remedies[s3_calls.code_of(fault)] = refused.value.remedy
    assert "there is none of this name" in remedies["NoSuchBucket"]
    assert "right" in remedies["AccessDenied"]
    assert "settings" in remedies["Strange"]
    assert remedies["SlowDown"] == "try again later"


def test_i4_a_body_that_breaks_off_is_read_again_from_the_start() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise timeout()

    answer = {"ContentLength": 3, "LastModified": datetime(2026, 11, 21, tzinfo=UTC)}
    storage, client = scripted({**answer, "Body": Broken()}, {**answer, "Body": io.BytesIO(b"abc")})
    file = storage.read("a")
    assert file is not None
    assert file[0] == b"abc"
    assert len(client.asked) == 2


def test_i2_a_put_whose_answer_was_lost_says_exists_and_the_content_tells_whose(stack: Backend) -> None:
    s3_place(stack)
    storage = S3Storage(Deaf(s3(stack.url), 1), BUCKET, "lost-answer")  # type: ignore[arg-type]
    assert storage.put_if_absent("a", b"mine") is False
    file = storage.read("a")
    assert file is not None
    assert file[0] == b"mine"


def test_i5_a_listing_of_more_than_a_page_is_complete_and_in_order(stack: Backend) -> None:
    s3_place(stack)
    storage = S3Storage(s3(stack.url), BUCKET, "long", page=10)
    names = [f"_delta_log/{version:020d}.json" for version in range(35)]
    for name in names:
        storage.put_if_absent(name, b"x")
        storage.put_if_absent(name.replace("_delta_log", "_delta_log/_staged_commits"), b"x")
    assert [stat.path for stat in storage.list("_delta_log/")] == names
    assert [stat.path for stat in storage.list("_delta_log/", names[5])] == names[6:]
    assert len(list(storage.list_all())) == 70


@pytest.mark.parametrize("scheme", ["s3", "s3a", "S3"])
def test_i9_all_spellings_of_an_s3_location_are_the_same_place(stack: Backend, scheme: str) -> None:
    place = s3_place(stack)
    location = place.location()
    place.storages.open(location).put_if_absent("a", b"x")
    other = place.storages.open(location.replace("s3:", f"{scheme}:") + "/")
    assert [stat.path for stat in other.list_all()] == ["a"]


def test_i10_a_folder_marker_made_by_a_console_is_not_a_file_of_the_table(stack: Backend) -> None:
    place = s3_place(stack)
    location = place.location()
    prefix = location.removeprefix(f"s3://{BUCKET}/")
    for key in (f"{prefix}/", f"{prefix}/_delta_log/"):
        s3(stack.url).put_object(Bucket=BUCKET, Key=key, Body=b"")
    storage = place.storages.open(location)
    storage.put_if_absent("_delta_log/1.json", b"x")
    assert [stat.path for stat in storage.list_all()] == ["_delta_log/1.json"]
    assert [stat.path for stat in storage.list("_delta_log/")] == ["_delta_log/1.json"]
