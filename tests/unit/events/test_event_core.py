"""Events of a HEAD: the difference between its mark and what is true (I13)."""

from __future__ import annotations

import msgspec
import pytest

from tests.support.fakes.heads import empty_row, named, ratified
from turnstile.catalog.core.rows import CatalogHead
from turnstile.delta.core.head import TableHead
from turnstile.events.core import events as core
from turnstile.events.core.cursors import Place, decode_cursor
from turnstile.events.core.events import Changes, catalog_changes, details_of, table_changes
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.opaque import seal


def head(latest: int, floor: int = 0, **more: object) -> TableHead:
    """A table with ``latest`` versions in its tail."""
    row = empty_row()
    for version in range(1, latest + 1):
        after = ratified(row, named(version, f"t{version}", 1_000 + 10 * version))
        assert after is not None
        row = after
    return msgspec.structs.replace(TableHead.from_row(row), floor=floor, **more)


def changes(mark: core.EventMark | None, now: TableHead, most: int = core.MOST, clock: int = 2) -> Changes:
    return table_changes("test/event-mark/table/t", mark, now, details_of(now), now=clock, most=most)


def types(made: Changes) -> list[str]:
    return [event.type.rpartition(".")[2] for event in made.events]


def after(*heads: TableHead) -> core.EventMark:
    """The mark after events of these HEADs."""
    mark = None
    for each in heads:
        mark = changes(mark, each).mark or mark
    assert mark is not None
    return mark


def test_i13_a_new_table_is_created_and_each_version_has_one_event() -> None:
    made = changes(None, head(2))
    assert types(made) == ["created", "ratified", "ratified"]
    assert [event.data["version"] for event in made.events] == [0, 1, 2]
    assert made.events[1].time == 1_010
    assert len({event.id for event in made.events}) == 3


def test_i13_a_new_table_that_was_not_seen_before_has_an_event_for_every_version() -> None:
    made = changes(None, head(9, 9, tail_from=10, tail=(), first=4))
    assert [event.data["version"] for event in made.events] == [4, 5, 6, 7, 8, 9, 9]
    assert types(made) == ["created", *["ratified"] * 5, "published"]


@pytest.mark.parametrize(("version", "clock"), [(9, 24 * 3_600_000 + 1), (20_000, 2)])
def test_a_table_that_was_there_long_before_tells_no_past(version: int, clock: int) -> None:
    gone = msgspec.structs.replace(head(0, version), latest=version, tail_from=version + 1)
    (event,) = changes(None, gone, clock=clock).events
    assert (event.type, event.data) == (core.TABLE_CREATED, {"version": version})


def test_a_new_table_tells_as_many_versions_as_it_may_have_left_behind() -> None:
    def first(versions: int) -> int:
        gone = msgspec.structs.replace(head(0, versions), latest=versions, tail_from=versions + 1)
        return int(changes(None, gone).events[0].data["version"])

    assert first(core.NEW_VERSIONS) == 0
    assert first(core.NEW_VERSIONS + 1) == core.NEW_VERSIONS + 1


def test_an_event_says_what_is_known_of_its_version() -> None:
    detail = core.Detail(ict=9, size=7, operation="MERGE", group="g", principal="ann")
    (event,) = table_changes("k", after(head(1)), head(2), {2: detail}, now=2).events
    known = {"version": 2, "timestamp": 9, "bytes": 7, "operation": "MERGE", "transaction": "g", "principal": "ann"}
    assert event.data == known
    (event,) = table_changes("k", after(head(1)), head(2), {2: core.Detail(9, 7, "", "", "")}, now=2).events
    assert event.data == {"version": 2, "timestamp": 9, "bytes": 7}


def test_i13_a_head_that_is_as_its_mark_says_has_no_event() -> None:
    assert changes(after(head(2, 1)), head(2, 1)) == Changes((), None, True)


def test_i13_versions_that_left_the_tail_have_an_event_each() -> None:
    gone = head(5, 5, tail_from=6, tail=())
    made = changes(after(head(1)), gone)
    assert [(event.data["version"], event.time) for event in made.events[:4]] == [(2, 0), (3, 0), (4, 0), (5, 0)]
    assert types(made)[4:] == ["published"]


def test_i13_the_floor_has_one_event_that_names_it() -> None:
    (event,) = changes(after(head(3)), head(3, 3)).events
    assert (event.type, event.data) == (core.TABLE_PUBLISHED, {"version": 3})


