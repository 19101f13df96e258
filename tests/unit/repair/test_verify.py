"""A published log is held against what was ratified: each kind of damage is found, and nothing else
(I1, I2, I4, I6, I7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.support.delta_table import TABLE, Table, publish, with_metadata
from tests.support.fakes import delta
from turnstile.delta import verify as verify_module
from turnstile.delta.core.decide import Ratified
from turnstile.delta.core.head import TableHead, tail_by_version
from turnstile.delta.core.soundness import BRING_BACK
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.sides import Commit, published_as
from turnstile.delta.verify import Verification, Verifier
from turnstile.maintenance.state import open_state
from turnstile.store.core.errors import NotFound
from turnstile.store.core.names import LOG, published_path

LAST = 12


def commit(table: Table, txn: str) -> bytes:
    version = table.head.latest + 1
    stamp = max(table.world.clock.now_ms(), table.head.last_ict + 1)
    content = delta.lines(delta.info(txn, stamp), delta.add(f"{txn}.parquet"))
    assert isinstance(table.ratifier.commit(CommitRequest(TABLE, version, content=content)), Ratified)
    return content


@pytest.fixture
def table() -> Table:
    """Versions 1 to 12, all published."""
    table = with_metadata()
    for number in range(1, LAST + 1):
        commit(table, f"txn-{number}")
        if number % 5 == 0:
            publish(table)
    publish(table)
    return table


def verify(table: Table, *from_and_after: int, until_ms: int | None = None) -> Verification:
    return Verifier(table.world).verify(TABLE, *from_and_after, until_ms=until_ms)


def kinds(table: Table) -> list[tuple[int, str]]:
    return [(deviation.version, deviation.kind) for deviation in verify(table).deviations]


def rewrite(table: Table, version: int, content: bytes) -> None:
    table.storage.replace(published_path(version), content)


def contents(table: Table, version: int) -> bytes:
    file = table.storage.read(published_path(version))
    assert file is not None
    return file[0]


def test_a_log_that_is_as_it_was_ratified_has_no_deviation(table: Table) -> None:
    assert verify(table) == Verification(TABLE, LAST, LAST, 0, LAST, [], None, table.head.last_ict)


def test_what_is_ratified_and_not_published_yet_is_no_deviation(table: Table) -> None:
    commit(table, "waits")
    found = verify(table)
    assert (found.last, found.floor, found.latest, found.deviations) == (LAST, LAST, LAST + 1, [])


def test_i4_what_is_published_ahead_of_the_floor_is_held_against_all_ratified_bytes(table: Table) -> None:
    content = commit(table, "waits")
    rewrite(table, LAST + 1, content)
    assert (verify(table).last, kinds(table)) == (LAST + 1, [])
    rewrite(table, LAST + 1, content.replace(b"waits.parquet", b"other.parquet"))
    assert kinds(table) == [(LAST + 1, "bytes")]


def test_i4_a_version_that_is_missing_is_found_wherever_it_is_in_the_log(table: Table) -> None:
    for version in (1, 7, LAST):
        table.storage.delete(published_path(version))
    assert kinds(table) == [(1, "missing"), (7, "missing"), (LAST, "missing")]


def checkpoint(table: Table, version: int) -> str:
    """Writes the checkpoint of a version, and returns its path."""
    path = f"{LOG}{version:020d}.checkpoint.11111111-1111-4111-8111-111111111111.json"
    state = open_state(table.storage, version)
    adds = [
        {"add": {"path": add.path, "partitionValues": {}, "size": add.size, "modificationTime": 1, "dataChange": False}}
        for add in state.files()
    ]
    tags = {"checkpointMetadata": {"version": version, "tags": {"numOfAddFiles": str(len(adds))}}}
    described = ({"protocol": state.protocol}, {"metaData": state.metadata})
    table.storage.put_if_absent(path, delta.lines(tags, *described, *adds))
    return path


def test_versions_that_expired_before_the_oldest_commit_are_not_missed(table: Table) -> None:
    checkpoint(table, 4)
    for version in range(4):
        table.storage.delete(published_path(version))
    found = verify(table)
    assert (found.first, found.last, found.deviations) == (4, LAST, [])
    assert verify(table, 2).first == 4


def test_what_expires_between_two_calls_is_not_missed_and_what_is_missing_is(table: Table) -> None:
    table.storage.delete(published_path(6))
    assert [(each.version, each.kind) for each in verify(table, 6, 1).deviations] == [(6, "missing")]
    for version in range(6):
        table.storage.delete(published_path(version))
    assert verify(table, 5, 1).deviations == []


def test_i24_a_log_that_begins_late_is_found_unless_a_checkpoint_there_is_whole(table: Table) -> None:
    path = checkpoint(table, 4)
    for version in range(4):
        table.storage.delete(published_path(version))
    assert kinds(table) == []
    content = table.storage.read(path)
    assert content is not None
    table.storage.replace(path, content[0][: len(content[0]) // 2])
    (found,) = verify(table).deviations
    assert (found.kind, found.path) == ("checkpoint", path)
    table.storage.delete(path)
    (found,) = verify(table).deviations
    assert (found.version, found.kind, found.path) == (4, "begins late", published_path(3))


def test_i24_a_folder_that_is_gone_is_found_also_when_a_commit_was_published_since(table: Table) -> None:
    for version in range(LAST + 1):
        table.storage.delete(published_path(version))
    assert kinds(table) == [(LAST, "gone")]
    commit(table, "later")
    publish(table)
    (found,) = verify(table).deviations
    assert (found.version, found.kind, found.remedy) == (LAST + 1, "begins late", BRING_BACK)


def test_i24_a_commit_whose_middle_was_changed_is_found(table: Table) -> None:
    content = contents(table, 4)
    middle = len(content) // 2
    rewrite(
        table, 4, content[:middle] + bytes(byte ^ 0xFF for byte in content[middle : middle + 8]) + content[middle + 8 :]
    )
    assert kinds(table) == [(4, "unreadable")]


def test_i6_unratified_versions_are_found(table: Table) -> None:
    rewrite(table, LAST + 1, contents(table, LAST))
    rewrite(table, LAST + 3, contents(table, LAST))
    assert kinds(table) == [(LAST + 1, "not ratified"), (LAST + 3, "not ratified")]


def test_i7_a_timestamp_that_is_not_later_than_the_one_before_is_found(table: Table) -> None:
    rewrite(table, 4, delta.lines(delta.info("txn-4", 1), delta.add("x")))
    assert kinds(table) == [(4, "timestamp")]


def test_i7_a_timestamp_that_is_the_same_as_the_one_before_is_found(table: Table) -> None:
    stamps = [published_as(table.storage, version).in_commit_timestamp for version in (3, 4)]
    rewrite(table, 4, contents(table, 4).replace(str(stamps[1]).encode(), str(stamps[0]).encode()))
    assert kinds(table) == [(4, "timestamp")]


def test_i7_the_first_version_of_a_call_is_held_against_the_timestamp_of_the_call_before(table: Table) -> None:
    assert [(each.version, each.kind) for each in verify(table, LAST, 2**52).deviations] == [(LAST, "timestamp")]


def test_i2_a_transaction_that_is_another_version_too_is_found(table: Table) -> None:
    second = contents(table, 5).replace(b'"txn-5"', b'"txn-3"')
    rewrite(table, 5, second)
    assert kinds(table) == [(5, "transaction")]


def test_i3_a_transaction_that_the_identity_index_knows_as_another_version_is_found(table: Table) -> None:
    rewrite(table, 3, contents(table, 3).replace(b'"txn-3"', b'"txn-9"'))
    rewrite(table, 9, contents(table, 9).replace(b'"txn-9"', b'"free"'))
    assert kinds(table) == [(3, "transaction")]


def test_i2_the_entries_that_the_head_still_has_are_held_against_the_log(table: Table) -> None:
    newest = tail_by_version(table.head)[-1]
    assert newest.version == LAST
    rewrite(table, LAST, contents(table, LAST).replace(b'"txn-12"', b'"stranger"'))
    assert kinds(table) == [(LAST, "bytes")]


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda _: b"\xff\n", lambda raw: raw.replace(b"inCommitTimestamp", b"timestamp")]
)
def test_a_commit_without_what_its_first_line_must_say_is_found(table: Table, damage: Callable[[bytes], bytes]) -> None:
    rewrite(table, 4, damage(contents(table, 4)))
    assert kinds(table) == [(4, "unreadable")]


def test_a_call_looks_at_a_stretch_and_the_next_goes_on(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "VERSIONS_MAX", 5)
    table.storage.delete(published_path(7))
    looked = []
    found = []
    at = verify(table)
    while True:
        looked.append((at.first, at.last))
        found += [deviation.version for deviation in at.deviations]
        if at.next_version is None:
            break
        assert at.last_timestamp is not None
        at = verify(table, at.next_version, at.last_timestamp)
    assert (looked, found) == ([(0, 4), (5, 9), (10, LAST)], [7])


def test_behind_the_end_there_is_nothing_to_look_at(table: Table) -> None:
    found = verify(table, LAST + 1, table.head.last_ict)
    assert (found.first, found.last, found.next_version, found.deviations) == (None, None, None, [])


def test_a_log_without_any_commit_lacks_the_newest(table: Table) -> None:
    for version in range(LAST + 1):
        table.storage.delete(published_path(version))
    assert kinds(table) == [(LAST, "gone")]


@pytest.mark.parametrize(("gone", "kinds"), [([6], ["missing"]), (range(7), [])], ids=["one", "all up to it"])
def test_what_goes_between_the_listing_and_its_turn_is_missing_unless_it_expired(
    table: Table, gone: Iterable[int], kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(storage: object, version: int, *, digest: bool) -> Commit:
        for each in gone if version == 6 else ():
            table.storage.delete(published_path(each))
        return published_as(table.storage, version, digest=digest)

    monkeypatch.setattr(verify_module, "published_as", read)
    assert [deviation.kind for deviation in verify(table).deviations] == kinds


def test_what_was_imported_need_not_have_a_timestamp_and_a_transaction(table: Table) -> None:
    rewrite(table, 0, delta.lines(delta.add("old.parquet")))
    assert kinds(table) == []


def test_commits_without_a_transaction_are_not_the_same_transaction(table: Table) -> None:
    for version in (3, 4):
        rewrite(table, version, contents(table, version).replace(b'"txnId"', b'"other"'))
    assert kinds(table) == [(3, "unreadable"), (4, "unreadable")]


def test_a_call_that_has_time_looks_at_everything_and_at_its_end_stops(table: Table) -> None:
    now = table.world.clock.now_ms()
    assert verify(table, until_ms=now + 60_000).last == LAST
    assert verify(table, until_ms=now).last == 0


def test_a_call_ends_in_time_after_one_version_at_least(table: Table) -> None:
    found = verify(table, until_ms=0)
    assert (found.first, found.last, found.next_version) == (0, 0, 1)


def test_a_commit_that_is_ratified_and_published_during_the_call_is_no_deviation(table: Table) -> None:
    storage = table.storage
    listing = type(table.storage).list

    def list_and_commit(*arguments: object) -> object:
        monkeypatched.undo()
        commit(table, "meanwhile")
        publish(table)
        return listing(*arguments)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as monkeypatched:
        monkeypatched.setattr(type(storage), "list", list_and_commit)
        found = verify(table)
    assert (found.last, found.latest, found.deviations) == (LAST + 1, LAST + 1, [])


def test_nothing_is_written(table: Table) -> None:
    files = dict(table.world.storages.files)
    row = dict(table.row)
    table.storage.delete(published_path(3))
    verify(table)
    del files[next(path for path in files if path.endswith(published_path(3)))]
    assert (dict(table.world.storages.files), dict(table.row)) == (files, row)
    assert TableHead.from_row(table.row).latest == LAST


def test_a_table_that_is_not_there_is_not_found(table: Table) -> None:
    with pytest.raises(NotFound):
        Verifier(table.world).verify("22222222-2222-4222-8222-222222222222")


def test_i24_a_changed_line_of_a_commit_that_the_head_still_has_is_found_though_it_is_json(table: Table) -> None:
    table.stage()
    publish(table)
    assert tail_by_version(table.head)[-1].entry.digest and kinds(table) == []
    content = contents(table, LAST + 1)
    rewrite(table, LAST + 1, content.replace(b'"size":10', b'"size":11').replace(b'"size": 10', b'"size": 11'))
    assert contents(table, LAST + 1) != content
    assert kinds(table) == [(LAST + 1, "bytes")]
