"""Transactions over tables through the real handlers (I2, I3, I8, I12; docs/api.md)."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from tests.support.access.realm import Realm
from tests.support.fakes import delta
from tests.support.v1 import NOBODY, Pair
from turnstile.delta.core.undecided import LARGE_MAX
from turnstile.delta.proposals import CommitRequest, GroupRequest
from turnstile.delta.ratify import Ratifier
from turnstile.delta.transactions.groups import GroupRatified, GroupRatifier
from turnstile.store.core.evaluate import clone
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Change, Insert, new_row


@pytest.fixture
def site() -> Pair:
    return Pair()


def test_i8_commits_of_several_tables_become_visible_in_one_write(site: Pair) -> None:
    id = str(uuid.uuid4())
    answer = site.transact(site.inline(site.table, 4, "a"), site.inline(site.second, 1, "b"), id=id)
    assert answer.status == 200, answer.text
    assert (answer.json["outcome"], answer.json["id"]) == ("ratified", id)
    assert [(member["table_id"], member["commit"]["version"]) for member in answer.json["commits"]] == [
        (site.table, 4),
        (site.second, 1),
    ]
    assert site.latest(site.table, site.second) == [4, 1]


def test_i3_the_same_transaction_again_is_a_replay_with_the_same_commits(site: Pair) -> None:
    request = {"id": str(uuid.uuid4()), "commits": [site.inline(site.table, None, "a", base=3)]}
    request["commits"].append(site.inline(site.second, 1, "b"))
    first = site.ask("transact", request)
    again = site.ask("transact", request)
    assert (first.json["outcome"], again.json["outcome"]) == ("ratified", "replayed")
    assert first.json["commits"] == again.json["commits"]
    assert first.json["commits"][0]["commit"]["content"], "a ticket's bytes are told"


def test_i8_a_conflict_names_every_table_that_refused_with_its_winners_and_changes_nothing(site: Pair) -> None:
    before = site.state()
    answer = site.transact(
        site.inline(site.second, 1, "b"),
        site.inline(site.table, 2, "a"),
        reads=[{"table_id": site.third, "version": 0}],
    )
    error = answer.error
    assert (answer.status, error["type"], error["field"]) == (409, "TransactionConflict", "commits[1].version")
    (member,) = error["members"]
    assert (member["table_id"], member["type"], member["because"]) == (site.table, "CommitVersionConflict", "version")
    assert [winner["version"] for winner in member["winners"]] == [3, 2]
    assert site.state() == before


def test_i8_a_read_that_is_stale_refuses_with_the_commits_since(site: Pair) -> None:
    before = site.state()
    answer = site.transact(
        site.inline(site.second, 1, "b"),
        reads=[{"table_id": site.table, "version": 2}, {"table_id": site.third, "version": 0}],
    )
    (member,) = answer.error["members"]
    assert (member["table_id"], member["field"], member["because"]) == (site.table, "reads[0].version", "read")
    assert [winner["version"] for winner in member["winners"]] == [3]
    assert site.state() == before
    again = site.transact(site.inline(site.second, 1, "b"), reads=[{"table_id": site.table, "version": 3}])
    assert again.status == 200


def test_i8_a_read_with_slack_may_be_behind_by_it_and_no_further(site: Pair) -> None:
    def read(slack: int) -> list[dict[str, Any]]:
        return [{"table_id": site.table, "version": 1, "slack": slack}]

    before = site.state()
    refusal = site.transact(site.inline(site.second, 1, "b"), reads=read(1))
    (member,) = refusal.error["members"]
    assert (refusal.status, member["field"], member["because"]) == (409, "reads[0].version", "read")
    assert member["message"] == "version 1 was read, and version 3 is the latest, more than its slack of 1 later"
    for slack in (-1, 1_000_001):
        answer = site.transact(site.inline(site.second, 1, "b"), reads=read(slack))
        assert (answer.status, answer.error["field"]) == (400, "reads[0].slack")
    assert site.state() == before
    assert site.transact(site.inline(site.second, 1, "b"), reads=read(2)).status == 200
    assert site.latest(site.table, site.second) == [3, 1]


def test_i20_a_read_with_a_predicate_is_judged_by_the_commits_since(site: Pair) -> None:
    def read(predicate: str) -> list[dict[str, Any]]:
        return [{"table_id": site.second, "version": 0, "predicate": predicate}]

    stats = '{"numRecords":1,"minValues":{"id":5},"maxValues":{"id":7},"nullCount":{"id":0}}'
    content = delta.lines(delta.info("w", site.now()), delta.add("five-to-seven", stats=stats)).decode()
    one = {"table_id": site.second, "version": 1, "inline": {"content": content}}
    assert site.transact(one).status == 200
    before = site.state()
    refusal = site.transact(site.inline(site.third, 1, "b"), reads=read("id = 6"))
    (member,) = refusal.error["members"]
    assert (refusal.status, member["type"], member["because"]) == (409, "CommitVersionConflict", "read")
    assert member["message"] == (
        "version 0 was read, and version 1 may have changed it: a row of a file that it added may satisfy a predicate "
        "of this transaction's reads (file five-to-seven)"
    )
    for predicate in ("id =", "abs(id) = 6", "other = 6"):
        answer = site.transact(site.inline(site.third, 1, "b"), reads=read(predicate))
        assert (answer.status, answer.error["field"]) == (400, "reads[0].predicate"), answer.text
    assert site.state() == before
    assert site.transact(site.inline(site.third, 1, "b"), reads=read("id = 8 OR id IS NULL")).status == 200
    assert site.latest(site.second, site.third) == [1, 1]


class Thousand(Pair):
    """A site with a thousand tables more, at version 0."""

    def __init__(self) -> None:
        super().__init__()
        refs = self.world.refs
        space = self.world.space
        row = refs.rows[space.table(self.second)]
        self.many = [str(uuid.uuid4()) for _ in range(LARGE_MAX)]
        for id in self.many:
            more = {"key": space.table(id), "table_id": id, "location": f"{row['location']}-{id}"}
            refs.write(Insert(clone(row) | more, (new_row("I2"),)))


def test_i3_i8_a_thousand_tables_are_ratified_entirely_and_the_same_again_is_a_replay() -> None:
    site = Thousand()
    request = {"id": str(uuid.uuid4()), "commits": [site.inline(id, 1, f"t-{id}") for id in site.many]}
    site.world.refs.requests.clear()
    answer = site.ask("transact", request)
    assert answer.status == 200, answer.text
    assert (answer.json["outcome"], len(answer.json["commits"])) == ("ratified", LARGE_MAX)
    assert Counter(site.world.refs.requests) == {"read_many": 10, "write": 2, "transact": 20}
    assert set(site.latest(*site.many)) == {1}
    again = site.ask("transact", request)
    assert again.json["outcome"] == "replayed" and again.json["commits"] == answer.json["commits"]


def test_i8_one_of_a_thousand_tables_refuses_them_all_and_is_named() -> None:
    site = Thousand()
    site.ask("transact", {"id": str(uuid.uuid4()), "commits": [site.inline(site.many[700], 1, "other")]})
    answer = site.transact(*(site.inline(id, 1, f"t-{id}") for id in site.many))
    (member,) = answer.error["members"]
    assert (answer.status, member["table_id"], member["field"]) == (409, site.many[700], "commits[700].version")
    assert Counter(site.latest(*site.many)) == {0: LARGE_MAX - 1, 1: 1}


def test_i8_a_refusal_by_a_thousand_tables_names_a_hundred_of_them() -> None:
    site = Thousand()
    assert site.transact(*(site.inline(id, 1, f"t-{id}") for id in site.many)).status == 200
    answer = site.transact(*(site.inline(id, 1, f"u-{id}") for id in site.many))
    assert (answer.status, len(answer.error["members"])) == (409, 100) and "999 more" in answer.error["message"]


def test_i8_more_than_a_thousand_tables_are_refused_before_anything_is_read() -> None:
    site = Thousand()
    site.world.refs.requests.clear()
    answer = site.transact(*(site.inline(id, 1, f"t-{id}") for id in (*site.many, site.second)))
    assert (answer.status, answer.error["field"]) == (400, "commits") and site.world.refs.requests == []


def test_i8_a_table_that_waits_for_a_decision_refuses_commits_and_drops_for_now_and_is_read_as_it_was() -> None:
    site = Pair()
    service = GroupRatifier(site.world, Ratifier(site.world), part=1)
    commits = tuple(
        CommitRequest(id, 1, content=delta.append(f"t-{id}", site.now())) for id in (site.second, site.third)
    )
    group = GroupRequest(str(uuid.uuid4()), commits)
    write = site.world.refs.write
    decisions = 0

    def before_the_decision(change: Any) -> Any:
        nonlocal decisions
        if "/group/" in change.key and isinstance(change, Change):
            decisions += 1
            with patch.object(site.world.refs, "write", write):
                body = {"version": 1, "inline": {"content": delta.append("w", site.now()).decode()}}
                commit = site.ask("commit", body, path=f"/v1/tables/{site.second}/commits")
                drop = site.ask("dropTable", path="/v1/catalogs/main/namespaces/sales/tables/second")
                for answer in (commit, drop):
                    assert (answer.status, answer.error["type"]) == (409, "ConcurrentChange"), answer.text
                    assert answer.error["retry_after_ms"]
                assert site.shown(site.second) == 0
        return write(change)

    with patch.object(site.world.refs, "write", before_the_decision):
        assert isinstance(service.commit(group), GroupRatified) and decisions == 1
    assert site.shown(site.second) == 1


class Died(BaseException):
    """The function dies."""


def committed_and_not_folded(site: Pair) -> None:
    """A group of ``second`` and ``third`` whose function died right after the decision."""
    commits = tuple(
        CommitRequest(id, 1, content=delta.append(f"t-{id}", site.now())) for id in (site.second, site.third)
    )
    write = site.world.refs.write

    def dies_after_it(change: Any) -> Any:
        answer = write(change)
        if "/group/" in change.key and isinstance(change, Change):
            raise Died
        return answer

    with patch.object(site.world.refs, "write", dies_after_it), pytest.raises(Died):
        GroupRatifier(site.world, Ratifier(site.world), part=1).commit(GroupRequest(str(uuid.uuid4()), commits))
    assert site.latest(site.second, site.third) == [0, 0]


def test_i6_i8_what_was_decided_is_shown_everywhere_before_it_is_folded(site: Pair) -> None:
    committed_and_not_folded(site)
    assert site.shown(site.second) == 1
    assert site.ask("head", path=f"/v1/tables/{site.third}/head").json["latest"] == 1
    loaded = site.ask("loadTable", path="/v1/catalogs/main/namespaces/sales/tables/second").json
    assert loaded["latest"] == 1 and len(loaded["commits"]) == 1
    cut = site.ask("takeCut", {"tables": [site.second, "main.sales.third", site.table]}).json
    assert [table["version"] for table in cut["tables"]] == [1, 1, 3]
    txn = f"t-{site.second}"
    outcome = site.ask("outcome", path=f"/v1/tables/{site.second}/outcome", query={"txn_id": txn, "version": "1"}).json
    assert (outcome["outcome"], outcome["version"]) == ("ratified", 1)
    site.ask("createSnapshot", {"name": "with-it"})
    assert site.latest(site.second, site.third) == [0, 0], "readers write nothing"


def test_i8_i10_what_was_decided_is_folded_before_the_table_changes_otherwise(site: Pair) -> None:
    committed_and_not_folded(site)
    published = site.ask("publish", path=f"/v1/tables/{site.second}/publish").json
    assert published["floor"] == 1
    assert site.ask("dropTable", path="/v1/catalogs/main/namespaces/sales/tables/third").status < 300
    row = site.world.refs.rows[site.world.space.table(site.third)]
    assert (row["state"], row["latest"], row.get("undecided")) == ("dropped", 1, None)


def test_i8_i10_a_namespace_with_what_was_decided_in_it_is_dropped_with_it(site: Pair) -> None:
    committed_and_not_folded(site)
    assert site.ask("dropNamespace", path="/v1/catalogs/main/namespaces/sales", query={"cascade": "true"}).status < 300
    assert site.latest(site.second, site.third) == [1, 1]


def test_i2_a_staged_member_is_judged_and_one_that_breaks_the_protocol_refuses_all(site: Pair) -> None:
    location = site.world.refs.rows[site.world.space.table(site.second)]["location"]
    content = b'{"add": {"path": 3}}\n'
    name = f"{1:020d}.aaaa.json"
    site.world.storages.open(location).put_if_absent(f"_delta_log/_staged_commits/{name}", content)
    staged = {"table_id": site.second, "version": 1, "staged": {"name": name, "size": len(content)}}
    before = site.state()
    answer = site.transact(site.inline(site.table, 4, "a"), staged)
    assert (answer.status, answer.error["type"]) == (400, "InvalidCommit")
    assert answer.error["field"].startswith("commits[1]")
    assert site.state() == before


def test_i4_each_member_is_published_with_its_bytes(site: Pair) -> None:
    member = site.inline(site.second, 1, "b")
    site.transact(site.inline(site.table, 4, "a"), member)
    site.ask("publish", path=f"/v1/tables/{site.second}/publish")
    location = site.world.refs.rows[site.world.space.table(site.second)]["location"]
    published = site.world.storages.files[f"{location}/{published_path(1)}"][0]
    assert published.decode() == member["inline"]["content"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": "no uuid"}, "id"),
        ({"commits": []}, "commits"),
        ({"reads": [{"table_id": "x", "version": 0}]}, "table_id"),
        ({"reads": [{"table_id": NOBODY, "version": -1}]}, "reads[0].version"),
        ({"reads": [{"table_id": NOBODY, "version": "1"}]}, "reads[0].version"),
        ({"reads": [{"table_id": NOBODY, "version": 0}] * 2}, "commits"),
        ({"isolation": "any"}, None),
    ],
)
def test_a_bad_request_is_refused_with_its_member_and_changes_nothing(
    site: Pair, change: dict[str, Any], field: str | None
) -> None:
    before = site.state()
    good = {"id": str(uuid.uuid4()), "commits": [site.inline(site.table, 4, "a"), site.inline(site.second, 1, "b")]}
    answer = site.ask("transact", good | change)
    assert (answer.status, answer.error["type"]) == (400, "InvalidRequest"), answer.text
    if field:
        assert answer.error["field"] == field
    assert site.state() == before


def test_i12_every_table_that_is_written_or_read_needs_its_right() -> None:
    realm = Realm()
    second = realm.create("t2")
    for kind, name, right in (("catalog", "main", "USE CATALOG"), ("schema", "main.sales", "USE SCHEMA")):
        realm.grant(kind, name, "ann", right)
    realm.grant("table", "main.sales.t1", "ann", "MODIFY")
    commit = {"table_id": realm.table, **realm.append(2, "mine")}
    before = realm.state()
    request = {"id": str(uuid.uuid4()), "commits": [commit], "reads": [{"table_id": second, "version": 0}]}
    assert realm.ask("ann", "POST", "/v1/transactions", request).status == 403
    assert realm.state() == before
    alone = {**request, "reads": []}
    assert realm.ask("ann", "POST", "/v1/transactions", alone).status == 200
