"""A catalog of 100,000 tables costs what one of ten does: requests, objs and bytes of every
operation, metered."""

from __future__ import annotations

import pytest

from tests.support.catalog import LAKE, complete, create, fakes, fresh, names
from tests.support.meter import MAIN, SIZES, Metered, creates, filled, loads, renames
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace
from turnstile.catalog.core.rows import SPILLED_BYTES
from turnstile.catalog.services import build
from turnstile.store.core.limits import SpillLimits
from turnstile.store.stored_objs import OBJ_BUDGET


@pytest.fixture(scope="module", params=[*SIZES[:-1], pytest.param(SIZES[-1], marks=pytest.mark.slow)])
def metered(request: pytest.FixtureRequest) -> Metered:
    return filled(request.param)


NAMES = ("filler_table_000001", "filler_table_000005", "filler_table_000009")


def test_a_name_is_found_in_two_requests_cold_and_one_warm(metered: Metered) -> None:
    services = metered.cold()
    for name in NAMES:
        cold = metered.cold()
        assert len(metered.cost(cold.reader.resolve, *MAIN, name).requests) == 2
        services.reader.resolve(*MAIN, name)
        warm = metered.cost(services.reader.resolve, *MAIN, name)
        assert warm.requests == ["refs.read"]
        assert metered.cost(services.reader.guess, *MAIN, name).requests == []


def test_a_guess_asks_for_nothing_even_when_the_segment_is_not_here(metered: Metered) -> None:
    cold = metered.cold()
    cold.reader.current("main")
    assert metered.cost(cold.reader.guess, *MAIN, NAMES[0]).requests == []


def test_a_create_takes_four_requests_and_writes_four_objs_at_most(metered: Metered) -> None:
    made = creates(metered, range(60))
    assert {len(cost.requests) for cost in made} <= {4, 5}, "the fifth reads the segment that is written anew"
    assert max(len(cost.objs) for cost in made) <= 4
    assert max(size for cost in made for size in cost.objs.values()) < OBJ_BUDGET
    assert sum(cost.write_units for cost in made) / len(made) < 45
    complete_names(metered)


def test_a_commit_obj_keeps_to_its_size_however_many_tables_there_are(metered: Metered) -> None:
    """The embedded layer waits up to twice its limit, beside it are the directory and a few names
    and ids."""
    limits = SpillLimits()
    numbers = range(1000, 1060)
    made = creates(metered, numbers)
    moved = renames(metered, numbers, 60)
    directory = len(metered.services.reader.current("main").commit.segments)
    assert directory < 2048
    assert all(0 < cost.commit <= 2 * limits.embedded + directory + 512 for cost in made + moved)
    assert sum(cost.commit for cost in made + moved) / len(made + moved) < 13_000
    assert {len(cost.requests) for cost in moved} <= {3, 4}
    assert sum(cost.write_units for cost in moved) / len(moved) < 45


def test_a_load_takes_four_requests_cold_and_one_warm(metered: Metered) -> None:
    create(metered.services, "loaded")
    cold, warm = loads(metered, "loaded")
    commit = "objs.get_many" if metered.services.reader.current("main").index.directory else "objs.get"  # and segment
    assert sorted(cold.requests) == [commit, "objs.newest", "refs.read", "refs.read_many"]
    assert warm.requests == ["refs.read_many"]
    assert cold.write_units == warm.write_units == 0


def test_a_rename_and_a_drop_write_three_objs_at_most(metered: Metered) -> None:
    services = metered.services
    create(services, "r0")
    for at in range(20):
        cost = metered.cost(services.renamer.rename, *MAIN, f"r{at}", f"r{at + 1}")
        assert len(cost.objs) <= 3
        assert len(cost.requests) <= 4
    assert len(metered.cost(services.dropper.drop, *MAIN, "r20").objs) <= 2


def test_a_page_of_a_listing_reads_what_is_on_it(metered: Metered) -> None:
    cold = metered.cold()
    cost = metered.cost(cold.listings.tables, *MAIN, max_results=100)
    assert len(cost.requests) <= 6  # row, commit, two segments, the entities
    token = cold.listings.tables(*MAIN, max_results=5).next_token
    cost = metered.cost(cold.listings.tables, *MAIN, max_results=5, page_token=token)
    assert "refs.read" not in cost.requests, "a page comes from the HEAD that the first one saw"


def test_the_catalogs_row_stays_under_four_kilobytes(metered: Metered) -> None:
    row = metered.world.refs.rows["test/catalog/main"]
    assert len(row.get("spilled", b"")) <= SPILLED_BYTES
    assert len(str(row["recent"])) + len(row.get("spilled", b"")) < 4096
    tree = metered.cold().reader.current("main")
    assert row.get("spilled", b"") == tree.commit.segments, "a hundred thousand tables still fit"


def complete_names(metered: Metered) -> None:
    """A cold sandbox sees what a warm one sees."""
    tree = metered.services.reader.current("main")
    other = metered.cold().reader.current("main")
    assert list(tree.index.iterate()) == list(other.index.iterate())


@pytest.mark.slow
def test_a_directory_too_large_for_the_row_stays_in_the_commit() -> None:
    """One request more, and the same answers; a catalog that shrinks gets it back. I9: no stale one
    stays behind."""
    services = fresh(spill=SpillLimits(embedded=100, segment=200))
    few = {(f"m{number:04d}",): Namespace(f"m{number:04d}", str(number), 1) for number in range(40)}
    services.committer.commit("main", lambda _: Edit("few", put=few))
    assert services.world.refs.rows["test/catalog/main"]["spilled"]  # type: ignore[attr-defined]
    spaces = {(f"n{number:04d}",): Namespace(f"n{number:04d}", str(number), 1) for number in range(4000)}
    services.committer.commit("main", lambda _: Edit("many", put=spaces))
    row = services.world.refs.read("test/catalog/main")
    tree = services.reader.current("main")
    assert row is not None and "spilled" not in row and len(tree.commit.segments) > SPILLED_BYTES
    cold = build(services.world, lake_root=LAKE)
    assert cold.reader.at("main", row, ("n3970",)).namespace(("n3970",)).obj
    services.committer.commit("main", lambda _: Edit("few", remove=tuple(list(spaces)[:3950])))
    row = services.world.refs.read("test/catalog/main")
    assert row is not None and 0 < len(row["spilled"]) <= SPILLED_BYTES


def test_i9_a_catalog_that_spills_at_every_turn_is_complete_at_every_turn() -> None:
    services = fresh(spill=SpillLimits(embedded=100, segment=400))
    for number in range(40):
        create(services, f"t{number * 17 % 40:02d}")
        complete(fakes(services))
    for number in range(0, 40, 3):
        services.dropper.drop(*MAIN, f"t{number:02d}")
        complete(fakes(services))
    assert names(fresh(services.world)) == [f"t{number:02d}" for number in range(40) if number % 3]
