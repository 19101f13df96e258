"""Finds the files of a Delta table that a scan needs, at a version: from the index, and the commits
after it.

    planner.plan(head, lambda columns: columns.named("day").compare("=", "2026-11-01")).files

The reads, one after the other: the HEAD (by the caller), the newest root, then at once its deltas,
the commits after its version, and the leaves that the root cannot exclude. Leaves and roots never
change, so a process caches them, and reads the newest root only if the cached one is far behind. A
root is used only if it belongs to the HEAD's history: it names a digest of its version's published
commit, and a cached one is used while the HEAD shows the version that was last planned by it, with
its time. Without an index, or if one of its files is gone, the log is read (I16).
``turnstile.delta.core.soundness`` has the rules of a sound log (I24).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import compute

from turnstile.delta.commits import check_readable
from turnstile.delta.core.head import TableHead, tail_by_version
from turnstile.delta.log.cached_commits import CachedCommits, CommitCache
from turnstile.delta.past import version_at
from turnstile.delta.soundness.judge import ratified_sizes
from turnstile.maintenance.core.upkeep import upkeep_of
from turnstile.maintenance.state import TableState, derive, open_state
from turnstile.planning.appends import Appended, page_of_appends
from turnstile.planning.changes import Changes, TooMany, at_once, changes_of, stamp_of
from turnstile.planning.core.plans import MAX_FILES, Plan, PredicateOf
from turnstile.planning.core.predicates import Predicate, TableColumns
from turnstile.planning.core.roots import MAX_BEHIND, LeafRef, Root, StoredRoot, columns_of_table
from turnstile.planning.index import ROW_BATCH, read_leaf
from turnstile.planning.judging import may_match
from turnstile.planning.leaves import Leaf, LeafMaker, path_lists, summaries_of
from turnstile.planning.pages import PageRequest, expired_token, position_of, token_of
from turnstile.planning.upkeep import opened_root
from turnstile.store.cache import Lru
from turnstile.store.core.errors import InvalidRequest, NotFound, StorageFault, Throttled, UnsupportedTable
from turnstile.store.core.rows import FILE_INDEX
from turnstile.store.ports import LogStorage, World, in_batches
from turnstile_predicates.file_stats import TableSchema

CACHE_BYTES: Final = 256 * 1024 * 1024
"""Leaves that a process remembers."""
COMMIT_BYTES: Final = 32 * 1024 * 1024
"""Published commits that a process remembers for plans without an index."""
VIEWS: Final = 64
"""Versions of tables in a process's cache: roots, deltas and later changes."""
TABLES: Final = 1_000
"""Tables whose last used index root is cached."""
READERS: Final = 32
ROUND: Final = 128
"""Leaves that are held at once."""
LISTED: Final = 16
"""Leaves that are opened at once where every file is asked for: a page ends soon, so they are taken
one after the other."""
NEAR: Final = 16
"""The most versions between a cached root and the table; beyond it the newest root is read. More
than the distance of two roots (``Sizes.every``), few enough to read their commits at once."""
_LOG: Final = "log"
_LOG_SOURCE: Final = re.compile(rf"{_LOG}:(\d{{1,18}}):[0-9a-f]+")


class _View(msgspec.Struct):
    """One version of a table, as leaves and the rows that override them. ``masks``: by leaf, which
    of its rows are files."""

    source: str
    root: Root | None
    protocol: dict[str, Any]
    metadata: dict[str, Any]
    columns: TableColumns
    small: list[Leaf]
    tail_versions: int
    masks: dict[str, Any]
    overridden: Any = None


class _Used(msgspec.Struct, frozen=True):
    """The root that a table was last planned by, the version that was planned, and its in-commit
    timestamp."""

    stored: StoredRoot
    version: int
    ict: int


class IndexedVersion(msgspec.Struct, frozen=True):
    """All files of a version, from an index; ``metadata``: the action's members."""

    metadata: dict[str, Any]
    _page: _Page

    def leaves(self) -> Iterator[tuple[Leaf, Any]]:
        """Yields each leaf with which of its rows are files. Raises StorageFault."""
        for leaves, alive, _ in self._page.leaves():
            yield from zip(leaves, alive, strict=True)


