"""After a loss of objs (a replica that lags behind its refs) a catalog's HEAD may lead nowhere. Then the tree of a recent
HEAD that is whole is taken as it is, and the log goes on from there."""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.catalog.core.ancestry import parents_after
from turnstile.catalog.core.catalog_rows import CatalogHead, swap_head
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core_as_of import AsOf
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import StateConflict
from turnstile.store.ports import Accepted
from turnstile.store.world import World

SAID: Final = "reset to "
"""How the message of a reset's commit begins; the HEAD gone back to follows."""


class LostHead:
    """Looks past the caches: they may still have what is lost."""

    def __init__(self, world: World, reader: CatalogReader) -> None:
        self._world, self._reader = world, reader

    def stored(self, catalog: str, head: str) -> bool:
        """Whether the commit is in the table (a list is never cached). One request."""
        found = self._world.objs.newest(self._world.space.objs(catalog), head)
        return found is not None and found.id == head

    def go_on(self, at: CatalogHead, to: AsOf) -> tuple[str, str, int]:
        """Go on from a recent HEAD as if nothing had come after it; it, the new HEAD and its number.

        Raises:
            StateConflict: ``CannotReset``: not a recent HEAD, or not whole; ``ConcurrentChange``.
            OutcomeUnknown: it may have happened.
        """
        if to.head is None or to.head not in at.recent:
            raise StateConflict(
                "CannotReset",
                f"the HEAD of catalog '{at.name}' leads nowhere",
                field="to",
                remedy="name a recent HEAD that is whole: the catalog's row lists them",
                recent=list(at.recent),
            )
        store = self._reader.store
        past = store.tree(at.name, to.head)
        self._whole(past)
        id, now = store.new_commit_id(), self._world.clock.now_ms()
        commit = msgspec.structs.replace(
            past.commit,
            seq=past.commit.seq + 1,
            parents=parents_after(past.commit.seq, past.head, past.commit.parents),
            message=f"{SAID}{past.head}, what followed is lost",
            at=max(now * 1000, past.commit.at + 1),
            restored_by=past.head if past.commit.restores else past.commit.restored_by,
            restores=True,
        )
        store.write(at.name, id, commit, {})
        recent = at.recent[at.recent.index(past.head) :]
        onto = msgspec.structs.replace(at, seq=past.commit.seq, recent=recent)
        answer = self._world.refs.write(swap_head(onto, id, now, commit.segments))
        if isinstance(answer, Accepted) or (answer.row is not None and id in answer.row["recent"]):
            return past.head, id, commit.seq  # refused by its own swap, whose answer was lost, it is done as well
        raise StateConflict("ConcurrentChange", f"catalog '{at.name}' changed", remedy="send the request again")

    def _whole(self, tree: Tree) -> None:
        """Raises StateConflict when something that the tree leads to is missing (I9)."""
        space = self._world.space.objs(tree.catalog)
        wanted = {entry.obj for _, entry in tree.index.iterate()}
        wanted |= {segment.obj for segment in tree.index.directory if segment.obj}
        for prefix in {id.partition("/")[0] + "/" for id in wanted}:
            wanted.difference_update(obj.id for obj in self._world.objs.list(space, prefix))
        if wanted:
            raise StateConflict(
                "CannotReset",
                f"{len(wanted)} objs of HEAD {tree.head} are missing, as {min(wanted)}",
                field="to",
                remedy="name an older one of the recent HEADs",
            )
