"""Plans over HTTP: a predicate in SQL, pages, versions and refusals, on the function ``plans``; and
what the command line shows of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.openapi import check, operations
from tests.support.v1 import CatalogApi, PlansApi, refused
from turnstile.delta.core.head import TableHead
from turnstile.delta.publish import Publisher
from turnstile.planning.core.roots import Sizes
from turnstile.planning.upkeep import IndexUpkeep


class Site(PlansApi):
    """A catalog with the table ``main.default.t``, whose files have ten ids each."""

    def __init__(self, api: CatalogApi) -> None:
        super().__init__(api)
        self.id = self.create()["table_id"]

    def append(self, *lows: int) -> int:
        """A commit of a file for each of these least ids."""
        added = [delta.add(f"f{low}", stats=json.dumps(_stats(low)), size=low + 1) for low in lows]
        return self.add_files(self.id, *added)

    def index(self) -> None:
        Publisher(self.world).publish(self.id)
        row = self.world.refs.read(self.world.space.table(self.id))
        assert row is not None
        IndexUpkeep(self.world, sizes=Sizes(every=1)).keep_up(TableHead.from_row(row))

    def ask(self, **body: Any) -> Answer:
        return self.plans.post(f"/v1/tables/{self.id}/plan", body)

    def plan(self, **body: Any) -> dict[str, Any]:
        answer = self.ask(**body)
        assert answer.status == 200, answer.text
        check(operations()["planScan"], answer)
        return dict(answer.json)


def _stats(low: int) -> dict[str, Any]:
    return {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": low + 9}, "nullCount": {"id": 0}}


def paths(plan: dict[str, Any]) -> list[str]:
    return sorted(file["path"] for file in plan["files"])


@pytest.fixture
def site(api: CatalogApi) -> Site:
    return Site(api)


def test_a_predicate_leaves_the_files_that_may_match(site) -> None:
    site.append(0, 10, 20)
    for _ in range(2):  # from the log, then from the index
        assert paths(site.plan()) == ["f0", "f10", "f20"]
        assert paths(site.plan(predicate="id = 12")) == ["f10"]
        assert paths(site.plan(predicate="id BETWEEN 5 AND 15 AND NOT id < 10")) == ["f10"]
        assert paths(site.plan(predicate="id IN (1, 25) OR id IS NULL")) == ["f0", "f20"]
        assert paths(site.plan(predicate="id > 100")) == []
        site.index()
    plan = site.plan(predicate="id = 12", statistics=True)
    assert plan["files"] == [
        {"path": "f10", "size": 11, "modificationTime": 1, "partitionValues": {}, "records": 10, "stats": _stats(10)}
    ]
    assert plan["statistics"]["index_version"] == plan["version"]
    assert site.plan(columns=["id"], statistics=True)["files"][0]["stats"]["minValues"].keys() == {"id"}


def test_commits_after_the_index_are_applied_and_earlier_versions_shown(site) -> None:
    first = site.append(0)
    site.index()
    second = site.append(10)
    plan = site.plan()
    assert (paths(plan), plan["version"], plan["statistics"]["tail_versions"]) == (["f0", "f10"], second, 1)
    assert paths(site.plan(version=first)) == ["f0"]


def test_pages(site) -> None:
    site.append(*range(0, 50, 10))
    site.index()
    page = site.plan(max_results=2)
    found = paths(page)
    site.append(100)
    while "next_page_token" in page:
        page = site.plan(page_token=page["next_page_token"], max_results=2)
        found += paths(page)
    assert sorted(found) == ["f0", "f10", "f20", "f30", "f40"]


def test_an_explained_plan(site) -> None:
    site.append(0, 10, 20)
    site.index()
    statistics = site.plan(predicate="id >= 10 AND id < 20", explain=True)["statistics"]
    assert statistics["dropped"] == {"id >= 10": 1, "id < 20": 1}
    assert (statistics["files"], statistics["total_files"], statistics["total_records"]) == (1, 3, 30)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"predicate": "id ="}, "predicate"),
        ({"predicate": ""}, "predicate"),
        ({"predicate": "nobody = 1"}, "predicate"),
        ({"predicate": "id = 'a'"}, "predicate"),
        ({"predicate": "abs(id) = 1"}, "predicate"),
        ({"predicate": "id = (SELECT 1)"}, "predicate"),
        ({"predicate": "id BETWEEN SYMMETRIC 2 AND 1"}, "predicate"),
        ({"predicate": "(" * 900 + "id = 1" + ")" * 900}, "predicate"),
        ({"predicate": "x" * 20_001}, "predicate"),
        ({"columns": ["nobody"]}, "predicate"),
        ({"version": 1, "timestamp": 1}, "timestamp"),
        ({"page_token": "nonsense"}, "page_token"),
        ({"max_results": 5_001}, "max_results"),
    ],
)
def test_what_is_wrong_is_refused_by_name(site, body, field) -> None:
    refused(site.ask(**body), 400, "InvalidRequest", field)


def test_a_version_that_is_not_there_is_not_found(site) -> None:
    refused(site.ask(version=99), 404, "NoSuchCommit", "version")


def ask_detail(site: Site, **query: int) -> Answer:
    return site.plans.get(f"/v1/tables/{site.id}/detail", **query)


def detail(site: Site, **query: int) -> dict[str, Any]:
    answer = ask_detail(site, **query)
    assert answer.status == 200, answer.text
    check(operations()["describeTable"], answer)
    return dict(answer.json)


def totals(shown: dict[str, Any]) -> tuple[int, ...]:
    return tuple(shown[name] for name in ("version", "files", "bytes", "rows", "partitions"))


def test_a_table_in_detail_is_of_the_version_that_it_names(site) -> None:
    first = site.append(0, 10)
    at = site.commits.get(f"/v1/tables/{site.id}/head").json["timestamp"]
    for of in (-1, first):  # from the log, then from the index
        assert totals(shown := detail(site)) == (first, 2, 1 + 11, 20, 1)
        assert shown["index_version"] == of
        site.index()
    second = site.append(20)
    assert totals(shown := detail(site)) == (second, 3, 1 + 11 + 21, 30, 1)
    assert (shown["index_version"], shown["tail_versions"]) == (first, 1)
    assert totals(detail(site, version=first)) == totals(detail(site, timestamp=at)) == (first, 2, 12, 20, 1)
    head = site.commits.get(f"/v1/tables/{site.id}/head").json
    assert (shown["table_id"], shown["name"], shown["location"]) == (site.id, "main.default.t", head["location"])
    assert shown["properties"]["delta.enableInCommitTimestamps"] == "true"
    assert "catalogManaged" in shown["features"]


def test_a_detail_that_is_not_there_is_refused(site) -> None:
    refused(ask_detail(site, version=99), 404, "NoSuchCommit", "version")
    refused(ask_detail(site, version=1, timestamp=1), 400, "InvalidRequest", "timestamp")
    refused(ask_detail(site, version=-1), 400, "InvalidRequest", "version")
    refused(ask_detail(site, files=1), 400, "InvalidRequest", "files")


def test_the_definition_is_of_the_version_if_it_is_asked_for(site) -> None:
    site.append(0)
    plan = site.plan(definition=True, max_results=1)
    assert plan["definition"]["metaData"]["schemaString"]
    assert plan["definition"]["protocol"]["minReaderVersion"] == 3
    assert "definition" not in site.plan()


def test_a_load_has_the_totals_of_the_index_if_they_are_asked_for(site) -> None:
    path = "/v1/catalogs/main/namespaces/default/tables/t"
    site.append(0, 10)
    assert "statistics" not in site.commits.get(path).json
    before = site.commits.get(path, statistics="true")
    assert before.json["statistics"] is None
    check(operations()["loadTable"], before)
    site.index()
    version = site.append(20)
    loaded = site.commits.get(path, statistics="true")
    check(operations()["loadTable"], loaded)
    assert loaded.json["latest"] == version
    assert loaded.json["statistics"] == {
        "version": version - 1, "files": 2, "bytes": 12, "rows": 20, "files_without_records": 0, "partitions": 1,
    }  # fmt: skip
    refused(site.commits.get(path, statistics="maybe"), 400, "InvalidRequest", "statistics")


# -- what was read, judged --------------------------------------------------------------------------------------------


def judged(site: Site, **body: Any) -> list[Any]:
    answer = site.plans.post(f"/v1/tables/{site.id}/judge", body)
    assert answer.status == 200, answer.text
    check(operations()["judgeReads"], answer)
    return list(answer.json["changes"])


def remove(site: Site, *names: str) -> int:
    """A commit that removes files, and says no statistics of them."""
    head = site.commits.get(f"/v1/tables/{site.id}/head").json
    version = head["latest"] + 1
    stamp = max(site.world.clock.now_ms(), head["timestamp"] + 1)
    content = delta.lines(delta.info(f"c-{version}", stamp), *map(delta.remove, names)).decode()
    path = f"/v1/tables/{site.id}/commits"
    assert site.commits.post(path, {"version": version, "inline": {"content": content}}).status == 200
    return int(version)


def test_i20_each_predicate_is_answered_with_the_first_commit_that_may_have_changed_its_rows(site) -> None:
    read = site.append(0, 10)
    site.append(20)
    site.append(30)
    no, at_20, whole = judged(site, after=read, predicates=["id = 5", "id BETWEEN 15 AND 35", ""])
    assert no is None
    assert (at_20["version"], at_20["path"]) == (read + 1, "f20") and "added" in at_20["reason"]
    assert whole["version"] == read + 1
    assert judged(site, after=read + 1, predicates=["id < 25", "id > 25"], version=read + 1) == [None, None]


def test_i20_the_index_says_what_was_in_files_that_were_removed_without_statistics(site) -> None:
    site.append(0, 10)
    read = site.append(20)
    site.index()
    removed = remove(site, "f10")
    low, high = judged(site, after=read, predicates=["id < 5", "id = 12"])
    assert low is None
    assert (high["version"], high["path"]) == (removed, "f10")
    remove(site, "f%30")  # in no index
    (unknown,) = judged(site, after=removed, predicates=["id < 5"])
    assert unknown["path"] == "f%30"


def test_i20_without_an_index_a_removed_file_may_have_had_any_row(site) -> None:
    read = site.append(0, 10)
    remove(site, "f10")
    assert judged(site, after=read, predicates=["id < 5"])[0]["path"] == "f10"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"after": 0, "predicates": ["id ="]}, "predicates[0]"),
        ({"after": 0, "predicates": ["id = 1", "nothing = 1"]}, "predicates[1]"),
        ({"after": 0, "predicates": []}, "predicates"),
        ({"predicates": [""]}, "after"),
    ],
)
def test_what_is_no_question_is_refused_by_its_place(site, body: dict[str, Any], field: str) -> None:
    site.append(0)
    refused(site.plans.post(f"/v1/tables/{site.id}/judge", body), 400, "InvalidRequest", field)


@pytest.mark.parametrize(("body", "field"), [({"after": 9}, "after"), ({"after": 0, "version": 9}, "version")])
def test_versions_that_are_not_there_are_not_judged(site, body: dict[str, Any], field: str) -> None:
    site.append(0)
    refused(site.plans.post(f"/v1/tables/{site.id}/judge", {**body, "predicates": [""]}), 404, "NoSuchCommit", field)
