"""Named references: one request an operation; a lost answer differs from a lost race; a value that
comes back is another one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import Losing
from turnstile.catalog import services as bootstrap
from turnstile.coordination.core.named_ref import MAX_VALUE, RECENT, first_token, token_of, version_of
from turnstile.coordination.refs import NamedRefs
from turnstile.store.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    TooLarge,
    TurnstileError,
)  # fmt: skip


def fresh() -> tuple[NamedRefs, FakeWorld]:
    world = fake_world()
    return NamedRefs(world), world


def sent(world: FakeWorld, call: Callable[[], object]) -> list[str]:
    world.refs.requests.clear()
    world.objs.requests.clear()
    with suppress(TurnstileError):
        call()
    return world.refs.requests + world.objs.requests


def conflict(call: Callable[[], object]) -> StateConflict:
    with pytest.raises(StateConflict) as error:
        call()
    assert error.value.remedy
    return error.value


# -- one after the other ------------------------------------------------------------------------------------------


def test_a_reference_is_created_read_swapped_and_deleted() -> None:
    refs, _ = fresh()
    created = refs.create("app.head", "a")
    assert (created.outcome, created.entry.value, created.entry.version) == ("applied", "a", 0)
    swapped = refs.swap("app.head", created.entry.token, "b")
    assert (swapped.outcome, swapped.entry.value, swapped.entry.version) == ("applied", "b", 1)
    ref = refs.read("app.head")
    assert ref.current == swapped.entry
    assert [entry.value for entry in ref.history()] == ["b", "a"]
    refs.delete("app.head", swapped.entry.token)
    for call in (
        lambda: refs.read("app.head"),
        lambda: refs.swap("app.head", swapped.entry.token, "c"),
        lambda: refs.delete("app.head", swapped.entry.token),
    ):
        with pytest.raises(NotFound) as error:
            call()
        assert error.value.type == "NoSuchRef"
    assert refs.create("app.head", "anew").entry.version == 3


def test_i6_a_swap_loses_to_any_other_swap_even_if_the_value_came_back() -> None:
    """The token, not the value, is compared: no A-B-A."""
    refs, _ = fresh()
    first = refs.create("r", "a").entry
    second = refs.swap("r", first.token, "b").entry
    third = refs.swap("r", second.token, "a").entry
    lost = conflict(lambda: refs.swap("r", first.token, "c"))
    assert lost.type == "RefMoved"
    assert lost.details["current"] == {"value": "a", "version": 2, "token": third.token}
    refs.delete("r", third.token)
    again = refs.create("r", "a").entry
    assert (again.version, again.value) == (4, first.value)
    assert conflict(lambda: refs.swap("r", first.token, "c")).type == "RefMoved"
    assert refs.read("r").current == again


def test_a_reference_that_is_taken_is_reported_with_its_value() -> None:
    refs, _ = fresh()
    created = refs.create("r", "a").entry
    with pytest.raises(AlreadyExists) as error:
        refs.create("r", "b")
    assert error.value.details["current"] == {"value": "a", "version": 0, "token": created.token}


@pytest.mark.parametrize("swaps", [1, RECENT - 1, RECENT, RECENT + 7])
def test_the_recent_values_are_kept_newest_first_and_no_more(swaps: int) -> None:
    refs, world = fresh()
    token = refs.create("r", "0").entry.token
    for number in range(1, swaps + 1):
        token = refs.swap("r", token, str(number)).entry.token
    kept = refs.read("r").history()
    assert [entry.value for entry in kept] == [str(number) for number in range(swaps, max(-1, swaps - RECENT), -1)]
    assert len(str(world.refs.rows["test/ref/r"])) < 4096


# -- again, and lost answers --------------------------------------------------------------------------------------


def test_i3_every_request_is_answered_again_as_it_was_the_first_time() -> None:
    refs, _ = fresh()
    created = refs.create("r", "a", "one")
    swapped = refs.swap("r", created.entry.token, "b", "two")
    third = refs.swap("r", swapped.entry.token, "c", "three")
    assert refs.create("r", "a", "one") == created.__class__("replayed", "r", created.entry)
    assert refs.swap("r", created.entry.token, "b", "two") == created.__class__("replayed", "r", swapped.entry)
    gone = refs.delete("r", third.entry.token, "four")
    assert refs.delete("r", third.entry.token, "four") == created.__class__("replayed", "r", gone.entry)
    assert refs.create("r", "a", "one") == created.__class__("replayed", "r", created.entry)
    with pytest.raises(NotFound):
        refs.read("r")


def test_i3_a_forgotten_answer_is_refused_and_not_guessed() -> None:
    refs, _ = fresh()
    created = refs.create("r", "a", "one").entry
    token = refs.swap("r", created.token, "b", "two").entry.token
    for number in range(RECENT):
        token = refs.swap("r", token, str(number)).entry.token
    assert conflict(lambda: refs.swap("r", created.token, "b", "two")).type == "ReloadRequired"
    assert refs.create("r", "a", "one").entry == created


def test_a_request_id_is_good_for_one_request() -> None:
    refs, _ = fresh()
    created = refs.create("r", "a", "one").entry
    refs.swap("r", created.token, "b", "two")
    for call in (
        lambda: refs.create("r", "other", "one"),
        lambda: refs.swap("r", created.token, "other", "two"),
        lambda: refs.delete("r", created.token, "two"),
    ):
        with pytest.raises(InvalidRequest, match="was used for another change") as error:
            call()
        assert error.value.field == "request_id"


def losing() -> tuple[NamedRefs, Losing]:
    world = fake_world()
    refs = Losing()
    return NamedRefs(replace(world, refs=refs)), refs


@pytest.mark.parametrize("how", ["before", "after"])
def test_i3_an_unknown_outcome_is_reported_as_that_with_the_id_to_ask_again_under(how: str) -> None:
    refs, store = losing()
    created = refs.create("r", "a").entry
    store.lose = [how]
    with pytest.raises(OutcomeUnknown) as error:
        refs.swap("r", created.token, "b")
    id = error.value.details["request_id"]
    again = refs.swap("r", created.token, "b", id)
    assert again.outcome == ("replayed" if how == "after" else "applied")
    assert refs.read("r").current == again.entry
    assert again.entry.version == 1


# -- requests -----------------------------------------------------------------------------------------------------


def test_every_operation_is_one_request_accepted_or_refused() -> None:
    refs, world = fresh()
    token = ""

    def create() -> None:
        nonlocal token
        token = refs.create("r", "a", "one").entry.token

    assert sent(world, create) == ["write"]
    assert sent(world, lambda: refs.create("r", "b")) == ["write"]
    assert sent(world, lambda: refs.read("r")) == ["read"]
    assert sent(world, lambda: refs.swap("r", token, "b")) == ["write"]
    assert sent(world, lambda: refs.swap("r", token, "c")) == ["write"]
    assert sent(world, lambda: refs.delete("r", token)) == ["write"]
    assert sent(world, lambda: refs.delete("r", refs.read("r").current.token)) == ["read", "write"]
    assert sent(world, lambda: refs.swap("nothing", token, "c")) == ["write"]
    assert sent(world, lambda: refs.create("r", "again")) == ["write", "write"]  # over a tombstone: its version goes on


# -- bad input, and keys of our own -------------------------------------------------------------------------------


def test_bad_input_is_named_and_changes_nothing() -> None:
    refs, world = fresh()
    token = refs.create("r", "a").entry.token
    before = dict(world.refs.rows)
    for name in ("", "a/b", "../catalog/main", "x" * 256, "a b", "ä"):
        with pytest.raises(InvalidRequest) as error:
            refs.create(name, "a")
        assert error.value.field == "name"
    for bad in ("", "1", "0.xyz", "-1." + "0" * 24, "99999999999999999." + "0" * 24):
        with pytest.raises(InvalidRequest) as error:
            refs.swap("r", bad, "b")
        assert error.value.field == "token"
    for id in ("", "a b", "x" * 129):
        with pytest.raises(InvalidRequest) as error:
            refs.swap("r", token, "b", id)
        assert error.value.field == "request_id"
    with pytest.raises(TooLarge) as large:
        refs.create("s", "ä" * (MAX_VALUE // 2 + 1))
    assert large.value.details == {"limit": MAX_VALUE, "size": MAX_VALUE + 2}
    with pytest.raises(InvalidRequest):
        refs.create("s", "\ud800")
    assert refs.create("s", "ä" * (MAX_VALUE // 2)).outcome == "applied"
    assert before["test/ref/r"] == world.refs.rows["test/ref/r"]


def test_no_name_leads_to_a_row_of_anything_else() -> None:
    world = fake_world()
    bootstrap.ensure(world, lake_root="file:///lake")
    refs = NamedRefs(world)
    before = dict(world.refs.rows)
    for key in before:
        with pytest.raises((NotFound, InvalidRequest)):
            refs.read(key.split("/", 2)[2])
    refs.create("main", "mine")
    assert {key: row for key, row in world.refs.rows.items() if key in before} == before


# -- at random, against a plain model -----------------------------------------------------------------------------

moves = st.lists(
    st.tuples(
        st.sampled_from(["create", "swap", "delete", "again"]),
        st.integers(0, 30),
        st.sampled_from(["", "before", "after"]),
    ),
    max_size=40,
)


@settings(max_examples=examples(200))
@given(moves)
def test_i3_i6_whatever_is_lost_or_repeated_every_write_counts_once(plan: list[tuple[str, int, str]]) -> None:
    """The store applied each request once at most; what was told is what it did; "moved" is
    final."""
    refs, store = losing()
    sent: list[tuple[str, str, str, str]] = []  # operation, token, value, request id
    answers: dict[str, tuple[str, str]] = {}
    never: set[str] = set()
    tokens = ["0." + "0" * 24]
    for number, (kind, which, lost) in enumerate(plan):
        if kind == "again" and sent:
            request = sent[which % len(sent)]
        else:
            operation = "swap" if kind == "again" else kind
            request = (operation, tokens[-1 - which % min(3, len(tokens))], f"v{number}", f"id{number}")
            sent.append(request)
        operation, token, value, id = request
        store.lose = [lost] if lost else []
        try:
            if operation == "create":
                written = refs.create("r", value, id)
            elif operation == "swap":
                written = refs.swap("r", token, value, id)
            else:
                written = refs.delete("r", token, id)
        except (StateConflict, AlreadyExists, NotFound, OutcomeUnknown) as error:
            if error.type == "RefMoved":
                never.add(id)
            continue
        entry = written.entry
        assert entry.token in store.applied
        created = first_token(entry.version, id, entry.at)
        assert entry.token == (created if operation == "create" else token_of(entry.version, id, token))
        assert operation == "create" or entry.version == version_of(token) + 1
        assert written.outcome == "applied" or store.applied.count(entry.token) == 1
        answers[id] = (entry.token, entry.value or "")
        tokens.append(entry.token)
    assert len(set(store.applied)) == len(store.applied), "a request was applied twice"
    assert not never & answers.keys()
    tokens_of = {id: token for operation, token, _, id in sent if operation != "create"}
    assert not {token_of(version_of(tokens_of[id]) + 1, id, tokens_of[id]) for id in never} & set(store.applied)
