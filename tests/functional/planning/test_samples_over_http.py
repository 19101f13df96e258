"""Samples over HTTP, on the function ``plans``: rows of a version of a table."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

from tests.support.fakes import delta
from tests.support.fakes.rows import parquet_body
from tests.support.functions import Answer
from tests.support.openapi import check, operations
from tests.support.v1 import CatalogApi, PlansApi, refused


class Site(PlansApi):
    """A catalog with the table ``main.default.t``; a commit adds a file with the rows that it
    names."""

    def __init__(self, api: CatalogApi) -> None:
        super().__init__(api)
        made = self.create()
        self.id = made["table_id"]
        self.location = made["location"]

    def append(self, *ids: int) -> int:
        content = parquet_body(pa.table({"id": pa.array(ids, pa.int64())}))
        name = f"{uuid.uuid4()}.parquet"
        self.world.storages.open(self.location).put_if_absent(name, content)
        return self.add_files(self.id, delta.add(name, rows=len(ids), size=len(content)))

    def ask(self, **query: Any) -> Answer:
        return self.plans.get(f"/v1/tables/{self.id}/sample", **query)

    def sample(self, **query: Any) -> dict[str, Any]:
        answer = self.ask(**query)
        assert answer.status == 200, answer.text
        check(operations()["sampleTable"], answer)
        return dict(answer.json)


@pytest.fixture
def site(api: CatalogApi) -> Site:
    return Site(api)


def test_rows_of_a_version_that_is_published_or_not(site) -> None:
    assert site.sample()["rows"] == []
    first = site.append(1, 2)
    second = site.append(3)
    found = site.sample()
    assert sorted(row["id"] for row in found["rows"]) == [1, 2, 3]
    assert (found["version"], found["complete"], found["columns"]) == (second, True, ["id"])
    earlier = site.sample(version=first)
    assert ([row["id"] for row in earlier["rows"]], earlier["version"]) == ([1, 2], first)
    few = site.sample(limit=2)
    assert (len(few["rows"]), few["complete"]) == (2, False)


@pytest.mark.parametrize(
    ("query", "field"),
    [({"limit": 0}, "limit"), ({"limit": 101}, "limit"), ({"limit": "x"}, "limit"), ({"where": "id = 1"}, "where"),
     ({"version": 1, "timestamp": 1}, "timestamp")],
)  # fmt: skip
def test_a_bad_query_is_refused_by_the_name_of_its_member(site, query, field) -> None:
    refused(site.ask(**query), 400, "InvalidRequest", field)


def test_a_version_that_does_not_exist_is_not_found(site) -> None:
    refused(site.ask(version=9), 404, "NoSuchCommit", "version")


def test_a_file_that_is_gone_is_named_with_the_remedy(site) -> None:
    site.append(1)
    (path,) = [path for path in site.world.storages.files if path.endswith(".parquet")]
    del site.world.storages.files[path]
    error = refused(site.ask(), 400, "UnsupportedTable", "location")
    assert f"'{path.rpartition('/')[2]}' cannot be read: it is gone" in error["message"]
    assert "verify TABLE --files" in error["remedy"]
