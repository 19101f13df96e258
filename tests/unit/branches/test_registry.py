"""The registry of branches by Delta's proposal: other writers' entries stay, and it is bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fakes import delta
from turnstile.branches.core.net_change import NetChange, conflict_of
from turnstile.branches.core.registry import ENDED_MAX, OPEN, PUBLISHED, BranchRef, registry_with
from turnstile.delta.core.definition import BRANCHES_DOMAIN

PROTOCOL = delta.protocol()["protocol"]
REF = BranchRef("mine", "dev", 3, 5, PUBLISHED, 5)
MEMBERS = {
    "branchId": "mine",
    "name": "dev",
    "baseVersion": 3,
    "createdVersion": 5,
    "status": "published",
    "publishedVersion": 5,
}


def other(id: str, status: str = PUBLISHED, **more: Any) -> dict[str, Any]:
    return {"branchId": id, "name": id, "baseVersion": 0, "createdVersion": 1, "status": status, **more}


def registry(text: str | None, ref: BranchRef = REF) -> dict[str, Any]:
    body = registry_with(text, ref, PROTOCOL)
    assert body is not None and (body["domain"], body["removed"]) == (BRANCHES_DOMAIN, False)
    return dict(json.loads(body["configuration"]))


def ids(text: str | None, ref: BranchRef = REF) -> list[str]:
    return [each["branchId"] for each in registry(text, ref)["branches"]]


@pytest.mark.parametrize("text", [None, "", "{}", '{"branches":[]}'])
def test_the_first_branch_of_a_table_has_the_members_of_the_proposal(text: str | None) -> None:
    assert registry(text) == {"branches": [MEMBERS]}


def test_an_open_branch_has_no_version_of_a_promotion() -> None:
    entry = registry(None, BranchRef("mine", "dev", 3, 3, OPEN))["branches"][0]
    assert "publishedVersion" not in entry and entry["status"] == "open"


def test_entries_and_members_of_other_writers_stay() -> None:
    theirs = [other("a", OPEN, later=1), other("b", "discarded"), {"later": True}]
    after = registry(json.dumps({"branches": theirs, "later": [1]}))
    assert after == {"branches": [*theirs, MEMBERS], "later": [1]}


def test_an_entry_of_the_same_id_is_replaced() -> None:
    assert ids(json.dumps({"branches": [other("mine", OPEN), other("a")]})) == ["a", "mine"]


def test_the_oldest_ended_branches_leave_the_registry_and_open_ones_stay() -> None:
    ended = [other(f"e{number}") for number in range(ENDED_MAX)]
    found = json.dumps({"branches": [other("a", OPEN), *ended[:1], other("b", OPEN), *ended[1:]]})
    assert ids(found) == ["a", "b", *(each["branchId"] for each in ended[1:]), "mine"]
    exactly = json.dumps({"branches": ended[1:]})
    assert ids(exactly) == [*(each["branchId"] for each in ended[1:]), "mine"]


@pytest.mark.parametrize("text", ["[]", "{", '{"branches":{}}', '{"branches":[1]}', '{"branches":null}', "é"])
def test_what_is_no_registry_of_the_proposal_is_left_alone(text: str) -> None:
    assert registry_with(text, REF, PROTOCOL) is None


def test_a_table_without_the_feature_has_no_registry() -> None:
    without = {**PROTOCOL, "writerFeatures": ["appendOnly"]}
    assert registry_with(None, REF, without) is None
    assert registry_with(None, REF, {"minReaderVersion": 1, "minWriterVersion": 2}) is None


def test_i28_a_registry_is_no_change_of_a_table_and_no_conflict() -> None:
    def changed(domain: str) -> NetChange:
        change = NetChange()
        change.take(1, [{"domainMetadata": {"domain": domain, "configuration": "{}", "removed": False}}])
        return change

    branch = NetChange()
    branch.take(1, [{"commitInfo": {"isBlindAppend": True}}, {"add": {"path": "x", "dataChange": True}}])
    assert changed(BRANCHES_DOMAIN).is_empty and changed(BRANCHES_DOMAIN).blind
    assert conflict_of(branch, changed(BRANCHES_DOMAIN), "t") is None
    assert conflict_of(branch, changed("mine.domain"), "t") is not None
