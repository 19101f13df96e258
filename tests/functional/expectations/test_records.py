"""Findings of a program that reads what the server does not: they decide for exactly the versions
that were read (I28)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.access.operations import BRANCHES
from tests.support.fakes import delta
from tests.support.gc import collect, days
from tests.support.v1 import CatalogApi, PlansApi, refused
from turnstile.branches import records
from turnstile.gc.collector import KINDS
from turnstile.store.core.rows import CHECKS

DEV = "/v1/catalogs/main@dev/namespaces/default"
RULES = {"positive": "id >= 0", "filled": "null_fraction(id) < 0.5", "key": "unique(id)"}
"""Expectations that no statistics decide here, and whose files are gone."""


class Site(PlansApi):
    """A catalog with the table ``default.t``, and the branch ``dev``, with a commit to it."""

    def __init__(self, api: CatalogApi, **rules: str) -> None:
        super().__init__(api)
        self.create("t")
        self.expect(**(rules or RULES))
        self.branch()

    def branch(self) -> None:
        assert self.http.post(BRANCHES, {"name": "dev"}).status == 201
        self.commit("a")

    def expect(self, **rules: str) -> None:
        change = {f"turnstile.expect.{name}": text for name, text in rules.items()}
        assert self.http.patch("/v1/catalogs/main/namespaces/default", {"set": change}).status == 200

    def commit(self, file: str) -> None:
        own = self.commits.get(f"{DEV}/tables/t").json["table_id"]
        self.add_files(own, delta.add(file, rows=4))

    def diff(self) -> dict[str, Any]:
        answer = self.http.get(f"{BRANCHES}/dev/diff")
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def record(self, *findings: dict[str, Any], state: str = "") -> Any:
        return self.http.post(f"{BRANCHES}/dev/checks", {"state": state or self.diff()["state"], "findings": findings})

    def outcomes(self) -> dict[str, str]:
        return {each["expectation"]: each["outcome"] for each in self.diff()["checks"]}

    def promote(self, **body: Any) -> Any:
        return self.http.post(f"{BRANCHES}/dev/promote", body)

    def stored(self) -> list[str]:
        return [id for _, id in self.world.objs.rows if id.startswith(CHECKS.prefix)]


def finding(expectation: str, text: str = "", **numbers: Any) -> dict[str, Any]:
    return {"table": "default.t", "expectation": expectation, "text": text or RULES[expectation], "rows": 4, **numbers}


GOOD = [finding("positive"), finding("filled", broken=1), finding("key")]


@pytest.fixture
def site(api: CatalogApi) -> Site:
    return Site(api)


def test_i28_a_record_decides_what_the_server_cannot_and_the_promotion_names_it(site: Site) -> None:
    asked = {each["expectation"]: each for each in site.diff()["checks"]}
    assert [asked[name]["question"]["kind"] for name in RULES] == ["every_row", "null_fraction", "unique"]
    assert asked["key"]["question"] == {"kind": "unique", "text": "unique(id)", "columns": [["id"]]}
    assert "lake.branches.check" in refused(site.promote(), 409, "BranchConflict", "branch")["remedy"]
    answer = site.record(*GOOD)
    assert answer.status == 200, answer.text
    for checks in (answer.json["checks"], site.diff()["checks"]):
        assert {each["outcome"] for each in checks} == {"passed"}
        decided = {(each["by"], each["at"] > 0, each["question"]) for each in checks}
        assert decided == {("operator", True, None)}
    state = site.diff()["state"]
    promoted = site.promote(state=state)
    assert promoted.status == 200, promoted.text
    table = promoted.json["tables"][0]
    log = site.commits.get(f"/v1/tables/{table['table_id']}/commits").json
    assert log["latest"] == table["version"]


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        (finding("positive", broken=2, examples='{"id": -1}'), '2 of 4 rows, such as {"id": -1}'),
        (finding("filled", broken=3), "it is null in 3 of 4 rows"),
        (finding("key", broken=1, examples='{"id": 7}'), '1 keys occur more than once, such as {"id": 7}'),
    ],
)
def test_i28_numbers_that_break_an_expectation_refuse_and_may_be_corrected(
    site: Site, numbers: dict[str, Any], problem: str
) -> None:
    good = [each for each in GOOD if each["expectation"] != numbers["expectation"]]
    assert site.record(numbers, *good).status == 200
    (broken,) = [each for each in site.diff()["checks"] if each["outcome"] == "broken"]
    assert (broken["problem"], broken["refuses"], broken["by"]) == (problem, True, "operator")
    error = refused(site.promote(), 409, "BranchConflict", "branch")
    assert "Spark" not in error["remedy"]
    assert problem in error["message"]
    assert site.record(*GOOD).status == 200
    assert site.promote().status == 200


def test_i28_what_may_stay_unchecked_is_refused_once_a_record_says_that_it_is_broken(site: Site) -> None:
    site.expect(**{f"{name}.unchecked": "allow" for name in RULES})
    assert {(each["outcome"], each["refuses"]) for each in site.diff()["checks"]} >= {("unchecked", False)}
    assert site.record(finding("positive", broken=1)).status == 200
    refuses = {each["refuses"] for each in site.diff()["checks"] if each["outcome"] == "broken"}
    assert refuses == {True}


def test_i28_another_state_has_no_record(site: Site) -> None:
    state = site.diff()["state"]
    assert site.record(*GOOD).status == 200
    site.commit("b")
    assert set(site.outcomes().values()) == {"unchecked"}
    error = refused(site.record(*GOOD, state=state), 409, "BranchConflict", "state")
    assert error["remedy"] == "check again"
    assert len(site.stored()) == 1
    assert site.record(*GOOD).status == 200
    assert site.http.delete(f"{BRANCHES}/dev").status == 204
    site.branch()
    assert set(site.outcomes().values()) == {"unchecked"}, "the branch is another one under the same name"
    refused(site.record(*GOOD, state=state), 409, "BranchConflict", "state")


def test_i28_a_record_is_about_one_text(site: Site) -> None:
    assert site.record(*GOOD).status == 200
    site.expect(positive="id >= 5", few="id < 100")
    found = finding("few", "id < 100")
    answer = site.record(finding("positive"), found, {**found, "expectation": "other"})
    assert {each["condition"]: each["outcome"] for each in answer.json["checks"]} == {
        "id >= 5": "unchecked",
        "id < 100": "passed",
        "id >= 0": "passed",
        "null_fraction(id) < 0.5": "passed",
        "unique(id)": "passed",
    }


def test_i28_a_record_never_replaces_an_outcome_of_the_server(api: CatalogApi) -> None:
    site = Site(api, many="row_count > 9", some="row_count > 1", odd="id LIKE 'x%'", late="id > 9")
    texts = {"many": "row_count > 9", "some": "row_count > 1", "odd": "id LIKE 'x%'"}
    checks = site.diff()["checks"]
    assert {each["expectation"]: (each["outcome"], each["question"]) for each in checks} == {
        "many": ("broken", None),
        "some": ("passed", None),
        "odd": ("unchecked", None),
        "late": ("unchecked", {"kind": "every_row", "text": "id > 9", "columns": [["id"]]}),
    }
    assert site.record(*(finding(name, text, rows=50) for name, text in texts.items())).json["checks"] == checks
    assert site.diff()["checks"] == checks
    assert site.stored() == []


def test_a_record_of_the_same_findings_is_written_once_and_the_records_are_bounded(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "RECORDS_MAX", 2)
    for _ in range(3):
        assert site.record(*GOOD).status == 200
    assert len(site.stored()) == 1
    assert site.record(finding("filled", broken=2)).status == 200
    assert site.outcomes() == {"positive": "passed", "filled": "broken", "key": "passed"}
    refused(site.record(finding("filled", broken=0)), 413, "TooLarge", "state")
    (payload,) = (row.payload for (_, id), row in site.world.objs.rows.items() if id == site.stored()[0])
    monkeypatch.setattr(records, "RECORD_BYTES", len(payload))
    assert site.record(*GOOD).status == 200
    monkeypatch.setattr(records, "RECORD_BYTES", len(payload) - 1)
    refused(site.record(*GOOD), 413, "TooLarge", "findings")


def test_two_records_at_once_are_both_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    state = site.diff()["state"]
    assert site.record(GOOD[0]).status == 200
    monkeypatch.setattr(records.Records, "read", lambda _self, _state: [])
    assert site.record(GOOD[2], state=state).status == 200
    monkeypatch.undo()
    assert site.outcomes() == {"positive": "passed", "filled": "unchecked", "key": "passed"}


@pytest.mark.parametrize("table", ["default.other", "default", ""])
def test_findings_of_a_table_that_the_branch_did_not_change_are_refused(site: Site, table: str) -> None:
    site.create("other")
    refused(site.record({**GOOD[0], "table": table}), 400, "InvalidRequest", "findings")
    for odd in ({"rows": -1}, {"broken": -1}, {"newest_us": "now"}, {"examples": "x" * 2_001}, {"more": 1}):
        refused(site.record({**GOOD[0], **odd}), 400, "InvalidRequest")
    assert site.stored() == []


def test_gc_leaves_a_record_as_long_as_its_branch_lasts(site: Site) -> None:
    assert site.record(*GOOD).status == 200
    days(site.world, 20)
    collect(site.world, *KINDS)
    assert set(site.outcomes().values()) == {"passed"}
    until = site.http.get(f"{BRANCHES}/dev").json["until"]
    (row,) = (row for (_, id), row in site.world.objs.rows.items() if id in site.stored())
    assert row.expires_s == until // 1000 + 86_400
    site.http.patch(f"{BRANCHES}/dev", {"days": 300})
    days(site.world, 12)
    assert set(site.outcomes().values()) == {"unchecked"}, "it ends when its branch would have ended"
