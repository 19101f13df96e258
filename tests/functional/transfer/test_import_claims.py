"""The claim of an import: distinguished from other owners of a location, kept while any run may
continue the import, gone with the table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.catalog import MAIN, complete, fakes, fresh, head_of, names, refused
from tests.support.fakes import delta
from tests.support.faults import CRASHES, Crash, Faulty, How
from tests.support.legacy import PLACE, Legacy, import_writes, run_import, upgrades, with_legacy
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import External, IcebergEntity, IcebergTable, IcebergView
from turnstile.catalog.core.location_rows import Location, claim
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.decide import Ratified
from turnstile.delta.log.lines import broken
from turnstile.delta.log.state import LogState
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, UnsupportedTable
from turnstile.store.core.names import published_path
from turnstile.transfer import imports as importing
from turnstile.transfer.commits import import_txn
from turnstile.transfer.exports import Exporter
from turnstile.transfer.imports import Claims, Importer

ICE = "11111111-1111-4111-8111-111111111111"


def registered(services: CatalogServices, name: str = "ext") -> str:
    made = services.externals.register(*MAIN, name, location=PLACE, format="delta", about=External(), owner="alice")
    return made.table_id


def owner(services: CatalogServices) -> Location | None:
    row = services.world.refs.read(services.world.space.location(PLACE))
    return None if row is None else Location.from_row(row)


def unmark(services: CatalogServices) -> None:
    """As claims were before they had a mark."""
    fakes(services).refs.rows[services.world.space.location(PLACE)].pop("importing", None)


def once(
    call: Callable[..., Any], *, before: Callable[[], object] | None = None, after: Any = None
) -> Callable[..., Any]:
    """``call`` with ``before`` and ``after`` around its first run. ``after`` may raise."""
    left = [1]

    def wrapped(*args: Any, **named: Any) -> Any:
        first = left[0]
        left[0] = 0
        if first and before is not None:
            before()
        answer = call(*args, **named)
        if first and after is not None:
            after()
        return answer

    return wrapped


# -- whose a location is ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t", "ext"])
def test_i9_i10_a_registered_table_keeps_its_uuid_and_its_location_until_it_is_dropped(name: str) -> None:
    """Also where the import asks for that table's own name."""
    services, legacy = with_legacy()
    external = registered(services)
    asked = len(fakes(services).refs.requests)
    error = refused(StateConflict, services, lambda: run_import(services, name))
    assert len(fakes(services).refs.requests) - asked < 10, "it is refused at the first look"
    assert (error.type, error.details["table_id"]) == ("LocationOwned", external)
    assert "main.default.ext" in error.message and "drop the external table first" in str(error.remedy)
    report = Importer(services).dry_run(*MAIN, name, PLACE)
    assert not report.possible and report.problems[0].message == error.message
    assert upgrades(legacy) == []
    services.dropper.drop(*MAIN, "ext")
    assert run_import(services, name) != external
    complete(fakes(services))


@pytest.mark.parametrize("kind", [IcebergTable, IcebergView])
def test_i9_i10_a_table_of_another_format_keeps_its_uuid_and_its_location(kind: type[IcebergEntity]) -> None:
    services, legacy = with_legacy()
    ice = kind("Ice", ICE, PLACE, f"{PLACE}/metadata/1.json", 5, managed=False)
    writes = claim(services.world.space, PLACE, {}, table_id=ICE, catalog="main", now=5)
    services.committer.commit("main", lambda _: Edit("create", put={("default", "Ice"): ice}, writes=tuple(writes)))
    error = refused(StateConflict, services, lambda: run_import(services))
    assert "Iceberg" in error.message and "without a purge" in str(error.remedy)
    assert upgrades(legacy) == []


def test_other_claimants_of_a_claimed_location_get_the_remedy_to_finish_the_import() -> None:
    services, _ = with_legacy()
    with pytest.raises(Crash):
        run_import(fresh(Faulty(fakes(services), 1, "after").world))
    with pytest.raises(StateConflict, match="has not finished") as error:
        registered(services)
    assert error.value.type == "LocationOwned" and "finishes it" in str(error.value.remedy)
    run_import(services)
    with pytest.raises(StateConflict, match="belongs to table"):
        registered(services)


# -- claims of the past -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", CRASHES)
def test_i9_a_claim_from_before_there_were_marks_is_finished_all_the_same(how: How) -> None:
    for at in range(2, import_writes() + 1):
        services, legacy = with_legacy()
        with pytest.raises(Crash):
            run_import(fresh(Faulty(fakes(services), at, how).world))
        unmark(services)
        claimed = owner(services)
        assert claimed is not None
        assert Importer(fresh(services.world)).dry_run(*MAIN, "t", PLACE).possible
        assert run_import(fresh(services.world)) == claimed.table_id
        assert upgrades(legacy) == [3]
        complete(fakes(services))


