"""A path query over a hundred thousand tables reads what it leads to, and no segment beyond."""

from __future__ import annotations

import pytest

from tests.support.meter import Metered, filled
from tests.support.queries import finder
from turnstile.catalog.query.find import MAX_VISITS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def large() -> Metered:
    return filled(100_000)


def requests(large: Metered, query: str, *, most: int | None = None) -> tuple[int, list[str]]:
    """How many matches the first page has, and what a cold sandbox asks for."""
    services = large.cold()
    large.meter.reset()
    page = finder(services).find(query, max_results=most)
    return len(page.items), large.meter.requests


def test_a_name_is_found_by_its_row_its_commit_and_at_most_a_segment_and_an_entity_a_level(large: Metered) -> None:
    matches, sent = requests(large, "/main/default/filler_table_050000")
    assert matches == 1
    assert sorted(sent) == ["objs.get"] * 3 + ["objs.get_many"] * 2 + ["refs.read"]


def test_a_prefix_reads_its_own_part_of_the_index_only(large: Metered) -> None:
    matches, sent = requests(large, '/main/default/[name prefix "filler_table_0500"]')
    assert matches == 100
    assert len(sent) <= 8
    none, sent = requests(large, '/main/default/[name prefix "nothing"]')
    assert none == 0
    assert len(sent) <= 4


def test_a_predicate_that_nothing_matches_ends_its_page_after_so_many_looks(large: Metered) -> None:
    """And reads each entity once: a hundred a request."""
    services = large.cold()
    large.meter.reset()
    page = finder(services).find('/main/default/[comment = "nobody wrote this"]')
    assert page.items == () and page.next_token is not None
    assert large.meter.requests.count("objs.get_many") == MAX_VISITS // 100
    large.meter.reset()
    finder(services).find('/main/default/[name like "%x" and comment exists]', page_token=None)
    assert large.meter.requests.count("objs.get_many") == 0
