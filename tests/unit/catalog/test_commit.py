"""Changing a catalog with one swap: attempts, lost answers, leftovers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.support.catalog import complete, create, fakes, fresh, head_of, names
from tests.support.fakes.world import FakeWorld
from tests.support.faults import LOSSES, Faulty, How
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace
from turnstile.catalog.core.rows import RECENT, CatalogHead
from turnstile.catalog.reader import CatalogReader, View
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    StorageFault,
    Throttled,
    TooLarge,
)
from turnstile.store.ports import AllAccepted, SomeRejected, World


def row(services: CatalogServices) -> CatalogHead:
    stored = services.world.refs.read(services.world.space.catalog("main"))
    assert stored is not None
    return CatalogHead.from_row(stored)


def objs(services: CatalogServices) -> set[str]:
    return {id for _, id in fakes(services).objs.rows}


def test_a_change_that_others_overtake_is_computed_again_from_their_tree() -> None:
    """I9: independent changes never fail each other."""
    services = fresh()
    other = None
    other = fresh(services.world)
    seen: list[str] = []

    def change(view: View) -> Edit:
        seen.append(view.tree.head)
        if len(seen) <= 3:
            other.namespaces.create("main", (f"other{len(seen)}",))
        return Edit("mine", put={("mine",): Namespace("mine", "id", 1)})

    services.committer.commit("main", change)
    assert len(set(seen)) == 4
    listed = [namespace.name for namespace in services.listings.namespaces("main").items]
    assert listed == [("default",), ("mine",), ("other1",), ("other2",), ("other3",)]
    complete(fakes(services))


def test_entities_of_earlier_attempts_are_used_again_and_lost_commits_are_deleted() -> None:
    services = fresh()
    other = fresh(services.world)
    before = objs(services)
    attempts: list[int] = []

    def change(view: View) -> Edit:
        attempts.append(1)
        if len(attempts) <= 3:
            other.namespaces.create("main", (f"other{len(attempts)}",))
        return Edit("mine", put={("mine",): Namespace("mine", "id", 1)})

    services.committer.commit("main", change)
    fresh_objs = objs(services) - before
    assert sum(id.startswith("entity/") for id in fresh_objs) == 4, "mine once, the others' three"
    assert sum(id.startswith("commit/") for id in fresh_objs) == 4, "no lost commit stays"
    complete(fakes(services))


def test_an_entity_is_made_anew_when_what_it_replaces_has_changed() -> None:
    """Two updates of one namespace at the same time both count."""
    services = fresh()
    other = fresh(services.world)
    services.namespaces.create("main", ("n",), properties={"base": "1"})
    raced: list[object] = []

    def change(view: View) -> Edit:
        old = view.entity(view.tree.namespace(("n",)).obj)
        assert isinstance(old, Namespace)
        if not raced:
            raced.append(other.namespaces.update("main", ("n",), set={"theirs": "1"}))
        return Edit("mine", put={("n",): Namespace(old.name, old.id, 1, properties={**old.properties, "mine": "1"})})

    services.committer.commit("main", change)
    merged = services.namespaces.get("main", ("n",)).entity.properties
    assert merged == {"base": "1", "theirs": "1", "mine": "1"}


def test_an_entity_that_a_later_attempt_computes_differently_is_the_later_one() -> None:
    """The entity that it replaces is unchanged, but another one that it depends on is not."""
    services = fresh()
    other = fresh(services.world)
    raced: list[object] = []

    def change(view: View) -> Edit:
        entity = Namespace("mine", "id", 1, comment=f"one of {len(list(view.tree.subtree(()))) + 1}")
        if not raced:
            raced.append(other.namespaces.create("main", ("other",)))
        return Edit("mine", put={("mine",): entity})

    services.committer.commit("main", change)
    assert fresh(services.world).namespaces.get("main", ("mine",)).entity.comment == "one of 3"


@pytest.mark.parametrize("how", LOSSES)
def test_an_answer_lost_at_the_swap_is_found_out_and_the_change_applied_once(how: How) -> None:
    services = fresh()
    before = row(services)
    faulty = Faulty(fakes(services), 2, how)  # 1 objs, 2 swap
    created = fresh(faulty.world).namespaces.create("main", ("n",), comment="c")
    assert created.entity.comment == "c"
    assert row(services).seq == before.seq + 1
    assert faulty.writes == ["put_many", "write", "write"]
    complete(fakes(services))


@pytest.mark.parametrize("overtaken", [1, RECENT + 5])
def test_an_answer_lost_long_ago_is_found_in_the_history(overtaken: int) -> None:
    """The swap landed, its answer was lost, and others committed before it could be asked again."""
    services = fresh()
    other = fresh(services.world)
    faulty = Faulty(fakes(services), 2, "lost")
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        for n in range(overtaken):
            other.namespaces.create("main", (f"o{n}",))

    reader = CatalogReader(faulty.world)
    committer = Committer(faulty.world, reader, pause=pause)
    before = row(services).seq

    def change(view: View) -> Edit:
        if view.tree.find(("mine",)) is not None:
            raise AlreadyExists("mine")  # what a second application would meet
        return Edit("mine", put={("mine",): Namespace("mine", "id", 1)})

    committer.commit("main", change)
    assert row(services).seq == before + 1 + overtaken
    assert len(waits) == 1
    complete(fakes(services))


def test_an_outcome_that_stays_unknown_is_reported_as_such_and_nothing_is_deleted() -> None:
    services = fresh()

    class Silent(Faulty):
        def write(self, name: str, apply: object, lost: type[Exception]) -> object:
            if name != "write":
                return super().write(name, apply, lost)  # type: ignore[arg-type]
            self.writes.append(name)
            raise lost("no answer")

    faulty = Silent(fakes(services))
    reader = CatalogReader(faulty.world)
    committer = Committer(faulty.world, reader, deadline_ms=50)
    with pytest.raises(OutcomeUnknown):
        committer.commit("main", lambda view: Edit("x", put={("x",): Namespace("x", "id", 1)}))
    assert "delete" not in faulty.writes
    complete(fakes(services))


@pytest.mark.parametrize("how", LOSSES)
def test_i3_a_swap_that_is_throttled_after_a_lost_answer_is_unknown_and_not_refused(how: How) -> None:
    """Throttled means that nothing was applied; for the first sending that is unknown."""
    services = fresh()

    class ThenBusy(Faulty):
        def write(self, name: str, apply: object, lost: type[Exception]) -> object:
            if self.writes.count("write") == 1 and name == "write":
                self.writes.append(name)
                raise Throttled
            return super().write(name, apply, lost)  # type: ignore[arg-type]

    faulty = ThenBusy(fakes(services), 2, how)
    with pytest.raises(OutcomeUnknown):
        fresh(faulty.world).namespaces.create("main", ("n",))
    assert "delete" not in faulty.writes
    complete(fakes(services))


@pytest.mark.parametrize("fault", [Throttled, StorageFault])
def test_i3_what_cannot_be_read_of_the_history_leaves_the_outcome_unknown(fault: type[Exception]) -> None:
    """The swap landed, its answer was lost, so many committed since that the row has forgotten it,
    and the log is busy."""
    services = fresh()
    other = fresh(services.world)
    world = fakes(services)
    faulty = Faulty(world, 2, "lost")
    get = world.objs.get

    def busy(space: str, id: str) -> object:
        raise fault("busy")

    def pause(_: float) -> None:
        for n in range(RECENT + 5):
            other.namespaces.create("main", (f"o{n}",))
        world.objs.get = busy  # type: ignore[assignment,method-assign]

    committer = Committer(faulty.world, CatalogReader(faulty.world), pause=pause)
    with pytest.raises(OutcomeUnknown):
        committer.commit("main", lambda view: Edit("mine", put={("mine",): Namespace("mine", "id", 1)}))
    world.objs.get = get  # type: ignore[method-assign]
    complete(world)


def test_a_swap_that_is_throttled_at_once_says_so() -> None:
    services = fresh()

    class Busy(Faulty):
        def write(self, name: str, apply: object, lost: type[Exception]) -> object:
            if name == "write":
                raise Throttled
            return super().write(name, apply, lost)  # type: ignore[arg-type]

    with pytest.raises(Throttled):
        fresh(Busy(fakes(services)).world).namespaces.create("main", ("n",))


def test_a_change_that_is_always_overtaken_gives_up_at_its_deadline() -> None:
    services = fresh()
    other = fresh(services.world)
    committer = Committer(services.world, services.reader, deadline_ms=100)
    before = objs(services)
    count = iter(range(10_000))

    def change(view: View) -> Edit:
        other.namespaces.create("main", (f"o{next(count)}",))
        return Edit("x", put={("x",): Namespace("x", "id", 1)})

    with pytest.raises(StateConflict) as refused:
        committer.commit("main", change)
    assert refused.value.type == "ConcurrentChange"
    assert refused.value.details["retry_after_ms"] > 0
    others = next(count)
    assert len(objs(services) - before) == 2 * others, "nothing of the lost attempts stays"
    complete(fakes(services))


def test_nothing_to_change_writes_nothing() -> None:
    services = fresh()
    world = fakes(services)
    before = (dict(world.refs.rows), dict(world.objs.rows))
    services.namespaces.update("main", ("default",), set={})
    assert (world.refs.rows, world.objs.rows) == before


def test_a_refused_change_changes_nothing() -> None:
    services = fresh()
    world = fakes(services)
    before = (dict(world.refs.rows), dict(world.objs.rows))
    with pytest.raises(AlreadyExists):
        services.namespaces.create("main", ("DEFAULT",))
    with pytest.raises(NotFound):
        services.namespaces.create("nothing", ("n",))
    assert (world.refs.rows, world.objs.rows) == before


def test_the_row_stays_small_and_remembers_the_recent_heads() -> None:
    services = fresh()
    for n in range(RECENT + 10):
        services.namespaces.create("main", (f"n{n}",))
    head = row(services)
    assert len(head.recent) == RECENT
    assert head.seq == RECENT + 11
    assert len(str(services.world.refs.read(head.key))) < 4096
    complete(fakes(services))


def test_an_index_that_does_not_fit_into_one_obj_is_refused_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    services = fresh()
    monkeypatch.setattr("turnstile.store.stored_objs.OBJ_BUDGET", 500)
    monkeypatch.setattr("turnstile.store.stored_objs.MAX_OBJ", 600)
    with pytest.raises(TooLarge) as refused:
        for n in range(100):
            services.namespaces.create("main", (f"namespace{n}",))
    assert refused.value.remedy == "use another catalog"
    complete(fakes(services))


def test_i9_a_commit_larger_than_a_row_is_stored_in_parts_and_read_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("turnstile.store.stored_objs.OBJ_BUDGET", 200)
    services = fresh()
    for n in range(30):
        services.namespaces.create("main", (f"namespace{n:02d}",), comment="x" * 600)
    assert len([id for id in objs(services) if id.startswith("part/commit/")]) > 20
    assert len([id for id in objs(services) if id.startswith("part/entity/")]) >= 60
    complete(fakes(services))
    cold = fresh(services.world)
    listed = [namespace.name[0] for namespace in cold.listings.namespaces("main", max_results=100).items]
    assert listed == ["default", *(f"namespace{n:02d}" for n in range(30))]


def test_i9_a_change_that_lost_leaves_no_part_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The objs that an attempt tidies up go with their parts."""
    monkeypatch.setattr("turnstile.store.stored_objs.OBJ_BUDGET", 100)
    services = fresh()
    rival = fresh(services.world)
    before = objs(services)
    attempts: list[int] = []

    def change(view: View) -> Edit:
        attempts.append(1)
        if len(attempts) <= 3:
            rival.namespaces.create("main", (f"rival{len(attempts)}",))
        return Edit("put", put={("mine",): Namespace("mine", "m", 1, "x" * 300 + str(len(attempts)))})

    services.committer.commit("main", change)
    assert len(attempts) == 4
    owners = {id.removeprefix("part/").rpartition("/")[0] for id in objs(services) if id.startswith("part/")}
    assert owners <= objs(services)
    assert sum(id.startswith("commit/") for id in objs(services) - before) == 4, "three of the rival and one of mine"


