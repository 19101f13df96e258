"""Several processes on one SQLite file: a kill loses nothing that was acknowledged, and the others
go on (I1, I2, I8, I11)."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.support.store.killed_writers import Writers
from tests.support.store.workload import Record, check, start
from turnstile.adapters.sqlite.database import Database

KILLS = int(os.environ.get("TURNSTILE_KILLS", "6"))


def test_i1_i2_i8_i11_processes_that_are_killed_lose_nothing_and_delay_no_other_process(tmp_path: Path) -> None:
    path = tmp_path / "turnstile.db"
    record = Record()
    rng = random.Random(7)
    database = Database(path)
    start(database)
    with Writers(path, 3, record) as writers:
        writers.wait_until_all_write(20)
        for _ in range(KILLS):
            writers.wait_until_all_write(rng.choice((1, 5, 20)))
            writers.kill_some(rng)
        writers.wait_until_all_write(20)
    check(database, record)
    assert record.acknowledged > 20 * KILLS
    database.close()
    restarted = Database(path)
    check(restarted, record)
    restarted.close()
