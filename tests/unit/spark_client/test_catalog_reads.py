"""A serializable transaction sends the reads of the catalog that it made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from turnstile_http.errors import ApiError
from turnstile_spark.transactions.reads.catalog_reads import CatalogReadLog


class Catalog:
    """The calls of the API that a log makes, and the HEADs that were asked."""

    catalog = "main"

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.heads = 0

    def catalog_head(self) -> str:
        self.heads += 1
        if self.heads == 1:
            raise ApiError(503, "Throttled", "later")
        return f"commit/{self.heads}"

    def tables(self, namespace: str, as_of: str | None = None) -> list[str]:
        self.asked.append(as_of)
        return ["t"]

    def namespaces(self, as_of: str | None = None) -> list[str]:
        self.asked.append(as_of)
        return ["a.b"]

    def namespace(self, name: str, as_of: str | None = None) -> dict[str, Any]:
        self.asked.append(as_of)
        raise ApiError(404, "NoSuchNamespace", name)

    def find(self, query: str, as_of: str | None = None) -> Iterator[dict[str, Any]]:
        self.asked.append(as_of)
        yield {"name": "main.a"}


def log(catalog: Catalog) -> CatalogReadLog:
    return CatalogReadLog(catalog)  # type: ignore[arg-type]


def test_i9_all_lists_are_answered_by_one_head_which_the_request_names() -> None:
    catalog = Catalog()
    reads = log(catalog)
    with pytest.raises(ApiError, match="later"):
        reads.tables("a.b")
    assert (reads.has_answers, reads.bodies()) == (False, []), "what was not answered was not read"
    assert (reads.tables("a.b"), reads.namespaces([]), reads.namespaces(["a"])) == (["t"], ["a.b"], ["a.b"])
    with pytest.raises(ApiError, match="NoSuchNamespace"):
        reads.namespace("a.c")
    assert reads.find('/main/*[tier = "gold"]') == [{"name": "main.a"}]
    reads.tables("a.b")
    assert catalog.asked == ["head:commit/2"] * 6
    assert reads.has_answers
    assert reads.bodies() == [
        {"query": query, "head": "commit/2"}
        for query in (
            '/main/a/b/*[kind != "namespace"]',
            '/main/*[kind = "namespace"]',
            '/main/a/*[kind = "namespace"]',
            '/main/a/c[kind = "namespace"]',
            '/main/*[tier = "gold"]',
        )
    ]


def test_i9_names_are_one_query_for_each_namespace_with_the_ids_that_they_led_to_first() -> None:
    reads = log(Catalog())
    reads.name("a.b", "T", "1")
    reads.name("A.b", "t", "2")
    reads.name("a.b", "u", "3")
    reads.name("c", "t", "4")
    assert not reads.has_answers, "tables that are there answer for themselves"
    reads.name("c", "v", "")
    assert reads.has_answers
    assert reads.bodies() == [
        {"query": '/main/a/b/*[kind = "table" and name in ("t", "u")]', "ids": ["1", "3"]},
        {"query": '/main/c/*[kind = "table" and name in ("t", "v")]', "ids": ["4"]},
    ]


def test_i9_many_names_are_queries_that_the_server_reads() -> None:
    reads = log(Catalog())
    for number in range(200):
        reads.name("s", f"{number:03d}{'x' * 100}", str(number))
    bodies = reads.bodies()
    assert len(bodies) == 8 and all(len(body["query"]) < 4000 for body in bodies)
    assert [id for body in bodies for id in body["ids"]] == [str(number) for number in range(200)]
