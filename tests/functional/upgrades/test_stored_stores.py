"""Stores that earlier states of the code wrote answer as they did then (docs/operations.md,
Upgrades)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.earlier.answers import identities_in, versions_in
from tests.support.earlier.archive import LAKE, MOST_BYTES, Store, empty_bucket, stored, unpack
from tests.support.earlier.exchanges import Exchange, Requests, missing, requests
from tests.support.earlier.story import ADMIN, iceberg_catalog, tokens
from tests.support.server import MovingServer, aws_environment, moving_server
from tests.support.stack import until
from tests.support.store.backends import MINISTACK
from tests.support.store.servers import Servers
from turnstile_server import Server

LATER_MS = 60_000
"""How long after the last request of then the store is opened: identities are still kept."""


@dataclass
class Opened:
    """A store of an earlier state, and a server of today on it."""

    store: Store
    server: MovingServer
    requests: Requests
    s3_url: str

    def get(self, path: str) -> Any:
        return self.requests.send("GET", path)

    def exchanges(self, *kinds: str) -> list[Exchange]:
        found = [one for one in self.store.exchanges if one.repeat in kinds]
        assert found, "nothing would be asked"
        return found


@pytest.fixture(scope="module", params=[pytest.param(path, id=path.name.split(".")[0]) for path in stored()])
def opened(
    request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    s3_url = servers.get(MINISTACK).url
    assert s3_url is not None
    home = tmp_path_factory.mktemp("earlier")
    store = unpack(request.param, home, empty_bucket(s3_url))
    variables = {**aws_environment(s3_url), "TURNSTILE_TOKENS": tokens()}
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        server = stack.enter_context(moving_server(home, patch, LAKE, variables))
        now_ms = server.clock.now_ms()
        server.clock.ahead_ms = store.written_ms + LATER_MS - now_ms
        asked = stack.enter_context(requests(server.url, ADMIN))
        yield Opened(store, server, asked, s3_url)


def test_there_are_stores_of_at_least_four_earlier_states_and_each_is_small() -> None:
    paths = stored()
    assert len(paths) >= 5
    assert max(path.stat().st_size for path in paths) <= MOST_BYTES


def test_i3_a_commit_that_is_sent_again_gets_the_version_that_it_got(opened: Opened) -> None:
    for one in opened.exchanges("commit"):
        answer = opened.requests.again(one)
        assert answer.status_code == one.status, f"{one.title}: {answer.text}"
        assert versions_in(answer.json()) == versions_in(one.answer), one.title


def test_i3_the_outcome_of_every_acknowledged_commit_is_known(opened: Opened) -> None:
    for one in opened.exchanges("commit"):
        for table_id, identity, version in identities_in(one):
            outcome = opened.get(f"/v1/tables/{table_id}/outcome?{identity}")
            assert (outcome["outcome"], outcome["version"]) == ("ratified", version), identity


def test_requests_with_a_key_and_reads_are_answered_as_they_were(opened: Opened) -> None:
    for one in opened.exchanges("same", "read"):
        answer = opened.requests.again(one)
        assert answer.status_code == one.status, f"{one.title}: {answer.text}"
        then, today = (dict(body) for body in (one.answer, answer.json()))
        for body in (then, today):
            body.pop("outcome", None)  # a replay says so
            if one.repeat == "read" and "error" in body:  # advice of today, and no stored answer
                body["error"] = {name: value for name, value in body["error"].items() if name != "remedy"}
        assert missing(then, today) == [], one.title


def test_i11_what_was_ratified_and_not_published_is_published(opened: Opened) -> None:
    for name in ("orders", "lines"):
        table_id = opened.store.ids[name]
        head = opened.get(f"/v1/tables/{table_id}/head")
        assert head["floor"] < head["latest"], "the store was to have unpublished commits"
        opened.server.publish(table_id)
        head = opened.get(f"/v1/tables/{table_id}/head")
        assert head["floor"] == head["latest"]
        found = opened.get(f"/v1/tables/{table_id}/verification")
        assert (found["deviations"], found["last"]) == ([], head["latest"])
        assert opened.get(f"/v1/tables/{table_id}/repair")["finding"] == "healthy"


def test_i8_an_open_transaction_can_be_finished(opened: Opened) -> None:
    path = f"/v1/transactions/{opened.store.ids['transaction']}"
    entry = opened.get(path)
    assert entry["state"] == "open"
    done = opened.requests.send("POST", f"{path}/resume")
    assert versions_in(done) == [member["version"] for member in entry["commits"]]
    assert opened.get(path)["state"] == "committed"


def test_a_reader_still_pins_its_version(opened: Opened) -> None:
    pins = opened.get(f"/v1/tables/{opened.store.ids['orders']}/pins")["pins"]
    assert [(pin["first"], pin["last"]) for pin in pins if pin.get("holder") == "stream"] == [(5, 5)]


def test_a_plan_names_the_files_of_all_commits(opened: Opened) -> None:
    head = opened.get(f"/v1/tables/{opened.store.ids['orders']}/head")
    plan = opened.requests.send("POST", f"/v1/tables/{opened.store.ids['orders']}/plan", {})
    assert len(plan["files"]) == plan["version"] == head["latest"], "each commit added one file"


def test_an_iceberg_client_reads_and_appends(opened: Opened) -> None:
    import pyarrow as pa

    table = iceberg_catalog(opened.server.url, opened.s3_url).load_table("sales.berg")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    table.append(pa.table({"id": [3]}))
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_catalog_goes_back_to_a_snapshot_and_a_dropped_table_is_there_again(opened: Opened) -> None:
    done = opened.requests.send("POST", "/v1/catalogs/main/reset", {"to": {"snapshot": "monday"}})
    assert "sales.spare" in json.dumps(done["restored"])
    assert opened.get("/v1/catalogs/main/namespaces/sales/tables/spare")["table_id"] == opened.store.ids["spare"]


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.name.split(".")[0]) for path in stored()[:: max(1, len(stored()) - 1)]]
)
def test_i11_a_server_publishes_what_an_earlier_one_left_when_it_died(
    path: Path, servers: Servers, tmp_path: Path
) -> None:
    s3_url = servers.get(MINISTACK).url
    assert s3_url is not None
    store = unpack(path, tmp_path, empty_bucket(s3_url))
    environment = {**aws_environment(s3_url), "TURNSTILE_TOKENS": tokens()}
    with ExitStack() as stack:
        server = stack.enter_context(Server.start(tmp_path, 0, "token-of-the-operator", LAKE, environment=environment))
        asked = stack.enter_context(requests(server.url, ADMIN))

        def published() -> bool:
            head = asked.send("GET", f"/v1/tables/{store.ids['orders']}/head")
            return bool(head["floor"] == head["latest"])

        until(published, "all commits are published")
        checks = asked.send("POST", "/v1/checks")["checks"]
        assert {one["result"] for one in checks} <= {"ok", "warning"}, checks
