"""Import and export killed at every write, without an answer to it, and raced: the log decides."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial

import pytest

from tests.support.catalog import MAIN, complete, fakes, fresh, head_of, names, owners_match, sandbox
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from tests.support.legacy import PLACE, Legacy, import_writes, legacy_info, run_import, upgrades, with_legacy
from tests.support.threads import at_once
from turnstile.api.doctor import checks
from turnstile.api.doctor.checks import Check
from turnstile.api.doctor.imports import UNDER_WAY_MS
from turnstile.catalog.services import CatalogServices
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import NotFound, OutcomeUnknown, StateConflict, StorageFault, TurnstileError
from turnstile.store.core.names import published_path
from turnstile.store.ports import LogStorage
from turnstile.transfer.commits import import_txn
from turnstile.transfer.exports import Exporter
from turnstile.transfer.imports import Importer


@pytest.mark.parametrize("how", CRASHES)
def test_an_import_killed_at_any_write_is_finished_by_running_it_again(how: How) -> None:
    """I9: and never leaves a table that is neither the file system's nor the catalog's for good."""
    assert import_writes() == 5  # claim, upgrade commit, metadata, objs, transaction
    for at in range(1, import_writes() + 1):
        services, legacy = with_legacy()
        world = fakes(services)
        with pytest.raises(Crash):
            run_import(fresh(Faulty(world, at, how).world))
        owners_match(world, importing=True)
        assert Importer(fresh(world)).dry_run(*MAIN, "t", PLACE).possible
        id = run_import(fresh(world))
        assert upgrades(legacy) == [3], "one upgrade commit, whoever wrote it"
        assert legacy.actions(3)["commitInfo"]["txnId"] == import_txn(id)
        head = head_of(world, id)
        assert (head.latest, head.last_ict) == (3, legacy.actions(3)["commitInfo"]["inCommitTimestamp"])
        complete(world)


@pytest.mark.parametrize("how", CRASHES)
def test_i2_doctor_names_an_import_that_was_cut_off_and_how_to_go_on(how: How) -> None:
    named = 0
    for at in range(1, import_writes() + 1):
        services, _ = with_legacy()
        world = fakes(services)
        with pytest.raises(Crash):
            run_import(fresh(Faulty(world, at, how).world))
        claimed = importing(world)
        assert seen(world) is None, "it may be under way"
        world.clock.now += UNDER_WAY_MS
        check = seen(world)
        assert (check is not None) == claimed
        if check is not None:
            named += 1
            assert check.result == "warning" and f"the import of {PLACE} into catalog main" in check.message
            assert f"turnstile import main.NAMESPACE.NAME {PLACE}" in check.remedy
        run_import(fresh(world))
        assert seen(world) is None
    assert named >= 3


def seen(world: FakeWorld) -> Check | None:
    """The results of a deployment's checks about imports."""
    return {check.name: check for check in checks.run(world, "s3://lake").checks}.get("imports")


def importing(world: FakeWorld) -> bool:
    """Whether the location has the claim of an import."""
    return any(row["kind"] == "location" and row.get("importing") for row in world.refs.rows.values())


@pytest.mark.parametrize("how", CRASHES)
def test_an_import_killed_after_its_upgrade_may_be_finished_under_another_name(how: How) -> None:
    for at in range(3, import_writes() + 1):
        services, legacy = with_legacy()
        world = fakes(services)
        with pytest.raises(Crash):
            run_import(fresh(Faulty(world, at, how).world))
        with suppress(StateConflict):  # it was finished already
            run_import(fresh(world), "u")
        assert len(names(fresh(world))) == 1
        assert upgrades(legacy) == [3]
        complete(world)


@pytest.mark.parametrize("how", LOSSES)
def test_an_import_that_hears_no_answer_finds_out_or_says_so(how: How) -> None:
    for at in range(1, import_writes() + 1):
        services, legacy = with_legacy()
        world = fakes(services)
        with suppress(OutcomeUnknown, StorageFault):
            run_import(fresh(Faulty(world, at, how).world))
        run_import(fresh(world))
        assert upgrades(legacy) == [3]
        complete(world)