def test_i13_many_versions_are_made_in_steps_without_a_gap_or_a_repetition() -> None:
    mark = None
    seen = list[int]()
    last = head(9, 9, state="dropped")
    for _ in range(5):
        made = changes(mark, last, most=2)
        seen += [event.data["version"] for event in made.events if event.type == core.TABLE_RATIFIED]
        assert made.complete == ("dropped" in types(made))
        mark = made.mark
    assert seen == list(range(1, 10))
    assert changes(mark, last).mark is None


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (("active", "dropped"), "dropped"),
        (("dropped", "active"), "restored"),
        (("active", "stuck"), "stuck"),
        (("stuck", "active"), "recovered"),
        (("active", "recovering"), "recovering"),
        (("recovering", "active"), "recovered"),
        (("recovering", "stuck"), "stuck"),
        (("active", "leaving"), "leaving"),
        (("leaving", "dropped"), "dropped"),
        (("leaving", "active"), "restored"),
        (("stuck", "dropped"), "dropped"),
        (("dropped", "stuck"), "restored"),
    ],
)
def test_i13_a_change_of_state_has_an_event(states: tuple[str, str], expected: str) -> None:
    before, now = (head(1, 1, state=state) for state in states)
    assert types(changes(after(head(1, 1), before), now)) == [expected]


def test_i13_commits_come_before_the_drop_that_ended_them_and_after_what_let_the_table_take_them() -> None:
    assert types(changes(after(head(1)), head(2, state="dropped"))) == ["ratified", "dropped"]
    assert types(changes(after(head(1, state="dropped")), head(2))) == ["restored", "ratified"]


def test_i13_the_same_change_again_has_another_id() -> None:
    active = head(1)
    dropped = head(1, state="dropped")
    first = changes(after(active), dropped).events[0]
    assert changes(after(active, dropped, active), dropped).events[0].id != first.id


def test_i13_a_new_name_has_an_event() -> None:
    (event,) = changes(after(head(1)), head(1, name="main.default.u")).events
    assert (event.type, event.name) == (core.TABLE_RENAMED, "main.default.u")


def test_i13_versions_that_were_taken_back_are_reported_and_their_successors_have_other_ids() -> None:
    first = changes(after(head(1)), head(3)).events
    made = changes(after(head(3)), head(1, state="recovering"))
    assert types(made) == ["taken-back", "recovering"]
    again = changes(made.mark, head(3)).events
    assert [event.data["version"] for event in again if event.type == core.TABLE_RATIFIED] == [2, 3]
    assert not {event.id for event in first} & {event.id for event in again}


# -- catalogs ---------------------------------------------------------------------------------------------------------


def catalog(seq: int, created: int = 5) -> CatalogHead:
    return CatalogHead(
        "k", "Main", f"h{seq}", seq, tuple(f"h{n}" for n in range(seq, max(-1, seq - 20), -1)), created, 9
    )


def of_catalog(mark: core.EventMark | None, row: CatalogHead | None) -> Changes:
    return catalog_changes("m", mark, "main", row, 77)


def test_i13_each_head_of_a_catalog_has_one_event() -> None:
    first = of_catalog(None, catalog(0))
    assert types(first) == ["created"]
    made = of_catalog(first.mark, catalog(30))
    assert [event.data["seq"] for event in made.events] == list(range(1, 31))
    assert [event.data.get("head") for event in made.events][9:12] == [None, "h11", "h12"]
    assert of_catalog(made.mark, catalog(30)) == Changes((), None, True)


def test_i13_many_heads_of_a_catalog_are_made_in_steps() -> None:
    mark = of_catalog(None, catalog(0)).mark
    last = catalog(core.MOST + 5)
    numbers = list[int]()
    for complete in (False, True):
        made = of_catalog(mark, last)
        mark = made.mark
        numbers = numbers + [event.data["seq"] for event in made.events]
        assert made.complete == complete
    assert numbers == list(range(1, core.MOST + 6))


def test_i13_a_catalog_that_is_dropped_has_an_event_and_one_that_comes_again_too() -> None:
    first = of_catalog(None, catalog(3)).mark
    gone = of_catalog(first, None)
    assert types(gone) == ["dropped"]
    assert of_catalog(gone.mark, None) == of_catalog(None, None) == Changes((), None, True)
    assert types(of_catalog(gone.mark, catalog(0, created=99))) == ["created"]
    assert types(of_catalog(first, catalog(0, created=99))) == ["dropped", "created"]


# -- cursors ----------------------------------------------------------------------------------------------------------


def test_a_cursor_leads_back_to_its_place() -> None:
    place = Place("main", "a" * 36, 7, 12)
    assert decode_cursor(seal(place), "Main") == place


@pytest.mark.parametrize("text", ["", "x", "é", "a" * 700, "!!!!", "AAAAAAAAAAAA", "now "])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"after is no cursor|after was changed"):
        decode_cursor(text, "main")


def test_a_cursor_that_was_changed_or_is_of_another_catalog_is_refused() -> None:
    text = seal(Place("main", "a", 1, 1))
    other = text[:-1] + ("A" if text[-1] != "A" else "B")
    with pytest.raises(InvalidRequest):
        decode_cursor(other, "main")
    with pytest.raises(InvalidRequest, match="of catalog 'main'"):
        decode_cursor(text, "other")
