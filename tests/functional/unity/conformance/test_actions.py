"""Every action of an update: alone, with its commit, in every pair, in every order, twice, and
against another one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.conformance.actions import (
    SAMPLES,
    WITH_A_COMMIT,
    action,
    external_action,
    managed,
    proposed,
    send,
)
from tests.support.conformance.cases import covers
from tests.support.examples import examples
from tests.support.unity import COLUMNS, SCHEMA, T1, B, Unity, external_protocol, refused

INVALID = "InvalidParameterValueException"
CONFLICT = "CommitVersionConflictException"
REQUIREMENT = "UpdateRequirementConflictException"
E1 = f"{SCHEMA}/tables/e1"
PAIRS = list(itertools.combinations(WITH_A_COMMIT, 2))
EXTERNAL = sorted(name for name, sample in SAMPLES.items() if sample.external)
METADATA = sorted({*WITH_A_COMMIT} - {"set-latest-backfilled-version", "set-domain-metadata"})


def shows(unity: Unity, names: list[str]) -> None:
    """A load shows what these actions say, and the older API the comment."""
    loaded = unity.get(T1).json
    for name in names:
        assert SAMPLES[name].seen(loaded), (name, loaded)
    if "set-table-comment" in names:
        assert unity.get(f"{B}/tables/main.sales.t1").json["comment"] == "said"


# -- with a commit ----------------------------------------------------------------------------------------------------


@covers(updateTable=200)
@pytest.mark.parametrize("name", WITH_A_COMMIT)
def test_an_action_with_its_commit_is_applied(name: str) -> None:
    unity = managed()
    answer = send(unity, [name])
    assert (answer.status, answer.json["latest-table-version"]) == (200, 2), answer.text
    shows(unity, [name])


@covers(updateTable=200)
@pytest.mark.parametrize("names", PAIRS, ids=" ".join)
def test_two_actions_with_their_commit_are_applied(names: tuple[str, str]) -> None:
    unity = managed()
    answer = send(unity, list(names))
    assert (answer.status, answer.json["latest-table-version"]) == (200, 2), answer.text
    shows(unity, list(names))


@covers(updateTable=200)
@settings(max_examples=examples(15))
@given(st.permutations(WITH_A_COMMIT), st.integers(0, len(WITH_A_COMMIT)), st.booleans())
def test_the_order_of_actions_means_nothing(names: list[str], at: int, asserted: bool) -> None:
    unity = managed()
    sent = [action(name) for name in names]
    sent.insert(at, proposed(unity, sorted(names)))
    etag = unity.get(T1).json["metadata"]["etag"] if asserted else None
    assert unity.update(*sent, etag=etag).status == 200
    shows(unity, names)


@covers(updateTable=200)
@pytest.mark.parametrize("name", METADATA)
def test_metadata_moves_the_etag_and_the_last_update(name: str) -> None:
    unity = managed()
    before = unity.get(T1).json["metadata"]
    after = send(unity, [name], etag=before["etag"]).json["metadata"]
    assert after["etag"] != before["etag"]
    assert (after["last-commit-version"], after["properties"]["delta.lastUpdateVersion"]) == (2, "2")


@covers(updateTable=200)
@pytest.mark.parametrize("name", ["set-latest-backfilled-version", "set-domain-metadata"])
def test_publication_and_row_ids_do_not_move_the_etag_or_the_last_update(name: str) -> None:
    unity = managed()
    before = unity.get(T1).json["metadata"]
    after = send(unity, [name]).json["metadata"]
    assert after["etag"] == before["etag"] and after["last-commit-version"] == 0


@covers(updateTable=(400, 409))
def test_i8_an_action_that_is_refused_takes_the_whole_request_with_it() -> None:
    unity = managed()
    before = unity.rows()
    good = [action(name) for name in WITH_A_COMMIT]
    wrong = {"action": "set-properties", "updates": {"delta.appendOnly": "true"}}
    sent = [wrong if one["action"] == "set-properties" else one for one in good]
    refused(unity.update(*sent, proposed(unity, WITH_A_COMMIT)), 400, INVALID)
    refused(unity.update(*good, proposed(unity, WITH_A_COMMIT), etag="stale"), 409, REQUIREMENT)
    late = proposed(unity, WITH_A_COMMIT)
    late["commit"]["version"] = 1
    refused(unity.update(*good, late), 409, CONFLICT)
    assert unity.rows() == before


# -- without a commit -------------------------------------------------------------------------------------------------


@covers(updateTable=200)
@pytest.mark.parametrize("name", sorted(name for name, sample in SAMPLES.items() if sample.alone))
def test_what_the_log_does_not_hold_is_taken_without_a_commit(name: str) -> None:
    unity = managed()
    sent = {"action": name, "removals": ["never"]} if name == "remove-properties" else action(name)
    answer = unity.update(sent)
    assert (answer.status, answer.json["latest-table-version"]) == (200, 1)


@covers(updateTable=400)
@pytest.mark.parametrize("name", sorted(name for name, sample in SAMPLES.items() if not sample.alone))
def test_i9_what_the_log_has_to_hold_is_refused_without_a_commit(name: str) -> None:
    unity = managed()
    before = unity.rows()
    sent = {"action": name, "updates": {"delta.clustering": {"clusteringColumns": [["p"]]}}}
    refused(unity.update(sent if name == "set-domain-metadata" else action(name)), 400, INVALID)
    assert unity.rows() == before


# -- external tables --------------------------------------------------------------------------------------------------


def external() -> tuple[Unity, dict[str, Any]]:
    unity = Unity()
    domains = {"delta.clustering": {"clusteringColumns": [["id"]]}}
    columns = {"type": "struct", "fields": [*COLUMNS["fields"], {"name": "p", "type": "string", "nullable": True,
                                                                 "metadata": {}}]}  # fmt: skip
    asked = {
        "name": "e1", "location": "s3://other/e1", "table-type": "EXTERNAL", "columns": columns,
        "properties": {"gone": "1"}, "protocol": external_protocol("clustering"), "last-commit-timestamp-ms": 7,
        "domain-metadata": domains,
    }  # fmt: skip
    answer = unity.post(f"{SCHEMA}/tables", asked)
    assert answer.status == 200, answer.text
    return unity, answer.json["metadata"]


@covers(updateTable=200)
@pytest.mark.parametrize(
    "names", [*itertools.combinations(EXTERNAL, 1), *itertools.combinations(EXTERNAL, 2)], ids=" ".join
)
def test_actions_of_an_external_table_alone_and_in_pairs(names: tuple[str, ...]) -> None:
    unity, before = external()
    sent = [external_action(name) for name in reversed(names)]
    answer = unity.update(*sent, uuid=before["table-uuid"], etag=before["etag"], path=E1)
    assert answer.status == 200, answer.text
    for name in names:
        assert SAMPLES[name].seen(answer.json), name
    assert answer.json["metadata"]["etag"] != before["etag"] and unity.get(E1).json == answer.json


@covers(updateTable=400)
@pytest.mark.parametrize("name", sorted({*SAMPLES} - {*EXTERNAL}))
def test_commits_of_an_external_table_are_refused(name: str) -> None:
    unity, before = external()
    refused(unity.update(action(name), uuid=before["table-uuid"], path=E1), 400, INVALID)
    both = unity.update(action(name), action("set-properties"), uuid=before["table-uuid"], path=E1)
    refused(both, 400, INVALID)
    assert unity.get(E1).json["metadata"] == before


# -- shapes -----------------------------------------------------------------------------------------------------------


@covers(updateTable=400)
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_an_action_is_there_once(name: str) -> None:
    unity = managed()
    refused(unity.update(action(name), action("set-table-comment"), action(name)), 400, INVALID)


@covers(updateTable=400)
@pytest.mark.parametrize("kind", ["assert-table-uuid", "assert-etag"])
def test_a_requirement_is_there_once(kind: str) -> None:
    unity = managed()
    first = {"type": "assert-table-uuid", "uuid": unity.uuid}
    second = {"type": kind, "uuid": unity.uuid, "etag": unity.get(T1).json["metadata"]["etag"]}
    required = [first, second] if kind == "assert-table-uuid" else [first, second, second]
    refused(unity.post(T1, {"requirements": required, "updates": [action("set-properties")]}), 400, INVALID)


@covers(updateTable=400)
@pytest.mark.parametrize(
    ("name", "member"), [(name, member) for name, sample in sorted(SAMPLES.items()) for member in sample.said]
)
def test_members_of_an_action_are_compulsory_and_typed(name: str, member: str) -> None:
    unity = managed()
    without = {key: value for key, value in action(name).items() if key != member}
    refused(unity.update(without), 400, INVALID)
    refused(unity.update(without | {member: 7.5}), 400, INVALID)
    if name != "set-table-comment":  # a null comment removes it
        refused(unity.update(without | {member: None}), 400, INVALID)


@covers(updateTable=200)
@pytest.mark.parametrize("name", WITH_A_COMMIT)
def test_unknown_members_are_skipped(name: str) -> None:
    unity = managed()
    assert unity.update(action(name) | {"later": {"version": 2}}, proposed(unity, [name]) | {"x": 1}).status == 200


@covers(updateTable=400)
@pytest.mark.parametrize(
    ("sets", "removes"),
    [
        ({"action": "set-properties", "updates": {"a": "1", "b": "2"}},
         {"action": "remove-properties", "removals": ["c", "b"]}),
        ({"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 7}}},
         {"action": "remove-domain-metadata", "domains": ["delta.rowTracking"]}),
    ],
    ids=["properties", "domains"],
)  # fmt: skip
def test_the_same_key_is_not_both_set_and_removed(sets: dict[str, Any], removes: dict[str, Any]) -> None:
    unity = managed()
    before = unity.rows()
    for sent in ((sets, removes), (removes, sets)):
        assert "both set and removed" in refused(unity.update(*sent), 400, INVALID)["message"]
    assert unity.rows() == before
