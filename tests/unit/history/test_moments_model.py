"""Listings, path queries and entries as of a moment show the state of that moment, also after
further changes (I9, I10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.support.catalog import LAKE, fakes, fresh
from tests.support.examples import examples
from tests.support.gc import DAY
from turnstile.access.authorizer import Authorizer, Need, Target
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Namespace, Table
from turnstile.catalog.core.paths import Path
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.query.find import Finder
from turnstile.catalog.services import CatalogServices, build
from turnstile.gc.collector import Collector
from turnstile.gc.core import HOUR_MS, Grace
from turnstile.rights.grants import Access, Grant, Principal, Privilege
from turnstile.rights.rules import use_catalog
from turnstile.store.core.errors import NotFound
from turnstile.store.core.limits import Limits, SpillLimits
from turnstile.store.ports import World

GRACE = Grace(history_ms=2 * DAY)
LIMITS = Limits(spill=SpillLimits(embedded=150, segment=300), history_ms=GRACE.history_ms)


def opened(world: World) -> CatalogServices:
    """Another sandbox, with a history of two days."""
    return build(world, lake_root=LAKE, limits=LIMITS)


def all_of(page: Callable[[str | None], Any]) -> Iterator[Any]:
    """The items of every page."""
    token = None
    while True:
        batch = page(token)
        yield from batch.items
        token = batch.next_token
        if token is None:
            return


There = dict[Path, tuple[str, str, str | None]]
"""Kind, uuid and comment by name."""

EVERYTHING = Access(grants=(Grant("ann", (Privilege.SELECT, Privilege.USE_CATALOG, Privilege.USE_SCHEMA)),))


def authorized(services: CatalogServices) -> CatalogServices:
    """The same services for a request of ann's, with the right to see everything present."""
    control = Authorizer(services.world, services.reader)
    return services.authorized_by(control.guard(Principal("ann"), [Need(use_catalog, Target("main"))]))


def described(services: CatalogServices, as_of: AsOf | None, size: int) -> There:
    """Two levels of a catalog, as every way to read them says."""
    lists = services.listings
    there = There()
    options: dict[str, Any] = {"as_of": as_of, "max_results": size}
    for one in all_of(lambda token: lists.namespaces("main", page_token=token, **options)):
        there[one.name] = ("namespace", one.entity.id, one.entity.comment)
        assert services.entries.namespace("main", one.name, as_of)[0] == one
        tables = partial(lists.tables, "main", one.name, **options)
        inside = list(all_of(lambda token, tables=tables: tables(page_token=token)))  # type: ignore[misc]
        for table in inside:
            there[*one.name, table.name] = ("table", table.table_id, table.comment)
            entry = services.entries.table("main", one.name, table.name, as_of)
            assert (entry.path, entry.entity) == ((*one.name, table.name), table)
    look = Finder(services.world, services.reader, services.as_of_reader, services.metadata)
    for query in ("/main/*", "/main/*/*"):
        matches = list(all_of(lambda token, of=query: look.find(of, page_token=token, **options)))  # type: ignore[misc]
        assert {one.path: one.entity.comment for one in matches} == {
            path: comment for path, (*_, comment) in there.items() if len(path) == query.count("*")
        }
    return there


def missing(services: CatalogServices, as_of: AsOf, path: Path, kind: str) -> None:
    """A former entity is answered like one that never existed."""
    never = (*path[:-1], "never")
    for name in (path, never):
        with pytest.raises(NotFound) as refused:
            if kind == "table":
                services.entries.table("main", name[:-1], name[-1], as_of)
            else:
                services.entries.namespace("main", name, as_of)
        assert refused.value.message == f"{kind} '{'.'.join(('main', *name))}' does not exist"
        assert refused.value.remedy and "admins" in refused.value.remedy
    if kind == "namespace":
        with pytest.raises(NotFound):
            services.listings.tables("main", path, as_of=as_of)


class Was(NamedTuple):
    """A HEAD, and the state by the model's dictionary."""

    head: str
    seq: int
    at: int
    there: There


