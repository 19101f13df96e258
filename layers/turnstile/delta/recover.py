"""Recovery: a table adopts the published versions after its HEAD was restored from a backup behind
its own log (design 2.7).

    1  publish    the restored HEAD's commits; from here on the log agrees with it up to ``latest``
    2  begin      one conditional write, if the log has versions after ``latest``: no commits any
                  more
    3  adopt      for v = latest+1 ..: read ``_delta_log/<v>.json``, check it as the proposal it
                  was, write its table metadata
                  if it changes that, and one conditional write that names v
    4  end        nothing more is published: commits again. Or stuck, at the version that cannot be
                  adopted

1, 3 and 4 are the publisher's work (stream, sweeper, ``turnstile repair``); an operator asks for 2
after a restore. After a restore of all rows an operator may do 2 first for every table, without a
look at its log (``mark_all_restored``): then nothing can be ratified in between. A crash after any
step leaves nothing to undo: the next publisher continues from the row.

A commit that was ratified after the restore has a later in-commit timestamp than everything before
it, so the rule that timestamps increase (I7) also keeps two histories from being mixed: versions
that were published before the restore are not adopted on top of versions that were ratified after
it.
"""

from __future__ import annotations

import re
import threading
from itertools import islice
from typing import Final

import msgspec

from turnstile.delta.commits import head_of, read_head
from turnstile.delta.core.content import ROW_TRACKING_DOMAIN, Content, read_content
from turnstile.delta.core.decide import Proposal, Ratified, Refused, decide
from turnstile.delta.core.head import ACTIVE, RECOVERING, TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.core.soundness import missing
from turnstile.delta.core.writes.state import (
    adopt,
    begin_recovery,
    end_recovery,
    give_up_recovery,
    mark_restored,
    may_be_restored,
    may_recover,
    stuck_at,
    take_back,
)
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.log.state import read_state
from turnstile.delta.metadata import MetadataStore, with_effects
from turnstile.delta.proposals import CommitRequest, proposal_of
from turnstile.delta.soundness.judge import folder_fault
from turnstile.store.core.errors import ErrorType, InvalidCommit, StorageFault, Throttled
from turnstile.store.core.limits import Limits
from turnstile.store.core.names import LOG, STAGED, inline_unique, published_path, staged_file
from turnstile.store.core.writes import Change
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import PIECE_BYTES, Accepted, LogStorage, Stat, World, parse_rows

_PUBLISHED: Final = re.compile(r"(\d{20})\.json")


class NotAdoptable(StorageFault):
    """The version published after ``latest`` cannot be a commit of this table as the HEAD knows it.
    ``version`` is in ``details``, and ``gap``: it is missing while later ones are there."""

    usual_remedy = (
        "'turnstile repair TABLE --dry-run' shows the commits of the HEAD and of _delta_log; choose between them"
    )


class Adoptable(msgspec.Struct, frozen=True):
    """A published version that may be the next one: the request it would have come with, its
    content, and the proposal that both make."""

    request: CommitRequest
    content: Content
    proposal: Proposal


_LARGE: Final = threading.Lock()
"""Of the tables that are recovered at once, one holds a commit of more than a piece (64 MiB are
judged at most)."""