class Planner:
    """Plans scans. One per process: it remembers leaves, roots and commits, which never change."""

    def __init__(self, world: World, *, cache_bytes: int = CACHE_BYTES, readers: int = READERS) -> None:
        self._world = world
        self._readers = readers
        self._leaves = Lru[tuple[str, str], Leaf](cache_bytes)
        self._commits = CommitCache(COMMIT_BYTES)
        self._roots = Lru[str, StoredRoot](VIEWS)
        self._views = Lru[tuple[str, str, int, int], _View](VIEWS)
        self._used = Lru[str, _Used](TABLES)
        self._stamped = Lru[tuple[str, str], bool](10_000)

    def plan(
        self,
        table: TableHead,
        predicate: PredicateOf = None,
        *,
        version: int | None = None,
        at_ms: int | None = None,
        page: str | None = None,
        limit: int = MAX_FILES,
        stats: bool = False,
        explain: bool = False,
    ) -> Plan:
        """As ``turnstile.planning.core.plans.ScanPlanner``."""
        check_readable(table)
        position = position_of(page)
        question = PageRequest(predicate, position, limit, stats, explain)
        at = self._version(table, version, at_ms) if position is None else position.version
        if at > table.latest or at < 0:
            remedy = f"name a version up to {table.latest}"
            raise NotFound("commit", f"version {at} of {table.name}", field="version", remedy=remedy)
        plan = self._by_index(table, at, question)
        if plan is not None:
            return plan
        if position is not None and not position.source.startswith(_LOG):
            raise expired_token()
        try:
            return self._by_log(table, at, question)
        except TooMany:
            problem = f"{table.name} has commits with very many files that are not published yet"
            raise Throttled(problem, retry_after_ms=5_000) from None

    def plan_appends(
        self,
        table: TableHead,
        after: int,
        version: int,
        predicate: PredicateOf = None,
        *,
        page: str | None = None,
        limit: int = MAX_FILES,
        stats: bool = False,
    ) -> Plan:
        """As ``turnstile.planning.core.plans.ScanPlanner``."""
        return page_of_appends(self._world, self, table, Appended(after, version, predicate, page, limit, stats))

    def first_files(self, table: TableHead, predicate: PredicateOf, version: int) -> Plan | None:
        """Returns the first files of ``plan``, as far as an index has them; None where none serves,
        and the log would be read."""
        return self._by_index(table, version, PageRequest(predicate, None, limit=MAX_FILES, stats=False, explain=False))

    def leaves_of(self, table: TableHead, version: int) -> IndexedVersion | None:
        """Returns all files of a version as leaves; None without a usable index. Raises
        StorageFault for a leaf that is gone or differs from its digest."""
        question = PageRequest(None, None, limit=1, stats=False, explain=True)
        stored = self._remembered_root(table, version) or self._root(table, version, None)
        with suppress(TooMany, StorageFault, UnsupportedTable):
            view = None if stored is None else self._view(table, stored, version, question)
            return None if view is None else IndexedVersion(view.metadata, _Page(self, table, view, version, question))
        return None

    def _by_index(self, table: TableHead, version: int, question: PageRequest) -> Plan | None:
        position = question.position
        remembered = None if position is not None else self._remembered_root(table, version)
        plan = None if remembered is None else self._plan_by_index(table, remembered, version, question)
        if plan is None:
            stored = self._root(table, version, None if position is None else position.source)
            plan = None if stored is None else self._plan_by_index(table, stored, version, question)
        return plan

    def _by_log(self, table: TableHead, version: int, question: PageRequest) -> Plan:
        """The page by checkpoint and log. A first page begins with the newest start that turns out
        to be whole, and the pages after it with the same one, and with the state of the same
        version: later publications are read as changes after it.
        """
        storage = CachedCommits(self._world.storages.open(table.location), table.location, self._commits)
        published = min(version, table.floor)
        ratified = ratified_sizes(table)
        if question.position is not None:
            published = _version_of(question.position.source, published)

        def page(state: TableState) -> Plan:
            changes = changes_of(self._world, table, state.version + 1, version, self._readers)
            return _LogPage(state, changes, version, question).plan()

        if question.position is None:
            return derive(storage, published, page, ratified=ratified)
        state = open_state(storage, published, ratified=ratified)
        without = set[int]()
        while state.start >= 0 and question.position.source != source_of(state):
            without.add(state.start)
            state = open_state(storage, published, without=without, ratified=ratified)
        return page(state)

    def leaves(self, table: TableHead, refs: Sequence[LeafRef]) -> list[Leaf]:
        """Leaves, remembered or read at once. Raises StorageFault."""
        leaves = {ref.name: self._leaves.get((table.location, ref.name)) for ref in refs}
        missing = [ref for ref in refs if leaves[ref.name] is None]
        if missing:
            storage = self._world.storages.open(table.location)
            opened = at_once(lambda ref: read_leaf(storage, ref), missing, self._readers)
            for ref, leaf in zip(missing, opened, strict=True):
                self._leaves.put((table.location, ref.name), leaf, leaf.nbytes)
                leaves[ref.name] = leaf
        return [each for ref in refs if (each := leaves[ref.name]) is not None]

    def _version(self, table: TableHead, version: int | None, at_ms: int | None) -> int:
        if version is not None and at_ms is not None:
            raise InvalidRequest("version and timestamp are given", field="timestamp", remedy="give one of them")
        if version is not None:
            return version
        return table.latest if at_ms is None else version_at(self._world, table, at_ms).version

    # -- the version as leaves ----------------------------------------------------------------------------------------

    def _plan_by_index(self, table: TableHead, stored: StoredRoot, version: int, question: PageRequest) -> Plan | None:
        """The page by an index; None if it is not usable: it is too far behind, of another history,
        or a file of it is gone or changed. If a commit since is damaged a newer checkpoint may hold
        the same changes: so the log decides, except for the pages after the first one.
        """
        try:
            view = self._view(table, stored, version, question)
            return None if view is None else _Page(self, table, view, version, question).plan()
        except (TooMany, StorageFault, UnsupportedTable) as error:
            if isinstance(error, UnsupportedTable) and question.position is not None:
                raise
            self._used.drop(table.table_id)
            return None

    def _view(self, table: TableHead, stored: StoredRoot, version: int, question: PageRequest) -> _View | None:
        """The version by an index; None if it is too far behind, or of another history."""
        if version - stored.root.version > MAX_BEHIND:
            return None
        ict = _ict(table, version)
        key = (table.table_id, stored.id, version, ict)
        view = self._views.get(key)
        if view is None:
            view = self._open_root(table, stored, version, question)
            if view is not None:
                self._views.put(key, view)
        if view is not None and ict >= 0:
            self._used.put(table.table_id, _Used(stored, version, ict))
        return view

    def _remembered_root(self, table: TableHead, version: int) -> StoredRoot | None:
        """The root that the table was last planned by, if no read for a newer one is needed: the
        version is remembered, or little later than the root; and the HEAD shows that it has the
        history which was planned then.
        """
        used = self._used.get(table.table_id)
        if used is None or version < used.version or _ict(table, used.version) != used.ict:
            return None
        near = version - used.stored.root.version <= NEAR
        return used.stored if near or version == used.version else None

    def _root(self, table: TableHead, version: int, source: str | None) -> StoredRoot | None:
        """The newest root of the version or an earlier one, or the one that a page names."""
        space = self._world.space.objs(table.catalog)
        prefix = FILE_INDEX.id(f"{table.source or table.table_id}/")
        if source is not None:
            return self._by_id(space, source) if source.startswith(prefix) else None
        obj = self._world.objs.newest(space, prefix)
        if obj is None:
            return None
        stored = self._roots.get(obj.id) or opened_root(obj)
        if stored is None:
            return None
        self._roots.put(obj.id, stored)
        if stored.root.version <= version:
            return stored
        earlier = [root for root in stored.root.earlier if root.version <= version]
        return self._by_id(space, earlier[-1].id) if earlier else None

    def _by_id(self, space: str, id: str) -> StoredRoot | None:
        stored = self._roots.get(id)
        if stored is None:
            obj = self._world.objs.get(space, id)
            stored = None if obj is None else opened_root(obj)
            if stored is not None:
                self._roots.put(id, stored)
        return stored

    def _open_root(self, table: TableHead, stored: StoredRoot, version: int, question: PageRequest) -> _View | None:
        """The root's deltas and the commits after it, read at once; None if the root is of another
        history."""
        root = stored.root
        storage = self._world.storages.open(table.location)
        reads: list[Callable[[], Any]] = [
            lambda: self._is_own(table, storage, stored),
            lambda: self.leaves(table, root.deltas),
            lambda: changes_of(self._world, table, root.version + 1, version, self._readers),
            lambda: self._read_ahead(table, root, question),
        ]
        is_own, small, changes, _ = at_once(lambda read: read(), reads, self._readers)
        if not is_own:
            return None
        metadata = changes.metadata or root.metadata
        protocol = changes.protocol or root.protocol
        columns = TableColumns(metadata)
        upkeep_of(protocol, metadata)
        if changes.files:
            small = [*small, _tail(changes, columns.schema)]
        keys = [key for leaf in small for key in leaf.files()]
        count = version - root.version
        return _View(stored.id, root, protocol, metadata, columns, small, count, {}, path_lists(keys))

    def _read_ahead(self, table: TableHead, root: Root, question: PageRequest) -> None:
        """Reads leaves and their overriding rows at once: the leaves that are needed by the root's
        own columns, which the commits since rarely change. Leaves that it does not read, or cannot,
        are read when they are needed.
        """
        if question.explain:
            return
        with suppress(InvalidRequest, StorageFault):
            columns = TableColumns(root.metadata)
            predicate = question.resolve(columns)
            first = question.start[0]
            most = LISTED if predicate is None else ROUND
            chosen = [at for at in _choose_leaves(root, columns.schema, predicate) if at >= first]
            self.leaves(table, [root.leaves[at] for at in chosen[:most]])

    def _is_own(self, table: TableHead, storage: LogStorage, stored: StoredRoot) -> bool:
        """Whether the root belongs to the table's history; unknown if the commit of its version was
        cleaned up."""
        key = (table.location, stored.id)
        if self._stamped.get(key) is None:
            if stored.root.version > table.floor or stamp_of(storage, stored.root.version) != stored.root.stamp:
                return False
            self._stamped.put(key, value=True)
        return True


