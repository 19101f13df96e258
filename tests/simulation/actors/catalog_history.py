"""Actors around a catalog's past: the catalog function with all of its services in a simulated
process, and clients that change the tree (names, a counter, Iceberg tables, another catalog that
comes and goes), keep its past and go back to it, collect it, read it (listings across gc, path
queries, past HEADs, the log), and clone entities that others change.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, TypeVar

from tests.simulation.actors.catalog import NAMES
from tests.simulation.auditors.catalog_history import COUNTED, COUNTER, TOGETHER, PastAuditor
from tests.simulation.auditors.catalogs import SeenHead
from tests.simulation.engine.plans import HOUR, MINUTE, SECOND
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import CATALOG, LAKE, LIFE, NAMESPACE, TIGHT, Client, world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.catalog.clone.cloner import Cloner
from turnstile.catalog.clone.delta import DeltaCopier
from turnstile.catalog.core import entities
from turnstile.catalog.core.entities import TABLE, Entity
from turnstile.catalog.core.merges import Merge
from turnstile.catalog.core.paths import key_of
from turnstile.catalog.history.core import ALL, AsOf
from turnstile.catalog.paging import decode_token
from turnstile.catalog.query.find import Finder
from turnstile.catalog.services import build
from turnstile.coordination.tasks import Busy
from turnstile.gc.collector import Collector, CollectTask
from turnstile.gc.core import KINDS as COLLECTED
from turnstile.iceberg.clones import copiers
from turnstile.iceberg.commits import Commits
from turnstile.iceberg.context import Context
from turnstile.iceberg.core.schema import Field, Schema
from turnstile.iceberg.core.table_updates import TableChange
from turnstile.iceberg.core.updates import SetProperties
from turnstile.iceberg.files import MetadataFiles
from turnstile.iceberg.tables import CreateTable, Tables
from turnstile.rights.grants import OPERATOR
from turnstile.store.core.errors import (
    AlreadyExists,
    ErrorType,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    StorageFault,
    Throttled,
    TurnstileError,
)
from turnstile.store.core.limits import Limits

T = TypeVar("T")
BUSY: Final = (1, 50, SECOND, MINUTE, 10 * MINUTE)
QUIET: Final = (1, 10 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR)
"""How long actors pause: they meet all the time, or a day goes by and gc has work."""
Unanswered: Final = (OutcomeUnknown, StorageFault)


class PastSandbox:
    """A server process that serves catalogs with their past, and Iceberg tables."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.world = world_of(process)
        limits = Limits(spill=TIGHT, history_ms=process.state.grace.history_ms)
        self.services = build(self.world, lake_root=LAKE, limits=limits, pause=process.pause)
        self.finder = Finder(self.world, self.services.reader, self.services.as_of_reader, self.services.metadata)
        self._files = MetadataFiles(self.world.storages, self.world.ids)
        self._context = Context(self.services, self.services.committer, self._files, OPERATOR, lambda: None)

    @property
    def cloner(self) -> Cloner:
        """Makes the clones of one request."""
        delta = DeltaCopier(self.world, self.services.metadata, self.services.publisher)
        return Cloner(self.services, {TABLE: delta, **copiers(self.services, self._files)}, _anything)

    @property
    def iceberg(self) -> Commits:
        """Commits to Iceberg tables."""
        return Commits(self._context)

    @property
    def iceberg_tables(self) -> Tables:
        """Other operations on Iceberg tables."""
        return Tables(self._context)


def _anything(*_: object, past: bool) -> None:
    """Rights are not simulated."""


