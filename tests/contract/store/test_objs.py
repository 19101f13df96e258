"""The write-once table: written objs stay as they are (I2, I9), and absence is never cached for
long."""

from __future__ import annotations

import pytest

from tests.support.fakes.storage import FakeClock
from tests.support.store.backends import Backend, Counter
from turnstile.store.ports import Obj

A = "metadata/a"
B = "metadata/b"
C = "metadata/c"


def obj(space: str, id: str, payload: bytes = b"payload", **more: int) -> Obj:
    return Obj(space, id, "metadata", payload, created_us=1_770_000_000_000_123, **more)


def test_i9_an_obj_comes_back_exactly_as_it_was_written(backend: Backend, space: str) -> None:
    written = obj(space, "metadata/a/00000000000000000007.äöü", bytes(range(256)))
    backend.objs().put(written)
    assert backend.objs().get(space, written.id) == written


def test_i9_an_empty_payload_is_a_payload(backend: Backend, space: str) -> None:
    backend.objs().put(obj(space, A, b""))
    assert backend.objs().get(space, A) == obj(space, A, b"")


def test_i9_writing_the_same_again_is_no_error_and_changes_nothing(backend: Backend, space: str) -> None:
    backend.objs().put(obj(space, A))
    backend.objs().put(Obj(space, A, "metadata", b"payload", created_us=5))
    assert backend.objs().get(space, A) == obj(space, A)


@pytest.mark.parametrize(
    "id", ["", "commit/" + "x" * 1018, "commit/" + "é" * 509], ids=["empty", "long", "long in bytes"]
)
def test_i9_an_id_that_can_be_no_key_is_refused_in_reads_too(backend: Backend, space: str, id: str) -> None:
    """A caller that passes on an id from a client has to check it first."""
    objs = backend.objs()
    longest = "metadata/" + "x" * 1015
    for ask in (
        lambda: objs.get(space, id),
        lambda: objs.get_many(space, [A, id]),
        lambda: objs.delete(space, id),
        lambda: objs.put(Obj(space, id, "commit", b"", 1)),
        lambda: objs.put_many([obj(space, A), Obj(space, id, "commit", b"", 1)]),
    ):
        with pytest.raises(ValueError, match=r"ValidationException|ids of type"):
            ask()
    objs.put(obj(space, longest))
    assert backend.objs().get_many(space, [A, longest]) == {longest: obj(space, longest)}


def test_i2_writing_something_else_under_the_same_id_is_an_error(backend: Backend, space: str) -> None:
    backend.objs().put(obj(space, A))
    with pytest.raises(ValueError, match="another payload"):
        backend.objs().put(obj(space, A, b"other"))
    assert backend.objs().get(space, A) == obj(space, A)


@pytest.mark.parametrize("type", ["metadata", "inline", "identity"])
def test_i3_i6_absence_is_not_remembered_where_it_may_end(backend: Backend, space: str, type: str) -> None:
    objs = backend.objs()
    wanted = Obj(space, f"{type}/a", type, b"payload", 1)
    assert objs.get(space, wanted.id) is None
    assert objs.get_many(space, [wanted.id]) == {}
    backend.objs().put(wanted)  # somebody else writes
    assert objs.get(space, wanted.id) == wanted


def test_i9_absence_of_what_has_a_random_id_is_remembered_for_half_a_minute(service: Backend, space: str) -> None:
    """A caller that knows such an id and finds nothing asks for an obj that gc has taken: of a page
    token, or a HEAD of the past."""
    clock = FakeClock(step_ms=0)
    sent = Counter()
    objs = service.objs(sent, clock=clock)
    gone = Obj(space, "commit/a", "commit", b"payload", 1)
    for _ in range(3):
        assert objs.get(space, gone.id) is None
        assert objs.get_many(space, [gone.id, "segment/b"]) == {}
    assert sent.operations == ["get_item", "batch_get_item"]
    service.objs().put(gone)  # as a table that was restored has it again
    clock.now += 29_999
    assert objs.get(space, gone.id) is None
    clock.now += 1
    assert objs.get(space, gone.id) == gone
    assert objs.get(space, "segment/c") is None
    objs.put_many([Obj(space, "segment/c", "segment", b"payload", 1)])
    assert objs.get(space, "segment/c") is not None, "what this process writes is there at once"


def test_only_registered_types_are_written_and_only_under_their_ids(backend: Backend, space: str) -> None:
    """I10: gc finds objs by the prefixes of their types."""
    for wrong in (
        Obj(space, "metadata/a", "surprise", b"", 1),
        Obj(space, "surprise/a", "metadata", b"", 1),
        Obj(space, "part/commit/a/0.00", "part", b"", 1),
        Obj(space, "task/a", "task", b"", 1),
    ):
        for write in (backend.objs().put, lambda obj: backend.objs().put_many([obj])):
            with pytest.raises(ValueError, match="type"):
                write(wrong)
    assert list(backend.objs().list(space, "")) == []


def test_i12_spaces_are_apart(backend: Backend, space: str) -> None:
    backend.objs().put(obj(space, A))
    assert backend.objs().get(space + "x", A) is None
    assert list(backend.objs().list(space + "x", "")) == []


