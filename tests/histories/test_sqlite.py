"""Clients of several processes on one SQLite file, killed again and again, are told one history
(I1, I2, I3, I4, I6, I11)."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from tests.histories.check import judge, needs_go
from tests.histories.on_sqlite import Processes, create, open_world, publish_changes
from turnstile.delta.commits import read_head
from turnstile.store.core.names import published_path

KILLS = int(os.environ.get("TURNSTILE_KILLS", "6"))
TABLES = ("one", "two", "three")


@needs_go
@pytest.mark.timeout(900)
def test_i1_i2_i3_i4_i6_i11_processes_that_are_killed_leave_one_history_and_publish_it(tmp_path: Path) -> None:
    world, database = open_world(tmp_path)
    for table in TABLES:
        create(world, tmp_path, table)
    processes = Processes(tmp_path, TABLES)
    rng = random.Random(11)
    for _ in range(3):
        processes.start()
    while processes.killed < KILLS:
        answers = len(processes.operations) + rng.choice((60, 150))
        while len(processes.operations) < answers:
            time.sleep(0.01)
        count = rng.choice((1, 1, 1, 3))
        processes.kill(rng, count)
        for _ in range(count):
            processes.start()
    processes.kill_all()
    answered = [one for one in processes.operations if one.result != "unknown"]
    assert len(answered) > 40 * KILLS, "the test must not be vacuous"
    judgement = judge(processes.operations)
    assert judgement.linearizable, judgement.said

    while publish_changes(world, database):
        pass
    txns = {table: _published(world.storages.open(read_head(world, table).location), table) for table in TABLES}
    for table, published in txns.items():
        head = read_head(world, table)
        assert head.floor == head.latest == len(published) - 1
        assert len(set(published)) == len(published)
    wrong = [
        one for one in answered if one.op == "commit" and one.result == "ok" and txns[one.table][one.got] != one.txn
    ]
    assert not wrong, f"acknowledged, and another commit was published: {wrong}"
    database.close()


def _published(storage: object, table: str) -> list[str]:
    """The transaction of each published version, in order."""
    versions: list[str] = []
    while True:
        file = storage.read(published_path(len(versions)))  # type: ignore[attr-defined]
        if file is None:
            return versions
        versions.append(json.loads(file[0].splitlines()[0])["commitInfo"]["txnId"])