def test_filesystem_commits_after_a_crash_before_the_upgrade_are_kept() -> None:
    services, legacy = with_legacy()
    world = fakes(services)
    with pytest.raises(Crash):
        run_import(fresh(Faulty(world, 1, "after").world))
    legacy.append(2)
    run_import(fresh(world))
    assert upgrades(legacy) == [5]
    complete(world)


class Overtaken:
    """Storage in which a filesystem writer takes the version just before the importer's
    ``put_if_absent``."""

    def __init__(self, storage: LogStorage, legacy: Legacy, times: int) -> None:
        self._storage = storage
        self._legacy = legacy
        self._times = times

    def __getattr__(self, name: str) -> object:
        return getattr(self._storage, name)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        if self._times:
            self._times -= 1
            assert self._legacy.write(legacy_info(), delta.add("theirs"))
        return self._storage.put_if_absent(path, content)


def test_a_filesystem_writer_that_takes_the_version_first_wins_it_and_the_import_goes_on_after_it() -> None:
    """I2: put-if-absent is the decision."""
    services, legacy = with_legacy()
    storage = Overtaken(legacy.storage, legacy, 3)
    importer = Importer(services)
    fakes(services).storages.open = lambda _: storage  # type: ignore[method-assign,assignment,return-value]
    done = importer.run(*MAIN, "t", PLACE)
    assert done.version == 6
    assert [legacy.actions(version).get("add", {}).get("path") for version in (3, 4, 5)] == ["theirs"] * 3
    assert head_of(services.world, done.table_id).latest == 6
    complete(fakes(services))


def test_a_catalog_that_takes_the_table_first_keeps_it_and_the_claim_is_given_back() -> None:
    services, legacy = with_legacy()
    storage = Overtaken(legacy.storage, legacy, 1)

    def theirs(*_: object) -> bool:
        upgrade = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["catalogManaged"],
                                "writerFeatures": ["catalogManaged", "inCommitTimestamp"]}}  # fmt: skip
        return Legacy.write(legacy, delta.info("another-catalog", 5), upgrade)

    legacy.write = theirs  # type: ignore[method-assign,assignment]
    fakes(services).storages.open = lambda _: storage  # type: ignore[method-assign,assignment,return-value]
    before = dict(fakes(services).refs.rows)
    with pytest.raises(TurnstileError) as refused:
        run_import(services)
    assert refused.value.type == "UnsupportedTable"
    assert fakes(services).refs.rows == before


def test_a_table_is_not_created_where_the_claim_is_gone() -> None:
    """I10: an operator that released the location by hand, say, or a claim that another import took
    over."""
    services, _ = with_legacy()
    world = fakes(services)
    original = world.objs.put_many

    def lose_the_claim(batch: object) -> None:
        world.refs.rows[world.space.location(PLACE)]["table_id"] = "another"
        original(batch)  # type: ignore[arg-type]

    world.objs.put_many = lose_the_claim  # type: ignore[method-assign,assignment]
    with pytest.raises(StateConflict) as refused:
        run_import(services)
    assert refused.value.type == "ConcurrentChange"
    assert names(services) == []


def test_importers_at_once_make_one_table() -> None:
    services, legacy = with_legacy()
    answers = at_once([partial(run_import, sandbox(services)) for _ in range(6)])
    assert len({str(answer) for answer in answers}) == 1, answers
    assert upgrades(legacy) == [3]
    complete(fakes(services))


def test_importers_at_once_under_different_names_make_one_table_with_one_of_them() -> None:
    services, legacy = with_legacy()
    answers = at_once([partial(run_import, sandbox(services), f"t{n}") for n in range(6)])
    refusals = [answer for answer in answers if isinstance(answer, TurnstileError)]
    assert [refusal.type for refusal in refusals] == ["LocationOwned"] * 5
    assert len(names(services)) == 1
    assert upgrades(legacy) == [3]
    complete(fakes(services))