class Unknowns:
    """The published versions that a HEAD does not know. Reads only."""

    def __init__(self, world: World, limits: Limits | None = None) -> None:
        self._world = world
        self._limits = limits or Limits()
        self._identities = IdentityIndex(world.objs, world.space, world.clock, self._limits.identity_days)

    def after(self, head: TableHead) -> list[int]:
        """The published versions after ``latest``, ascending. One listing. Raises StorageFault."""
        storage = self._world.storages.open(head.location)
        names = (stat.path.removeprefix(LOG) for stat in storage.list(LOG, after=published_path(head.latest)))
        matches = (_PUBLISHED.fullmatch(name) for name in names)
        return [int(match[1]) for match in matches if match]

    def adoptable(self, head: TableHead, first: int) -> Adoptable:
        """Returns the version after ``latest`` if it can be adopted. Raises NotAdoptable when it is
        missing (``first`` is the first published version), no commit, or not the next one of this
        table; and StorageFault.
        """
        version = head.latest + 1
        storage = self._world.storages.open(head.location)
        path = published_path(version)
        most = self._limits.staged_bytes
        file = storage.read(path, limit=min(most, PIECE_BYTES)) if first == version else None
        if file is None:
            raise NotAdoptable(
                f"{path} is missing, but version {first} is published",
                remedy="bring the missing version back into _delta_log from a backup or an object version, or restore "
                "a later state of the coordinator; then run 'turnstile repair'",
                version=version,
                gap=True,
            )
        raw, stat = file
        if len(raw) in (stat.size, most):
            return self._judge(head, raw, stat, storage)
        with _LARGE:
            rest = storage.read(path, limit=most - len(raw), offset=len(raw))
            if rest is None or rest[1] != stat:
                raise StorageFault(f"{path} changed while it was read", remedy="try again", path=path)
            return self._judge(head, raw + rest[0], stat, storage)

    def _judge(self, head: TableHead, raw: bytes, stat: Stat, storage: LogStorage) -> Adoptable:
        """``adoptable`` for a file that begins with ``raw``, of which as much as counts is
        there."""
        version = head.latest + 1
        try:
            content = read_content(raw, whole=len(raw) == stat.size)
        except InvalidCommit as error:
            raise _unfit(version, error.message) from error
        now = self._world.clock.now_ms()
        if content.ict > now + self._limits.clock_skew_ms:
            raise _unfit(version, f"its in-commit timestamp {content.ict} is ahead of the server's clock")
        request, inline = self._request(head, content, raw, stat, storage)
        proposal = proposal_of(request, content, None, now)
        if inline:
            entry = msgspec.structs.replace(proposal.entry, inline=True, unique="")
            proposal = msgspec.structs.replace(proposal, entry=entry)
        self._check(head, proposal)
        return Adoptable(request, content, proposal)

    def _request(
        self, head: TableHead, content: Content, raw: bytes, stat: Stat, storage: LogStorage
    ) -> tuple[CommitRequest, bool]:
        """Returns the request by which the published bytes were ratified, and whether that was
        inline.

        The staged name is an identity, too (I3): the winner's file is the one that holds the
        published bytes. If it is gone, it left the tail long before, and gc made sure that the
        identity index has it.
        """
        version = head.latest + 1
        inline = CommitRequest(head.table_id, version, base=head.latest, size=stat.size)
        derived = staged_file(version, inline_unique(content.txn))
        for staged in storage.list(f"{STAGED}{version:020d}."):
            name = staged.path.removeprefix(STAGED)
            if staged.size != stat.size or name == derived:
                continue
            if _begins_with(storage, staged.path, raw):
                return msgspec.structs.replace(inline, staged=name, modified_ms=staged.modified_ms), False
        return inline, True

    def _check(self, head: TableHead, proposal: Proposal) -> None:
        """Raises NotAdoptable unless ratification would accept the proposal (I1, I2, I3, I7), the
        state apart."""
        version = head.latest + 1
        txn = proposal.entry.txn
        earlier = self._identities.recall(head.catalog, head.table_id, [txn])
        if earlier is not None and earlier != version:
            raise _unfit(version, f"its transaction {txn} is version {earlier} already")
        match decide(msgspec.structs.replace(head, state=ACTIVE), proposal):
            case Ratified(replayed=True) as replay:
                raise _unfit(version, f"its transaction {txn} is version {replay.version} already")
            case Refused(kind=ErrorType.BACKLOG_FULL, message=message):
                raise Throttled(message)  # the publisher makes room
            case Refused(message=message):
                raise _unfit(version, message)
            case _:  # fresh
                return


def _begins_with(storage: LogStorage, path: str, content: bytes) -> bool:
    """Whether a file begins with ``content``; no more than a piece of it is held."""
    for offset in range(0, len(content), PIECE_BYTES):
        expected = memoryview(content)[offset : offset + PIECE_BYTES]
        file = storage.read(path, len(expected), offset)
        if file is None or file[0] != expected:
            return False
    return True


def _unfit(version: int, why: str) -> NotAdoptable:
    return NotAdoptable(f"{published_path(version)} cannot be adopted: {why}", version=version, gap=False)


ADOPTED_MAX: Final = 32
"""Versions that one call adopts: then the publisher trims the tail again, so that the row stays
within its budget."""


class Advanced(msgspec.Struct, frozen=True):
    """``head`` afterwards; ``adopted`` how many versions this call adopted; ``problem`` why the
    table is stuck now."""

    head: TableHead
    adopted: int
    problem: NotAdoptable | None = None


def mark_all_restored(world: World) -> int:
    """Makes every table that takes commits recover first: its HEAD was restored and may be behind
    its log. Returns how many are recovering then. A row that cannot be parsed is left alone:
    nothing is ratified on it. Raises the store's errors: then call again, before any commit is let
    in.
    """
    count = 0
    for found in parse_rows(TableHead, world.refs.scan(TableHead.kind), []):
        head = found
        while may_be_restored(head):
            head = head_of(world.refs.write(mark_restored(head, world.clock.now_ms())).row, head.table_id)
        count += head.state == RECOVERING
    return count


