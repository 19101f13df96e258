"""Mistakes planted in the code that keeps a catalog's past, and harmless changes: the simulation
must find the first, and must not find the second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Self
from unittest.mock import patch

from msgspec.structs import replace

from tests.simulation.engine.plans import HOUR
from tests.simulation.mistakes.tables import SWAP, swapped, without
from turnstile.catalog.changes.attempts import CommitAttempts
from turnstile.catalog.changes.retry import PriorityClaim
from turnstile.catalog.history.log import History, KeptTree
from turnstile.catalog.history.reader import AsOfReader
from turnstile.gc.collector import CollectTask
from turnstile.gc.kinds.dropped import DroppedCatalogScanner
from turnstile.gc.kinds.tombstones import TombstoneCollector
from turnstile.gc.trees import KeptTrees
from turnstile.iceberg.commits import Commits
from turnstile.iceberg.context import Context
from turnstile.store.core.errors import OutcomeUnknown
from turnstile.store.core.writes import Insert

Plant = Callable[[], Any]
GC: Final = "turnstile.gc.kinds.history."
RESET: Final = "turnstile.catalog.history.reset."


def all_of(*plants: Plant) -> Plant:
    """Several at once: where one guard alone still holds."""

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for plant in plants:
                stack.enter_context(plant())
            yield

    return planted


def never(owner: type, name: str, answer: Any = ()) -> Plant:
    """A method that finds nothing."""
    return lambda: patch.object(owner, name, lambda *_: iter(answer) if isinstance(answer, tuple) else answer)


def _edge(later: int) -> Plant:
    """The edge is so much nearer (ms)."""
    return lambda: swapped("turnstile.gc.trees.AsOf", lambda as_of: lambda time: as_of(time=time + later))


class _OnlyAtTheEdge(int):
    """A margin is taken off once where it should be twice: for the edge, and not for changes on
    their way there."""

    def __rmul__(self, times: int) -> int:
        return int(self) * (times - 1)


def _old_at_once() -> Any:
    def always(due: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *a, since, now, grace, **more: due(*a, since=now - grace, now=now, grace=grace, **more)

    return swapped(GC + "due", always)


def _tidies_what_may_land() -> Any:
    """The objs of a swap whose answer was lost are deleted."""

    def wrong(swap: Callable[..., Any]) -> Callable[..., Any]:
        def tidies(self: CommitAttempts, *args: Any, **more: Any) -> Any:
            try:
                return swap(self, *args, **more)
            except OutcomeUnknown:
                self._unreachable |= self._stored
                raise

        return tidies

    return patch.object(CommitAttempts, "swap", wrong(CommitAttempts.swap))


class _Sticky(set[str]):
    """No process gets out again."""

    def __isub__(self, other: object) -> Self:  # type: ignore[override,misc]
        return self


def _tidies_what_is_used_again() -> Any:
    """An entity of a lost attempt is deleted although a later attempt named it."""

    def wrong(init: Callable[..., Any]) -> Callable[..., Any]:
        def made(self: CommitAttempts, *args: Any) -> None:
            init(self, *args)
            self._unreachable = _Sticky()

        return made

    return patch.object(CommitAttempts, "__init__", wrong(CommitAttempts.__init__))


def _edits(path: str, **forgotten: Any) -> Plant:
    """The module's edits lack something."""
    return lambda: swapped(path + "Edit", lambda edit: lambda *a, **more: edit(*a, **{**more, **forgotten}))


def _not_lasting() -> Any:
    """Any HEAD that still exists may be named and gone back to, also one that gc is about to
    remove."""
    return patch.object(History, "kept_tree", lambda self, now, as_of, _: KeptTree(self._tree_at(now, as_of)))


def _not_pinned() -> Any:
    """A listing goes on in the tree as it is by then."""

    def wrong(page: Callable[..., Any]) -> Callable[..., Any]:
        def present(self: AsOfReader, catalog: str, *args: Any) -> Any:
            start = page(self, catalog, *args)
            return replace(start, moment=replace(start.moment, tree=self._reader.current(catalog)))

        return present

    return patch.object(AsOfReader, "page", wrong(AsOfReader.page))


def _sweeps_when_unknown() -> Any:
    """Iceberg metadata is deleted when the outcome of its swap is not known."""

    @contextmanager
    def sweeping(self: Context, written: Any) -> Iterator[None]:
        try:
            yield
        except Exception:
            self.forget(written)
            raise

    return patch.object(Context, "sweeping", sweeping)


