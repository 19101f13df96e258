"""Changes of a catalog with commits: all or none, whatever becomes of the answers, and once (I3,
I8, I9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import catalog
from tests.support.catalog import complete, counted, fakes, fresh, head_of, names, staged
from tests.support.fakes import delta
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from tests.support.store import transactions
from tests.support.store.transactions import Client, Refused, drop, group, new_namespace, rename
from turnstile.catalog.changes.commit import CatalogChange
from turnstile.catalog.changes.composed import Composition, DraftView, GroupChange
from turnstile.catalog.changes.transactions import Applied
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.index import IndexEntry
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.delta.core.decide import Conflict
from turnstile.delta.core.writes.ratify import Keep
from turnstile.delta.proposals import CommitRequest, GroupRequest, ReadVersion
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.rights.grants import Access
from turnstile.store.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    StateConflict,
)
from turnstile.store.core.limits import SpillLimits
from turnstile.store.core.writes import Erase


class Lake:
    """``main.default`` with the Delta tables ``t`` and ``u``, and one that is staged."""

    def __init__(self, spill: SpillLimits | None = None) -> None:
        self.services = fresh()
        self.t, self.u = (catalog.create(self.services, name) for name in ("t", "u"))
        self.staged = staged(self.services, "new")
        self.world = fakes(self.services)
        if spill is not None:
            self.services = fresh(self.world, spill=spill)

    def append(self, table: str, version: int | None, txn: str = "txn", base: int | None = None) -> CommitRequest:
        ict = max(self.world.clock.now_ms(), head_of(self.world, table).last_ict + 1)
        return CommitRequest(table, version, base=base, content=delta.append(txn, ict))

    def members(self, services: CatalogServices | None = None) -> list[CatalogChange]:
        """A namespace, a new table in it, and another name for ``u``."""
        by = services or self.services
        return [
            new_namespace(by, "eu"),
            transactions.create(by, "new", self.staged, "eu"),
            rename(by, "u", "w"),
        ]

    def state(self) -> tuple[list[str], int, bool]:
        """Names in ``default``, the latest version of ``t``, and whether the staged table is
        registered."""
        registered = self.world.space.table(self.staged) in self.world.refs.rows
        return names(fresh(self.world)), head_of(self.world, self.t).latest, registered

    @property
    def seq(self) -> int:
        return int(self.world.refs.rows[self.world.space.catalog("main")]["seq"])


BEFORE = (["t", "u"], 0, False)
AFTER = (["t", "w"], 1, True)


@pytest.fixture
def lake() -> Lake:
    return Lake()


@pytest.mark.parametrize("spill", [None, SpillLimits(embedded=100, segment=250)])
def test_i8_i9_all_members_are_one_swap_also_where_the_index_spills(spill: SpillLimits | None) -> None:
    lake = Lake(spill)
    seq = lake.seq
    answer = Client(lake.services).commit(lake.members(), group(lake.append(lake.t, None, base=0)))
    assert (answer.seq, answer.replayed, [commit.version for commit in answer.commits]) == (seq + 1, False, [1])
    assert lake.state() == AFTER and names(fresh(lake.world), "eu") == ["new"]
    complete(lake.world)


def test_a_warm_transaction_reads_the_key_and_the_catalog_and_writes_twice(lake: Lake) -> None:
    client = Client(lake.services)
    client.commit([rename(lake.services, "u", "v")], group(lake.append(lake.t, 1, "first")))
    changes = [rename(lake.services, "v", "w")]
    request = group(lake.append(lake.t, 2))
    requests = counted(lake.services, lambda: client.commit(changes, request))
    assert requests == ["objs.put_many", "refs.read", "refs.read", "refs.transact"]


def _writes() -> int:
    lake = Lake()
    faulty = Faulty(lake.world)
    services = fresh(faulty.world)
    Client(services).commit(lake.members(services), group(lake.append(lake.t, 1)))
    return len(faulty.writes)


@pytest.mark.parametrize("at", range(1, _writes() + 1))
@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_i3_i8_after_a_fault_at_any_write_all_of_it_is_there_or_nothing_and_once_it_is_sent_again(
    lake: Lake, at: int, how: How
) -> None:
    request = group(lake.append(lake.t, 1))
    seq = lake.seq
    services = fresh(Faulty(lake.world, at, how).world)
    try:
        answer: Applied | None = Client(services).commit(lake.members(services), request)
    except (Crash, OutcomeUnknown):
        answer = None
    between = lake.state()
    assert between in (BEFORE, AFTER) and (answer is None or between == AFTER)
    complete(lake.world)
    services = fresh(lake.world)
    again = _sent_again(services, lake, request, between)
    assert again.replayed is (between == AFTER) and lake.state() == AFTER
    assert (again.seq, lake.seq) == (seq + 1, seq + 1)
    complete(lake.world)


def _sent_again(services: CatalogServices, lake: Lake, request: GroupRequest, state: Any) -> Applied:
    return Client(services).commit([] if state == AFTER else lake.members(services), request)


def test_i3_two_copies_at_once_are_applied_once_and_both_get_that_answer(lake: Lake) -> None:
    request = group(lake.append(lake.t, 1))
    other = fresh(lake.world)
    first: list[Applied] = []

    def overtakes(view: View) -> Edit | None:
        if not first:
            first.append(Client(other).commit([rename(other, "u", "w")], request))
        return None

    answer = Client(lake.services).commit([rename(lake.services, "u", "w"), CatalogChange(overtakes)], request)
    assert (first[0].replayed, answer.replayed, answer.seq) == (False, True, first[0].seq)
    assert lake.state()[:2] == (["t", "w"], 1)


def _overtaken(lake: Lake, act: Callable[[], object]) -> CatalogChange:
    """A change that changes nothing; ``act`` happens between the first look at the catalog and the
    swap."""
    acts = [act]

    def change(_: View) -> None:
        if acts:
            acts.pop()()

    return CatalogChange(change)


def test_i8_a_catalog_that_moved_on_has_the_changes_computed_again_and_the_commit_written_once(lake: Lake) -> None:
    other = fresh(lake.world)
    late = _overtaken(lake, lambda: other.renamer.rename("main", ("default",), "u", "v"))
    with pytest.raises(NotFound) as gone:  # the new tree has no u
        Client(lake.services).commit([rename(lake.services, "u", "w"), late], group(lake.append(lake.t, 1)))
    assert gone.value.field == "changes[0].table" and lake.state() == (["t", "v"], 0, False)
    late = _overtaken(lake, lambda: other.namespaces.create("main", ("eu",)))
    Client(lake.services).commit([rename(lake.services, "v", "w"), late], group(lake.append(lake.t, 1)))
    assert lake.state()[:2] == (["t", "w"], 1)
    complete(lake.world)


def test_i8_changes_that_change_nothing_are_no_commit_of_the_catalog_but_what_was_read_is_checked(lake: Lake) -> None:
    seq = lake.seq
    nothing = [rename(lake.services, "u", "u")]
    assert Client(lake.services).commit(nothing, group()).seq == seq == lake.seq
    Ratifier(lake.world).commit(lake.append(lake.t, 1, "other"))
    with pytest.raises(Refused):
        Client(lake.services).commit(nothing, group(reads=[ReadVersion(lake.t, 0)]))
    Client(lake.services).commit(nothing, group(reads=[ReadVersion(lake.t, 1)]))
    assert lake.seq == seq + 1


def test_i8_rows_of_commits_are_not_passed_to_changes(lake: Lake) -> None:
    passed: list[object] = []
    ahead = _overtaken(lake, lambda: Ratifier(lake.world).commit(lake.append(lake.t, 1, "other")))
    listening = CatalogChange(ahead.apply, passed.append)
    changes = [rename(lake.services, "u", "w"), listening]
    Client(lake.services).commit(changes, group(lake.append(lake.t, None, base=0)))
    assert head_of(lake.world, lake.t).latest == 2 and passed == []


@pytest.mark.parametrize("reads", [False, True])
def test_i8_a_commit_or_a_read_that_loses_at_the_swap_refuses_the_changes(lake: Lake, reads: bool) -> None:
    win = _overtaken(lake, lambda: Ratifier(lake.world).commit(lake.append(lake.t, 1, "other")))
    request = group(reads=[ReadVersion(lake.t, 0)]) if reads else group(lake.append(lake.t, 1))
    before = lake.seq
    with pytest.raises(Refused) as refused:
        Client(lake.services).commit([rename(lake.services, "u", "w"), win], request)
    assert refused.value.outcome.commits is not None
    (member,) = refused.value.outcome.commits.members
    assert (member.table_id, member.was_read, isinstance(member.decision, Conflict)) == (lake.t, reads, True)
    assert lake.state() == (["t", "u"], 1, False) and lake.seq == before


def test_i8_a_ticket_that_does_not_fit_at_first_is_sent_in_its_other_form_with_the_changes(lake: Lake) -> None:
    client = Client(lake.services)
    ticket = lake.append(lake.t, None, base=0)
    ahead = _overtaken(lake, lambda: Ratifier(lake.world).commit(lake.append(lake.t, 1, "other")))
    answer = client.commit([rename(lake.services, "u", "w"), ahead], group(ticket))
    assert [commit.version for commit in answer.commits] == [2] and lake.state()[:2] == (["t", "w"], 2)


def test_i9_a_change_that_is_refused_at_its_own_row_is_named(lake: Lake) -> None:
    late = _overtaken(lake, lambda: catalog.set_state(lake.services, lake.u, "leaving"))
    with pytest.raises(Refused) as refused:
        Client(lake.services).commit([new_namespace(lake.services, "eu"), drop(lake.services, "u"), late], group())
    assert refused.value.outcome.change is not None
    change = refused.value.outcome.change
    assert (change.index, change.error.type, change.error.details["state"]) == (1, "TableNotActive", "leaving")


def test_i9_a_name_that_leads_to_another_table_meanwhile_is_not_dropped(lake: Lake) -> None:
    other = fresh(lake.world)

    def replace() -> None:
        other.renamer.rename("main", ("default",), "u", "v")
        catalog.create(other, "u")

    with pytest.raises(Refused) as refused:
        Client(lake.services).commit([drop(lake.services, "u"), _overtaken(lake, replace)], group())
    assert refused.value.outcome.change is not None
    assert refused.value.outcome.change.error.type == "ConcurrentChange"
    assert names(fresh(lake.world)) == ["t", "u", "v"]


def test_i9_a_staged_table_that_is_registered_meanwhile_is_refused_under_whatever_name(lake: Lake) -> None:
    other = fresh(lake.world)
    late = _overtaken(lake, lambda: catalog.register(other, lake.staged, "new"))
    with pytest.raises(Refused) as refused:
        Client(lake.services).commit([*lake.members(), late], group(lake.append(lake.t, 1)))
    assert refused.value.outcome.change is not None
    assert refused.value.outcome.change.error.type == "StagingTableUsed" and lake.state() == (
        ["new", "t", "u"],
        0,
        True,
    )


# -- replays ----------------------------------------------------------------------------------------------------------


def _forget(lake: Lake) -> None:
    for key in [key for key, row in lake.world.refs.rows.items() if row["kind"] == "request"]:
        del lake.world.refs.rows[key]


def test_i3_a_transaction_that_is_not_remembered_is_known_by_an_entry_and_unknown_without(lake: Lake) -> None:
    request = group(lake.append(lake.t, 1))
    Client(lake.services).commit([rename(lake.services, "u", "w")], request)
    _forget(lake)
    again = Client(lake.services).commit([rename(lake.services, "u", "w")], request)
    assert again.replayed and again.seq is None
    _forget(lake)
    for version in range(2, 9):
        Ratifier(lake.world).commit(lake.append(lake.t, version, f"later-{version}"))
    Publisher(lake.world, keep=Keep(named=0, tickets=0)).publish(lake.t)
    assert not any(entry.group for entry in head_of(lake.world, lake.t).tail), "or the test shows nothing"
    with pytest.raises(OutcomeUnknown, match="no longer recorded"):
        Client(lake.services).commit([rename(lake.services, "u", "w")], request)


def test_i3_an_earlier_transaction_whose_table_is_gone_is_unknown_and_not_refused(lake: Lake) -> None:
    request = group(lake.append(lake.t, 1))
    Client(lake.services).commit([rename(lake.services, "u", "w")], request)
    del lake.world.refs.rows[lake.world.space.table(lake.t)]
    with pytest.raises(OutcomeUnknown, match="applied"):
        Client(lake.services).commit([], request)


def test_i3_an_earlier_transaction_whose_commit_was_lost_is_unknown_and_not_applied_again(lake: Lake) -> None:
    """The rows were restored from backups of two moments."""
    request = group(lake.append(lake.t, 1))
    before = dict(lake.world.refs.rows[lake.world.space.table(lake.t)])
    Client(lake.services).commit([rename(lake.services, "u", "w")], request)
    lake.world.refs.rows[lake.world.space.table(lake.t)] = before
    with pytest.raises(OutcomeUnknown, match="cannot be shown"):
        Client(lake.services).commit([], request)
    assert head_of(lake.world, lake.t).latest == 0


def test_i8_a_catalog_that_others_change_all_the_time_refuses_with_nothing_applied(lake: Lake) -> None:
    others = fresh(lake.world)
    numbers = iter(range(10_000))

    def faster(_: View) -> None:
        lake.world.clock.now += 1_000
        others.namespaces.create("main", (f"n{next(numbers)}",))

    with pytest.raises(StateConflict) as busy:
        changes = [rename(lake.services, "u", "w"), CatalogChange(faster)]
        Client(lake.services).commit(changes, group(lake.append(lake.t, 1)))
    assert busy.value.type == "ConcurrentChange" and lake.state() == BEFORE


def test_i3_a_refusal_is_remembered_although_its_reason_has_passed(lake: Lake) -> None:
    request = group(lake.append(lake.t, 1))
    with pytest.raises(Refused):
        Client(lake.services).commit([rename(lake.services, "u", "t")], request)
    with pytest.raises(Exception, match="nothing was applied"):
        Client(lake.services).commit([rename(lake.services, "u", "w")], request)
    assert lake.state() == BEFORE


# -- what can be composed ---------------------------------------------------------------------------------------------


def _composed(lake: Lake, *changes: CatalogChange) -> Edit | None:
    view = View(lake.services.reader.current("main"), lake.services.reader.store)
    return Composition([GroupChange(change, lambda _: None) for change in changes]).apply(view)


def test_i9_changes_of_one_row_and_names_that_are_taken_by_the_change_before_are_refused(lake: Lake) -> None:
    with pytest.raises(InvalidRequest, match=r"changes\[0\]") as twice:
        _composed(lake, rename(lake.services, "u", "v"), rename(lake.services, "v", "w"))
    assert twice.value.field == "changes[1]"
    with pytest.raises(AlreadyExists):
        _composed(lake, rename(lake.services, "u", "v"), rename(lake.services, "t", "v"))


def test_i9_an_edit_has_what_the_last_change_of_a_name_leaves(lake: Lake) -> None:
    edit = _composed(lake, drop(lake.services, "t"), rename(lake.services, "u", "t"))
    assert edit is not None
    assert set(edit.put) == {("default", "t")} and edit.remove == (("default", "u"),)
    assert edit.message == "drop table main.default.t; rename table default.u to default.t"
    nothing = CatalogChange(lambda _: None)
    assert _composed(lake, nothing, nothing) is None


@pytest.mark.parametrize(
    "more",
    [
        {"entries": {"k": IndexEntry("table", "x")}},
        {"access": Access("ann")},
        {"restores": True},
        {"replaced": 1},
        {"more": True},
    ],
)
def test_i9_edits_that_move_entries_or_restore_are_not_composed(lake: Lake, more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="composed"):
        _composed(lake, CatalogChange(lambda _: Edit("other", **more)))


def test_i9_a_row_that_refused_is_passed_to_the_change_that_has_it_and_to_no_other(lake: Lake) -> None:
    passed: list[tuple[str, Any]] = []

    def change(name: str, *keys: str) -> CatalogChange:
        edit = Edit(name, writes=tuple(Erase(key, ()) for key in keys))
        return CatalogChange(lambda _: edit, lambda failed: passed.append((name, failed)))

    deaf = CatalogChange(lambda _: Edit("deaf", writes=(Erase("d", ()),)))
    changes = [change("first", "a", "b"), deaf, change("none"), change("last", "c")]
    composition = Composition([GroupChange(member, lambda _: None) for member in changes])
    composition.apply(View(lake.services.reader.current("main"), lake.services.reader.store))
    composition.on_rejected({1: None, 2: None})
    composition.on_rejected({3: {"key": "c"}})
    assert passed == [("first", {1: None}), ("last", {0: {"key": "c"}})]


def test_i12_a_change_is_authorized_before_it_is_computed_in_the_tree_of_those_before_it(lake: Lake) -> None:
    seen: list[bool] = []

    def authorize(view: View) -> None:
        seen.append(view.tree.find(("default", "w")) is not None)
        if len(seen) > 1:
            raise PermissionDenied("no")

    def never(_: View) -> Edit | None:
        raise AssertionError

    view = View(lake.services.reader.current("main"), lake.services.reader.store)
    members = [GroupChange(rename(lake.services, "u", "w"), authorize), GroupChange(CatalogChange(never), authorize)]
    with pytest.raises(PermissionDenied) as denied:
        Composition(members).apply(view)
    assert seen == [False, True] and denied.value.field == "changes[1]"


def test_a_draft_has_the_entities_of_the_changes_and_of_the_tree(lake: Lake) -> None:
    view = View(lake.services.reader.current("main"), lake.services.reader.store)
    draft = DraftView(view)
    edit = rename(lake.services, "u", "w").apply(view)
    assert edit is not None
    draft.apply(edit)
    objs = [draft.tree.table(("default",), name).obj for name in ("t", "w")]
    assert [entity.name for entity in map(draft.entity, objs)] == ["t", "w"]  # type: ignore[union-attr]
    assert draft.entities(objs) == {obj: draft.entity(obj) for obj in objs}
    assert draft.written_levels(("default",)) == ("default",) and view.tree.find(("default", "w")) is None


def test_every_change_gets_its_outcome_unless_it_is_unknown(lake: Lake) -> None:
    settled: list[bool] = []
    change = CatalogChange(lambda _: None, settled=settled.append)
    Client(lake.services).commit([change, rename(lake.services, "u", "w")], group())
    with pytest.raises(NotFound):
        Client(lake.services).commit([change, rename(lake.services, "u", "w")], group())
    assert settled == [True, False]

    def lost(*_: object) -> None:
        lake.world.clock.now += 20_000
        raise OutcomeUnknown("lost")

    lake.world.refs.transact = lost  # type: ignore[method-assign,assignment]
    with pytest.raises(OutcomeUnknown):
        Client(lake.services).commit([change, rename(lake.services, "w", "x")], group())
    assert settled == [True, False]