def _ict(table: TableHead, version: int) -> int:
    """The in-commit timestamp of a version, as far as the HEAD knows; else -1."""
    if version == table.latest:
        return table.last_ict
    if version == table.tail_from - 1:
        return table.tail_ict
    return next((place.ict for place in tail_by_version(table) if place.version == version), -1)


def _tail(changes: Changes, schema: TableSchema) -> Leaf:
    return Leaf(LeafMaker(schema, columns_of_table(schema)).table(changes.adds, changes.removes))


class _Page:
    """One page of one version, from an index."""

    def __init__(self, planner: Planner, table: TableHead, view: _View, version: int, question: PageRequest) -> None:
        assert view.root is not None
        self._planner = planner
        self._table = table
        self._view = view
        self._root = view.root
        self._version = version
        self._digest, self._files = question.files(view.columns)
        self._start = question.start

    def plan(self) -> Plan:
        """The page."""
        first, row = self._start
        read = 0
        files = self._files
        for leaves, alive, at in self.leaves(first):
            files.take(leaves, alive, at, self._view.columns.schema, row if at[0] == first else 0)
            read += sum(position < len(self._root.leaves) for position in at)
            if files.full:
                break
        view = self._view
        root = self._root
        statistics = files.statistics(len(root.leaves), read, view.tail_versions, root.version)
        token = token_of(view.source, self._version, self._digest, files.next)
        return Plan(self._version, files.files, statistics, token, view.protocol, view.metadata)

    def leaves(self, first: int = 0) -> Iterator[tuple[list[Leaf], list[Any], list[int]]]:
        """Yields leaves from a position on, some at a time (one, for a list of all files), with the
        mask of their rows that are files and their positions: the rows that the predicate does not
        exclude, and then the rows that override them.
        """
        view = self._view
        refs = self._root.leaves
        predicate = None if self._files.explain else self._files.predicate
        chosen = [at for at in _choose_leaves(self._root, view.columns.schema, predicate) if at >= first]
        is_list = self._files.predicate is None and not self._files.explain
        step = 1 if is_list else ROUND
        for batch in in_batches(chosen, LISTED if is_list else ROUND):
            opened = self._planner.leaves(self._table, [refs[at] for at in batch])
            for start in range(0, len(batch), step):
                leaves = opened[start : start + step]
                positions = list(batch[start : start + step])
                alive = [self._alive(refs[at].name, leaf) for at, leaf in zip(positions, leaves, strict=True)]
                yield leaves, alive, positions
        small = [at for at in range(len(refs), len(refs) + len(view.small)) if at >= first]
        if small:
            changed = [view.small[at - len(refs)] for at in small]
            alive = [
                self._alive(f"small/{at}", leaf, at - len(refs) + 1) for at, leaf in zip(small, changed, strict=True)
            ]
            yield changed, alive, small

    def _alive(self, name: str, leaf: Leaf, after: int = 0) -> Any:
        """The rows of a leaf that are files: the rows without an overriding row."""
        mask = self._view.masks.get(name)
        if mask is None:
            later = self._view.overridden
            if after:
                later = path_lists(key for small in self._view.small[after:] for key in small.files())
            mask = self._view.masks[name] = leaf.alive(*later)
        return mask


