"""Ratification of a commit: the hot path.

    1  read the content           inline: from the request; staged: one storage read (``prepare``)
    2  judge it                   protocol, contract, timestamps (I7), before anything is written
    3  metadata, if it changes    read the HEAD and its table metadata, write the new table metadata
                                  as an obj
    4  one conditional write      accepted: done; commits that wait for the same table share it
                                  (``shared_commits``)
    5  refused                    ``decide`` answers from the returned row; after Recall and Spill
                                  the write is sent again

A crash after any step leaves at most an unreferenced obj or staged file for gc. When the response
of 4 is lost the client is told OutcomeUnknown, sends the same proposal again and gets a replay
(I3). The same holds for a refusal at 5 after a lost response, unless the earlier attempt cannot be
accepted any more either (``excludes_earlier``).
"""

from __future__ import annotations

from turnstile.delta.core.decide import Conflict, Ratified, Refused
from turnstile.delta.heads import SeenHeads
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.prepare import Prepared, Preparer
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.shared_commits import CommitQueue
from turnstile.store.core.limits import Limits
from turnstile.store.ports import World
from turnstile.store.retry import Pause, no_pause


class Ratifier:
    """Decides commits of Delta tables. No state between requests but caches.

    Attributes:
        heads: the HEADs that this process has seen.
        preparer: the steps before and between writes, which groups of commits do as well
            (``delta.transactions.groups``).
    """

    def __init__(
        self,
        world: World,
        limits: Limits | None = None,
        metadata: MetadataStore | None = None,
        *,
        pause: Pause = no_pause,
        queue: CommitQueue | None = None,
        looks: bool = False,
    ) -> None:
        """
        Args:
            looks: whether the log of a table is looked at before its first commit (``first_look``):
                for a process that lives long.
        """
        self.heads = SeenHeads(world)
        self.preparer = Preparer(world, self.heads, limits or Limits(), metadata, pause=pause, looks=looks)
        self._queue = queue or CommitQueue()

    def commit(self, request: CommitRequest, group: str = "") -> Ratified | Conflict | Refused:
        """Decides one proposal. Returns the ratified version, also of a replay; a conflict with a
        commit of the same version; or a refusal.

        Raises:
            InvalidRequest, InvalidCommit, TooLarge: the proposal is refused for good.
            NotFound: there is no such table or staged file.
            Throttled: nothing was applied; the client sends the proposal again.
            OutcomeUnknown: the outcome of the write could not be learned; the same proposal again
                returns it.
        """
        prepared = self.preparer.prepare(request, group)
        return self._queue.commit(self.preparer, prepared) if isinstance(prepared, Prepared) else prepared