class Recoverer:
    """Adopts published versions. Any number may work on a table at once; no state between calls."""

    def __init__(self, world: World, limits: Limits | None = None, *, faults: Faults = no_faults) -> None:
        self._world = world
        self._faults = faults
        self._unknowns = Unknowns(world, limits)
        self._metadata = MetadataStore(world.objs, world.space)

    def begin(self, table_id: str) -> bool:
        """Step 2. Returns whether the table is recovering now. A table that got stuck in an earlier
        recovery tries again. Raises NotFound, StorageFault, and the store's errors: then call
        again.
        """
        head = read_head(self._world, table_id)
        if may_recover(head) and (stuck_at(head) is not None or self._unknowns.after(head)):
            head = self._write(head, begin_recovery(head, self._world.clock.now_ms()), "recover.begun")
        return head.state == RECOVERING

    def advance(self, head: TableHead, *, until_ms: int | None = None) -> Advanced:
        """Steps 3 and 4 of a recovering table, as far as one listing and ``ADOPTED_MAX`` versions
        lead; begins no version after ``until_ms``. Raises as ``begin``; adopted versions stay
        adopted.
        """
        unknown = self._unknowns.after(head)
        if not unknown:
            self._check_floor(head)
            return Advanced(self._write(head, end_recovery(head, self._world.clock.now_ms()), "recover.ended"), 0)
        adopted = 0
        for version in islice(unknown, ADOPTED_MAX):
            now = self._world.clock.now_ms()
            if head.state != RECOVERING or head.latest >= version or (until_ms is not None and now >= until_ms):
                break
            try:
                after = self._adopt(head, version)
            except NotAdoptable as error:
                head = self._write(head, give_up_recovery(head, error.message, now), "recover.stuck")
                return Advanced(head, adopted, error if stuck_at(head) == head.latest + 1 else None)
            if after.state == RECOVERING and after.latest < version:
                raise Throttled("the HEAD changed while a version was adopted")
            head = after
            adopted = adopted + (after.latest == version)
        return Advanced(head, adopted)

    def _check_floor(self, head: TableHead) -> None:
        """Raises StorageFault if the newest published version is not in the log: a table without
        its folder has not recovered."""
        storage = self._world.storages.open(head.location)
        if storage.stat(published_path(head.floor)) is not None:
            return
        fault = folder_fault(storage, head.floor) or missing(head.floor)
        raise StorageFault(fault.message, remedy=fault.remedy, path=fault.path, version=fault.version)

    def take_back(self, head: TableHead) -> TableHead:
        """Takes back every version of ``head`` above its floor, by an operator's choice for
        ``_delta_log``, whose versions the publisher adopts then. Copies of the content are set
        aside before (``delta.sides``). Returns the HEAD, as it is if it changed meanwhile. Raises
        UnsupportedTable if the metadata of the floor cannot be read from the log, and StorageFault
        also if its commit is gone.
        """
        self._check_floor(head)
        now = self._world.clock.now_ms()
        metadata = head.metadata
        present = self._metadata.get(head.catalog, metadata)
        if max(present.version, head.epoch) > head.floor:
            state = read_state(self._world.storages.open(head.location), head.location, head.floor)
            domains = {name: text for name, text in state.domains.items() if name != ROW_TRACKING_DOMAIN}
            earlier = DeltaMetadata(
                head.floor, state.protocol, state.metadata, domains, state.ict or 0,
                msgspec.structs.replace(present.beside, etag=""),
            )  # fmt: skip
            metadata = self._metadata.put(head.catalog, head.table_id, earlier, now)
        return self._write(head, take_back(head, metadata, now), "recover.taken_back")

    def _adopt(self, head: TableHead, first: int) -> TableHead:
        """Step 3 for the version after ``latest``; ``first`` is the first one that is published."""
        next = self._unknowns.adoptable(head, first)
        now = self._world.clock.now_ms()
        proposal = next.proposal
        content = next.content
        if content.changes_metadata or not content.whole:
            proposal = with_effects(self._metadata, head, proposal, content, request=next.request, now_ms=now)
            self._faults("recover.described")
        return self._write(head, adopt(head.key, proposal, now), "recover.adopted")

    def _write(self, head: TableHead, change: Change, point: str) -> TableHead:
        """Returns the HEAD after ``change``, or as it is if ``change`` was refused."""
        response = self._world.refs.write(change)
        after = head_of(response.row, head.table_id)
        if isinstance(response, Accepted):
            self._faults(point)
        return after
