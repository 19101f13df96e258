"""A server forwards a change of a catalog to its owner, and reports an outcome without an answer as
unknown (I3, I12, I21)."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from turnstile.api.http.handler import Incoming
from turnstile.api.http.request import BodyLimit
from turnstile.api.http.responses import Response
from turnstile.fleet.core.decisions import granule_of
from turnstile.fleet.core.forwarded import Failed, ForwardedRequest, ForwardedResponse, Reached
from turnstile.fleet.core.owners import CATALOGS, HOT_PER_S, Address, Owners, Rates, table_subject
from turnstile.rights.grants import OPERATOR, Principal
from turnstile.store.core.errors import NotAuthenticated, TooLarge, TurnstileError
from turnstile_server.fleet import owner
from turnstile_server.fleet.forwarding import OwnersFile
from turnstile_server.fleet.owner import Forwarding, answering
from turnstile_server.telemetry import metrics

ADDRESS = Address("127.0.0.1", 1, "secret")
ROUTE = "/v1/catalogs/{catalog}/namespaces"
COMMITS = "/v1/tables/{table_id}/commits"
UNITY = "/api/2.1/unity-catalog/delta/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"


class Tokens:
    """Accepts one token."""

    def principal(self, authorization: str, context: object) -> Principal:
        if authorization != "Bearer good":
            raise NotAuthenticated("unknown")
        return OPERATOR


class Here:
    """An app that notes what it answers."""

    bodies = BodyLimit(10)

    def __init__(self) -> None:
        self.bodies_read: list[bytes] = []
        self.status = 201
        self.refused: list[TurnstileError] = []

    def route_of(self, path: str) -> tuple[str, dict[str, str]]:
        routes = {
            "namespaces": (ROUTE, {"catalog": "Main"}),
            "commits": (COMMITS, {"table_id": "t"}),
            "t": (UNITY, {"catalog": "c", "schema": "s", "table": "t"}),
        }
        return routes.get(path.rpartition("/")[2], ("", {}))

    def serves(self, path: str, method: str) -> bool:
        return path.endswith("/namespaces")

    def answer(self, incoming: Incoming) -> Response:
        try:
            self.bodies_read.append(incoming.read(self.bodies))
        except TurnstileError as error:
            return self.refuse(incoming, error)
        return Response(self.status, {}, b"here")

    def refuse(self, incoming: Incoming, error: TurnstileError) -> Response:
        self.refused.append(error)
        return Response(503, {}, b"refused")


class Site:
    """A server's forwarding, an owner that does as told, and an app."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[ForwardedRequest] = []
        self.outcome: ForwardedResponse | Failed = ForwardedResponse(201, {"a": "b"}, b"there")
        self.counted: Counter[str] = Counter()
        site = self

        class Scripted:
            def ask(self, address: Address, request: ForwardedRequest) -> ForwardedResponse:
                assert address == ADDRESS
                site.asked.append(request)
                if isinstance(site.outcome, Failed):
                    raise site.outcome
                return site.outcome

        class Counting:
            def count(self, outcome: str) -> None:
                site.counted[outcome] += 1

        monkeypatch.setattr(owner, "OwnerClient", Scripted)
        monkeypatch.setattr(metrics, "ForwardingMetrics", Counting)
        self.file = OwnersFile(folder / "owners")
        self.app: Any = Here()
        self.forwarding = Forwarding(OwnersFile(folder / "owners"), Tokens())
        self.believe({granule_of(CATALOGS, "main", 4): ADDRESS})

    def believe(self, owners: dict[str, Address], lasts_ms: int = 3_600_000) -> None:
        self.file.write(Owners(time.monotonic_ns() // 1_000_000 + lasts_ms, 4, owners))

    def send(
        self,
        body: bytes = b"{}",
        method: str = "POST",
        token: str = "good",
        path: str = "/v1/catalogs/Main/namespaces",
        **headers: str,
    ) -> Response:
        sent = [body]

        def read(limit: BodyLimit | None) -> bytes:
            content = sent.pop()  # a second read would find nothing
            if limit is not None and len(content) > limit.bytes:
                raise TooLarge("too large")
            return content

        headers = {"authorization": f"Bearer {token}", **headers}
        return self.forwarding.answer(self.app, Incoming(method, path, "q=1", headers, read))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_the_owner_is_asked_with_the_callers_own_request(site: Site) -> None:
    assert site.send().body == b"there"
    headers = {"authorization": "Bearer good"}
    assert site.asked == [ForwardedRequest("POST", "/v1/catalogs/Main/namespaces", "q=1", headers, b"{}")]
    assert site.app.bodies_read == [] and site.counted == {"answered": 1}


def test_no_owner_is_asked_for_reads_or_where_no_owner_is_sure(site: Site) -> None:
    assert site.send(method="GET").body == b"here"
    site.believe({})
    assert site.send().body == b"here"
    site.believe({granule_of(CATALOGS, "main", 4): ADDRESS}, lasts_ms=-1)
    assert site.send().body == b"here"
    assert site.asked == [] and site.app.bodies_read == [b"{}"] * 3 and not site.counted


def test_i12_what_is_refused_here_is_not_asked_for(site: Site) -> None:
    site.send(token="bad")
    assert site.send(body=b"x" * 11).status == 503
    assert site.asked == [] and [type(error) for error in site.app.refused] == [TooLarge]


@pytest.mark.parametrize("reached", [Reached.NOT_SENT, Reached.NOT_STARTED])
def test_a_request_that_the_owner_did_not_begin_is_applied_here_once(site: Site, reached: Reached) -> None:
    site.outcome = Failed(reached, "frozen")
    assert site.send().body == b"here"
    assert site.app.bodies_read == [b"{}"] and site.counted == {"applied here": 1}


def test_an_owner_that_did_not_answer_is_not_asked_for_a_while(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, "AVOID_MS", 3_600_000)
    site.outcome = Failed(Reached.NOT_SENT, "dead")
    site.send()
    site.outcome = ForwardedResponse(201, {}, b"there")
    assert site.send().body == b"here"
    assert len(site.asked) == 1
    site.forwarding._avoided = dict.fromkeys(site.forwarding._avoided, 0)
    assert site.send().body == b"there"


def test_i3_a_change_without_a_key_that_may_be_applied_is_unknown(site: Site) -> None:
    site.outcome = Failed(Reached.STARTED, "died")
    assert site.send().body == b"refused"
    assert [error.type for error in site.app.refused] == ["CommitStateUnknown"]
    assert site.app.bodies_read == [] and site.counted == {"unknown": 1}


def test_i3_a_change_with_a_key_is_sent_again_and_finds_what_it_did(site: Site) -> None:
    site.outcome = Failed(Reached.STARTED, "died")
    key = {"idempotency-key": "0198c0de-0000-7000-8000-000000000000"}
    assert site.send(**key).body == b"here"
    assert site.app.bodies_read == [b"{}"] and site.counted == {"applied here": 1}


@pytest.mark.parametrize(("status", "settles"), [(204, True), (409, True), (404, False), (429, False), (503, False)])
def test_i21_a_refusal_that_passes_is_unknown_where_the_owner_may_apply_the_change(
    site: Site, status: int, settles: bool
) -> None:
    site.outcome = Failed(Reached.STARTED, "died")
    site.app.status = status
    response = site.send(**{"idempotency-key": "0198c0de-0000-7000-8000-000000000000"})
    assert (response.body == b"here") is settles
    assert site.counted == {"applied here" if settles else "unknown": 1}


class Hot(Site):
    """A table that gets many commits, and an owner of it."""

    PATHS = ("/v1/tables/t/commits", "/api/2.1/unity-catalog/delta/v1/catalogs/c/schemas/s/tables/t")

    def commit(self, path: str = PATHS[0]) -> Response:
        return self.send(path=path)

    def heat(self, path: str = PATHS[0]) -> None:
        self.believe({})
        for _ in range(HOT_PER_S):
            self.commit(path)
        self.believe({granule_of(CATALOGS, table_subject(name), 4): ADDRESS for name in ("t", "c.s.t")})
        self.app.bodies_read.clear()


@pytest.fixture
def hot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hot:
    site = Hot(tmp_path, monkeypatch)
    site.forwarding._clock_ms = lambda: 5_000
    return site


@pytest.mark.parametrize("path", Hot.PATHS)
def test_i23_the_owner_is_asked_for_commits_of_a_table_that_gets_many(hot: Hot, path: str) -> None:
    hot.believe({granule_of(CATALOGS, table_subject(name), 4): ADDRESS for name in ("t", "c.s.t")})
    for _ in range(HOT_PER_S - 1):
        assert hot.commit(path).body == b"here"
    assert hot.commit(path).body == b"there" and [request.path for request in hot.asked] == [path]


def test_i3_i23_a_commit_without_an_answer_is_sent_again_here_and_what_passes_is_unknown(hot: Hot) -> None:
    hot.heat()
    hot.outcome = Failed(Reached.STARTED, "died")
    assert hot.commit().body == b"here" and hot.app.bodies_read == [b"{}"]
    for status in (400, 404, 409, 429, 503):
        hot.forwarding._avoided = {}
        hot.app.status = status
        assert hot.commit().body == b"refused"
    assert hot.counted == {"applied here": 1, "unknown": 5}


def test_i3_i23_what_more_than_commits_may_do_is_unknown_without_an_answer(hot: Hot) -> None:
    hot.heat(Hot.PATHS[1])
    hot.outcome = Failed(Reached.STARTED, "died")
    response = hot.send(path=Hot.PATHS[1], **{"idempotency-key": "0198c0de-0000-7000-8000-000000000000"})
    assert response.body == b"refused" and hot.app.bodies_read == []


def test_a_table_is_hot_by_its_commits_of_this_second_and_the_last_one() -> None:
    rates = Rates(hot_per_s=3, most=2)
    assert [rates.note("t", now_ms) for now_ms in (0, 1, 999)] == [False, False, True]
    assert rates.note("t", 1_000) and not rates.note("t", 2_000), "the second before had one"
    assert [rates.note("t", 5_000) for _ in range(3)] == [False, False, True] and not rates.note("t", 7_500)
    assert [rates.note("t", 7_600) for _ in range(2)] == [False, True]
    rates.note("u", 7_600)
    rates.note("v", 7_600)
    assert not rates.note("t", 7_600), "forgotten for others"


def test_an_owner_that_accepts_other_tokens_did_nothing(site: Site) -> None:
    site.outcome = ForwardedResponse(401, {}, b"who?")
    assert site.send().body == b"here"
    assert site.counted == {"applied here": 1}


def test_i12_the_owner_reads_no_more_than_its_app_allows() -> None:
    app: Any = Here()
    answer = answering((app, app))
    asked = ForwardedRequest("POST", "/v1/catalogs/Main/namespaces", "", {}, b"x" * 10)
    assert answer(asked) == ForwardedResponse(201, {}, b"here")
    assert answer(ForwardedRequest("POST", "/nowhere", "", {}, b"x" * 11)).status == 503
    assert [type(error) for error in app.refused] == [TooLarge]
