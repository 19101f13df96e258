"""A loss of power takes back nothing that was acknowledged, and leaves nothing half done (I1, I2,
I3, I8, I9, I11)."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from tests.support.store.disk import Disk
from tests.support.store.workload import Record, Workload, check, start
from turnstile.adapters.sqlite import refs
from turnstile.adapters.sqlite.database import Database, note_change
from turnstile.adapters.sqlite.file import StoreFile
from turnstile.store.core.errors import OutcomeUnknown, StorageFault

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # apsw reports each error of a VFS
LOSSES = int(os.environ.get("TURNSTILE_POWER_LOSSES", "24"))


@pytest.fixture(autouse=True)
def _no_error_is_left_for_the_next_test() -> Iterator[None]:
    """Connections to a disk without power are freed here, and not whenever memory is collected."""
    yield
    gc.collect()


def lose_power_again_and_again(folder: Path, seed: int, losses: int) -> Record:
    """Work, lose power, look at what remains, and go on with that. Every other time unsynced
    sectors remain at random."""
    rng = random.Random(seed)
    record = Record()
    before = folder / "0"
    before.mkdir()
    for number in range(1, losses + 1):
        disk = Disk(before)
        after = folder / str(number)
        databases: list[Database] = []
        try:
            disk.power_until = rng.choice((rng.randrange(1, 80), rng.randrange(50, 3_000)))
            for _ in range(rng.choice((1, 2))):  # as one process, or two
                pages = rng.choice((20, 100, 400))
                databases.append(Database(before / "turnstile.db", vfs=disk.vfs, checkpoint_pages=pages))
            start(databases[0])
            works = [Workload(database, record, rng.randrange(2**32)) for database in databases]
            with ThreadPoolExecutor(len(works)) as pool:
                list(pool.map(lambda work: work.run(threads=3), works))
        except (StorageFault, OutcomeUnknown):
            assert disk.lost_power  # while it was opened
        finally:
            for database in databases:
                database.close()
        assert disk.lost_power
        disk.remains(after, rng if number % 2 else None)
        restarted = Database(after / "turnstile.db")
        start(restarted)
        check(restarted, record)
        restarted.close()
        before = after
    return record


def test_i1_i2_i3_i8_i9_i11_what_was_acknowledged_outlives_losses_of_power(tmp_path: Path) -> None:
    record = lose_power_again_and_again(tmp_path, seed=int(os.environ.get("TURNSTILE_SEED", "1")), losses=LOSSES)
    assert record.acknowledged > LOSSES, "the test must not be vacuous"
    assert record.unknown and record.not_applied


def synced_less(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = StoreFile.connect

    def careless(self: StoreFile, **more: bool) -> apsw.Connection:
        connection = connect(self, **more)
        connection.pragma("synchronous", level)
        return connection

    monkeypatch.setattr(StoreFile, "connect", careless)


def answered_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def early(_self: Database, writer: apsw.Connection, group: list[Any]) -> None:
        writer.execute("BEGIN IMMEDIATE")
        for job in group:
            job.result = job.run(writer)
            job.settle(None)
        writer.execute("COMMIT")

    monkeypatch.setattr(Database, "_transact", early)


def committed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    def after_each(connection: apsw.Connection, key: str) -> None:
        note_change(connection, key)
        connection.execute("COMMIT; BEGIN IMMEDIATE")

    monkeypatch.setattr(refs, "note_change", after_each)


def changes_are_not_noted_with_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[str] = []

    def forgetful(connection: apsw.Connection, key: str) -> None:
        later.append(key)
        if len(later) > 2:  # with one of the next writes
            note_change(connection, later.pop(0))

    monkeypatch.setattr(refs, "note_change", forgetful)


MISTAKES: Final[dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]]] = {
    "no sync": (lambda patch: synced_less("off", patch), "are lost|is lost|damaged"),
    "no sync of the WAL": (lambda patch: synced_less("normal", patch), "are lost|is lost"),
    "answered before the commit": (answered_before_the_commit, "are lost|is lost"),
    "committed in pieces": (committed_in_pieces, "half of a transaction|nothing was applied"),
    "changes noted later": (changes_are_not_noted_with_the_write, "the feed did not name"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, symptom = MISTAKES[name]
    plant(monkeypatch)
    with pytest.raises((AssertionError, StorageFault), match=symptom):
        for seed in range(10):
            (tmp_path / str(seed)).mkdir()
            lose_power_again_and_again(tmp_path / str(seed), seed, losses=20)
