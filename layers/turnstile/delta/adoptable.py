"""Published versions that a HEAD does not know: found in ``_delta_log``, and judged as the proposals they once were."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from turnstile.delta.core.content import Content, read_content
from turnstile.delta.core.decide import decide
from turnstile.delta.core.decision import Ratified, Refused
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.delta.core.proposal import Proposal
from turnstile.delta.identity import IdentityIndex
from turnstile.delta.limits import Limits
from turnstile.delta.proposals import CommitRequest, proposal_of
from turnstile.store.core.errors import InvalidCommit, StorageFault, Throttled
from turnstile.store.core.names import inline_unique, staged_file
from turnstile.store.core.paths import LOG, STAGED, published_path
from turnstile.store.ports import LogStorage, Stat
from turnstile.store.world import World

_PUBLISHED: Final = re.compile(r"(\d{20})\.json")


class NotAdoptable(StorageFault):
    """What is published after ``latest`` cannot be a commit of this table as the HEAD knows it. ``version`` is in
    ``details``, and ``gap``: it is missing while later ones are there."""

    usual_remedy = (
        "find out who wrote it; if it does not belong to the table's history, move it and every later version out of "
        "_delta_log and run 'turnstile repair'"
    )


class Adoptable(msgspec.Struct, frozen=True):
    """A published version that may be the next one: the request it would have come by, what it says, and the proposal
    that both make."""

    request: CommitRequest
    content: Content
    proposal: Proposal


class Unknowns:
    """The published versions that a HEAD does not know. Reads only."""

    def __init__(self, world: World, limits: Limits | None = None) -> None:
        self._world, self._limits = world, limits or Limits()
        self._identities = IdentityIndex(world.objs, world.space, world.clock, self._limits.identity_days)

    def after(self, head: TableHead) -> list[int]:
        """The published versions after ``latest``, ascending. One listing.

        Raises:
            StorageFault: storage could not be read.
        """
        storage = self._world.storages.open(head.location)
        names = (stat.path.removeprefix(LOG) for stat in storage.list(LOG, after=published_path(head.latest)))
        matches = (_PUBLISHED.fullmatch(name) for name in names)
        return [int(match[1]) for match in matches if match]

    def judged(self, head: TableHead, first: int) -> Adoptable:
        """The version after ``latest``, fit to be adopted.

        Args:
            first: the first published version after ``latest``.

        Raises:
            NotAdoptable: it is missing, no commit, or not the next one of this table.
            StorageFault: storage could not be read.
        """
        version = head.latest + 1
        storage, path = self._world.storages.open(head.location), published_path(version)
        found = storage.read(path, limit=self._limits.staged_bytes) if first == version else None
        if found is None:
            raise NotAdoptable(
                f"{path} is missing, but version {first} is published",
                remedy="bring the missing version back into _delta_log from a backup or an object version, or restore "
                "a later state of the coordinator; then run 'turnstile repair'",
                version=version,
                gap=True,
            )
        raw, stat = found
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
        self._judge(head, proposal)
        return Adoptable(request, content, proposal)

    def _request(
        self, head: TableHead, content: Content, raw: bytes, stat: Stat, storage: LogStorage
    ) -> tuple[CommitRequest, bool]:
        """How the published bytes came to be ratified, and whether that was inline.

        The staged name is an identity, too (I3): the winner's file is the one that holds the published bytes. If it is
        gone, it left the tail long before, and gc saw that the identity index knows it.
        """
        version = head.latest + 1
        derived = staged_file(version, inline_unique(content.txn))
        for staged in storage.list(f"{STAGED}{version:020d}."):
            name = staged.path.removeprefix(STAGED)
            if staged.size != stat.size or name == derived:
                continue
            found = storage.read(staged.path, limit=len(raw))
            if found is not None and found[0] == raw:
                made = CommitRequest(
                    head.table_id, version, base=head.latest, staged=name, size=stat.size, modified=staged.modified
                )
                return made, False
        return CommitRequest(head.table_id, version, base=head.latest, size=stat.size), True

    def _judge(self, head: TableHead, proposal: Proposal) -> None:
        """As ratification would (I1, I2, I3, I7), but for the state."""
        version, txn = head.latest + 1, proposal.entry.txn
        known = self._identities.recall(head.catalog, head.table_id, [txn])
        if known is not None and known != version:
            raise _unfit(version, f"its transaction {txn} is version {known} already")
        match decide(msgspec.structs.replace(head, state=ACTIVE), proposal):
            case Ratified(replayed=True, version=earlier):
                raise _unfit(version, f"its transaction {txn} is version {earlier} already")
            case Refused(kind="BacklogFull", message=message):
                raise Throttled(message)  # the publisher makes room
            case Refused(message=message):
                raise _unfit(version, message)
            case _:  # fresh
                return


def _unfit(version: int, why: str) -> NotAdoptable:
    return NotAdoptable(f"{published_path(version)} cannot be adopted: {why}", version=version, gap=False)
