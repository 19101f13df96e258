"""Listings: pages of one HEAD, tokens of this service only, and refusals."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.catalog import MAIN, create, fakes, fresh, names
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace
from turnstile.catalog.paging import SKEW_MS, TOKEN_MS
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import InvalidRequest, NotFound


def pages(services: CatalogServices, size: int) -> list[list[str]]:
    results = []
    token = None
    while True:
        page = services.listings.tables(*MAIN, page_token=token, max_results=size)
        results.append([table.name for table in page.items])
        token = page.next_token
        if token is None:
            return results


def test_pages_together_are_the_whole_list_in_order() -> None:
    services = fresh()
    for n in range(7):
        create(services, f"t{n}")
    services.namespaces.create("main", ("default", "t3a"))
    assert pages(services, 3) == [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t6"]]
    assert pages(services, 7) == [["t0", "t1", "t2", "t3", "t4", "t5", "t6"]]
    assert names(services) == pages(services, 0)[0]


def test_a_listing_is_one_view_however_much_changes_meanwhile() -> None:
    """I6 for listings: the token pins the HEAD."""
    services = fresh()
    for n in range(4):
        create(services, f"t{n}")
    first = services.listings.tables(*MAIN, max_results=2)
    services.dropper.drop(*MAIN, "t3")
    create(services, "t2b")
    services.renamer.rename(*MAIN, "t2", "z")
    second = fresh(services.world).listings.tables(*MAIN, page_token=first.next_token, max_results=2)
    assert [table.name for table in (*first.items, *second.items)] == ["t0", "t1", "t2", "t3"]
    assert second.next_token is None
    assert names(services) == ["t0", "t1", "t2b", "z"]


def test_a_listing_can_be_followed_when_its_namespace_is_gone() -> None:
    services = fresh()
    services.namespaces.create("main", ("n", "a"))
    services.namespaces.create("main", ("n", "b"))
    first = services.listings.namespaces("main", ("n",), max_results=1)
    services.namespace_dropper.drop("main", ("n",), cascade=True)
    second = services.listings.namespaces("main", ("n",), page_token=first.next_token, max_results=1)
    assert [namespace.name for namespace in second.items] == [("n", "b")]
    with pytest.raises(NotFound):
        services.listings.namespaces("main", ("n",))


def test_large_entries_make_shorter_pages() -> None:
    services = fresh()
    put = {(name := f"n{n:03d}",): Namespace(name, name, 1, properties={"k": "x" * 32_000}) for n in range(170)}
    services.committer.commit("main", lambda _: Edit("fill", put=put))
    page = services.listings.namespaces("main")
    assert 145 < len(page.items) < 155
    rest = services.listings.namespaces("main", page_token=page.next_token)
    assert len(page.items) + len(rest.items) == 171


def token_of(services: CatalogServices) -> str:
    create(services, "t0")
    create(services, "t1")
    token = services.listings.tables(*MAIN, max_results=1).next_token
    assert token is not None
    return token


def refused(services: CatalogServices, token: str, why: str) -> None:
    with pytest.raises(InvalidRequest, match=why) as error:
        services.listings.tables(*MAIN, page_token=token)
    assert error.value.field == "page_token"
    assert error.value.remedy


def test_a_token_belongs_to_one_listing() -> None:
    services = fresh()
    token = token_of(services)
    services.namespaces.create("main", ("other",))
    services.catalogs.create("second")
    services.namespaces.create("second", ("default",))
    for call in (
        lambda: services.listings.tables("main", ("other",), page_token=token),
        lambda: services.listings.tables("second", ("default",), page_token=token),
        lambda: services.listings.namespaces("main", ("default",), page_token=token),
    ):
        with pytest.raises(InvalidRequest, match="another listing"):
            call()


def test_a_token_expires_and_one_whose_head_is_gone_counts_as_expired() -> None:
    services = fresh()
    token = token_of(services)
    world = fakes(services)
    world.clock.now += TOKEN_MS
    refused(services, token, "expired")
    token = services.listings.tables(*MAIN, max_results=1).next_token or ""
    head = services.reader.current("main").head
    create(services, "t2")
    world.objs.delete(world.space.objs("main"), head)
    refused(fresh(world), token, "expired")


def test_a_token_is_good_for_a_server_whose_clock_is_behind_and_one_from_far_ahead_is_not() -> None:
    services = fresh()
    token = token_of(services)
    fakes(services).clock.now -= SKEW_MS // 2
    assert services.listings.tables(*MAIN, page_token=token).items
    fakes(services).clock.now -= SKEW_MS
    refused(services, token, "expired")


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_damaged_token_is_refused_whatever_was_damaged(position: int, value: int) -> None:
    services = fresh()
    token = token_of(services)
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    at = position % len(raw)
    if raw[at] == value:
        return
    raw[at] = value
    with pytest.raises(InvalidRequest):
        services.listings.tables(*MAIN, page_token=base64.urlsafe_b64encode(bytes(raw)).rstrip(b"=").decode())


@given(st.text(min_size=1, max_size=60))
def test_any_text_as_a_token_is_refused_not_a_failure(text: str) -> None:
    services = fresh()
    with pytest.raises(InvalidRequest):
        services.listings.tables(*MAIN, page_token=text)


def test_a_page_cannot_be_negative_and_is_never_longer_than_the_limit() -> None:
    services = fresh()
    with pytest.raises(InvalidRequest):
        services.listings.tables(*MAIN, max_results=-1)
    assert services.listings.tables(*MAIN, max_results=10**9).items == ()


def test_what_is_listed_must_exist() -> None:
    services = fresh()
    for call in (
        lambda: services.listings.tables("nothing", ("default",)),
        lambda: services.listings.tables("main", ("nothing",)),
        lambda: services.listings.namespaces("main", ("nothing",)),
    ):
        with pytest.raises(NotFound):
            call()
