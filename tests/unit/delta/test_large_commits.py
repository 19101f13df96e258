"""Commits that are too large to be held in memory: copied piece by piece, compared on the way,
refused when too large."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.delta_table import TABLE, Table, table_id
from tests.support.fakes import delta
from tests.support.fakes.storage import FakeStorage
from tests.support.fakes.world import fake_world
from turnstile.adapters.opening import FileStorages
from turnstile.delta.commits import pieces_of
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import digest_of, tail_by_version
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.delta.recover import Recoverer
from turnstile.delta.repair import Repairer
from turnstile.delta.sweep import Sweeper
from turnstile.store.core.errors import InvalidCommit, StorageFault, TooLarge
from turnstile.store.core.evaluate import clone
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import published_path, staged_path

PIECE = 16 * 1024
LARGE = 2_000
"""Files that a large commit adds: about 20 pieces."""
LIMITS = Limits(staged_bytes=4 * PIECE, staged_max_bytes=64 * PIECE, first_line_bytes=1_000)
FOR_EVER = 10**15


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("turnstile.delta.commits", "turnstile.store.ports"):
        monkeypatch.setattr(f"{module}.PIECE_BYTES", PIECE)


@pytest.fixture
def table() -> Table:
    return Table(fake_world())


def content_of(txn: str, ict: int, files: int = LARGE) -> bytes:
    return delta.lines(delta.info(txn, ict), *(delta.add(f"{txn}-{number}.parquet") for number in range(files)))


def ratify(table: Table, files: int = LARGE, limits: Limits = LIMITS) -> bytes:
    """A staged commit of the next version, so large that only its beginning is judged."""
    version = table.head.latest + 1
    now = table.world.clock.now_ms()
    content = content_of(f"large-{version}", now, files)
    name = table.staged_name(version, version)
    table.storage.put_if_absent(staged_path(name), content)
    answer = Ratifier(table.world, limits).commit(CommitRequest(table.id, version, staged=name, size=len(content)))
    assert isinstance(answer, Ratified), answer
    table.ratified[version] = content
    table.names[version] = name
    return content


def publish(table: Table, **more: Any) -> Any:
    return Publisher(table.world, **more).publish(table.id)


# -- what is held ------------------------------------------------------------------------------------------------------


def test_a_large_commit_is_published_with_a_few_pieces_of_it_in_memory(tmp_path: Path) -> None:
    world = replace(fake_world(), storages=FileStorages())
    table = Table(world)
    table.location = f"file://{tmp_path}"
    table.storage = world.storages.open(table.location)
    table.row["location"] = table.location
    content = ratify(table, 40_000, msgspec.structs.replace(LIMITS, staged_max_bytes=2**30))
    assert len(content) > 300 * PIECE
    tracemalloc.start()
    try:
        done = publish(table)
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (done.problem, done.floor) == (None, 1)
    assert held < 40 * PIECE, f"{held / PIECE:.0f} pieces were held"
    assert (tmp_path / published_path(1)).read_bytes() == content


def test_no_request_for_a_large_commit_reads_more_than_a_piece(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    content = ratify(table)
    read = FakeStorage.read
    sizes = []

    def counted(self: FakeStorage, path: str, limit: int | None = None, offset: int = 0) -> Any:
        file = read(self, path, limit, offset)
        sizes.append(0 if file is None else len(file[0]))
        return file

    monkeypatch.setattr(FakeStorage, "read", counted)
    assert publish(table).problem is None
    assert sum(sizes) == len(content) and max(sizes) == PIECE
    table.row.update(floor=0, pending=1)
    sizes.clear()
    assert publish(table).problem is None
    assert sum(sizes) == len(content) and max(sizes) == PIECE, "comparing what is there takes as little"
    table.check_all_published()


# -- what is published -------------------------------------------------------------------------------------------------


def test_i4_the_digest_is_of_all_bytes_also_of_those_that_were_not_judged(table: Table) -> None:
    content = ratify(table)
    assert len(content) > LIMITS.staged_bytes
    (place,) = tail_by_version(table.head)
    assert place.entry.digest == digest_of(content) != 0
    assert table.head.epoch == 1, "nobody knows what its end says"


@pytest.mark.parametrize("at", [0.01, 0.5, 0.999])
def test_i4_a_large_file_that_was_rewritten_is_not_published(table: Table, at: float) -> None:
    content = bytearray(ratify(table))
    content[int(len(content) * at)] ^= 1
    table.put(staged_path(table.names[1]), bytes(content))
    done = publish(table)
    assert done.problem.stuck and done.problem.type == "StorageFault"
    assert list(table.published()) == [0]
    table.put(staged_path(table.names[1]), table.ratified[1])
    publish(table)
    table.check_all_published()


@pytest.mark.parametrize("size", [-1, 1])
def test_i4_a_large_file_of_another_size_is_not_published(table: Table, size: int) -> None:
    content = ratify(table)
    table.put(staged_path(table.names[1]), content[:size] if size < 0 else content + b"\n")
    assert publish(table).problem.stuck
    assert list(table.published()) == [0]


def test_i4_a_large_file_that_is_rewritten_while_it_is_copied_leaves_no_file(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = ratify(table)
    path = staged_path(table.names[1])
    read = FakeStorage.read
    reads = []

    def rewritten(self: FakeStorage, path_: str, limit: int | None = None, offset: int = 0) -> Any:
        reads.append(path_)
        if reads.count(path) == 3:
            table.put(path, b"x" * len(content))
        return read(self, path_, limit, offset)

    monkeypatch.setattr(FakeStorage, "read", rewritten)
    assert publish(table).problem.stuck
    assert list(table.published()) == [0]


def test_i4_what_an_engine_published_counts_with_the_ratified_bytes_and_is_never_overwritten(table: Table) -> None:
    content = ratify(table)
    foreign = content[:-3] + b" " + content[-2:]
    table.put(published_path(1), foreign)
    done = publish(table)
    assert done.problem.stuck and table.published()[1] == foreign
    table.put(published_path(1), content)
    table.storage.delete(staged_path(table.names[1]))
    publish(table)
    table.check_all_published()


def test_i4_a_row_of_an_earlier_release_has_no_digest_and_the_staged_file_is_compared(table: Table) -> None:
    content = ratify(table)
    (place,) = tail_by_version(table.head)
    table.row["tail"] = [msgspec.structs.replace(place.entry, digest=0).pack()]
    table.put(published_path(1), content[:-3] + b" " + content[-2:])
    assert publish(table).problem.stuck
    table.put(published_path(1), content)
    publish(table)
    assert table.head.floor == 1


def test_i11_a_large_commit_without_its_file_makes_the_table_stuck_after_a_while(table: Table) -> None:
    ratify(table)
    table.storage.delete(staged_path(table.names[1]))
    assert not publish(table).problem.stuck
    table.world.clock.now += 60_000
    assert publish(table).problem.stuck


def test_i11_a_fault_in_the_middle_is_tried_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    ratify(table)
    read = FakeStorage.read
    reads = []

    def failing(self: FakeStorage, path: str, limit: int | None = None, offset: int = 0) -> Any:
        reads.append(path)
        if len(reads) in (3, 9):
            raise StorageFault("no answer")
        return read(self, path, limit, offset)

    monkeypatch.setattr(FakeStorage, "read", failing)
    assert publish(table).problem is None
    table.check_all_published()


def test_i11_a_restored_head_adopts_a_large_commit_and_finds_its_staged_file_piece_by_piece(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.delta.recover.PIECE_BYTES", PIECE)
    backup = clone(table.row)
    content = ratify(table)
    publish(table)
    table.world.refs.rows[table.key] = backup
    read = FakeStorage.read
    sizes = []

    def counted(self: FakeStorage, path: str, limit: int | None = None, offset: int = 0) -> Any:
        file = read(self, path, limit, offset)
        if "_staged_commits" in path:
            sizes.append(0 if file is None else len(file[0]))
        return file

    monkeypatch.setattr(FakeStorage, "read", counted)
    Repairer(table.world, Publisher(table.world, LIMITS), Recoverer(table.world, LIMITS)).repair(table.id)
    assert (table.head.latest, table.head.floor, table.head.state) == (1, 1, "active")
    assert tail_by_version(table.head)[0].name == table.names[1]
    assert max(sizes) == PIECE and sum(sizes) == min(len(content), LIMITS.staged_bytes)


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_commit_that_is_too_large_is_refused_before_it_is_read(table: Table) -> None:
    name = table.staged_name(1, 1)
    size = LIMITS.staged_max_bytes + 1
    table.put(staged_path(name), b"never read")
    with pytest.raises(TooLarge, match=f"has {size} bytes, and a commit may have {size - 1}") as refused:
        Ratifier(table.world, LIMITS).commit(CommitRequest(TABLE, 1, staged=name, size=size))
    assert refused.value.details == {"limit": size - 1, "size": size}
    assert refused.value.field == "staged.size" and "several commits" in str(refused.value.remedy)
    assert table.head.latest == 0


def test_i3_a_commit_that_was_ratified_before_there_was_a_limit_is_answered(table: Table) -> None:
    content = ratify(table)
    tight = msgspec.structs.replace(LIMITS, staged_max_bytes=len(content) - 1)
    again = CommitRequest(TABLE, 1, staged=table.names[1], size=len(content))
    answer = Ratifier(table.world, tight).commit(again)
    assert isinstance(answer, Ratified) and answer.replayed and answer.version == 1


def test_a_first_line_that_no_piece_holds_is_refused(table: Table) -> None:
    content = delta.lines(delta.info("t", table.world.clock.now_ms(), notes="x" * 2_000), delta.add("a"))
    name = table.staged_name(1, 1)
    table.put(staged_path(name), content)
    with pytest.raises(InvalidCommit, match="first line"):
        Ratifier(table.world, LIMITS).commit(CommitRequest(TABLE, 1, staged=name, size=len(content)))


# -- turns -------------------------------------------------------------------------------------------------------------


def test_i11_tables_with_large_commits_do_not_keep_the_others_from_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of them as there are workers, longest waiting; none is done before every other table
    is."""
    world = fake_world()
    larges = [Table(world, table_id(number)) for number in range(8)]
    for table in larges:
        ratify(table)
    usual = [Table(world, table_id(number)) for number in range(100, 120)]
    for table in usual:
        table.mixed(2)
    others_done = threading.Event()
    put = FakeStorage.put_if_absent

    def waiting(self: FakeStorage, path: str, content: Any) -> bool:
        if not isinstance(content, bytes) and not others_done.wait(60):
            raise AssertionError("the others had no turn")
        try:
            return put(self, path, content)
        finally:
            if all(len(table.published()) == 3 for table in usual):
                others_done.set()

    monkeypatch.setattr(FakeStorage, "put_if_absent", waiting)
    swept = Sweeper(world, Publisher(world)).sweep(until_ms=FOR_EVER, each_ms=FOR_EVER, workers=8)
    assert not swept.round.failed and len(swept.round.published) == 28
    for table in (*larges, *usual):
        table.check_all_published()