def _one_after_the_other() -> Any:
    """A transaction over several Iceberg tables commits them one by one."""

    def wrong(commit: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, catalog, changes: [one for change in changes for one in commit(self, catalog, [change])]

    return patch.object(Commits, "commit", wrong(Commits.commit))


def _merged_once() -> Any:
    """A merge is computed from the first tree that was read, even if the swap replaces another
    one."""

    def wrong(merged: Callable[..., Any]) -> Callable[..., Any]:
        memo: dict[int, Any] = {}
        held: list[Any] = []  # so that no id is used again

        def once(properties: Any, merges: Any) -> Any:
            held.append(merges)
            return memo.setdefault(id(merges), merged(properties, merges))

        return once

    return swapped("turnstile.catalog.namespaces.apply_merges", wrong)


def _purges_what_clones_need() -> Any:
    """A purge looks for no clones."""

    def blind(parse: Callable[..., Any]) -> Callable[..., Any]:
        return lambda row: replace(parse(row), clones=frozenset())

    return all_of(
        without("turnstile.gc.kinds.dropped.begin_purge", "uncloned"),
        lambda: swapped("turnstile.gc.kinds.dropped.Location.from_row", blind),
    )()


def _holds_nothing() -> Any:
    """A clone does not record the locations that it needs."""

    def wrong(edit: Callable[..., Any]) -> Callable[..., Any]:
        def without_holds(*args: Any, writes: tuple[Any, ...] = (), **more: Any) -> Any:
            return edit(
                *args,
                writes=tuple(one for one in writes if "/location/" not in one.key or isinstance(one, Insert)),
                **more,
            )

        return without_holds

    return swapped("turnstile.catalog.clone.cloner.Edit", wrong)


def _gone_by_age() -> Any:
    """The objs of a dropped catalog go because they are old, however short ago the drop was."""

    def wrong(scan: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, row, now: scan(self, row, now + 1_000 * HOUR)

    return patch.object(DroppedCatalogScanner, "scan", wrong(DroppedCatalogScanner.scan))


def _ended_by_age() -> Any:
    """The HEAD of a table that is gone goes at once."""

    def wrong(scan: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, head, now: scan(self, head, now + 1_000 * HOUR)

    return patch.object(TombstoneCollector, "scan", wrong(TombstoneCollector.scan))


def _ends_with_its_files_there() -> Any:
    """The HEAD of a table is removed without a look at the remaining rows of the table."""

    def wrong(is_over: Callable[..., bool]) -> Callable[..., bool]:
        return lambda head: is_over(head) or head.state == "dropped"

    return swapped("turnstile.gc.kinds.dropped.is_over", wrong)


PAST_MISTAKES: dict[str, tuple[Plant, str]] = {
    "gc: the edge is now": (all_of(_edge(4 * HOUR), _old_at_once), "I10"),
    "gc: no margin at the edge": (_edge(HOUR), "I10"),
    "gc: no margin for what is on its way": (lambda: swapped(GC + "SETTLED_MS", _OnlyAtTheEdge), "I10"),
    "gc: restoring commits are not marked": (never(KeptTrees, "_restoring"), "I10"),
    "gc: snapshots are not marked": (never(KeptTrees, "_named_trees"), "I10"),
    "gc: recent HEADs are not marked": (never(KeptTrees, "_recent"), "I10"),
    "gc: a dropped catalog's objs by their age": (_gone_by_age, "I10"),
    "gc: a catalog created again is not seen": (never(DroppedCatalogScanner, "_again", answer=False), "I10"),
    "gc: a HEAD at once after its files": (_ended_by_age, "I3"),
    "gc: a HEAD whose files are there": (
        all_of(
            _ends_with_its_files_there,
            lambda: swapped("turnstile.gc.kinds.tombstones.is_over", lambda _: lambda head: head.state == "dropped"),
        ),
        "I10",
    ),
    "gc: a HEAD before its objs": (never(TombstoneCollector, "_objs", answer=()), "I10"),
    "reset: does not say that it restores": (_edits(RESET, restores=False), "I10"),
    "reset: leaves the HEADs of tables": (_edits(RESET, writes=()), "I9"),
    "reset: restores what is purged": (without(RESET + "restore_head", "unpurged"), "I10"),
    "history: gone back to whatever is there": (_not_lasting, "I9"),
    "swap: without 'same head'": (without(SWAP, "same head"), "I9"),
    "swap: landed and not noticed": (never(CommitAttempts, "_has_landed", answer=False), "I10"),
    "tidy: what may yet land": (_tidies_what_may_land, "I9"),
    "tidy: what a later attempt named": (_tidies_what_is_used_again, "I9"),
    "clone: holds nothing": (_holds_nothing, "I10"),
    "clone: dropped and still held": (
        lambda: swapped("turnstile.catalog.drop.let_go_of", lambda _: lambda *_: []),
        "I10",
    ),
    "clone: purged under it": (_purges_what_clones_need, "I10"),
    "clone: comes back with a reset and holds nothing": (
        lambda: swapped(RESET + "held_again", lambda _: lambda *_, room: []),
        "I10",
    ),
    "listing: not pinned": (_not_pinned, "I10"),
    "merge: computed once": (_merged_once, "I8"),
    "iceberg: swept when unknown": (_sweeps_when_unknown, "I10"),
    "iceberg: one table after the other": (_one_after_the_other, "I8"),
}
"""The planted mistake, and the invariant that it breaks first most often."""


def _no_task(self: CollectTask, term_ms: int, *args: Any, **more: Any) -> Any:
    return self._collector.collect(*args, **more)


def _turn_stays(swap: Callable[..., Any]) -> Callable[..., Any]:
    def stays(*args: Any, turn: str = "", **more: Any) -> Any:
        return swap(*args, **more)

    return stays


HARMLESS: dict[str, Plant] = {
    "turns: nobody holds back": lambda: patch.object(PriorityClaim, "held_by_other", lambda *_: False),
    "turns: everybody takes the turn that there is": without(
        "turnstile.catalog.changes.retry.claim_priority", "free turn"
    ),
    "turns: no turn ends with its swap": lambda: swapped(SWAP, _turn_stays),
    "gc: runs side by side": lambda: patch.object(CollectTask, "run", _no_task),
}
"""Changes that affect speed and fairness alone."""