@pytest.mark.parametrize("count", [0, 1, 25, 26, 120])
def test_i3_many_are_written_and_read_at_once(backend: Backend, space: str, count: int) -> None:
    many = [obj(space, f"metadata/{number:04d}", b"%d" % number) for number in range(count)]
    backend.objs().put_many(iter(many))
    ids = [one.id for one in many]
    assert backend.objs().get_many(space, [*ids, "metadata/none"]) == {one.id: one for one in many}


def test_i3_writing_many_twice_or_with_repetitions_is_no_error(backend: Backend, space: str) -> None:
    many = [obj(space, A), obj(space, B), obj(space, A)]
    backend.objs().put_many(many)
    backend.objs().put_many(many)
    assert [one.id for one in backend.objs().list(space, "")] == [A, B]


def test_i9_a_listing_is_in_order_and_keeps_to_its_prefix(backend: Backend, space: str) -> None:
    names = [f"metadata/{rest}" for rest in ("a/2", "a/10", "b/1", "a", "a0", "a/ä")]
    backend.objs().put_many([obj(space, name) for name in names])
    listed = [one.id for one in backend.objs().list(space, "metadata/a/")]
    assert listed == ["metadata/a/10", "metadata/a/2", "metadata/a/ä"]
    assert [one.id for one in backend.objs().list(space, "")] == sorted(names)


def test_i9_the_newest_is_the_one_with_the_greatest_id_below_the_prefix(backend: Backend, space: str) -> None:
    backend.objs().put_many([obj(space, f"metadata/{name}") for name in ("a/1", "a/3", "a/2", "b/9")])
    assert backend.objs().newest(space, "metadata/a/") == obj(space, "metadata/a/3")
    assert backend.objs().newest(space, "metadata/c/") is None


def test_i10_a_deleted_obj_is_gone_and_deleting_it_again_is_no_error(backend: Backend, space: str) -> None:
    objs = backend.objs()
    objs.put(obj(space, A))
    objs.delete(space, A)
    objs.delete(space, A)
    assert objs.get(space, A) is None
    assert backend.objs().get(space, A) is None


def test_i3_an_expired_obj_counts_as_absent_although_it_is_still_stored(backend: Backend, space: str) -> None:
    """The service removes expired items when it likes, within days."""
    clock = FakeClock(now_ms=1_000_000)
    objs = backend.objs(clock=clock)
    objs.put(obj(space, A, expires_s=2_000))
    objs.put_many([obj(space, B, expires_s=2_000), obj(space, C, expires_s=9_000)])
    assert sorted(objs.get_many(space, [A, B, C])) == [A, B, C]
    clock.now = 2_000_000
    for fresh in (objs, backend.objs(clock=clock)):
        assert fresh.get(space, A) is None
        assert sorted(fresh.get_many(space, [A, B, C])) == [C]
        assert [one.id for one in fresh.list(space, "")] == [C]
        assert fresh.newest(space, B) is None
    objs.put(obj(space, A, b"new life"))
    assert backend.objs(clock=clock).get(space, A) == obj(space, A, b"new life")
    backend.objs(clock=clock).put(obj(space, B, b"new life"))  # somebody else; here is the old one, remembered
    assert objs.get(space, B) == obj(space, B, b"new life")


def test_i9_what_was_read_or_written_once_costs_no_request_again(service: Backend, space: str) -> None:
    sent = Counter()
    objs = service.objs(sent)
    objs.put(obj(space, A))
    objs.put_many([obj(space, B)])
    assert sent.operations == ["put_item", "batch_write_item"]
    assert sorted(objs.get_many(space, [A, B])) == [A, B]
    assert objs.get(space, A) == obj(space, A)
    assert len(sent.sent) == 2
    assert service.objs().get_many(space, [A, B]) == objs.get_many(space, [A, B])


def test_i9_the_cache_keeps_to_its_size_and_forgets_the_least_used(service: Backend, space: str) -> None:
    sent = Counter()
    objs = service.objs(sent, cache_bytes=100_000)
    for name in (A, B, C):
        objs.put(obj(space, name, bytes(40_000)))
    del sent.sent[:]
    assert objs.get(space, C) is not None
    assert objs.get(space, B) is not None
    assert sent.sent == []
    assert objs.get(space, A) is not None
    assert sent.operations == ["get_item"]
    assert objs.get(space, C) is not None  # A took its place
    assert sent.operations == ["get_item", "get_item"]


def test_what_is_of_no_use_twice_takes_no_room(service: Backend, space: str) -> None:
    """Identities are not kept at all, and contents push out each other only."""
    sent = Counter()
    objs = service.objs(sent, cache_bytes=100_000)
    objs.put(Obj(space, "commit/a", "commit", bytes(40_000), 1))
    for number in range(20):
        objs.put(Obj(space, f"inline/{number}", "inline", bytes(9_000), 1))
    objs.put_many([Obj(space, f"identity/{number}", "identity", b"1", 1) for number in range(300)])
    del sent.sent[:]
    assert objs.get(space, "commit/a") is not None
    assert objs.get(space, "inline/19") is not None
    assert sent.sent == []
    assert objs.get(space, "inline/0") is not None
    assert objs.get(space, "identity/299") is not None
    assert sent.operations == ["get_item", "get_item"]