def test_history_tells_what_changed_and_leads_back_to_the_first_commit() -> None:
    services = fresh()
    create(services, "t")
    services.renamer.rename("main", ("default",), "t", "u")
    services.dropper.drop("main", ("default",), "u")
    messages = []
    head = row(services).head
    while True:
        commit = services.reader.store.tree("main", head).commit
        messages.append(commit.message)
        if not commit.parents:
            break
        head = commit.parents[0]
    assert messages[:3] == [
        "drop table main.default.u",
        "rename table default.t to default.u",
        "create table main.default.t",
    ]
    assert messages[-1] == "create catalog main"
    assert names(services) == []


def test_head_of_a_table_is_untouched_by_changes_of_other_names() -> None:
    """Tables stay independent: a commit of the catalog does not write other tables' HEADs."""
    services = fresh()
    table_id = create(services, "t")
    before = head_of(services.world, table_id)
    create(services, "u")
    services.namespaces.create("main", ("n",))
    assert head_of(services.world, table_id) == before


def test_objs_of_a_refused_attempt_stay_while_it_could_still_land() -> None:
    """I9: a request that lingers somewhere may yet be applied as long as the HEAD is the one it
    expects; so only gc, later, may take its objs."""
    services = fresh()
    world = fakes(services)
    table_id = create(services, "t")
    world.refs.rows[world.space.table(table_id)]["state"] = "leaving"
    world.objs.requests.clear()
    with pytest.raises(StateConflict):
        services.renamer.rename("main", ("default",), "t", "u")
    assert "delete" not in world.objs.requests
    assert len([id for id in objs(services) if id.startswith("commit/")]) == 3 + 3
    complete(world)


