"""The commits of many tables, for a comparison of branches. A commit that a HEAD carries is read
from it, another one from a staged file or the log. Reading publishes no commit (I28).

A publisher may work meanwhile. The bytes of a version were fixed when it was ratified (I2), so they
are the same in each of the places where they may be found; a place that is empty by now leads to
the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import msgspec

from turnstile.delta.core.head import PlacedCommit, TableHead, tail_by_version
from turnstile.delta.log.lines import DamagedLog, commit_lines
from turnstile.planning.changes import READERS, open_commit
from turnstile.store.core.errors import ErrorType, StateConflict
from turnstile.store.ports import World, in_batches


class Span(msgspec.Struct, frozen=True):
    """The versions of a table after ``base``, up to the latest of its HEAD, without ``skipped``
    ones."""

    head: TableHead
    base: int
    skipped: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of its commits."""
        return self.head.latest - self.base


class _Wanted(msgspec.Struct, frozen=True):
    """A version to read. ``place``: in the tail of the HEAD; None where it left that."""

    at: int
    head: TableHead
    version: int
    place: PlacedCommit | None

    @property
    def needs_request(self) -> bool:
        """Whether the bytes are neither in the HEAD itself nor on this machine."""
        is_carried = self.place is not None and bool(self.place.entry.data)
        return not is_carried and not self.head.location.startswith("file:")


def commits_of_tables(world: World, spans: Sequence[Span]) -> Iterator[tuple[int, int, Iterable[bytes]]]:
    """Yields the commits of these tables in their order: the index of the span, the version, the
    lines. Files of S3 are opened ``READERS`` at once.

    Raises StateConflict for a version that is in the log no more, UnsupportedTable for a damaged
    one, StorageFault where the bytes are not the ratified ones, or cannot be read.
    """

    def open_one(wanted: _Wanted) -> Iterable[bytes]:
        storage = world.storages.open(wanted.head.location)
        try:
            pieces = open_commit(world, storage, wanted.head, wanted.version, wanted.place)
        except DamagedLog as error:
            raise _versions_gone(wanted) if error.fault.kind == "missing" else error from None
        return commit_lines(pieces, wanted.version, info=wanted.version > wanted.head.first)

    with ExitStack() as stack:
        pool: ThreadPoolExecutor | None = None
        for batch in in_batches(_versions_of(spans), READERS):
            if sum(wanted.needs_request for wanted in batch) > 1:
                pool = pool or stack.enter_context(ThreadPoolExecutor(READERS, thread_name_prefix="compare"))
                opened = pool.map(open_one, batch)
            else:
                opened = map(open_one, batch)
            for wanted, lines in zip(batch, opened, strict=True):
                yield wanted.at, wanted.version, lines


def _versions_of(spans: Sequence[Span]) -> Iterator[_Wanted]:
    for at, span in enumerate(spans):
        if span.count > 0:
            places = {place.version: place for place in tail_by_version(span.head)}
            for version in range(span.base + 1, span.head.latest + 1):
                if version in span.skipped:
                    continue
                yield _Wanted(at, span.head, version, places.get(version))


def _versions_gone(wanted: _Wanted) -> StateConflict:
    problem = f"version {wanted.version} of '{wanted.head.name}' is not in its log any more"
    return StateConflict(ErrorType.VERSIONS_GONE, problem, remedy="make a new branch, and change it again")
