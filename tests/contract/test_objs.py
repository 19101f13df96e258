"""The write-once table: what is written stays as it is (I2, I9), and absence is never believed for long."""

from __future__ import annotations

import pytest

from tests.contract.backends import Backend, Counter
from tests.fakes.storage import FakeClock
from turnstile.ports import Obj


def obj(space: str, id: str, payload: bytes = b"payload", **more: int) -> Obj:
    return Obj(space, id, "test", payload, created=1_770_000_000_000_123, **more)


def test_i9_an_obj_comes_back_exactly_as_it_was_written(backend: Backend, space: str) -> None:
    written = obj(space, "metadata/a/00000000000000000007.äöü", bytes(range(256)))
    backend.objs().put(written)
    assert backend.objs().get(space, written.id) == written


def test_i9_an_empty_payload_is_a_payload(backend: Backend, space: str) -> None:
    backend.objs().put(obj(space, "a", b""))
    assert backend.objs().get(space, "a") == obj(space, "a", b"")


def test_i9_writing_the_same_again_is_no_error_and_changes_nothing(backend: Backend, space: str) -> None:
    backend.objs().put(obj(space, "a"))
    backend.objs().put(Obj(space, "a", "test", b"payload", created=5))
    assert backend.objs().get(space, "a") == obj(space, "a")


def test_i2_writing_something_else_under_the_same_id_is_an_error(backend: Backend, space: str) -> None:
    backend.objs().put(obj(space, "a"))
    with pytest.raises(ValueError, match="another payload"):
        backend.objs().put(obj(space, "a", b"other"))
    assert backend.objs().get(space, "a") == obj(space, "a")


def test_i9_absence_is_not_cached(backend: Backend, space: str) -> None:
    objs = backend.objs()
    assert objs.get(space, "a") is None
    assert objs.get_many(space, ["a"]) == {}
    backend.objs().put(obj(space, "a"))  # somebody else writes
    assert objs.get(space, "a") == obj(space, "a")


def test_i12_spaces_are_apart(backend: Backend, space: str) -> None:
    backend.objs().put(obj(space, "a"))
    assert backend.objs().get(space + "x", "a") is None
    assert list(backend.objs().list(space + "x", "")) == []


@pytest.mark.parametrize("count", [0, 1, 25, 26, 120])
def test_i3_many_are_written_and_read_at_once(backend: Backend, space: str, count: int) -> None:
    many = [obj(space, f"{number:04d}", b"%d" % number) for number in range(count)]
    backend.objs().put_many(iter(many))
    ids = [one.id for one in many]
    assert backend.objs().get_many(space, [*ids, "none"]) == {one.id: one for one in many}


def test_i3_writing_many_twice_or_with_repetitions_is_no_error(backend: Backend, space: str) -> None:
    many = [obj(space, "a"), obj(space, "b"), obj(space, "a")]
    backend.objs().put_many(many)
    backend.objs().put_many(many)
    assert [one.id for one in backend.objs().list(space, "")] == ["a", "b"]


def test_i9_a_listing_is_in_order_and_keeps_to_its_prefix(backend: Backend, space: str) -> None:
    names = ["a/2", "a/10", "b/1", "a", "a0", "a/ä"]
    backend.objs().put_many([obj(space, name) for name in names])
    assert [one.id for one in backend.objs().list(space, "a/")] == ["a/10", "a/2", "a/ä"]
    assert [one.id for one in backend.objs().list(space, "")] == sorted(names)


def test_i9_the_newest_is_the_one_with_the_greatest_id_below_the_prefix(backend: Backend, space: str) -> None:
    backend.objs().put_many([obj(space, name) for name in ("a/1", "a/3", "a/2", "b/9")])
    assert backend.objs().newest(space, "a/") == obj(space, "a/3")
    assert backend.objs().newest(space, "c/") is None


def test_i10_a_deleted_obj_is_gone_and_deleting_it_again_is_no_error(backend: Backend, space: str) -> None:
    objs = backend.objs()
    objs.put(obj(space, "a"))
    objs.delete(space, "a")
    objs.delete(space, "a")
    assert objs.get(space, "a") is None
    assert backend.objs().get(space, "a") is None


def test_i3_an_expired_obj_counts_as_absent_although_it_is_still_stored(backend: Backend, space: str) -> None:
    """The service removes expired items when it likes, within days."""
    clock = FakeClock(now_ms=1_000_000)
    objs = backend.objs(clock=clock)
    objs.put(obj(space, "a", expires=2_000))
    objs.put_many([obj(space, "b", expires=2_000), obj(space, "c", expires=9_000)])
    assert sorted(objs.get_many(space, ["a", "b", "c"])) == ["a", "b", "c"]
    clock.now = 2_000_000
    for fresh in (objs, backend.objs(clock=clock)):
        assert fresh.get(space, "a") is None
        assert sorted(fresh.get_many(space, ["a", "b", "c"])) == ["c"]
        assert [one.id for one in fresh.list(space, "")] == ["c"]
        assert fresh.newest(space, "b") is None
    objs.put(obj(space, "a", b"new life"))
    assert backend.objs(clock=clock).get(space, "a") == obj(space, "a", b"new life")


def test_i9_what_was_read_or_written_once_costs_no_request_again(service: Backend, space: str) -> None:
    sent = Counter()
    objs = service.objs(sent)
    objs.put(obj(space, "a"))
    objs.put_many([obj(space, "b")])
    assert sent.operations == ["put_item", "batch_write_item"]
    assert sorted(objs.get_many(space, ["a", "b"])) == ["a", "b"]
    assert objs.get(space, "a") == obj(space, "a")
    assert len(sent.sent) == 2
    assert service.objs().get_many(space, ["a", "b"]) == objs.get_many(space, ["a", "b"])


def test_i9_the_cache_keeps_to_its_size_and_forgets_the_least_used(service: Backend, space: str) -> None:
    sent = Counter()
    objs = service.objs(sent, cache_bytes=100_000)
    for name in "abc":
        objs.put(obj(space, name, bytes(40_000)))
    del sent.sent[:]
    assert objs.get(space, "c") is not None
    assert objs.get(space, "b") is not None
    assert sent.sent == []
    assert objs.get(space, "a") is not None
    assert sent.operations == ["get_item"]
    assert objs.get(space, "c") is not None  # "a" took its place
    assert sent.operations == ["get_item", "get_item"]
