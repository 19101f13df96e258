"""Clients of the bank over HTTP: writers, which transfer money between tables, and auditors, which
add it up.

Each keeps to the rules of docs/api.md: a group without an answer is sent again, the same, until its
outcome is told; a conflict is answered with a new group on a new cut. A client may die in the
middle of a request: it hangs up, and no client sends that request again.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from tests.histories.bank.ledger import Bank, Book, Entry, View, Wrong, content_of, error_of
from tests.histories.bank.record import RATIFIED, REFUSED, Group, Record

PASSING: Final = {429, 500, 502, 503, 504}
"""Answers after which the same request is sent again."""
PASSING_TYPES: Final = {"ConcurrentChange", "BacklogFull"}
"""Refusals of a member after which the same group is sent again."""
FOREVER_S: Final = 120.0
"""A server that has not answered a request for so long is taken not to answer it."""
WAIT_S: Final = 0.02
HURRY_S: Final = 0.06
"""How long a client that hangs up waits at most."""


class Died(Exception):
    """The client is killed while a request is on its way."""


@dataclass(frozen=True)
class Habits:
    """How clients behave: shares of requests after which they die or only hang up, whether
    ``reads`` are sent (serializable; without them snapshot isolation), the share of transfers that
    take all that a customer has, and of transfers before which an old group is sent again, by a
    writer that has forgotten that it was told."""

    deaths: float = 0.0
    hang_ups: float = 0.0
    sends_reads: bool = True
    greed: float = 0.5
    repeats: float = 0.1


@dataclass(frozen=True)
class Shared:
    """The common part of all clients of a campaign."""

    bank: Bank
    book: Book
    record: Record
    habits: Habits


class Client:
    """The common part of writers and auditors. Not for several threads; close it."""

    def __init__(self, http: httpx.Client, shared: Shared, seed: str) -> None:
        self._http = http
        self._bank = shared.bank
        self._record = shared.record
        self._habits = shared.habits
        self._rng = random.Random(seed)
        self._view = View(shared.bank, shared.book)

    def close(self) -> None:
        self._http.close()

    def _ask(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> httpx.Response:
        """Sends a request until an answer is not one that passes; that of a client in a hurry is
        sent again as well. Raises Died, and Wrong where no answer comes."""
        deadline = time.monotonic() + FOREVER_S
        while time.monotonic() < deadline:
            chance = self._rng.random()
            dies = chance < self._habits.deaths
            in_a_hurry = dies or chance < self._habits.deaths + self._habits.hang_ups
            timeout = self._rng.random() * HURRY_S if in_a_hurry else 35.0
            try:
                answer = self._http.request(method, path, json=body, params=query, timeout=timeout)
            except httpx.TransportError:
                if dies:
                    raise Died from None
                self._record.count("unanswered")
            else:
                if answer.status_code not in PASSING:
                    return answer
                self._record.count(f"answers {answer.status_code}")
            time.sleep(self._rng.random() * 2 * WAIT_S)
        raise Wrong(f"no answer to {method} {path} for {FOREVER_S:.0f} s")

    def _get(self, path: str, query: Mapping[str, Any]) -> httpx.Response:
        return self._ask("GET", path, query=query)

    def _cut(self, table_ids: Iterable[str]) -> tuple[dict[str, int], int]:
        """Returns a cut of these tables, and the latest of their timestamps. Raises Wrong if it
        lacks an earlier answer."""
        began = time.monotonic_ns()
        least = self._record.least()
        ids = list(table_ids)
        self._rng.shuffle(ids)
        answer = self._ask("POST", "/v1/snapshots", {"tables": ids})
        if answer.status_code != 200:
            raise Wrong(f"a cut was refused: {answer.status_code} {answer.text[:300]}")
        tables = answer.json()["tables"]
        versions = {table["table_id"]: table["version"] for table in tables}
        if [table["table_id"] for table in tables] != ids:
            raise Wrong(f"a cut of {ids} has {list(versions)}")
        self._record.add_cut(versions, began)
        if late := {id: version for id, version in versions.items() if version < least.get(id, 0)}:
            raise Wrong(f"a cut has {late}, and {least} was acknowledged or in a cut before it began")
        return versions, max(table["timestamp"] for table in tables)


class Auditor(Client):
    """Adds up all accounts in one cut after the other."""

    def audit(self) -> None:
        """Raises Wrong where a rule is broken, Died."""
        cut, _ = self._cut(self._bank.ids)
        balances = self._view.balances(cut, self._get, rereads=True)
        problems = self._bank.problems(balances, of_customers=self._habits.sends_reads)
        self._record.count("audits")
        if problems:
            raise Wrong(f"in the cut {cut}: {', '.join(problems)}")


class Writer(Client):
    """Transfers from one of a customer's accounts to accounts in other tables."""

    def __init__(self, http: httpx.Client, shared: Shared, seed: str) -> None:
        super().__init__(http, shared, seed)
        self._past: deque[Group] = deque(maxlen=50)

    def transfer(self, stop: threading.Event) -> None:
        """Makes a transfer, on a new cut after each conflict. Raises Wrong, Died."""
        if self._past and self._rng.random() < self._habits.repeats:
            self._repeat(self._rng.choice(self._past))
        payer = self._rng.randrange(self._bank.customers)
        source = self._rng.choice(list(self._bank.accounts(payer)))
        payees = self._payees(payer, source)
        for attempt in range(1000):
            if stop.is_set():
                return
            group = self._group(payer, source, payees)
            if group is None:
                time.sleep(self._rng.random() * WAIT_S)
                return
            self._record.add_group(group)
            outcome = self._send(group)
            self._record.told(group, outcome)
            self._past.append(group)
            if outcome == RATIFIED:
                return
            time.sleep(self._rng.random() * min(0.02 * 2**attempt, 1.0))

    def _repeat(self, group: Group) -> None:
        """Sends a group again after its outcome was answered: it must be the same (I3)."""
        if (outcome := self._send(group, is_told=True)) != group.outcome:
            raise Wrong(f"group {group.id} was {group.outcome}, and sent again it is {outcome}")
        self._record.count("repeats")

    def _payees(self, payer: int, source: str) -> dict[str, str]:
        """Accounts of others in one or two tables that are not the source."""
        tables = [id for id in self._bank.ids if id != source]
        payees = {}
        for table_id in self._rng.sample(tables, self._rng.randint(1, min(2, len(tables)))):
            others = [
                accounts[table_id]
                for customer in range(self._bank.customers)
                if customer != payer and table_id in (accounts := self._bank.accounts(customer))
            ]
            payees[table_id] = self._rng.choice(others)
        return payees

    def _group(self, payer: int, source: str, payees: Mapping[str, str]) -> Group | None:
        """The transfer on a new cut; None if the customer has nothing."""
        began = time.monotonic_ns()
        accounts = self._bank.accounts(payer)
        cut, timestamp = self._cut({*accounts, *payees})
        balances = self._view.balances(cut, self._get, rereads=self._rng.random() < 0.2)
        funds = self._bank.funds(payer, balances)
        if funds < len(payees):
            return None
        amount = funds if self._rng.random() < self._habits.greed else self._rng.randint(len(payees), funds)
        changes = {source: {accounts[source]: -amount}}
        for number, (table_id, account) in enumerate(payees.items()):
            share = amount // len(payees) + (amount % len(payees) if number == 0 else 0)
            changes[table_id] = {account: share}
        id = str(uuid.uuid4())
        stamp_ms = max(time.time_ns() // 1_000_000, timestamp + 1)
        writes = {table_id: cut[table_id] + 1 for table_id in changes}
        contents = {
            table_id: content_of(Entry(id, cut, writes, change), table_id, stamp_ms)
            for table_id, change in changes.items()
        }
        return Group(id, cut, contents, began)

    def _send(self, group: Group, *, is_told: bool = False) -> str:
        """Sends a group until its outcome is told; ``is_told`` if it was before. Raises Wrong where
        the answer contradicts itself or the rules, Died."""
        body = body_of(group, sends_reads=self._habits.sends_reads)
        deadline = time.monotonic() + FOREVER_S
        while time.monotonic() < deadline:
            answer = self._ask("POST", "/v1/transactions", body)
            if answer.status_code == 200:
                ratified = answer.json()
                if not is_told:
                    self._record.count(f"outcome {ratified['outcome']}")
                elif ratified["outcome"] != "replayed":
                    raise Wrong(f"group {group.id} was {group.outcome}, and sent again {ratified['outcome']}")
                versions = {member["table_id"]: member["commit"]["version"] for member in ratified["commits"]}
                if versions != group.writes:
                    raise Wrong(f"group {group.id} named {group.writes} and was ratified as {versions}")
                return RATIFIED
            error = error_of(answer)
            types = {member.get("type") for member in error.get("members", ())}
            if (answer.status_code, error.get("type")) != (409, "TransactionConflict"):
                raise Wrong(f"group {group.id} was answered {answer.status_code} {answer.text[:300]}")
            if not types <= {"CommitVersionConflict", *PASSING_TYPES}:
                raise Wrong(f"group {group.id} was refused for no reason that it may have: {answer.text[:500]}")
            if "CommitVersionConflict" in types:
                return REFUSED
            time.sleep(self._rng.random() * WAIT_S)
        raise Wrong(f"group {group.id} was not decided for {FOREVER_S:.0f} s")


def body_of(group: Group, *, sends_reads: bool = True) -> dict[str, Any]:
    """The request of a group."""
    commits = [
        {"table_id": id, "version": group.writes[id], "inline": {"content": content.decode()}}
        for id, content in group.contents.items()
    ]
    only_read = sorted(set(group.reads) - set(group.contents))
    reads = [{"table_id": id, "version": group.reads[id]} for id in only_read] if sends_reads else []
    return {"id": group.id, "commits": commits, "reads": reads}