class PastActor:
    """Does one thing after the other: ``times``, or for ever.

    Attributes:
        grid: long pauses end at multiples of it (ms), so that actors meet; 0 for anywhere.
    """

    times: int | None = None
    grid = 0

    def __init__(
        self, state: State, name: str, rng: random.Random, auditor: PastAuditor, naps: tuple[int, ...] = BUSY
    ) -> None:
        self.state = state
        self.name = name
        self.rng = rng
        self.auditor = auditor
        self._naps = naps
        self.client = Client(state, name, PastSandbox, LIFE)

    def __call__(self) -> None:
        done = 0
        while self.times is None or done < self.times:
            done += 1
            try:
                self.act()
            except TurnstileError as error:
                self.state.auditor.refused(error)
            nap = self.rng.choice(self._naps)
            if self.grid and nap > MINUTE:
                nap += -(self.state.scheduler.now + nap) % self.grid
            self.state.scheduler.sleep(nap)

    def act(self) -> None:
        """One thing; errors are looked at by the auditor."""
        raise NotImplementedError

    def ask(self, question: Callable[[PastSandbox], T], tries: int = 3) -> T:
        """The answer; the question is sent again when none came, as it may be where that is
        harmless."""
        for _ in range(tries):
            try:
                return self.send(question)
            except (*Unanswered, Throttled):
                self.state.scheduler.sleep(self.rng.choice((100, SECOND, 40 * SECOND)))
        raise StateConflict(ErrorType.CONCURRENT_CHANGE, "no answer")

    def send(self, question: Callable[[PastSandbox], T]) -> T:
        """The answer, if one comes."""
        began = self.state.scheduler.now
        try:
            return self.client.ask(question)
        except StateConflict as error:
            if error.type == "ConcurrentChange":
                self.auditor.told_overtaken(began)
            raise

    def met(self, what: str) -> None:
        """Count it, so that a test can tell that it happens."""
        self.state.auditor.seen[what] += 1

    @property
    def ago(self) -> int:
        """A time (ms), mostly of the kept history, often near its beginning, sometimes before it,
        where gc is at work."""
        now = self.state.scheduler.now
        history = self.state.grace.history_ms
        back = self.rng.choice((HOUR, history // 2, history - MINUTE, history - MINUTE, history + 80 * MINUTE))
        return now - int(back * (0.9 + 0.1 * self.rng.random()))


SIDE: Final = "side"
ICE: Final = ("ice",)
ICE_TABLES: Final = ("i", "j")
_NAMES: Final = tuple((f"n{number}",) for number in range(6))


class Names(PastActor):
    """Creates, describes and drops namespaces with names that other actors use, too."""

    times = 8

    def act(self) -> None:
        path = self.rng.choice(_NAMES)
        comment = f"{self.name} {self.rng.random()}"
        match self.rng.choice(("create", "describe", "describe", "drop")):
            case "create":
                self.ask(lambda box: box.services.namespaces.create(CATALOG, path, comment=comment))
            case "describe":
                self.ask(lambda box: box.services.namespaces.update(CATALOG, path, comment=comment))
            case _:
                self.ask(lambda box: box.services.namespace_dropper.drop(CATALOG, path))


class TableNames(PastActor):
    """Renames and drops Delta tables; a reset brings them back as long as gc has not begun to purge
    them."""

    times = 8

    def act(self) -> None:
        one, other = self.rng.sample(NAMES, 2)
        if self.rng.random() < 0.5:
            self.ask(lambda box: box.services.dropper.drop(CATALOG, NAMESPACE, one))
        else:
            self.ask(lambda box: box.services.renamer.rename(CATALOG, NAMESPACE, one, other))


class Counter(PastActor):
    """Merges into a counter; a merge is never sent twice, since it may have been applied."""

    times = 8

    def act(self) -> None:
        number = self.auditor.begin_merge()
        merge = {COUNTER: Merge("add", 1 << number)}
        try:
            self.send(lambda box: box.services.namespaces.update(CATALOG, COUNTED, merge=merge))
        except Unanswered:
            self.met("merge unanswered")
        except TurnstileError as error:
            self.auditor.told_not_merged(number, error.type)
            raise
        else:
            self.met("merged")
            self.auditor.told_merged(number)


class IcebergUser(PastActor):
    """Commits to two Iceberg tables at once, and to one alone."""

    times = 6

    def act(self) -> None:
        value = f"{self.name} {self.rng.random()}"
        names = ICE_TABLES if self.rng.random() < 0.7 else (self.rng.choice(ICE_TABLES),)
        update = SetProperties(updates={TOGETHER if len(names) > 1 else "alone": value})
        changes = [TableChange((*ICE, name), (), (update,)) for name in names]
        self.ask(lambda box: box.iceberg.commit(CATALOG, changes))
        self.met(f"iceberg {len(names)}")


class Side(PastActor):
    """Creates a catalog, fills it, drops it, and creates it again under the same name."""

    def act(self) -> None:
        name = (f"s{self.rng.randrange(3)}",)
        question = self.rng.choice((self._create, self._fill, self._fill, self._drop))
        try:
            self.ask(lambda box: question(box, name))
        except (AlreadyExists, NotFound, StateConflict):
            return

    def _create(self, box: PastSandbox, _: tuple[str, ...]) -> None:
        box.services.catalogs.create(SIDE)

    def _fill(self, box: PastSandbox, name: tuple[str, ...]) -> None:
        box.services.namespaces.create(SIDE, name)

    def _drop(self, box: PastSandbox, _: tuple[str, ...]) -> None:
        box.services.catalogs.drop(SIDE, force=self.rng.random() < 0.5)


def fill(box: PastSandbox) -> None:
    """The beginning of every run: some names, the counter, and the Iceberg tables."""
    for path in (*_NAMES[:4], COUNTED, ICE):
        box.services.namespaces.create(CATALOG, path)
    schema = Schema(fields=(Field(id=1, name="id", type="long", required=True),))
    for name in ICE_TABLES:
        box.iceberg_tables.create(CATALOG, ICE, CreateTable(name=name, schema=schema))


_SNAPSHOT_NAMES: Final = ("spring", "summer")


class SnapshotUser(PastActor):
    """Gives HEADs names, the present one or one of the past, and takes them away."""

    def act(self) -> None:
        name = self.rng.choice(_SNAPSHOT_NAMES)
        if self.rng.random() < 0.3:
            self.ask(lambda box: box.services.named_snapshots.drop(CATALOG, name))
            self.met("snapshot dropped")
            return
        to = AsOf(time=self.ago) if self.rng.random() < 0.7 else None
        self.ask(lambda box: self._create(box, name, to))
        self.met("snapshot of the past" if to else "snapshot")

    def _create(self, box: PastSandbox, name: str, to: AsOf | None) -> None:
        box.services.named_snapshots.create(CATALOG, name, of=to)


class Resets(PastActor):
    """Goes back to a time, to a snapshot, or to a HEAD not long ago."""

    def act(self) -> None:
        head = self.state.trees.now[CATALOG]
        recent = [one for one in self.state.trees.heads.values() if one.row["seq"] > head.row["seq"] - 12]
        to = self.rng.choice(
            (
                AsOf(time=self.ago),
                AsOf(time=self.ago),
                AsOf(snapshot=self.rng.choice(_SNAPSHOT_NAMES)),
                AsOf(head=self.rng.choice(recent).id),
            )
        )
        self.ask(lambda box: box.services.resetter.reset(CATALOG, to))
        self.met("reset")


_COLLECTED: Final = tuple(kind for kind in COLLECTED if kind not in ("transactions", "groups"))
"""The rows in the scenarios of catalogs: scans for other rows would only take steps from their
writers."""


class Janitor:
    """The scheduled collector, as a coordinated task. There are several.

    Attributes:
        kinds: the kinds to collect.
    """

    kinds = _COLLECTED

    def __init__(self, state: State, name: str, rng: random.Random, naps: tuple[int, ...]) -> None:
        self._state = state
        self._name = name
        self._rng = rng
        self._naps = naps

    def __call__(self) -> None:
        scheduler = self._state.scheduler
        count = 0
        while True:
            scheduler.sleep(self._rng.choice(self._naps))
            count += 1
            process = Process(self._state, f"{self._name}/{count}")
            process.skew += self.ahead_ms()
            process.ends = scheduler.now + LIFE
            world = world_of(process)
            task = CollectTask(world, Collector(world, self._state.grace, workers=1))
            try:
                done = task.run(LIFE, self.kinds, dry_run=self._rng.random() < 0.1, until_ms=process.now_ms() + LIFE)
            except (Crashed, TurnstileError):
                continue
            self._state.auditor.seen["gc waits" if isinstance(done, Busy) else "gc"] += 1

    def ahead_ms(self) -> int:
        """Returns by how much the clock of the next run is ahead."""
        return 0


_Page = tuple[list[tuple[str, Entity]], str | None, str]
"""Keys and entities, the token of the next page, and the HEAD if the answer tells it."""
_HOLD: Final = (1, SECOND, 5 * MINUTE, 20 * MINUTE)


class Lister(PastActor):
    """Lists page by page, with long pauses between them."""

    def act(self) -> None:
        kind = self.rng.choice(("namespaces", "find"))
        catalog = self.rng.choice((CATALOG, CATALOG, SIDE))
        began = self.state.scheduler.now
        token = None
        head = ""
        found: list[tuple[str, Entity]] = []
        while True:
            try:
                page, following, named = self._next(kind, catalog, token)
            except InvalidRequest as error:
                self.auditor.token_refused(began, error.message)
                return
            found += page
            head = named or head
            if following is None:
                break
            head = decode_token(following, self.state.scheduler.now).head
            token = following
            self.state.scheduler.sleep(self.rng.choice(_HOLD))
        if head:
            self.met("listed")
            self.auditor.listed(head, (entities.NAMESPACE,), found)

    def _next(self, kind: str, catalog: str, token: str | None) -> _Page:
        return self.ask(lambda box: self._page(box, kind, catalog, token))

    def _page(self, box: PastSandbox, kind: str, catalog: str, token: str | None) -> _Page:
        size = self.rng.choice((1, 2, 5))
        if kind == "find":
            query = f'/{catalog}/*[kind = "namespace"]'
            finding = box.finder.find(query, page_token=token, max_results=size)
            return [(key_of(one.path), one.entity) for one in finding.items], finding.next_token, finding.head
        page = box.services.listings.namespaces(catalog, deep=True, page_token=token, max_results=size)
        return [(key_of(one.name), one.entity) for one in page.items], page.next_token, ""


class Traveller(PastActor):
    """Reads HEADs of the past by number, time and id, and walks along the log."""

    def act(self) -> None:
        if self.rng.random() < 0.2:
            self._walk()
            return
        heads = self._heads()
        since = self.ago
        asked = next((one for one in heads if one.until is None or one.until > since), heads[-1])
        at = self.rng.choice((AsOf(head=asked.id), AsOf(seq=asked.row["seq"]), AsOf(time=asked.commit.at // 1000)))
        began = self.state.scheduler.now
        first = self._meant(at)

        def question(box: PastSandbox) -> tuple[str, dict[str, Entity]]:
            tree = box.services.history.tree(CATALOG, at)
            entries = dict([*tree.index.iterate(*ALL), *tree.subtree(())])
            found = box.services.reader.store.entities(CATALOG, [entry.obj for entry in entries.values()])
            return tree.head, {key: found[entry.obj] for key, entry in entries.items()}

        try:
            head, found = self.ask(question, tries=1)
        except NotFound:
            self.auditor.gone(first, began)
            return
        self.met("read the past")
        last = self._meant(at)  # a server whose clock is behind may have added to the very moment that was asked for
        self.auditor.read(
            [one for one in self._heads() if first.row["seq"] <= one.row["seq"] <= last.row["seq"]], head, found
        )

    def _heads(self) -> list[SeenHead]:
        heads = self.state.trees.heads.values()
        return sorted((one for one in heads if one.catalog == CATALOG), key=lambda one: one.row["seq"])

    def _meant(self, at: AsOf) -> SeenHead:
        """Which HEAD that is: of a time, the newest commit not after it."""
        if at.time is not None:
            return [one for one in self._heads() if one.commit.at <= at.time * 1000 + 999][-1]
        return next(one for one in self._heads() if at.head == one.id or at.seq == one.row["seq"])

    def _walk(self) -> None:
        forwards = self.rng.random() < 0.5
        log = self.ask(lambda box: box.services.history.log(CATALOG, oldest_first=forwards, max_results=20), tries=1)
        self.met("walked the log")
        numbers = [one.seq for one in log.commits]
        step = 1 if forwards else -1
        assert numbers == list(range(numbers[0], numbers[0] + step * len(numbers), step)), numbers
        for one in log.commits:
            head = self.state.trees.heads[one.head]
            assert (head.row["seq"], head.commit.at, head.commit.message) == (one.seq, one.at, one.message)


_SOURCES: Final = (NAMESPACE, NAMESPACE, ICE, (*NAMESPACE, NAMES[0]))
_TO: Final = (("c0",), ("c1",))


class CloneUser(PastActor):
    """Shows a namespace or a table under another name as well, as it is or as it was."""

    def act(self) -> None:
        to = self.rng.choice(_TO)
        if self.rng.random() < 0.4:
            self._drop(to)
            return
        source = self.rng.choice(_SOURCES)
        of = AsOf(time=self.ago) if self.rng.random() < 0.4 else None
        target = to if len(source) == 1 else (*NAMESPACE, "clone")
        self.ask(lambda box: box.cloner.clone(CATALOG, source, target, of))
        self.met("cloned the past" if of else "cloned")

    def _drop(self, to: tuple[str, ...]) -> None:
        if self.rng.random() < 0.5:
            self.ask(lambda box: box.services.namespace_dropper.drop(CATALOG, to, cascade=True))
        else:
            self.ask(lambda box: box.services.dropper.drop(CATALOG, NAMESPACE, "clone"))
        self.met("clone dropped")