def test_a_claim_whose_catalog_is_gone_belongs_to_no_other_catalog() -> None:
    services, legacy = with_legacy()
    services.catalogs.create("other")
    services.namespaces.create("other", ("n",))
    with pytest.raises(Crash):
        Importer(fresh(Faulty(fakes(services), 1, "after").world)).run("other", ("n",), "t", PLACE)
    unmark(services)
    services.namespace_dropper.drop("other", ("n",))
    services.catalogs.drop("other")
    run_import(services)
    assert upgrades(legacy) == [3]
    complete(fakes(services))


def test_i9_i10_an_external_table_that_is_dropped_under_the_eyes_of_an_import_leaves_it_no_claim() -> None:
    """Its uuid would be in the log, and nowhere else."""
    services, legacy = with_legacy()
    external = registered(services)
    refs = fakes(services).refs
    other = fresh(services.world)
    plain = fakes(services).refs.read
    dropped: list[str] = []

    def read(key: str) -> Any:
        if key == services.reader.key("main") and not dropped:
            dropped.append("now")
            other.dropper.drop(*MAIN, "ext")
        return plain(key)

    refs.read = read  # type: ignore[method-assign]
    made = run_import(fresh(services.world))
    assert dropped and made != external
    assert legacy.actions(3)["commitInfo"]["txnId"] == import_txn(made)
    complete(fakes(services))


# -- runs of one import that meet -------------------------------------------------------------------------------------


def finishes(services: CatalogServices, name: str = "t") -> None:
    """Another run imports the table, another writer commits to it, and the commit is published."""
    done = Importer(fresh(services.world)).run(*MAIN, name, PLACE)
    content = delta.append("x", services.world.clock.now_ms())
    answer = Ratifier(services.world).commit(CommitRequest(done.table_id, done.version + 1, content=content))
    assert isinstance(answer, Ratified)
    assert Publisher(services.world).publish(done.table_id).problem is None


def test_i10_a_slow_import_finds_the_table_that_another_run_has_made(monkeypatch: pytest.MonkeyPatch) -> None:
    services, legacy = with_legacy()
    slow = once(importing.read_state, after=lambda: finishes(services))
    monkeypatch.setattr(importing, "read_state", slow)
    done = Importer(fresh(services.world)).run(*MAIN, "t", PLACE)
    assert (done.version, done.replayed) == (4, True), "the latest version, as for every replay"
    assert upgrades(legacy) == [3]
    complete(fakes(services))
    assert Exporter(fresh(services.world)).run(*MAIN, "t").release_version == 5


def test_i9_i10_a_slow_import_under_another_name_leaves_the_location_to_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services, legacy = with_legacy()
    monkeypatch.setattr(importing, "read_state", once(importing.read_state, after=lambda: finishes(services, "u")))
    with pytest.raises(StateConflict) as error:
        Importer(fresh(services.world)).run(*MAIN, "t", PLACE)
    assert error.value.type == "LocationOwned"
    assert names(fresh(services.world)) == ["u"] and upgrades(legacy) == [3]
    complete(fakes(services))


def test_i10_a_claim_that_another_run_took_up_is_not_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """That run may be about to write the upgrade commit; the table that it names must own the
    location."""
    services, legacy = with_legacy()
    seen: list[Location | None] = []

    def taken_up() -> None:
        with pytest.raises(Crash):
            run_import(fresh(Faulty(fakes(services), 1, "after").world))
        seen.append(owner(services))
        raise broken("a version is missing")  # for this once

    monkeypatch.setattr(importing, "read_state", once(importing.read_state, after=taken_up))
    made = run_import(fresh(services.world))
    assert seen[0] is not None and seen[0].table_id == made
    assert upgrades(legacy) == [3]
    assert fakes(services).refs.requests.count("transact") < 10, "nobody tries again and again to give it back"
    complete(fakes(services))


