"""Tables that are registered before their version 0 is written: named, adopted, dropped and given
up, each against the others (I25)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.catalog import MAIN, fakes, fresh, register, write_zero
from tests.support.delta_table import Killed, kill_at
from tests.support.gc import collect, days, names
from turnstile.catalog.awaited import Adoption
from turnstile.catalog.clone.copies import parts_of
from turnstile.catalog.core.entities import External, Table, is_awaited
from turnstile.catalog.core.rows import mark_collecting
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.rights.grants import OPERATOR, Principal
from turnstile.store.core.errors import (
    AlreadyExists,
    InvalidCommit,
    NotFound,
    PermissionDenied,
    StateConflict,
    TurnstileError,
    UnsupportedTable,
)
from turnstile.store.core.names import published_path
from turnstile.transfer.exports import Exporter

CATALOG, NAMESPACE = MAIN


class Early:
    """``main.default.t``, whose version 0 is awaited."""

    def __init__(self) -> None:
        self.services: CatalogServices = fresh()
        self.world = fakes(self.services)
        made = self.services.staging.create(*MAIN, "t", creator="")
        self.id = made.table_id
        self.location = made.location
        self.name("t")

    def name(self, name: str, **more: Any) -> None:
        options = {"about": External(properties={"a": "1"}), "comment": None, "principal": OPERATOR, **more}
        self.services.awaiting.register(*MAIN, name, self.id, **options)

    @property
    def adoption(self) -> Adoption:
        services = self.services
        return Adoption(services.world, services.committer, services.metadata, limits=services.limits)

    def table(self, name: str = "t") -> Table:
        reader = self.services.reader
        return View(reader.current(CATALOG), reader.store).table(NAMESPACE, name)

    def adopt(self) -> bool:
        return self.adoption.adopt(CATALOG, (*NAMESPACE, "t"), self.table())

    def row(self, kind: str) -> Any:
        return self.world.refs.rows.get(getattr(self.world.space, kind)(self.id))


@pytest.fixture
def early() -> Early:
    return Early()


def test_i25_nothing_is_adopted_before_version_0_is_there(early: Early) -> None:
    assert not early.adopt()
    assert early.adoption.adopt_by_id(early.id) == early.table()
    assert early.row("table") is None and is_awaited(early.table())


def test_i25_a_table_is_adopted_with_its_first_version_and_once(early: Early) -> None:
    write_zero(early.services, early.location)
    table = early.table()
    for _ in range(2):
        assert early.adoption.adopt(CATALOG, (*NAMESPACE, "t"), table)
    assert (early.row("table")["latest"], early.row("table")["floor"], early.row("table")["managed"]) == (0, 0, True)
    assert early.row("staging") is None and early.row("external") is None
    assert early.table().external is None and early.table().managed
    assert early.adoption.adopt_by_id(early.id) is None


def test_i25_by_its_id_it_is_adopted_under_the_name_that_it_has(early: Early) -> None:
    early.services.renamer.rename(*MAIN, "t", "u", external=True)
    write_zero(early.services, early.location)
    assert early.adoption.adopt_by_id(early.id) is None
    assert early.row("table")["name"] == "main.default.u"


def test_i25_what_gc_has_given_up_is_not_adopted(early: Early) -> None:
    write_zero(early.services, early.location)
    early.world.refs.write(mark_collecting(early.row("staging")))
    with pytest.raises(NotFound) as refused:
        early.adopt()
    assert "given up" in str(refused.value.remedy)
    assert early.row("table") is None


def test_i25_what_was_dropped_is_not_adopted(early: Early) -> None:
    table = early.table()
    early.services.dropper.drop(*MAIN, "t")
    write_zero(early.services, early.location)
    with pytest.raises(NotFound):
        early.adoption.adopt(CATALOG, (*NAMESPACE, "t"), table)
    assert early.adoption.adopt_by_id(early.id) is None and early.row("table") is None


def test_i25_a_name_that_leads_to_another_table_adopts_nothing(early: Early) -> None:
    old = early.table()
    early.services.dropper.drop(*MAIN, "t")
    made = early.services.staging.create(*MAIN, "t")
    write_zero(early.services, made.location)
    register(early.services, made.table_id)
    write_zero(early.services, early.location)
    with pytest.raises(NotFound):
        early.adoption.adopt(CATALOG, (*NAMESPACE, "t"), old)


def test_i25_a_version_0_that_breaks_the_contract_leaves_it_awaited(early: Early) -> None:
    early.world.storages.open(early.location).put_if_absent(published_path(0), b'{"add": {}}')
    with pytest.raises(InvalidCommit, match="'t', which was awaited, cannot be adopted"):
        early.adopt()
    assert is_awaited(early.table()) and early.row("table") is None


def test_i9_it_has_one_name(early: Early) -> None:
    early.name("t")  # again
    for attempt in (lambda: early.name("u"), lambda: register(early.services, early.id, "u")):
        with pytest.raises(StateConflict) as refused:
            attempt()
        assert refused.value.type == "StagingTableUsed"
    other = early.services.staging.create(*MAIN, "v")
    with pytest.raises(AlreadyExists):
        early.services.awaiting.register(*MAIN, "t", other.table_id, about=External(), comment=None, principal=OPERATOR)


def test_i12_it_is_named_by_its_creator_only() -> None:
    services = fresh()
    made = services.staging.create(*MAIN, "t", creator="alice")
    with pytest.raises(PermissionDenied):
        services.awaiting.register(
            *MAIN, "t", made.table_id, about=External(), comment=None, principal=Principal("bob")
        )


@pytest.mark.parametrize("what", ["rename", "export", "clone", "drop together"])
def test_i25_what_needs_a_version_is_refused_in_words(early: Early, what: str) -> None:
    reader = early.services.reader
    view = View(reader.current(CATALOG), reader.store)
    attempts = {
        "rename": lambda: early.services.renamer.rename(*MAIN, "t", "u", external=False),
        "export": lambda: Exporter(early.services).dry_run(*MAIN, "t"),
        "clone": lambda: parts_of(view, view.tree, (*NAMESPACE, "t"), (*NAMESPACE, "c")),
        "drop together": lambda: early.services.dropper.prepare(*MAIN, "t").apply(view),
    }
    with pytest.raises(TurnstileError) as refused:
        attempts[what]()
    if what == "drop together":
        assert isinstance(refused.value, UnsupportedTable) and refused.value.remedy == "drop it alone"
        return
    assert (refused.value.type, refused.value.details["state"]) == ("TableNotActive", "awaited")
    assert f"{early.location}/{published_path(0)}" in str(refused.value.remedy)


# -- gc ---------------------------------------------------------------------------------------------------------------


def test_i25_what_never_gets_a_version_0_is_given_up_after_the_grace_of_staging_tables(early: Early) -> None:
    early.world.storages.open(early.location).put_if_absent("part.parquet", b"x" * 10)
    days(early.world, 0.9)
    assert collect(early.world, "staging").items == ()
    days(early.world, 0.2)
    assert names(collect(early.world, "staging")) == [("staging", early.id, 10)]
    with pytest.raises(NotFound):
        early.table()
    assert early.row("staging") is None and early.row("external") is None
    assert list(early.world.storages.open(early.location).list_all()) == []


def test_i10_what_was_adopted_is_not_given_up(early: Early) -> None:
    write_zero(early.services, early.location)
    assert early.adopt()
    days(early.world, 3)
    assert collect(early.world, "staging").items == ()
    assert early.row("table")["latest"] == 0


def test_what_is_left_of_one_that_was_dropped_goes_at_once(early: Early) -> None:
    early.world.storages.open(early.location).put_if_absent("part.parquet", b"x" * 10)
    early.services.dropper.drop(*MAIN, "t")
    assert names(collect(early.world, "staging")) == [("staging", early.id, 10)]


@pytest.mark.parametrize("point", ["collect.marked", "collect.forgotten", "collect.deleted", "collect.emptied"])
def test_i25_a_crash_of_gc_is_taken_up_by_the_next_run(early: Early, point: str) -> None:
    early.world.storages.open(early.location).put_if_absent("part.parquet", b"x" * 10)
    days(early.world, 1.1)
    with pytest.raises(Killed):
        collect(early.world, "staging", faults=kill_at(point))
    collect(early.world, "staging")
    with pytest.raises(NotFound):
        early.table()
    assert early.row("staging") is None and early.row("external") is None