def _choose_leaves(root: Root, schema: TableSchema, predicate: Predicate | None) -> list[int]:
    """The leaves of a root that its bounds cannot exclude."""
    refs = root.leaves
    if predicate is None or not refs:
        return list(range(len(refs)))
    mask = may_match(predicate, summaries_of(root, schema), pa.repeat(pa.scalar(value=True), len(refs)))
    return list(compute.indices_nonzero(mask).to_pylist())


def source_of(state: TableState) -> str:
    """How a page names the state that it is of."""
    return f"{_LOG}:{state.version}:{state.identity}"


def _version_of(source: str, most: int) -> int:
    """Returns the version of the state that a page of ``_LogPage`` is of. Raises InvalidRequest for
    one that is none up to ``most``."""
    match = _LOG_SOURCE.fullmatch(source)
    if match is None or int(match[1]) > most:
        raise expired_token()
    return int(match[1])


class _LogPage:
    """One page of one version, from checkpoint and log: where there is no index. Memory is bounded
    by a page, and time by the table."""

    def __init__(self, state: TableState, changes: Changes, version: int, question: PageRequest) -> None:
        """``changes``: the changes of the versions after that of ``state``, up to ``version``."""
        self._version = version
        self._state = state
        self._source = source_of(state)
        self._changes = changes
        if question.position is not None and question.position.source != self._source:
            raise expired_token()
        self._protocol = self._changes.protocol or self._state.protocol
        self._metadata = self._changes.metadata or self._state.metadata
        upkeep_of(self._protocol, self._metadata)
        columns = TableColumns(self._metadata)
        self._schema = columns.schema
        self._digest, self._files = question.files(columns)
        self._start = question.start

    def plan(self) -> Plan:
        """The page."""
        first, row = self._start
        overridden = path_lists(self._changes.files)
        for at, leaf in enumerate(self._leaves()):
            if self._files.full:
                break
            if at >= first:
                alive = leaf.alive(*overridden) if at else leaf.alive(*path_lists(()))
                self._files.take([leaf], [alive], [at], self._schema, row if at == first else 0)
        statistics = self._files.statistics(0, 0, 0, -1)
        token = token_of(self._source, self._version, self._digest, self._files.next)
        return Plan(self._version, self._files.files, statistics, token, self._protocol, self._metadata)

    def _leaves(self) -> Iterator[Leaf]:
        """The unpublished files first, then the state, some files at a time."""
        maker = LeafMaker(self._schema, columns_of_table(self._schema))
        yield Leaf(maker.table(self._changes.adds, self._changes.removes))
        for adds in in_batches(self._state.files(), ROW_BATCH):
            yield Leaf(maker.table(adds))