def test_i2_i10_a_claim_that_is_given_back_too_late_stands_if_it_was_taken_up_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The write that gives it back is throttled behind a lost answer, and arrives when the same
    import has begun again."""
    services, legacy = with_legacy()
    world = fakes(services)
    late = list[Callable[[], object]]()
    plain = world.refs.transact

    def unfit() -> None:
        world.refs.transact = lost  # type: ignore[method-assign,assignment]
        raise broken("a version is missing")  # for this once

    def lost(writes: Any, token: str) -> object:
        world.refs.transact = plain  # type: ignore[method-assign]
        late.append(lambda: plain(writes, token))
        raise OutcomeUnknown("no answer")

    monkeypatch.setattr(importing, "read_state", once(importing.read_state, after=unfit))
    importer = Importer(fresh(world))
    with pytest.raises(OutcomeUnknown):
        importer.run(*MAIN, "t", PLACE)
    monkeypatch.setattr(Claims, "stands", once(Claims.stands, after=late[0]))
    made = importer.run(*MAIN, "t", PLACE)
    assert legacy.actions(3)["commitInfo"]["txnId"] == import_txn(made.table_id)
    complete(world)


def test_i10_a_claim_is_not_given_back_once_the_log_names_it() -> None:
    """A writer that bypasses the catalog adds a version right after the upgrade commit, which
    cannot be read."""
    services, legacy = with_legacy()
    world = fakes(services)
    plain = fakes(services).storages.open

    class Spoilt:
        def __init__(self, location: str) -> None:
            self._storage = plain(location)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._storage, name)

        def put_if_absent(self, path: str, content: bytes) -> bool:
            taken = self._storage.put_if_absent(path, content)
            self._storage.put_if_absent(published_path(4), b"{nonsense\n")
            return taken

    world.storages.open = Spoilt  # type: ignore[method-assign,assignment]
    with pytest.raises(UnsupportedTable, match="not readable"):
        run_import(fresh(world))
    world.storages.open = plain  # type: ignore[method-assign]
    claimed = owner(services)
    assert claimed is not None and import_txn(claimed.table_id) == legacy.actions(3)["commitInfo"]["txnId"]
    legacy.storage.delete(published_path(4))
    assert run_import(fresh(world)) == claimed.table_id
    complete(world)


@pytest.mark.parametrize("when", ["before its claim is looked at", "before it writes"])
def test_i2_i10_an_import_that_slept_through_an_import_and_an_export_names_no_table_that_is_gone(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, legacy = with_legacy()
    gone: list[str] = []

    def there_and_back() -> None:
        gone.append(run_import(fresh(services.world)))
        Exporter(fresh(services.world)).run(*MAIN, "t")

    if when == "before it writes":
        monkeypatch.setattr(Claims, "stands", once(Claims.stands, after=there_and_back))
    else:
        monkeypatch.setattr(importing, "read_state", once(importing.read_state, before=there_and_back))
    made = run_import(fresh(services.world))
    assert made != gone[0] and upgrades(legacy) == [3, 5]
    assert head_of(services.world, gone[0]).reason == "exported"
    complete(fakes(services))
    Exporter(fresh(services.world)).run(*MAIN, "t")


def test_i10_a_neighbour_that_comes_meanwhile_does_not_keep_a_claim_from_being_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Markers above are shared."""
    services, _ = with_legacy()
    world = fakes(services)
    before = dict(fakes(services).refs.rows)
    other = fresh(world)

    def neighbour() -> None:
        other.externals.register(*MAIN, "n", location="s3://old/tables/n", format="delta", about=External())

    def unfit(storage: Any, location: str) -> LogState:
        world.refs.transact = once(world.refs.transact, before=neighbour)  # type: ignore[method-assign]
        raise broken("a version is missing")

    monkeypatch.setattr(importing, "read_state", unfit)
    with pytest.raises(UnsupportedTable):
        run_import(fresh(world))
    assert owner(services) is None
    other.dropper.drop(*MAIN, "n")
    after = {key: row for key, row in world.refs.rows.items() if "/location/s3" in key}
    assert after == {key: row for key, row in before.items() if "/location/s3" in key}


@pytest.mark.parametrize("how", CRASHES)
def test_i9_an_import_that_dies_again_while_it_is_finished_is_finished_all_the_same(how: How) -> None:
    for first in range(1, 4):
        for second in range(1, import_writes() + 1):
            services, legacy = with_legacy()
            for at in (first, second):
                with suppress(Crash):
                    run_import(fresh(Faulty(fakes(services), at, how).world))
            run_import(fresh(services.world))
            assert upgrades(legacy) == [3]
            complete(fakes(services))


def test_a_dropped_import_that_came_back_has_no_mark_either() -> None:
    services = fresh()
    Legacy(services).created()
    run_import(services)
    services.dropper.drop(*MAIN, "t")
    faulty = Faulty(fakes(services))
    run_import(fresh(faulty.world))
    assert len(faulty.writes) == import_writes(), "it goes on with its own claim at once"
    complete(fakes(services))
