"""Listings: whole in pages of any size, clamped, from one state of the catalog, with tokens that
cannot be made up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conformance.cases import covers
from tests.support.unity import B, Unity, refused_old

MAX_INT = 2**31 - 1
OF = {"catalog_name": "main", "schema_name": "many"}


@pytest.fixture(scope="module")
def stock() -> Unity:
    """103 external tables, 103 schemas beside theirs, 103 catalogs."""
    unity = Unity(schema="many")
    for number in range(103):
        unity.external(f"t{number:03}", f"s3://other/t{number:03}", schema_name="many")
    for number in range(102):
        unity.post(f"{B}/schemas", {"name": f"s{number:03}", "catalog_name": "main"})
        unity.post(f"{B}/catalogs", {"name": f"c{number:03}"})
    return unity


@pytest.fixture
def unity(stock: Unity) -> Unity:
    stock.attach()
    return stock


KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "catalogs": (f"{B}/catalogs", {}),
    "schemas": (f"{B}/schemas", {"catalog_name": "main"}),
    "tables": (f"{B}/tables", OF),
}


def walk(unity: Unity, kind: str, **query: Any) -> list[list[str]]:
    """All pages, by names."""
    path, needed = KINDS[kind]
    pages = []
    token = ""
    while token is not None:
        found = unity.get(path, **needed, **query, **({"page_token": token} if token else {})).json
        pages.append([one["name"] for one in found[kind]])
        token = found["next_page_token"]
    return pages


@covers(listCatalogs=200, listSchemas=200, listTables=200)
@pytest.mark.parametrize("size", [1, 7, 100])
def test_pages_are_whole_in_order_and_of_the_size_that_was_asked_for(unity: Unity, size: int) -> None:
    for kind in KINDS:
        pages = walk(unity, kind, max_results=size)
        names = [name for page in pages for name in page]
        assert names == sorted(names) and len(names) == len({*names}) == 103
        assert {len(page) for page in pages[:-1]} == {size}


@covers(listCatalogs=200, listSchemas=200, listTables=200)
@pytest.mark.parametrize("size", [0, 101, 1000, MAX_INT, 2**53 - 1])
def test_sizes_are_clamped_to_100_and_0_leaves_it_to_the_server(unity: Unity, size: int) -> None:
    for kind in KINDS:
        assert [len(page) for page in walk(unity, kind, max_results=size)] == [100, 3]


@covers(listTables=200)
def test_without_a_size_all_tables_are_on_the_first_page(unity: Unity) -> None:
    """Some clients read only that."""
    assert [len(page) for page in walk(unity, "tables")] == [103]


@covers(listCatalogs=400, listSchemas=400, listTables=400)
@pytest.mark.parametrize("size", ["-1", "x", "1.5", "9" * 30, "١"])
def test_sizes_that_are_none_are_400(unity: Unity, size: str) -> None:
    for path, needed in KINDS.values():
        refused_old(unity.get(path, **needed, max_results=size), 400, "INVALID_ARGUMENT")


@covers(listSchemas=400, listTables=400)
@pytest.mark.parametrize("token", ["x", "AAAA", "e30=", "..", "\x00", "9" * 500])
def test_unissued_tokens_are_400(unity: Unity, token: str) -> None:
    for kind in ("schemas", "tables"):
        path, needed = KINDS[kind]
        refused_old(unity.get(path, **needed, page_token=token), 400, "INVALID_ARGUMENT")


@covers(listTables=200)
def test_i6_pages_show_the_catalog_as_it_was_at_the_first_of_them() -> None:
    unity = Unity(schema="many")
    for name in "abcd":
        unity.external(name, f"s3://other/{name}", schema_name="many")
    first = unity.get(f"{B}/tables", **OF, max_results=2).json
    unity.external("bb", "s3://other/bb", schema_name="many")
    assert unity.call("DELETE", f"{B}/tables/main.many.a").status == 200
    second = unity.get(f"{B}/tables", **OF, max_results=2, page_token=first["next_page_token"]).json
    assert [one["name"] for one in (*first["tables"], *second["tables"])] == ["a", "b", "c", "d"]
    assert second["next_page_token"] is None


@covers(listTables=200, listSchemas=200, listCatalogs=200)
def test_empty_listings_are_lists_and_properties_are_objects(unity: Unity) -> None:
    assert unity.get(f"{B}/tables", catalog_name="main", schema_name="s000").json == {
        "tables": [],
        "next_page_token": None,
    }
    assert unity.get(f"{B}/schemas", catalog_name="c000").json == {"schemas": [], "next_page_token": None}
    for kind, (path, needed) in KINDS.items():
        assert all(one["properties"] == {} for one in unity.get(path, **needed).json[kind])
