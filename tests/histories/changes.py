"""Concurrent clients that change a catalog by way of any server of a store, and the entries that
its log must have by the answers to them (I3, I21)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

import httpx

from tests.histories.anywhere import Anywhere

NAMESPACES = "/v1/catalogs/main/namespaces"


@dataclass
class Answers:
    """Names of namespaces by the result of their creation, as it was answered; ``others``:
    responses that no client should get."""

    acknowledged: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def change(connect: Callable[[], Anywhere], clients: int, rest_s: float, ended: threading.Event) -> Answers:
    """Lets clients create namespaces until ``ended``. Every second one carries an idempotency key,
    and is sent until there is an answer."""
    answers = Answers()
    faults = list[BaseException]()

    def work() -> None:
        try:
            with connect() as http:
                while not ended.is_set():
                    _create(http, answers, f"n{uuid4().hex}", "")
                    _create(http, answers, f"n{uuid4().hex}", str(uuid4()))
                    ended.wait(rest_s)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return answers


def _create(http: Anywhere, answers: Answers, name: str, key: str) -> None:
    headers = {"idempotency-key": key} if key else {}
    while True:
        outcome = answers.unknown
        try:
            response = http.post(NAMESPACES, json={"name": name}, headers=headers)
        except httpx.TransportError:
            pass
        else:
            if response.status_code == 201:
                outcome = answers.acknowledged
            elif response.status_code in (409, 429, 503) and "retry_after_ms" in response.text:
                outcome = answers.refused  # nothing was applied
            elif '"CommitStateUnknown"' not in response.text:
                answers.others.append(f"{response.status_code} {response.text[:500]}")
                return
        if not key or outcome is answers.acknowledged:
            outcome.append(name)
            return


def check_log(http: Anywhere, answers: Answers) -> list[str]:
    """Returns the faults of the catalog's log: an acknowledged name is there once, a name with an
    unknown outcome at most once, a refused one never."""
    numbers = list[int]()
    created = Counter[str]()
    start = ""
    while True:
        page = http.get(f"/v1/catalogs/main/log?max_results=500{start}").raise_for_status().json()
        for commit in page["commits"]:
            numbers.append(commit["seq"])
            created[commit["message"].rpartition(" ")[2].rpartition(".")[2].strip("'")] += 1
        if "next" not in page:
            break
        start = f"&start={page['next']}"
    problems = [f"an answer: {other}" for other in answers.others]
    problems += [
        f"{name} was acknowledged and is in the log {created[name]} times"
        for name in answers.acknowledged
        if created[name] != 1
    ]
    problems += [f"{name} is in the log {created[name]} times" for name in answers.unknown if created[name] > 1]
    problems += [f"{name} was refused, and is in the log" for name in answers.refused if created[name]]
    if numbers != list(range(numbers[0], numbers[0] - len(numbers), -1)):
        problems.append("the numbers of the log have a gap")
    return problems
