"""Accounts in several tables, their changes in a commit, and balances as of a cut.

A customer has an account in two of the tables. Two rules hold over tables: all accounts together
never gain or lose, and a customer's two accounts together are never below zero (one of them may
be). The second needs serializability: two withdrawals, each from one of the accounts and each
allowed by both, would break it.

A commit carries its entry in ``commitInfo.userMetadata``, so that ``_delta_log`` alone tells
everything.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec

from tests.support.fakes import delta
from tests.support.stack import Storage, Table, commit_info


class Wrong(Exception):
    """A client got an answer that breaks a promise."""


class Entry(msgspec.Struct, frozen=True):
    """A group as each of its commits tells it: ``reads`` and ``writes`` are versions by table, of
    the cut that it stands on and of the commits; ``changes`` its changes of the accounts of this
    table."""

    group: str
    reads: dict[str, int]
    writes: dict[str, int]
    changes: dict[str, int]


def content_of(entry: Entry, table_id: str, stamp_ms: int) -> bytes:
    """The commit of ``entry`` to a table: one data file, and no removes."""
    note = msgspec.json.encode(entry).decode()
    info = delta.info(f"{entry.group}.{table_id}", stamp_ms, userMetadata=note)
    return delta.lines(info, delta.add(f"{entry.group}.parquet", len(entry.changes)))


def entry_of(content: bytes) -> Entry | None:
    """None for a commit that is not of the bank, such as version 0."""
    note = commit_info(content).get("userMetadata")
    return None if note is None else msgspec.json.decode(note, type=Entry)


@dataclass(frozen=True)
class Bank:
    """Tables, and the accounts in them: of customer c in tables c and c + 1, counted in a circle.
    Raises ValueError where there are so few customers, or tables, that a transfer to some table
    could have no payee."""

    tables: Sequence[Table]
    customers: int = 8
    opening: int = 100
    """The balance of each account at the start."""

    def __post_init__(self) -> None:
        if len(self.tables) < 3 or self.customers < len(self.tables):
            raise ValueError(f"{self.customers} customers with accounts in {len(self.tables)} tables are too few")

    @property
    def ids(self) -> list[str]:
        return [table.id for table in self.tables]

    @property
    def total(self) -> int:
        return 2 * self.customers * self.opening

    def accounts(self, customer: int) -> dict[str, str]:
        """The accounts of a customer by table."""
        places = (customer % len(self.tables), (customer + 1) % len(self.tables))
        return {self.tables[place].id: f"{customer}.{place}" for place in places}

    def problems(self, balances: Mapping[str, int], *, of_customers: bool) -> list[str]:
        """Which rules the balances of all accounts break; that of each customer only where write
        skew is excluded."""
        problems = []
        if sum(balances.values()) != self.total:
            problems.append(f"all accounts have {sum(balances.values())}, not {self.total}")
        for customer in range(self.customers) if of_customers else ():
            if (funds := self.funds(customer, balances)) < 0:
                problems.append(f"customer {customer} has {funds}")
        return problems

    def funds(self, customer: int, balances: Mapping[str, int]) -> int:
        return sum(balances.get(account, 0) for account in self.accounts(customer).values())


@dataclass
class Book:
    """Every version that a client read, with its bytes: every later read must give the same (I2,
    I4)."""

    contents: dict[tuple[str, int], bytes] = field(default_factory=dict)
    _entries: dict[tuple[str, int], Entry | None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, table_id: str, version: int, content: bytes) -> None:
        """Raises Wrong if an earlier read gave something else."""
        with self._lock:
            before = self.contents.setdefault((table_id, version), content)
        if before != content:
            raise Wrong(f"version {version} of {table_id} was {before!r} and is {content!r}")

    def has(self, table_id: str, start: int, end: int) -> bool:
        return all((table_id, version) in self.contents for version in range(start, end + 1))

    def entry(self, table_id: str, version: int) -> Entry | None:
        key = (table_id, version)
        if key not in self._entries:
            self._entries[key] = entry_of(self.contents[key])
        return self._entries[key]


Get = Callable[[str, Mapping[str, Any]], httpx.Response]
"""A GET of a path with a query, repeated until it is answered."""


def read(get: Get, table: Table, start: int, end: int) -> dict[int, bytes]:
    """Returns the ratified commits of a table from ``start`` to ``end``, as an engine reads them:
    unpublished versions from the coordinator or the staged file that it names, all others from
    ``_delta_log``. Raises Wrong where one is missing.
    """
    query = {"start": start, "end": end, "content": "true"}
    answer = get(f"/v1/tables/{table.id}/commits", query)
    if answer.status_code != 200:
        raise Wrong(f"the commits of {table.id} were refused: {answer.status_code} {answer.text[:300]}")
    listed = {commit["version"]: commit for commit in answer.json()["commits"]}
    contents = {}
    for version in range(start, end + 1):
        content = _content(table.storage, version, listed.get(version))
        if content is None:
            raise Wrong(f"version {version} of {table.id} is neither in _delta_log nor told: {answer.text[:300]}")
        contents[version] = content
    return contents


def _content(storage: Storage, version: int, commit: Mapping[str, Any] | None) -> bytes | None:
    if commit and commit.get("content") is not None:
        return str(commit["content"]).encode()
    staged = None
    if commit and not commit["published"]:
        staged = storage.read(f"_delta_log/_staged_commits/{commit['name']}")
    return staged if staged is not None else storage.version(version)


class View:
    """Balances of some tables as of the cut that a client saw last. A client's cuts never go back
    (I6)."""

    def __init__(self, bank: Bank, book: Book) -> None:
        self._bank = bank
        self._book = book
        self._tables = {table.id: table for table in bank.tables}
        self._versions = dict.fromkeys(bank.ids, 0)
        self._balances: dict[str, dict[str, int]] = {id: {} for id in bank.ids}

    def balances(self, cut: Mapping[str, int], get: Get, *, rereads: bool) -> dict[str, int]:
        """Returns the balances of all accounts in the tables of ``cut``. With ``rereads`` each
        commit since the last cut is read, otherwise only commits without a reader. Raises Wrong."""
        for table_id, version in cut.items():
            self._advance(table_id, version, get, rereads=rereads)
        return {account: amount for table_id in cut for account, amount in self._balances[table_id].items()}

    def _advance(self, table_id: str, version: int, get: Get, *, rereads: bool) -> None:
        start = self._versions[table_id] + 1
        if version < start - 1:
            raise Wrong(f"{table_id} was at version {start - 1}, and a later cut has it at {version}")
        if version >= start and (rereads or not self._book.has(table_id, start, version)):
            for number, content in read(get, self._tables[table_id], start, version).items():
                self._book.add(table_id, number, content)
        for number in range(start, version + 1):
            apply(self._balances[table_id], self._book.entry(table_id, number))
        self._versions[table_id] = version


def apply(balances: dict[str, int], entry: Entry | None) -> None:
    """Adds the changes of a commit."""
    for account, amount in entry.changes.items() if entry else ():
        balances[account] = balances.get(account, 0) + amount


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, empty if a gateway or a dying process made it."""
    try:
        error = answer.json().get("error", {})
    except (json.JSONDecodeError, AttributeError):
        return {}
    return error if isinstance(error, dict) else {}
