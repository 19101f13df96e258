"""Faulty servers: a real one behind a transport that breaks the promise of groups, or of cuts. Each
must be noticed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import httpx

from turnstile_server import Server

PAUSE_S: Final = 0.005
"""Between two requests that should have been one: in practice another machine's work."""

Ask = Callable[..., httpx.Response]
"""Sends a request to the real server: method, path, body."""
Answer = Callable[[dict[str, Any], Ask], httpx.Response]


def forgets_reads(body: dict[str, Any], ask: Ask) -> httpx.Response:
    """Tables that a group only read are not checked."""
    return ask("POST", "/v1/transactions", {**body, "reads": []})


def forgets_versions(body: dict[str, Any], ask: Ask) -> httpx.Response:
    """Each commit becomes the next version, on any version that it was built on; the answer is the
    hoped-for one."""
    commits = [{**commit, "version": None, "base": commit["version"] - 1} for commit in body["commits"]]
    answer = ask("POST", "/v1/transactions", {"id": body["id"], "commits": commits, "reads": []})
    if answer.status_code != 200:
        return answer
    ratified = answer.json()
    for member, commit in zip(ratified["commits"], body["commits"], strict=True):
        member["commit"]["version"] = commit["version"]
    return httpx.Response(200, json=ratified)


def commits_one_after_the_other(body: dict[str, Any], ask: Ask) -> httpx.Response:
    """A group is written by single commits, and the first that is refused ends it. Reads are
    checked before."""
    for read in body["reads"]:
        latest = ask("GET", f"/v1/tables/{read['table_id']}/head").json()["latest"]
        if latest != read["version"]:
            return _conflict(read["table_id"])
    commits = []
    for commit in body["commits"]:
        table_id = commit["table_id"]
        single = {name: value for name, value in commit.items() if name != "table_id"}
        answer = ask("POST", f"/v1/tables/{table_id}/commits", single)
        if answer.status_code == 409:
            return _conflict(table_id)
        if answer.status_code != 200:
            return answer
        commits.append({"table_id": table_id, **answer.json()})
        time.sleep(PAUSE_S)
    return httpx.Response(200, json={"outcome": "ratified", "id": body["id"], "commits": commits})


def reads_one_after_the_other(body: dict[str, Any], ask: Ask) -> httpx.Response:
    """A cut is several: of each table its latest version when it was looked at."""
    tables = []
    for table_id in body["tables"]:
        answer = ask("POST", "/v1/snapshots", {"tables": [table_id]})
        if answer.status_code != 200:
            return answer
        tables += answer.json()["tables"]
        time.sleep(PAUSE_S)
    return httpx.Response(200, json={"tables": tables, "taken_at_ms": answer.json()["taken_at_ms"]})


def _conflict(table_id: str) -> httpx.Response:
    members = [{"table_id": table_id, "type": "CommitVersionConflict"}]
    return httpx.Response(409, json={"error": {"type": "TransactionConflict", "members": members}})


class Fault(NamedTuple):
    """``answer`` answers ``POST`` of ``path``; ``anomaly`` follows, and ``sums`` that cuts do not
    add up."""

    path: str
    answer: Answer
    anomaly: str
    sums: bool = False


FAULTS: Final[Mapping[str, Fault]] = {
    "reads are not checked": Fault("/v1/transactions", forgets_reads, "G2"),
    "versions are not checked": Fault("/v1/transactions", forgets_versions, "G-single"),
    "commits one after the other": Fault("/v1/transactions", commits_one_after_the_other, "G-single", sums=True),
    "cuts one table after the other": Fault("/v1/snapshots", reads_one_after_the_other, "G-single", sums=True),
}


class FaultyTransport(httpx.BaseTransport):
    """Answers what has the fault, which is given the body and a function that asks the server; the
    rest is the server's."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._server = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != self._fault.path or request.method != "POST":
            return self._server.handle_request(request)

        def ask(method: str, path: str, body: Any = None) -> httpx.Response:
            sent = httpx.Request(method, request.url.copy_with(path=path), json=body, extensions=request.extensions)
            answer = self._server.handle_request(sent)
            answer.read()
            return answer

        return self._fault.answer(json.loads(request.content), ask)

    def close(self) -> None:
        self._server.close()


def faulty_client(server: Server, fault: str) -> httpx.Client:
    """Returns a client of ``server`` for which it has a fault. Close it."""
    headers = {"authorization": f"Bearer {server.token}"} if server.token else {}
    return httpx.Client(base_url=server.url, headers=headers, transport=FaultyTransport(FAULTS[fault]), timeout=35.0)