def test_i11_few_large_commits_are_copied_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(8)]
    for table in tables:
        ratify(table)
    lock = threading.Lock()
    open_now = [0]
    most = [0]
    put = FakeStorage.put_if_absent

    def counted(self: FakeStorage, path: str, content: Any) -> bool:
        if isinstance(content, bytes):
            return put(self, path, content)

        def counting(pieces: Iterator[bytes]) -> Iterator[bytes]:
            with lock:
                open_now[0] += 1
                most[0] = max(most[0], open_now[0])
            yield from pieces
            with lock:
                open_now[0] -= 1

        return put(self, path, counting(content))

    monkeypatch.setattr(FakeStorage, "put_if_absent", counted)
    Sweeper(world, Publisher(world)).sweep(until_ms=FOR_EVER, each_ms=FOR_EVER, workers=8)
    assert 1 <= most[0] <= 2
    for table in tables:
        table.check_all_published()


def test_i11_a_table_that_failed_comes_last_in_the_next_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    world = fake_world()
    bad = Table(world, table_id(1))
    good = Table(world, table_id(2))
    bad.mixed(1)
    good.mixed(1)
    put = FakeStorage.put_if_absent
    order = []

    def refused(self: FakeStorage, path: str, content: Any) -> bool:
        order.append(self._root)
        if bad.id in self._root:
            raise StorageFault("access denied")
        return put(self, path, content)

    sweeper = Sweeper(world, Publisher(world))
    monkeypatch.setattr(FakeStorage, "put_if_absent", refused)
    sweeper.sweep(until_ms=FOR_EVER, each_ms=FOR_EVER, workers=1)
    assert bad.id in order[0]
    monkeypatch.undo()
    good.mixed(1)
    monkeypatch.setattr(FakeStorage, "put_if_absent", refused)
    order.clear()
    sweeper.sweep(until_ms=FOR_EVER, each_ms=FOR_EVER, workers=1)
    assert good.id in order[0] and bad.id in order[-1]


def test_pieces_end_where_the_file_does(table: Table) -> None:
    table.put("a", b"x" * (2 * PIECE))
    file = table.storage.read("a", PIECE)
    assert file is not None
    assert [len(piece) for piece in pieces_of(table.storage, "a", *file)] == [PIECE, PIECE]