def test_imports_of_overlapping_places_at_once_have_one_winner() -> None:
    """I10."""
    services, _ = with_legacy()
    inner = PLACE + "/inner"
    Legacy(services, inner).created()
    boxes = [sandbox(services) for _ in range(2)]
    answers = at_once(
        [
            lambda: Importer(boxes[0]).run(*MAIN, "outer", PLACE),
            lambda: Importer(boxes[1]).run(*MAIN, "inner", inner),
        ]
    )
    assert [answer.type for answer in answers if isinstance(answer, TurnstileError)] == ["LocationOwned"]
    complete(fakes(services))


# -- export -------------------------------------------------------------------------------------------------------


def with_imported() -> tuple[CatalogServices, Legacy, str]:
    services, legacy = with_legacy()
    id = run_import(services)
    Ratifier(services.world).commit(CommitRequest(id, 4, content=delta.append("a", services.world.clock.now_ms())))
    return services, legacy, id


def export_writes() -> int:
    services, _, _ = with_imported()
    faulty = Faulty(fakes(services))
    Exporter(fresh(faulty.world)).run(*MAIN, "t")
    return len(faulty.writes)


def gone(services: CatalogServices, legacy: Legacy, id: str) -> None:
    head = head_of(services.world, id)
    assert (head.state, head.latest, head.floor, head.managed) == ("dropped", 4, 4, False)
    assert names(services) == []
    assert legacy.actions(5)["commitInfo"]["txnId"].startswith("turnstile-export-")
    assert legacy.storage.stat(published_path(6)) is None, "released once"
    assert not [key for key in fakes(services).refs.rows if key.startswith("test/location/s3:")]
    complete(fakes(services))


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_an_export_killed_or_unanswered_at_any_write_is_finished_by_running_it_again(how: How) -> None:
    for at in range(1, export_writes() + 1):
        services, legacy, id = with_imported()
        world = fakes(services)
        with suppress(Crash, OutcomeUnknown, StorageFault, StateConflict):
            Exporter(fresh(Faulty(world, at, how).world)).run(*MAIN, "t")
        with suppress(NotFound):  # it was finished
            Exporter(fresh(world)).run(*MAIN, "t")
        gone(fresh(world), legacy, id)


def test_exports_at_once_release_once() -> None:
    services, legacy, id = with_imported()
    answers = at_once([partial(Exporter(sandbox(services)).run, *MAIN, "t") for _ in range(4)])
    assert any(not isinstance(answer, Exception) for answer in answers)
    assert all(isinstance(answer, NotFound | StateConflict) for answer in answers if isinstance(answer, Exception))
    gone(services, legacy, id)


def test_commits_while_a_table_leaves_are_published_or_refused_never_lost() -> None:
    """I11: acknowledged commits are in the log before the release."""
    services, legacy = with_legacy()
    id = run_import(services)
    stop = threading.Event()
    acknowledged: list[int] = []

    def writer() -> None:
        ratifier = Ratifier(services.world)
        version = 4
        while not stop.is_set() and version < 60:
            answer = ratifier.commit(
                CommitRequest(id, version, content=delta.append(f"w{version}", services.world.clock.now_ms()))
            )
            if type(answer).__name__ != "Ratified":
                return
            acknowledged.append(version)
            version += 1

    thread = threading.Thread(target=writer)
    thread.start()
    Exporter(sandbox(services)).run(*MAIN, "t")
    stop.set()
    thread.join()
    head = head_of(services.world, id)
    assert head.latest == head.floor == (acknowledged[-1] if acknowledged else 3)
    for version in acknowledged:
        assert legacy.actions(version)["commitInfo"]["txnId"] == f"w{version}"
    assert legacy.actions(head.latest + 1)["commitInfo"]["txnId"].startswith("turnstile-export-")
    complete(fakes(services))
