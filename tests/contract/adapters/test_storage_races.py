"""Many writers of one file: one of them wins, whole (I2, I4)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

from tests.support.store.backends import Place
from turnstile.store.ports import LogStorage

WRITERS = 16


def test_i2_of_sixteen_writers_of_one_file_exactly_one_wins(place: Place, storage: LogStorage) -> None:
    for turn in range(5):
        path = f"_delta_log/{turn:020d}.json"
        barrier = Barrier(WRITERS)

        def write(writer: int, path: str = path, barrier: Barrier = barrier) -> tuple[bool, bytes]:
            barrier.wait()
            won = storage.put_if_absent(path, bytes([writer]) * 50_000)
            file = storage.read(path)
            assert file is not None  # winner or not: after the answer the file is there, and whole
            return won, file[0]

        with ThreadPoolExecutor(WRITERS) as pool:
            answers = list(pool.map(write, range(WRITERS)))
        (winner,) = [writer for writer, (won, _) in enumerate(answers) if won]
        assert {content for _, content in answers} == {bytes([winner]) * 50_000}
    assert len(list(storage.list_all())) == 5


def test_i4_a_reader_never_sees_a_part_of_a_file(storage: LogStorage) -> None:
    done = Event()
    seen: set[int] = set()

    def watch() -> None:
        while not done.is_set():
            for stat in storage.list("_delta_log/"):
                file = storage.read(stat.path)
                if file is not None:
                    seen.update((stat.size, len(file[0])))

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        for version in range(20):
            storage.put_if_absent(f"_delta_log/{version:020d}.json", b"x" * 1_000_000)
        done.set()
        watching.result()
    assert seen <= {1_000_000}


def test_i10_writers_and_cleaners_of_one_folder_do_not_trip_over_each_other(storage: LogStorage) -> None:
    def work(writer: int) -> int:
        won = 0
        for turn in range(15):
            path = f"_delta_log/_staged_commits/{turn:020d}.{writer % 2}.json"
            won += storage.put_if_absent(path, b"x")
            list(storage.list("_delta_log/_staged_commits/"))
            storage.delete(path)
        return won

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) >= 30
    assert list(storage.list_all()) == []
