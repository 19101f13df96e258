"""Objs larger than a row: stored in parts, there entirely or not at all, with any fault in between
(I9, I10)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fakes.storage import FakeClock
from tests.support.store.backends import Backend, Counter
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.metadata import MetadataStore
from turnstile.store.core.errors import TooLarge, TurnstileError
from turnstile.store.core.rows import Space
from turnstile.store.ports import Obj, Objs
from turnstile.store.stored_objs import MAX_OBJ, OBJ_BUDGET, split

PART = 5_000
CREATED = 1_770_000_000_000_000
LATER = CREATED + 1
ID = "segment/0a"
WRITES = {"put_many": "parts", "batch_write_item": "parts", "put": "row", "put_item": "row"}


class Died(Exception):
    """The process ended here."""


@pytest.fixture(autouse=True)
def _small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of 5 kB: the result does not depend on how large they are."""
    monkeypatch.setattr("turnstile.store.stored_objs.OBJ_BUDGET", PART)


@pytest.fixture
def _real_rows(_small_rows: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows as large as they are in production: do they fit?"""
    monkeypatch.setattr("turnstile.store.stored_objs.OBJ_BUDGET", OBJ_BUDGET)


def large(space: str, id: str = ID, size: int = 2 * PART + 1, seed: int = 0, **more: int) -> Obj:
    unit = bytes((byte + seed) % 256 for byte in range(256))
    members: dict[str, Any] = {"created_us": CREATED, **more}
    return Obj(space, id, id.partition("/")[0], (unit * (size // 256 + 1))[:size], **members)


def small(space: str, id: str) -> Obj:
    return Obj(space, id, id.partition("/")[0], b"small", CREATED)


def dying(backend: Backend, at: int) -> Objs:
    """An adapter in a process that ends after its ``at``-th request."""
    left = iter(range(at - 1, -1, -1))

    def count(operation: str, capacity: float | None) -> None:
        if next(left, 0) == 0:
            raise Died(operation)

    return backend.objs(count)


def lost(backend: Backend, space: str, before: int = LATER) -> list[str]:
    return [part.id.rpartition("/")[0] for part in backend.objs().lost_parts(space, before)]


@pytest.mark.usefixtures("_real_rows")
@pytest.mark.parametrize("size", [OBJ_BUDGET, OBJ_BUDGET + 1, 2 * OBJ_BUDGET, MAX_OBJ])
def test_i9_a_large_obj_comes_back_whole_in_every_way(backend: Backend, space: str, size: int) -> None:
    wanted = large(space, size=size)
    beside = small(space, "segment/0b")
    backend.objs().put(wanted)
    backend.objs().put_many([beside])
    assert backend.objs().get(space, ID) == wanted
    assert backend.objs().get_many(space, [ID, beside.id, "segment/none"]) == {ID: wanted, beside.id: beside}
    assert list(backend.objs().list(space, "segment/")) == [wanted, beside]
    assert backend.objs().newest(space, "segment/0a") == wanted
    assert list(backend.objs().lost_parts(space, LATER)) == []


def test_i9_many_large_objs_are_written_and_read_at_once(backend: Backend, space: str) -> None:
    """Their parts are more than one batch takes."""
    many = [large(space, f"segment/{number:02d}", seed=number) for number in range(10)]
    backend.objs().put_many([*many, small(space, "commit/1"), many[0]])
    ids = [one.id for one in many]
    assert backend.objs().get_many(space, ids) == {one.id: one for one in many}
    assert [one.id for one in backend.objs().list(space, "")] == ["commit/1", *ids], "parts are no objs"
    assert list(backend.objs().list(space, "part/")) == []
    assert backend.objs().newest(space, "") == many[9]


@pytest.mark.slow
@pytest.mark.usefixtures("_real_rows")
def test_i9_a_full_batch_of_full_rows_is_written_and_read(service: Backend, space: str) -> None:
    """25 rows of 350 kB are 9 MB, of the 16 MB that a request may have."""
    many = [large(space, f"segment/{number}", size=MAX_OBJ, seed=number) for number in range(3)]
    service.objs().put_many(many)
    assert service.objs().get_many(space, [one.id for one in many]) == {one.id: one for one in many}


def test_i9_what_is_over_the_maximum_is_refused_and_nothing_of_it_is_written(backend: Backend, space: str) -> None:
    over = large(space, size=MAX_OBJ + 1)
    for write in (backend.objs().put, lambda obj: backend.objs().put_many([small(space, "commit/1"), obj])):
        with pytest.raises(TooLarge) as refused:
            write(over)
        assert refused.value.details == {"limit": MAX_OBJ, "size": MAX_OBJ + 1}
        assert refused.value.remedy
    assert list(backend.objs().list(space, "")) == []
    assert list(backend.objs().lost_parts(space, LATER)) == []


def test_i2_writing_a_large_obj_again_changes_nothing_and_another_payload_is_refused(
    backend: Backend, space: str
) -> None:
    wanted = large(space)
    backend.objs().put(wanted)
    backend.objs().put(wanted)
    backend.objs().put(large(space, created_us=CREATED + 7))
    assert backend.objs().get(space, ID) == wanted
    for other in (large(space, seed=1), large(space, size=len(wanted.payload) + 1), small(space, ID)):
        with pytest.raises(ValueError, match="another payload"):
            backend.objs().put(other)
    assert backend.objs().get(space, ID) == wanted
    backend.objs().put(small(space, "segment/0b"))
    with pytest.raises(ValueError, match="another payload"):
        backend.objs().put(large(space, "segment/0b"))
    assert backend.objs().get(space, "segment/0b") == small(space, "segment/0b")


@pytest.mark.parametrize("write", ["put", "put_many"])
def test_i9_a_writer_that_dies_between_parts_and_row_leaves_no_obj_and_parts_that_gc_finds(
    backend: Backend, space: str, write: str
) -> None:
    wanted = large(space)
    dead = dying(backend, 2 if write == "put" else 1)  # put looks first
    with pytest.raises(Died):
        dead.put(wanted) if write == "put" else dead.put_many([wanted])
    assert backend.objs().get(space, ID) is None
    assert backend.objs().get_many(space, [ID]) == {}
    assert backend.objs().newest(space, "segment/") is None
    assert lost(backend, space, CREATED) == [], "they are not old"
    assert lost(backend, space) == [f"part/{ID}"] * 3
    again = large(space, created_us=CREATED + 5)
    backend.objs().put(again)
    assert backend.objs().get(space, ID) == again
    for part in list(backend.objs().lost_parts(space, LATER + 5)):
        assert part.created_us == CREATED
        backend.objs().delete(space, part.id)
    assert lost(backend, space, LATER + 5) == []
    assert backend.objs().get(space, ID) == again


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_i10_a_removal_may_die_anywhere_and_the_obj_is_gone_with_its_first_request(
    backend: Backend, space: str, at: int
) -> None:
    backend.objs().put_many([large(space), large(space, "segment/0b")])
    with pytest.raises(Died):
        dying(backend, at).delete(space, ID)
    assert backend.objs().get(space, ID) is None
    assert lost(backend, space) == [f"part/{ID}"] * (4 - at)
    backend.objs().delete(space, ID)
    for part in list(backend.objs().lost_parts(space, LATER)):
        backend.objs().delete(space, part.id)
    assert lost(backend, space) == []
    assert backend.objs().get(space, "segment/0b") == large(space, "segment/0b"), "living parts are never lost"


def test_i10_a_large_obj_takes_its_parts_with_it(backend: Backend, space: str) -> None:
    objs = backend.objs()
    objs.put(large(space))
    objs.delete(space, ID)
    objs.delete(space, ID)
    assert objs.get(space, ID) is None
    assert list(objs.lost_parts(space, LATER)) == []


def test_i10_parts_of_a_writer_that_was_refused_are_its_own(backend: Backend, space: str) -> None:
    """Two writers pass the look; the row decides, and the loser's parts replace none of the
    winner's."""
    wanted = large(space)

    def somebody_is_faster(operation: str, capacity: float | None) -> None:
        if WRITES.get(operation) == "parts":
            backend.objs().put(wanted)

    objs = backend.objs(somebody_is_faster)
    with pytest.raises(ValueError, match="another payload"):
        objs.put(large(space, seed=1))
    assert backend.objs().get(space, ID) == wanted
    assert lost(backend, space) == [f"part/{ID}"] * 3


def test_i9_an_obj_that_goes_while_it_is_read_was_not_there(backend: Backend, space: str) -> None:
    read: list[Callable[[Objs], object]] = [
        lambda objs: objs.get(space, ID),
        lambda objs: objs.get_many(space, [ID]).get(ID),
        lambda objs: next(objs.list(space, "segment/"), None),
    ]
    for one in read:
        backend.objs().put(large(space))
        requests: list[str] = []

        def gone(operation: str, capacity: float | None, requests: list[str] = requests) -> None:
            requests.append(operation)
            if len(requests) == 1:
                backend.objs().delete(space, ID)

        assert one(backend.objs(gone)) is None


def test_i9_a_part_that_is_missing_is_never_taken_for_an_obj_that_is(backend: Backend, space: str) -> None:
    wanted = large(space)
    backend.objs().put(wanted)
    backend.objs().delete(space, split(wanted)[0][1].id)
    with pytest.raises(TurnstileError, match="missing"):
        backend.objs().get(space, ID)
    with pytest.raises(TurnstileError, match="missing"):
        backend.objs().get_many(space, [ID])


def test_i3_parts_end_with_their_obj(backend: Backend, space: str) -> None:
    clock = FakeClock(now_ms=1_000_000, step_ms=0)
    ending = large(space, "identity/a", expires_s=2_000)
    backend.objs(clock=clock).put(ending)
    assert backend.objs(clock=clock).get(space, ending.id) == ending
    clock.now = 2_000_000
    fresh = backend.objs(clock=clock)
    assert fresh.get(space, ending.id) is None
    assert fresh.get_many(space, [ending.id]) == {}
    assert list(fresh.list(space, "")) == []
    longer = large(space, "identity/a", expires_s=9_000)
    fresh.put(longer)
    assert backend.objs(clock=clock).get(space, ending.id) == longer
    old = list(backend.objs(clock=clock).lost_parts(space, LATER))
    assert [part.expires_s for part in old] == [2_000] * 3, "which the store removes by itself"


@pytest.mark.usefixtures("_real_rows")
def test_i9_a_tables_metadata_may_be_larger_than_a_row(backend: Backend, space: str) -> None:
    """As of a table with some thousand columns with different comments."""
    wide = {"schemaString": json.dumps({"type": "struct", "fields": [], "notes": ["column"] * 60_000})}
    snapshot = DeltaMetadata(7, {"minReaderVersion": 3}, wide, {})
    keys = Space(space)
    etag = MetadataStore(backend.objs(), keys).put("main", "t", snapshot, 1)
    assert MetadataStore(backend.objs(), keys).put("main", "t", snapshot, 2) == etag
    assert MetadataStore(backend.objs(), keys).get("main", etag) == snapshot
    newest = backend.objs().newest(keys.objs("main"), "metadata/t/")
    assert newest is not None and (newest.id, newest.created_us) == (etag, 1000)
    assert len(newest.payload) > 2 * OBJ_BUDGET


def test_i11_a_small_obj_costs_one_request_and_a_large_one_a_few(service: Backend, space: str) -> None:
    sent = Counter()
    for payload, put, get, listed in (
        (b"small", ["put_item"], ["get_item"], ["query"]),
        (large(space).payload, ["get_item", "batch_write_item", "put_item"], ["get_item", "batch_get_item"], None),
    ):
        obj = Obj(space, ID, "segment", payload, CREATED)
        for call, expected in (
            (lambda objs, obj=obj: objs.put(obj), put),
            (lambda objs: objs.get(space, ID), get),
            (lambda objs: objs.newest(space, "segment/"), listed or ["query", "batch_get_item"]),
            (lambda objs: objs.delete(space, ID), ["delete_item"] * (1 if listed else 4)),
            (lambda objs, obj=obj: objs.put_many([obj]), ["batch_write_item"] * (1 if listed else 2)),
            (lambda objs: objs.get_many(space, [ID]), ["batch_get_item"] * (1 if listed else 2)),
            (lambda objs: list(objs.lost_parts(space, CREATED)), None),
        ):
            del sent.sent[:]
            call(service.objs(sent))
            assert expected is None or sent.operations == expected
        service.objs().delete(space, ID)
