"""Answers of the commit operation, and their costs: ratified, replayed, lost, ticket."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.lake import LOCATION, ORDERS, Lake, make_lake


@pytest.fixture
def lake() -> Lake:
    return make_lake()


def big_append(txn: str, ict: int, size: int = 20_000) -> bytes:
    """An append whose content does not compress to fit into the row."""
    noise = random.Random(txn).randbytes(size).hex()
    return delta.lines(delta.info(txn, ict), delta.add(f"{noise}.parquet"))


def test_i1_an_inline_commit_is_ratified_with_one_request(lake: Lake) -> None:
    lake.append(1, "warm")
    lake.forget_requests()
    content = delta.append("t2", lake.now())
    answer = lake.inline(2, content)
    assert answer.status == 200
    commit = answer.json["commit"]
    assert answer.json == {"outcome": "ratified", "commit": commit, "latest": 2, "etag": lake.head.metadata}
    assert (commit["version"], commit["txn_id"], commit["kind"], commit["changed"]) == (2, "t2", "inline", "append")
    assert (commit["size"], commit["operation"], commit["published"]) == (len(content), "WRITE", False)
    assert "content" not in commit
    assert lake.world.refs.requests == ["write"]
    assert lake.world.objs.requests == lake.world.storages.requests == []


def test_a_staged_commit_reads_its_file_first_and_nothing_else(lake: Lake) -> None:
    lake.append(1, "t1")
    staged = lake.stage(2, delta.append("t2", lake.now()))
    lake.forget_requests()
    answer = lake.propose({"version": 2, "staged": staged})
    assert answer.status == 200
    assert answer.json["commit"]["kind"] == "staged"
    assert answer.json["commit"]["name"] == staged["name"]
    assert answer.json["commit"]["modified"] == staged["modified"]
    assert (lake.world.refs.requests, lake.world.storages.requests, lake.world.objs.requests) == (
        ["write"],
        ["read"],
        [],
    )


def test_a_refused_commit_is_one_request_too(lake: Lake) -> None:
    """A read where the version was seen taken, else the write that is refused."""
    lake.append(1, "t1")
    lake.forget_requests()
    assert lake.append(1, "t2").status == 409
    assert lake.append(7, "t3").status == 400
    assert (lake.world.refs.requests, lake.world.objs.requests) == (["read", "write"], [])


def test_a_conflict_carries_the_winners_newest_first_with_their_inline_content(lake: Lake) -> None:
    contents = [delta.append(f"t{v}", lake.now()) for v in (1, 2, 3)]
    for version, content in enumerate(contents, start=1):
        lake.inline(version, content)
    error = lake.append(2, "late").error
    assert (error["type"], error["latest"], error["because"], error["published_to"]) == (
        "CommitVersionConflict",
        3,
        "version",
        0,
    )
    assert [winner["version"] for winner in error["winners"]] == [3, 2]
    assert [winner["content"].encode() for winner in error["winners"]] == [contents[2], contents[1]]
    assert error["field"] == "version"
    assert "rebase" in error["remedy"]


def test_a_conflict_carries_content_that_was_too_large_for_the_row(lake: Lake) -> None:
    content = big_append("t1", lake.now())
    assert lake.inline(1, content).status == 200
    assert lake.head.tail[0].obj
    lake.forget_requests()
    (winner,) = lake.append(1, "late").error["winners"]
    assert winner["content"].encode() == content
    assert (lake.world.refs.requests, lake.world.objs.requests) == (["read"], ["get_many"])


def test_a_conflict_carries_at_most_a_megabyte_of_content_the_newest(lake: Lake) -> None:
    for version in range(1, 6):
        assert lake.inline(version, big_append(f"t{version}", lake.now(), 120_000)).status == 200
    winners = lake.append(1, "late").error["winners"]
    assert [winner["version"] for winner in winners] == [5, 4, 3, 2, 1]
    assert ["content" in winner for winner in winners] == [True, True, True, True, False]


def test_a_conflict_is_a_conflict_also_when_the_winners_content_cannot_be_fetched(lake: Lake) -> None:
    from turnstile.store.core.errors import Throttled

    lake.inline(1, big_append("t1", lake.now()))

    def throttled(*_: Any) -> None:
        raise Throttled

    lake.world.objs.get_many = throttled  # type: ignore[method-assign,assignment]
    (winner,) = lake.append(1, "late").error["winners"]
    assert "content" not in winner


def test_staged_winners_are_named_and_published_ones_are_left_to_the_log(lake: Lake) -> None:
    lake.append(1, "t1")
    lake.publish()
    lake.propose({"version": 2, "staged": lake.stage(2, delta.append("t2", lake.now()))})
    error = lake.append(1, "late").error
    assert error["published_to"] == 1
    assert [(winner["version"], winner["kind"], winner["published"]) for winner in error["winners"]] == [
        (2, "staged", False),
        (1, "inline", True),
    ]
    assert not any("content" in winner for winner in error["winners"])


def test_i3_a_replay_is_answered_as_the_first_time(lake: Lake) -> None:
    content = delta.append("t1", lake.now())
    first = lake.inline(1, content).json
    again = lake.inline(1, content).json
    assert again == {**first, "outcome": "replayed"}


def test_i3_a_replay_from_a_published_and_forgotten_version_is_answered_from_the_log(lake: Lake) -> None:
    contents = {version: delta.append(f"t{version}", lake.now()) for version in range(1, 8)}
    firsts = {}
    for version, content in contents.items():
        firsts[version] = lake.inline(version, content).json
        lake.publish()
    assert lake.head.tail_from > 1
    again = lake.inline(1, contents[1])
    assert again.status == 200
    assert again.json == {
        "outcome": "replayed",
        "commit": {**firsts[1]["commit"], "published": True},
        "latest": 7,
        "etag": lake.head.metadata,
    }


def test_i3_a_staged_replay_is_answered_when_file_and_tail_are_gone(lake: Lake) -> None:
    staged = lake.stage(1, delta.append("t1", lake.now()))
    first = lake.propose({"version": 1, "staged": staged}).json
    for version in range(2, 8):
        lake.append(version, f"t{version}")
    lake.publish()
    lake.world.storages.open(LOCATION).delete(f"_delta_log/_staged_commits/{staged['name']}")
    again = lake.propose({"version": 1, "staged": staged}).json
    assert (again["outcome"], again["commit"]["version"], again["commit"]["kind"]) == ("replayed", 1, "staged")
    assert again["commit"]["name"] == first["commit"]["name"]
    assert again["commit"]["timestamp"] == first["commit"]["timestamp"]


def test_a_replay_whose_log_file_was_cleaned_up_is_still_a_replay(lake: Lake) -> None:
    content = delta.append("t1", lake.now())
    lake.inline(1, content)
    for version in range(2, 8):
        lake.append(version, f"t{version}")
    lake.publish()
    lake.world.storages.open(LOCATION).delete("_delta_log/00000000000000000001.json")
    again = lake.inline(1, content)
    assert (again.status, again.json["outcome"], again.json["commit"]["version"]) == (200, "replayed", 1)


def test_a_ticket_takes_the_next_version_and_is_answered_with_its_final_bytes() -> None:
    lake = make_lake("rowTracking")
    for version, rows in ((1, 5), (2, 7)):
        content = delta.lines(
            delta.info(f"t{version}", 5),  # a clock that stands in the past
            delta.add("f.parquet", rows),
            {
                "domainMetadata": {
                    "domain": "delta.rowTracking",
                    "configuration": '{"rowIdHighWaterMark": 0}',
                    "removed": False,
                }
            },
        )
        answer = lake.inline(None, content, base=0)
        assert answer.status == 200, answer.text
        commit = answer.json["commit"]
        final = [json.loads(line) for line in commit["content"].splitlines()]
        assert commit["version"] == answer.json["latest"] == version
        assert final[0]["commitInfo"]["inCommitTimestamp"] == commit["timestamp"] == lake.head.last_ict
        assert final[1]["add"]["baseRowId"] == (0 if version == 1 else 5)
        assert final[1]["add"]["defaultRowCommitVersion"] == version
        assert commit["size"] == len(commit["content"].encode())
        lake.publish()
        assert lake.file(f"_delta_log/{version:020d}.json") == commit["content"].encode()  # I4


def test_i2_a_repeated_ticket_gets_the_bytes_that_were_ratified_before_and_after_publication(lake: Lake) -> None:
    content = delta.append("t1", lake.now())
    first = lake.inline(None, content, base=0).json
    other_bytes = delta.append("t1", lake.now() + 50, rows=9)
    again = lake.inline(None, other_bytes, base=0).json
    assert again == {**first, "outcome": "replayed"}
    lake.publish()
    published = lake.inline(None, other_bytes, base=0).json
    assert published == {**first, "outcome": "replayed", "commit": {**first["commit"], "published": True}}
    for version in range(2, 8):
        lake.append(version, f"t{version}")
    lake.publish()
    late = lake.inline(None, other_bytes, base=0).json
    assert late["commit"]["content"] == first["commit"]["content"]
    assert late["commit"]["version"] == 1


def test_a_ticket_loses_only_to_what_matters_and_says_why(lake: Lake) -> None:
    lake.append(1, "t1")
    assert lake.append(None, "t2", base=0).status == 200
    lake.inline(3, delta.lines(delta.info("t3", lake.now()), delta.metadata(owner="me")))
    error = lake.append(None, "t4", base=2).error
    assert (error["type"], error["because"], error["field"]) == ("CommitVersionConflict", "metadata", "base")
    app = delta.append("t5", lake.now(), app="stream")
    assert lake.inline(None, app, base=3).status == 200
    error = lake.inline(None, delta.append("t6", lake.now(), app="stream"), base=3).error
    assert error["because"] == "application"


def test_a_metadata_commit_changes_the_etag(lake: Lake) -> None:
    before = lake.head.metadata
    answer = lake.inline(1, delta.lines(delta.info("t1", lake.now()), delta.metadata(owner="me")), etag=before)
    assert answer.status == 200
    assert answer.json["etag"] == lake.head.metadata != before
    assert answer.json["commit"]["changed"] == "metadata"


def test_the_name_under_which_an_inline_commit_will_be_materialised_may_be_chosen(lake: Lake) -> None:
    name = f"{1:020d}.chosen.json"
    content = delta.append("t1", lake.now())
    answer = lake.propose({"version": 1, "inline": {"content": content.decode(), "name": name}})
    assert answer.json["commit"]["name"] == name
    lake.get("commits")
    assert lake.staged(name) == content


def test_content_is_kept_to_the_byte_whatever_it_holds(lake: Lake) -> None:
    info = delta.info("t1", lake.now(), note='\u0000 \u2028 "quoted"')
    add = '{"add": {"path":"é漢😀.parquet","partitionValues":{}, "size":1,"modificationTime":1,"dataChange":true}}'
    raw = delta.lines(info) + add.encode()  # no newline at the end
    assert lake.inline(1, raw).status == 200
    assert lake.get("commits", content="true").json["commits"][0]["content"].encode() == raw
    lake.publish()
    assert lake.file("_delta_log/00000000000000000001.json") == raw


def test_a_table_id_is_the_same_in_capitals(lake: Lake) -> None:
    answer = lake.propose(
        {"version": 1, "inline": {"content": delta.append("t1", lake.now()).decode()}}, table_id=ORDERS.upper()
    )
    assert answer.status == 200
