"""Publishing a table: ratified commits into ``_delta_log``, in order, and the floor after them
(design 2.3).

    1  read the HEAD                     consistent
    2  for v = floor+1 .. latest         copy the ratified bytes, put-if-absent, or see that they
                                         are there (I4)
    3  identity index                    everything that is about to leave the tail is written to it
                                         first (I3)
    4  raise the floor                   one conditional write, after every few versions, so that a
                                         crash loses little
    5  stuck, or no longer               a version that can never be published stops the table, with
                                         a reason
    6  recovering                        a restored HEAD adopts the versions published after it
                                         (``delta.recover``)

A crash after any step leaves nothing to undo: the next call begins at 1, finds the copied files
identical and continues. Any number of publishers may work on a table at once: they write the same
files, and each floor write is decided by the row.
"""

from __future__ import annotations

from itertools import takewhile

import msgspec

from turnstile.delta.commits import (
    ContentChanged,
    ContentMissing,
    content_of,
    head_of,
    is_large,
    no_such_table,
    pieces_of_staged,
    published_is_same,
)
from turnstile.delta.core.head import DROPPED, RECOVERING, PlacedCommit, TableHead, tail_by_version
from turnstile.delta.core.soundness import BRING_FOLDER_BACK
from turnstile.delta.core.writes.ratify import Keep, count_evicted, raise_floor
from turnstile.delta.core.writes.state import mark_stuck, mark_unstuck, stuck_at
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.recover import Recoverer
from turnstile.delta.undecided import settle_one
from turnstile.store.core.errors import NotFound, StorageFault, Throttled, TurnstileError
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import published_path
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import Accepted, World

_TRIES = 3


class LogGone(StorageFault):
    """The commit of the floor is not in ``_delta_log`` any more: the table's folder, or its log,
    was removed or moved."""


class LogDiffers(StorageFault):
    """``_delta_log/<v>.json`` exists and is not the ratified commit. It is never overwritten.
    ``growing`` in ``details``: it is a prefix of the ratified bytes, as if it were still being
    written.
    """