class Stray:
    """refs of which the first change of several rows lingers on its way: it is sent again at once,
    as the adapter does, and lands when the test says so. ``happens`` in between; ``faults`` is
    raised by every read after that."""

    def __init__(self, world: FakeWorld, happens: Callable[[], object], faults: Exception | None = None) -> None:
        self._refs = world.refs
        self._happens = happens
        self._faults = faults
        self.held: tuple[Any, str] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._refs, name)

    def read(self, key: str) -> Any:
        if self.held is not None and self._faults is not None:
            raise self._faults
        return self._refs.read(key)

    def transact(self, writes: Any, token: str) -> Any:
        if self.held is not None:
            return self._refs.transact(writes, token)
        self.held = writes, token
        self._happens()
        answer = self._refs.transact(writes, token)
        return msgspec.structs.replace(answer, uncertain=True) if isinstance(answer, SomeRejected) else answer

    def lands(self) -> Any:
        assert self.held is not None
        return self._refs.transact(*self.held)


def straying(services: CatalogServices, refs: Stray) -> CatalogServices:
    plain = services.world
    return fresh(World(refs, plain.objs, plain.storages, plain.clock, plain.ids, plain.space))  # type: ignore[arg-type]


def test_i3_a_swap_that_another_row_refused_may_land_later_so_its_lost_answer_leaves_it_unknown() -> None:
    """The HEAD stands still: the cause of a refusal may pass, and the attempt that was sent first
    is taken then."""
    services = fresh()
    world = fakes(services)
    head = world.refs.rows[world.space.table(create(services, "t"))]
    refs = Stray(world, lambda: head.update(state="leaving"))
    with pytest.raises(OutcomeUnknown, match="lost"):
        straying(services, refs).renamer.rename("main", ("default",), "t", "u")
    head.update(state="active")
    assert isinstance(refs.lands(), AllAccepted) and names(services) == ["u"], "or the test shows nothing"
    complete(world)


