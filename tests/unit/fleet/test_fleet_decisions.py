"""Decisions of a fleet: which member is silent, which member watches another, and where granules
move."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.unit.fleet.rows_of_members import member
from turnstile.fleet.core.decisions import (
    LOOKED_AT,
    RUN_MOST,
    SILENT_BEATS,
    SUSPECTED_BEATS,
    WATCHED,
    WHOLE_LOOK_BEATS,
    Observation,
    batches,
    everything,
    granule_name,
    granule_names,
    granule_of,
    hash_of,
    is_whole_look,
    members_to_watch,
    surplus,
    unseen,
    updated_observations,
)

BEAT = 10


def test_i19_a_member_is_judged_by_its_count_and_the_observers_own_time() -> None:
    b = member("b", life=4, beat_ms=BEAT)
    observations = updated_observations({}, [b], 1_000, {"b"})
    assert (
        observations == {"b": Observation(4, 1_000)}
        and observations["b"].is_suspected(b)
        and not observations["b"].silent(b)
    )
    observations = updated_observations(observations, [member("b", life=5, beat_ms=BEAT)], 1_010, {"b"})
    assert observations == {"b": Observation(5, 1_010, 0, seen_alive=True)} and not observations["b"].is_suspected(b)
    b = member("b", life=5, beat_ms=BEAT)
    for beat in range(1, SILENT_BEATS + 1):
        observations = updated_observations(observations, [b], 1_010 + BEAT * beat, {"b"})
        assert observations["b"] == Observation(5, 1_010 + BEAT * beat, BEAT * beat, seen_alive=True)
        assert observations["b"].is_suspected(b) == (beat >= SUSPECTED_BEATS)
        assert observations["b"].silent(b) == (beat >= SILENT_BEATS)


def test_i19_an_observer_that_stood_still_itself_takes_nothing_at_its_first_look() -> None:
    b = member("b", life=5, beat_ms=BEAT)
    observations = updated_observations({"b": Observation(5, 1_000, 0, seen_alive=True)}, [b], 1_000_000, {"b"})
    assert observations["b"].quiet_ms == SUSPECTED_BEATS * BEAT and not observations["b"].silent(b)
    back = updated_observations({"b": Observation(5, 1_000, 7, seen_alive=True)}, [b], 990, {"b"})
    assert back["b"].quiet_ms == 7, "a clock that steps back makes nobody lively"


def test_sights_of_members_that_were_not_looked_at_stay_and_of_those_that_left_go() -> None:
    observations = {"b": Observation(5, 1), "c": Observation(6, 2)}
    assert updated_observations(observations, [], 9, {"b"}) == {"b": Observation(5, 1)}


@given(st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=2, max_size=20), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_i19_every_member_is_watched_by_one_that_is_well(members: set[str], data: st.DataObject) -> None:
    silent = data.draw(st.sets(st.sampled_from(sorted(members)), max_size=len(members) - 1))
    well = members - silent
    observed = set[str]()
    for id in well:
        others = members_to_watch(id, members, silent)
        assert id not in others and len(others) == len(set(others))
        assert len(set(others) - silent) == min(WATCHED, len(well) - 1)
        observed |= set(others)
    assert observed >= silent, "a silent member has an observer"
    assert observed >= well or len(well) == 1


def test_the_next_in_the_ring_are_watched() -> None:
    assert members_to_watch("c", {"a", "b", "c", "d", "e"}, ()) == ["d", "e", "a"]
    assert members_to_watch("c", {"a", "b", "c", "d", "e"}, {"d"}) == ["d", "e", "a", "b"]


def test_members_that_were_not_seen_alive_yet_are_looked_at_some_at_a_time() -> None:
    alive = Observation(5, 1, seen_alive=True)
    new = Observation(5, 1)
    assert unseen("b", ["a", "c", "d", "e"], {"a": new, "c": alive, "d": new}) == ["d", "e", "a"]
    many = [f"m{number:02d}" for number in range(20)]
    assert unseen("m03", [id for id in many if id != "m03"], {}) == many[4 : 4 + LOOKED_AT]
    assert unseen("m17", many[:17], {}) == many[:LOOKED_AT]


@pytest.mark.parametrize("others", [1, WHOLE_LOOK_BEATS * LOOKED_AT, WHOLE_LOOK_BEATS * LOOKED_AT + LOOKED_AT - 1])
def test_a_member_of_a_small_fleet_looks_at_all_every_few_beats(others: int) -> None:
    assert [beats for beats in range(12) if is_whole_look("me", beats, others)] == [4, 9]


def test_in_a_large_fleet_whole_looks_are_rarer_and_not_in_the_same_beat() -> None:
    looks = {id: [beats for beats in range(60) if is_whole_look(id, beats, 160)] for id in "abcdefgh"}
    assert all(len(beats) == 3 and beats[2] - beats[1] == beats[1] - beats[0] == 20 for beats in looks.values())
    assert len({beats[0] for beats in looks.values()}) > 4
    assert [is_whole_look("a", beats, 48) for beats in range(6)].count(True) == 1


def test_a_hash_is_below_its_bound_and_always_the_same() -> None:
    assert {hash_of(f"x{number}", 3) for number in range(100)} == {0, 1, 2}
    assert hash_of("x", 1) == 0 and hash_of("turnstile", 1_000) == 479


# -- balance -----------------------------------------------------------------------------------------------------------


def moved(mine: dict[str, int], *others: int, me: str = "a") -> tuple[int, list[int]]:
    """The loads after the surplus is handed over."""
    members = [member(f"m{number}", loads={"publish": load}) for number, load in enumerate(others)]
    moves = surplus(me, mine, members, "publish")
    names = [name for some in moves.values() for name in some]
    assert len(names) == len(set(names)) and set(names) <= mine.keys()
    given_away = {other: sum(mine[name] for name in some) for other, some in moves.items()}
    loads = [load + given_away.get(f"m{number}", 0) for number, load in enumerate(others)]
    return sum(mine.values()) - sum(given_away.values()), loads


def granules(count: int, weight: int = 1) -> dict[str, int]:
    return {f"publish/{number}": weight for number in range(count)}


@pytest.mark.parametrize(
    ("count", "others", "expected"),
    [
        (64, (0,), (32, [32])),
        (8, (), (8, [])),
        (16, (16, 0, 0), (8, [16, 4, 4])),
        (3, (0,), (2, [1])),
        (1, (0,), (1, [0])),
        (2, (1,), (2, [1])),
        (22, (21, 21), (22, [21, 21])),
        (10, (8, 8), (10, [8, 8])),
        (0, (9,), (0, [9])),
        (16, (16, 16, 16, 16, 16, 16, 16, 0), (15, [16, 16, 16, 16, 16, 16, 16, 1])),
        (20, (10,), (15, [15])),
        (10, (6,), (10, [6])),
        (20, (8, 8, 8, 8), (11, [10, 11, 10, 10])),
    ],
)
def test_a_member_gives_until_it_has_the_mean(
    count: int, others: tuple[int, ...], expected: tuple[int, list[int]]
) -> None:
    assert moved(granules(count), *others) == expected


def test_neighbours_are_given_together_and_to_each_about_as_many() -> None:
    mine = {f"publish/{number:05d}": 1 for number in range(9_000)}
    moves = surplus("a", mine, [member(f"m{number}", loads={"publish": 0}) for number in range(3)], "publish")
    assert {len(names) for names in moves.values()} == {25 * RUN_MOST}
    for names in moves.values():
        parts = batches(sorted(names), RUN_MOST)
        assert all(int(part[-1][-5:]) - int(part[0][-5:]) == RUN_MOST - 1 for part in parts)
    few = surplus("a", granules(32), [member(f"m{number}", loads={"publish": 0}) for number in range(3)], "publish")
    assert {len(names) for names in few.values()} == {8}


def test_a_heavy_granule_goes_alone_to_the_member_with_least() -> None:
    mine = {f"publish/{number:05d}": 1 for number in range(200)} | {"publish/8": 90, "publish/9": 60}
    moves = everything("a", mine, [member("m", loads={"publish": 0}), member("n", loads={"publish": 0})], "publish")
    (first,) = [names for names in moves.values() if "publish/8" in names]
    (second,) = [names for names in moves.values() if "publish/9" in names]
    assert first is not second and abs(sum(mine[name] for name in first) - sum(mine[name] for name in second)) <= 16


def test_what_weighs_too_much_stays_and_the_rest_goes() -> None:
    assert moved({"publish/0": 100, "publish/1": 1, "publish/2": 1}, 0) == (100, [2])


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.lists(st.integers(0, 300), max_size=6))
@settings(max_examples=examples(200), deadline=None)
def test_no_member_gives_below_the_mean_and_none_gets_more_than_the_giver_had(
    weights: list[int], others: list[int]
) -> None:
    mine = {f"publish/{number}": weight for number, weight in enumerate(weights)}
    load, loads = moved(mine, *others)
    mean = (sum(weights) + sum(others)) / (len(others) + 1)
    assert load + sum(loads) == sum(weights) + sum(others)
    assert load == sum(weights) or load >= mean
    assert all(after <= max(before, sum(weights)) for before, after in zip(others, loads, strict=True))


def test_members_of_other_roles_get_nothing() -> None:
    other = member("m", loads={"maintain": 0})
    assert surplus("a", granules(5), [other], "publish") == {} == everything("a", granules(5), [other], "publish")


def test_a_leaving_member_gives_everything_to_the_members_with_least() -> None:
    members = [member("m", loads={"publish": 4}), member("n", loads={"publish": 1}), member("o", loads={"maintain": 0})]
    moves = everything("a", {"publish/0": 3, "publish/1": 1, "publish/2": 1}, members, "publish")
    assert Counter(name for names in moves.values() for name in names) == Counter(
        ["publish/0", "publish/1", "publish/2"]
    )
    assert moves["n"][0] == "publish/0" and moves.keys() == {"m", "n"}


# -- granules ----------------------------------------------------------------------------------------------------------


def test_a_granule_is_a_range_of_hashes() -> None:
    names = Counter(granule_of("publish", f"table-{number}", 8) for number in range(4_000))
    assert names.keys() == {granule_name("publish", number) for number in range(8)}
    assert min(names.values()) > 400
    assert granule_of("publish", "x", 1) == "publish/0"


def test_all_granules_of_some_roles_are_named_and_cut_into_parts() -> None:
    names = granule_names({"sweep": 1, "publish": 2})
    assert names == ["publish/0", "publish/1", "sweep/0"]
    assert batches(names, 2) == [names[:2], names[2:]] and batches([], 3) == []