def publish_version(world: World, head: TableHead, place: PlacedCommit, faults: Faults = no_faults) -> None:
    """Puts version ``place.version`` into ``_delta_log``, unless it is there with the same bytes:
    an engine may have published it. Every version before it must be there. Raises ContentMissing,
    ContentChanged, LogDiffers or StorageFault.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            _publish(world, head, place, faults)
        except StorageFault as fault:
            if not tries_left or (isinstance(fault, LogDiffers) and not fault.details["growing"]):
                raise
        else:
            return


def _publish_large(world: World, head: TableHead, place: PlacedCommit, faults: Faults) -> None:
    """As ``_publish``, in bounded memory: the bytes that are copied are compared with the row's
    digest while they pass, and there is no file before the last of them did. A file that is there
    is compared with the digest as well.
    """
    storage = world.storages.open(head.location)
    path = published_path(place.version)
    stat = storage.stat(path)
    if stat is None:
        pieces = pieces_of_staged(world, head, place)
        faults("publish.fetched")
        if pieces is None or storage.put_if_absent(path, pieces):
            faults("publish.copied")
            return
        stat = storage.stat(path)
    if stat is None or not published_is_same(storage, place):
        size = place.entry.size
        raise LogDiffers(
            f"{path} holds {stat.size if stat else 0} bytes that are not the ratified commit's {size}",
            remedy="'turnstile repair TABLE --dry-run' shows both; choose which of them stays",
            version=place.version,
            path=path,
            growing=stat is None or stat.size < size,
        )
    faults("publish.verified")


def _publish(world: World, head: TableHead, place: PlacedCommit, faults: Faults) -> None:
    if is_large(place):
        _publish_large(world, head, place, faults)
        return
    content = content_of(world, head, place)
    faults("publish.fetched")
    storage = world.storages.open(head.location)
    path = published_path(place.version)
    if storage.put_if_absent(path, content):
        faults("publish.copied")
        return
    file = storage.read(path, limit=len(content) + 1)
    if file is None:
        raise StorageFault(f"{path} exists and cannot be read", remedy="try again", path=path)
    raw, stat = file
    if raw != content:
        raise LogDiffers(
            f"{path} holds {stat.size} bytes that are not the ratified commit's {len(content)}",
            remedy="'turnstile repair TABLE --dry-run' shows both; choose which of them stays",
            version=place.version,
            path=path,
            growing=content.startswith(raw),
        )
    faults("publish.verified")


# -- tables -----------------------------------------------------------------------------------------------------------

STEP = 32
"""Versions between two floor writes; also bounds the floor write's expression, which names every
evicted entry."""

PATIENCE_MS = 20_000
"""How long after ratification missing content counts as late; then the table is stuck."""

FRESH_MS = 30_000
"""A HEAD that was read longer ago is read again before anything is copied: a publisher that was
suspended must not bring back a version that has been published, cleaned up and forgotten meanwhile
(I10).
"""

_ATTEMPTS = 20


class Problem(msgspec.Struct, frozen=True):
    """An error that stopped the publication of a table. ``type``: that of the error; ``stuck``:
    whether the HEAD is stuck now."""

    type: str
    message: str
    remedy: str | None
    version: int
    stuck: bool


class Published(msgspec.Struct, frozen=True):
    """The result of one call: ``count`` versions it copied or found published; ``lag_ms`` how long
    the oldest of them had been ratified; ``floor``, ``latest``, ``state`` the HEAD afterwards, as
    far as is known; ``adopted`` published versions that a recovering HEAD did not know.
    """

    table_id: str
    count: int
    floor: int
    latest: int
    state: str
    lag_ms: int = 0
    problem: Problem | None = None
    adopted: int = 0

    @property
    def behind(self) -> int:
        """Ratified versions that are not published yet."""
        return self.latest - self.floor


class TableUnread(StorageFault):
    """The HEAD could not be read: most likely a fault of the store, which every table would
    meet."""


class Publisher:
    """Publishes tables. No state between calls.

    Args:
        step: versions between two floor writes.
        patience_ms: how long missing content counts as late.
        keep: how many published entries stay; by default as few as suit a store that charges writes
            by size.
        looks: whether the file of the floor is looked for before anything is copied behind it: one
            request a batch. A table without its floor's file, since its folder or its log was
            removed, becomes stuck instead of continuing in a log that cannot be read.
    """

    def __init__(
        self,
        world: World,
        limits: Limits | None = None,
        *,
        faults: Faults = no_faults,
        step: int = STEP,
        patience_ms: int = PATIENCE_MS,
        keep: Keep | None = None,
        looks: bool = False,
    ) -> None:
        self._looks = looks
        self._world = world
        self._clock = world.clock
        self._faults = faults
        self._step = step
        self._patience = patience_ms
        self._keep = keep
        self._recoverer = Recoverer(world, limits, faults=faults)
        days = (limits or Limits()).identity_days
        self._identities = IdentityIndex(world.objs, world.space, world.clock, days)

    def publish(self, table_id: str, *, until_ms: int | None = None, meanwhile: bool = True) -> Published:
        """Publishes everything ratified, also commits that are ratified ``meanwhile``, but begins
        no version after ``until_ms``. A caller that comes again sets ``meanwhile`` to False:
        versions that are published together cost less than each alone.

        A failure of one table (storage, lost content, a throttled row) is in the result. A dropped
        table is left alone: its location may belong to another table soon. Raises NotFound and
        TableUnread.
        """
        run = _Run(self._clock.now_ms(), until_ms)
        head = self._read(table_id)
        self._faults("publish.read")
        problem = None
        latest_read = head.latest
        try:
            head = settle_one(self._world, head)
            latest_read = head.latest
            while head.state != DROPPED:
                fault = self._copy(head, run)
                head = self._raise(head, run.seen)
                if fault is not None:
                    head, problem = self._give_up(head, *fault)
                    break
                if head.state == RECOVERING and head.floor == head.latest and not run.over(self._clock.now_ms()):
                    head, problem = self._recover(head, run)
                    if problem is None:
                        continue  # the tail has grown; or the table is active again, and may have commits
                    break
                if head.floor == head.latest or run.over(self._clock.now_ms()):
                    break
                if not meanwhile and head.floor >= latest_read:
                    break
                if self._clock.now_ms() - run.read_ms > FRESH_MS:
                    run.read_ms = self._clock.now_ms()
                    head = self._read(table_id)
            head = self._resume(head)
        except TurnstileError as error:
            if isinstance(error, TableUnread | NotFound):
                raise
            problem = _problem(error, head.floor + 1)
        return Published(table_id, run.count, head.floor, head.latest, head.state, run.lag_ms, problem, run.adopted)

    # -- steps ----------------------------------------------------------------------------------------------------

    def _read(self, table_id: str) -> TableHead:
        try:
            row = self._world.refs.read(self._world.space.table(table_id))
        except Exception as error:  # whatever the store's client raises: no table of this store can be read
            raise TableUnread(f"the HEAD of {table_id} could not be read: {error}", remedy="try again") from error
        if row is None:
            raise no_such_table(table_id)
        return TableHead.from_row(row)

    def _copy(self, head: TableHead, run: _Run) -> tuple[PlacedCommit, StorageFault] | None:
        """Copies up to ``step`` versions from the floor on; ``run.seen`` becomes the last one known
        to be in ``_delta_log``. Returns the version that could not be published, and why."""
        run.seen = max(run.seen, head.floor)
        if head.tail_from > head.floor + 1:
            raise TurnstileError(f"the HEAD of {head.table_id} does not carry version {head.floor + 1}")
        due = [place for place in tail_by_version(head) if run.seen < place.version <= head.floor + self._step]
        if due and (gone := self._log_gone(head)) is not None:
            return due[0], gone
        for place in due[self._copy_carried(head, due, run) :]:
            now = self._clock.now_ms()
            if run.over(now) or now - run.read_ms > FRESH_MS:
                break
            try:
                publish_version(self._world, head, place, self._faults)
            except StorageFault as fault:
                return place, fault
            run.note_copy(place, now)
        return None

    def _log_gone(self, head: TableHead) -> LogGone | None:
        """Returns the fault of a log without the version of the floor, which no clean-up removes;
        None where the version is there, or where this publisher does not look."""
        if not self._looks:
            return None
        storage = self._world.storages.open(head.location)
        path = published_path(head.floor)
        if (
            storage.stat(path) is not None or self._read(head.table_id).floor != head.floor
        ):  # or it was cleaned up since then
            return None
        return LogGone(f"{path} was published, and is not there", remedy=BRING_FOLDER_BACK, path=path)

    def _copy_carried(self, head: TableHead, due: list[PlacedCommit], run: _Run) -> int:
        """Copies the first versions, if the HEAD carries the bytes of several, by one call of the
        storage; returns how many. A version with a taken name, and one after a fault, is left for a
        copy of its own.
        """
        now = self._clock.now_ms()
        carried = list(takewhile(lambda place: bool(place.entry.data), due))
        if len(carried) < 2 or run.over(now) or now - run.read_ms > FRESH_MS:
            return 0
        files = [(published_path(place.version), content_of(self._world, head, place)) for place in carried]
        self._faults("publish.fetched")
        try:
            created = self._world.storages.open(head.location).put_in_order(files)
        except StorageFault:
            return 0
        self._faults("publish.copied")
        for place in carried[:created]:
            run.note_copy(place, now)
        return created

    def _raise(self, head: TableHead, seen: int) -> TableHead:
        """Raises the floor to ``seen`` or above and returns the HEAD; ``pending`` goes only when
        nothing is left to publish."""
        for _ in range(_ATTEMPTS):
            settled = head.floor == head.latest and head.pending is not None
            if head.floor >= seen and not settled:
                return head
            target = max(seen, head.floor)
            keep = self._keep.of(head) if self._keep is not None else None
            leaving = tail_by_version(head)[: count_evicted(head, target, keep)]
            if leaving:
                self._identities.remember(head.catalog, head.table_id, leaving)
                self._faults("publish.identities")
            response = self._world.refs.write(raise_floor(head, target, idle=target == head.latest, keep=keep))
            head = head_of(response.row, head.table_id)
            if isinstance(response, Accepted):
                self._faults("publish.floor")
                return head
        raise Throttled("the HEAD changed under every attempt to raise its floor")

    def _give_up(self, head: TableHead, place: PlacedCommit, fault: StorageFault) -> tuple[TableHead, Problem]:
        """Marks the HEAD as stuck, if waiting cannot help; the next call tries again in any
        case."""
        now = self._clock.now_ms()
        lost = isinstance(fault, ContentMissing | ContentChanged | LogDiffers | LogGone)
        late = isinstance(fault, ContentMissing) or fault.details.get("growing", False)
        if not lost or (late and now - place.entry.ratified_ms < self._patience):
            return head, _problem(fault, place.version)
        if stuck_at(head) == place.version:
            return head, _problem(fault, place.version, stuck=True)
        response = self._world.refs.write(mark_stuck(head, place.version, fault.message, now))
        head = TableHead.from_row(response.row) if response.row is not None else head
        if isinstance(response, Accepted):
            self._faults("publish.stuck")
        return head, _problem(fault, place.version, stuck=stuck_at(head) == place.version)

    def _recover(self, head: TableHead, run: _Run) -> tuple[TableHead, Problem | None]:
        """Adopts the next published versions, or ends the recovery."""
        advanced = self._recoverer.advance(head, until_ms=run.until_ms)
        run.adopted += advanced.adopted
        fault = advanced.problem
        version = advanced.head.latest + 1
        return advanced.head, None if fault is None else _problem(fault, version, stuck=True)

    def _resume(self, head: TableHead) -> TableHead:
        """Active again, once the version the table was stuck at is published."""
        version = stuck_at(head)
        if version is None or version > head.floor:
            return head
        response = self._world.refs.write(mark_unstuck(head, self._clock.now_ms()))
        if isinstance(response, Accepted):
            self._faults("publish.unstuck")
        return TableHead.from_row(response.row) if response.row is not None else head


class _Run:
    """The progress of one call."""

    def __init__(self, read_ms: int, until_ms: int | None) -> None:
        self.read_ms = read_ms
        self.until_ms = until_ms
        self.seen = -1
        self.count = 0
        self.lag_ms = 0
        self.adopted = 0

    def note_copy(self, place: PlacedCommit, now_ms: int) -> None:
        """Notes a version that is in ``_delta_log``; ``now_ms`` is when its copying began."""
        self.seen = place.version
        self.count = self.count + 1
        self.lag_ms = max(self.lag_ms, now_ms - place.entry.ratified_ms)

    def over(self, now_ms: int) -> bool:
        """Whether the caller's time is up."""
        return self.until_ms is not None and now_ms >= self.until_ms


def _problem(error: TurnstileError, version: int, *, stuck: bool = False) -> Problem:
    return Problem(error.type, error.message, error.remedy, version, stuck)
