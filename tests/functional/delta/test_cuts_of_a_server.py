"""Cuts of a server of several processes, on SQLite, while transactions over the same tables go on
(I6, I8)."""

from __future__ import annotations

import threading
import time
import uuid

import pytest

from benchmarks.racing import table
from benchmarks.racing.table import RaceTable
from tests.support.threads import together

pytestmark = pytest.mark.slow

TABLES = 3
TRANSACTIONS = 40
CUTTING = 3


def _transaction(tables: list[RaceTable], txn: str) -> dict[str, object]:
    """One blind append to each table."""
    now = int(time.time() * 1000)
    commits = [
        {
            "table_id": each.table_id,
            "version": None,
            "base": 0,
            "inline": {"content": table.append(f"{txn}-{number}", now, 0, row_tracking=False)},
        }
        for number, each in enumerate(tables)
    ]
    return {"id": str(uuid.uuid4()), "commits": commits}


def test_i8_cuts_of_a_server_show_all_of_each_transaction_or_nothing(server):
    tables = [table.create(server.url, server.token, f"cut_{number}") for number in range(TABLES)]
    names = [f"main.default.cut_{number}" for number in range(TABLES)]
    ended = threading.Event()

    def write_or_cut(thread: int) -> list[int]:
        shown: list[int] = []
        with tables[0].http() as http:
            if thread < CUTTING:
                while not ended.is_set():
                    targets = names if thread % 2 else [each.table_id for each in tables]
                    answer = http.post("/v1/snapshots", json={"tables": targets})
                    assert answer.status_code == 200, answer.text
                    (version,) = {cut["version"] for cut in answer.json()["tables"]}
                    shown.append(version)
            elif thread < CUTTING + 2:
                try:
                    for turn in range(TRANSACTIONS):
                        body = _transaction(tables, f"{thread}-{turn}")
                        while (answer := http.post("/v1/transactions", json=body)).status_code in (429, 500, 503):
                            pass
                        assert answer.status_code == 200, answer.text
                finally:
                    if thread == CUTTING:
                        ended.set()
        return shown

    cuts = together(write_or_cut)[:CUTTING]
    assert all(shown == sorted(shown) for shown in cuts), "a later cut shows at least as much"
    assert all(len(set(shown)) > 5 for shown in cuts), "transactions came between the cuts"
    with tables[0].http() as http:
        last = http.post("/v1/snapshots", json={"tables": names}).json()["tables"]
    assert [cut["version"] for cut in last] == [2 * TRANSACTIONS] * TABLES