class Moments(RuleBasedStateMachine):
    """Random changes, time, snapshots and collections. For every moment of the kept history, in
    every form of words, warm or cold: the answer equals the model's dictionary at that moment; an
    older moment is refused, and never answered wrongly. A principal that is no admin sees only the
    entities that still have their names (I12).
    """

    def __init__(self) -> None:
        super().__init__()
        self.world = fakes(fresh())
        self.services = opened(self.world)
        self.there: There = {}
        self.past: list[Was] = []
        self.named: dict[str, Was] = {}
        self._commit(Edit("begin", remove=(("default",),), access=EVERYTHING))

    def _remember(self) -> None:
        tree = self.services.reader.current("main")
        self.past.append(Was(tree.head, tree.commit.seq, tree.commit.at, dict(self.there)))

    def _id(self, path: Path) -> str:
        """The uuid of the entity under the name, else a new one."""
        return self.there[path][1] if path in self.there else f"id-{len(self.past)}"

    def _commit(self, edit: Edit) -> None:
        self.services.committer.commit("main", lambda _: edit)
        self._remember()

    @rule(name=st.integers(0, 5), comment=st.none() | st.sampled_from("abc"))
    def write_namespace(self, name: int, comment: str | None) -> None:
        path = (f"N{name}",)
        self.there[path] = ("namespace", self._id(path), comment)
        self._commit(Edit("namespace", put={path: Namespace(path[0], self.there[path][1], 1, comment)}))

    @rule(name=st.integers(0, 5), comment=st.none() | st.sampled_from("abc"), pick=st.integers(0, 100))
    def write_table(self, name: int, comment: str | None, pick: int) -> None:
        parents = [path for path in self.there if len(path) == 1]
        if parents:
            path = (*parents[pick % len(parents)], f"t{name}")
            self.there[path] = ("table", self._id(path), comment)
            self._commit(Edit("table", put={path: Table(path[-1], self.there[path][1], LAKE, 1, comment=comment)}))

    @rule(pick=st.integers(0, 100))
    def remove(self, pick: int) -> None:
        if self.there:
            path = list(self.there)[pick % len(self.there)]
            gone = [one for one in self.there if one[: len(path)] == path]
            for one in gone:
                del self.there[one]
            self._commit(Edit("remove", remove=tuple(gone)))

    @rule(hours=st.sampled_from([1, 5, 20, 60]))
    def wait(self, hours: int) -> None:
        self.world.clock.now += hours * HOUR_MS

    @rule()
    def collect(self) -> None:
        Collector(self.world, GRACE, workers=1).collect(["history"], dry_run=False)

    @rule(name=st.sampled_from("xy"))
    def snapshot(self, name: str) -> None:
        with suppress(NotFound):
            self.services.named_snapshots.drop("main", name)
            self._remember()
        self.services.named_snapshots.create("main", name)
        self.named[name] = self.past[-1]
        self._remember()

    @rule(
        pick=st.integers(0, 1000),
        back=st.integers(0, 3),
        how=st.integers(0, 3),
        cold=st.booleans(),
        size=st.integers(1, 4),
    )
    def look_back(self, pick: int, back: int, how: int, cold: bool, size: int) -> None:
        if cold:
            self.services = opened(self.world)
        at = pick % len(self.past) if back else len(self.past) - 1
        was = self.past[at]
        as_of = AsOf()
        if how == 0:
            as_of = AsOf(head=was.head)
        elif how == 1:
            as_of = AsOf(seq=was.seq)
        elif how == 2:
            as_of = AsOf(time=was.at // 1000)
            at = max(n for n, one in enumerate(self.past) if one.at // 1000 <= was.at // 1000)
        elif self.named:
            name = sorted(self.named)[pick % len(self.named)]
            was = self.named[name]
            as_of = AsOf(snapshot=name.upper())
        else:
            return
        was = was if how == 3 else self.past[at]
        since = (self.world.clock.now - GRACE.history_ms) * 1000
        kept = at == len(self.past) - 1 or self.past[at + 1].at >= since
        if how == 3 or kept or was.head in {one.head for one in self.named.values()}:
            assert described(self.services, as_of, size) == was.there
            now = {path: id for path, (_, id, _) in self.there.items()}
            shown = {path: one for path, one in was.there.items() if now.get(path) == one[1]}
            ann = authorized(self.services)
            assert described(ann, as_of, size) == shown
            for path in was.there.keys() - shown.keys():
                missing(ann, as_of, path, was.there[path][0])
            return
        with pytest.raises(NotFound):
            self.services.listings.namespaces("main", as_of=as_of)


Moments.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=25)
TestMomentsModel = Moments.TestCase