@pytest.mark.parametrize("fault", [Throttled("busy"), StorageFault("away")])
def test_i3_when_the_head_behind_a_lost_answer_cannot_be_read_the_outcome_is_unknown(fault: Exception) -> None:
    services = fresh()
    world = fakes(services)
    head = world.refs.rows[world.space.table(create(services, "t"))]
    refs = Stray(world, lambda: head.update(state="leaving"), fault)
    with pytest.raises(OutcomeUnknown):
        straying(services, refs).renamer.rename("main", ("default",), "t", "u")
    complete(world)


def test_i3_a_swap_that_was_overtaken_can_never_land_so_its_refusal_is_believed() -> None:
    services = fresh()
    world = fakes(services)
    other = fresh(services.world)
    head = world.refs.rows[world.space.table(create(services, "t"))]

    def happens() -> None:
        other.namespaces.create("main", ("n",))
        head.update(state="leaving")

    refs = Stray(world, happens)
    with pytest.raises(StateConflict) as refused:
        straying(services, refs).renamer.rename("main", ("default",), "t", "u")
    assert refused.value.type == "TableNotActive"
    head.update(state="active")
    assert isinstance(refs.lands(), SomeRejected) and names(services) == ["t"]
    complete(world)


def test_i3_a_swap_that_landed_before_another_row_refused_it_is_a_success() -> None:
    services = fresh()
    world = fakes(services)
    create(services, "t")
    refs = Stray(world, lambda: refs.lands())  # noqa: PLW0108 - bound by now, not before
    straying(services, refs).renamer.rename("main", ("default",), "t", "u")
    assert names(services) == ["u"]
    complete(world)
