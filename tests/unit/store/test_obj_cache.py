"""Objs in memory: bounded by bytes, never stale, and never sure of an absence that may end (I3, I6,
I9)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes.objs import FakeObjs
from tests.support.fakes.storage import FakeClock
from turnstile.store.cache import ObjCache
from turnstile.store.core.rows import TYPES, Caching
from turnstile.store.ports import Obj
from turnstile.store.stored_objs import StoredObjs

LIMIT = 20_000
ids = st.builds("{}/{}".format, st.sampled_from(["commit", "inline", "identity", "metadata", "new"]), st.integers(0, 9))
steps = st.lists(
    st.tuples(st.sampled_from(["keep", "miss", "forget", "wait"]), ids, st.integers(0, 6_000)), max_size=60
)


def obj(id: str, size: int = 1) -> Obj:
    return Obj("s", id, id.partition("/")[0], bytes(size), 1)


@given(steps)
def test_i9_what_it_returns_was_kept_last_and_not_forgotten_and_it_holds_no_more_than_its_limit(
    made: list[tuple[str, str, int]],
) -> None:
    clock = FakeClock(step_ms=0)
    cache = ObjCache(LIMIT, clock)
    model = dict[str, Obj]()
    until = dict[str, int]()
    for step, id, size in made:
        if step == "keep":
            model[id] = obj(id, size)
            until.pop(id, None)
            cache.keep(model[id])
        elif step == "miss":
            model.pop(id, None)
            until[id] = clock.now + 30_000
            cache.miss("s", id)
        elif step == "forget":
            model.pop(id, None)
            until.pop(id, None)
            cache.forget("s", id)
        else:
            clock.now += size
        held = [found for one in model if (found := cache.get("s", one)) is not None]
        assert all(found == model[found.id] for found in held)
        assert sum(len(found.payload) for found in held) <= LIMIT
        assert not any(found.id.startswith("identity/") for found in held)
        assert sum(len(found.payload) for found in held if found.type == "inline") <= LIMIT // 8
        for one in {id, *until}:
            if cache.missing("s", one):
                assert one.startswith("commit/") and until[one] > clock.now
                assert cache.get("s", one) is None


def test_i3_i6_only_types_whose_absence_lasts_are_believed_to_be_missing() -> None:
    clock = FakeClock(step_ms=0)
    for one in TYPES.values():
        cache = ObjCache(LIMIT, clock)
        cache.miss("s", one.id("x"))
        assert cache.missing("s", one.id("x")) == (one.absence_ms > 0)
        assert not cache.missing("other", one.id("x")), "another catalog"
        clock.now += 30_000
        assert not cache.missing("s", one.id("x"))


def test_an_obj_larger_than_its_room_is_not_kept_and_pushes_out_nothing_of_another_kind() -> None:
    cache = ObjCache(LIMIT, FakeClock())
    cache.keep(obj("commit/1", 10_000))
    cache.keep(obj("inline/1", LIMIT))
    assert cache.get("s", "inline/1") is None
    assert cache.get("s", "commit/1") is not None
    assert TYPES["inline"].caching is Caching.APART


def test_i10_an_obj_that_was_there_keeps_its_times_in_the_memory_of_its_second_writer() -> None:
    """By its creation gc knows how long it has been unreachable, and by its end that it counts as
    absent."""
    clock = FakeClock(step_ms=0)
    stored = FakeObjs(clock)
    objs = StoredObjs(stored._rows, lambda: clock.now // 1000, ObjCache(LIMIT, clock))
    end_s = clock.now // 1000 + 60
    stored.put(Obj("s", "metadata/1", "metadata", b"x", 5, end_s))
    objs.put(Obj("s", "metadata/1", "metadata", b"x", 9, end_s + 3_600))
    assert objs.get("s", "metadata/1") == stored.get("s", "metadata/1")
    clock.now += 60_000
    assert objs.get("s", "metadata/1") is None
