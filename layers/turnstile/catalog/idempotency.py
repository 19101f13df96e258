"""Requests that carry a key of their sender's, applied once (``Idempotency-Key``).

The row that remembers a request is written in the transaction that swaps the catalog's HEAD. So however often and
however concurrently it is sent, one of them changes something and all are told the same (I3). The row has the number of
the commit, so that the answer can be read again as it was, whatever happened since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from turnstile.catalog.commit import ChangeFunction, Committer, Edit, RejectionHandler, View
from turnstile.catalog.core.request_rows import DONE, RequestOutcome, request_row
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.retry import Pause, no_pause
from turnstile.store.core.errors import ErrorType, TurnstileError
from turnstile.store.core.writes import Row
from turnstile.store.ports import Rejected, World

T = TypeVar("T")

FinalStatus = Callable[[TurnstileError], int]
"""The status under which a refusal is remembered: the same request is refused so again, whatever happens meanwhile. 0
for one that may pass: of the moment, or of somebody whose rights were not judged yet."""


class Repeated(TurnstileError):
    """A refusal that an earlier request with the same key was given."""

    def __init__(self, found: RequestOutcome) -> None:
        super().__init__(found.message, field=found.field, remedy=found.remedy)
        self.type, self.details = found.type, dict(found.details)


class KeyReused(TurnstileError):
    """The key was sent with another request before."""

    type = ErrorType.KEY_REUSED

    def __init__(self) -> None:
        super().__init__(
            "the idempotency key belongs to another request",
            field="Idempotency-Key",
            remedy="use a fresh uuid for every request, and the same one only to send the same request again",
        )


class _Known(TurnstileError):
    """Another request with this key was faster; nothing was changed by this one."""

    def __init__(self, row: Row) -> None:
        super().__init__("another request with this key was faster")
        self.row = row


class IdempotentCommitter(Committer):
    """A committer for one request: the last change it commits carries the row that remembers the request. Changes that
    are only on the way there (``Edit.more``) do not: they are found done when the request is sent again.

    Args:
        key: refs key of the request.
        asked: what tells it from other requests.
        final: which refusals are remembered.
    """

    def __init__(
        self, world: World, reader: CatalogReader, *, key: str, asked: str, final: FinalStatus, pause: Pause = no_pause
    ) -> None:
        super().__init__(world, reader, pause=pause, in_line=False)
        self._refs, self._clock = world.refs, world.clock
        self._key, self._asked, self._final = key, asked, final
        self._written = False
        self._seq: int | None = None
        self._looked = 0

    def commit(
        self,
        catalog: str,
        change: ChangeFunction,
        *,
        row: Row | None = None,
        on_rejected: RejectionHandler | None = None,
    ) -> Tree:
        """As ``Committer.commit``; raises what ``run`` understands when another request was faster."""
        place = [-1]

        def marked(view: View) -> Edit | None:
            edit = change(view)
            self._written, place[0] = edit is not None and not edit.more, -1
            self._seq = view.tree.commit.seq + (edit is not None)
            if edit is None or edit.more:
                return edit
            place[0] = len(edit.writes)
            mark = request_row(self._key, self._asked, self._clock.now_ms(), seq=self._seq)
            return msgspec.structs.replace(edit, writes=(*edit.writes, mark))

        def judged(failed: Mapping[int, Row | None]) -> None:
            known = failed.get(place[0])
            if known is not None:
                raise _Known(known)
            if on_rejected is not None and failed:
                on_rejected(failed)

        return super().commit(catalog, marked, row=row, on_rejected=judged)

    def run(self, operation: Callable[[], T], again: Callable[[int | None], T]) -> T:
        """The answer to the request: of ``operation``, or of ``again`` when it was done before.

        Args:
            again: told the number of the commit in which what was done can be looked at; None: no tree was.

        Raises:
            KeyReused: the key belongs to another request.
            Repeated: what an earlier attempt was refused with.
            TurnstileError: what ``operation`` raises; if it is final, for all further attempts too.
        """
        self._looked = self._clock.now_ms()
        found = self._refs.read(self._key)
        if found is not None:
            return self._replay(found, again)
        try:
            answer = operation()
        except _Known as known:
            return self._replay(known.row, again)
        except TurnstileError as error:
            status = self._final(error)
            if status:
                earlier = self._remember(status, error)
                if earlier is not None:
                    return self._replay(earlier, again)
            raise
        if not self._written:
            self._remember(DONE)
        return answer

    def _since(self) -> int:
        """When the key was looked at: a row that was written since then is found by the swap, for as long as it is kept. A
        request that was frozen for longer would be applied twice (I3)."""
        return self._looked

    def _remember(self, status: int, error: TurnstileError | None = None) -> Row | None:
        """The row that is there already, if one is."""
        seq = self._seq if status == DONE else None
        now = self._clock.now_ms()
        write = request_row(self._key, self._asked, now, status=status, error=error, seq=seq)
        answer = self._refs.write(write)
        return answer.row if isinstance(answer, Rejected) else None

    def _replay(self, row: Row, again: Callable[[int | None], T]) -> T:
        found = RequestOutcome.from_row(row)
        if found.asked != self._asked:
            raise KeyReused
        if found.status != DONE:
            raise Repeated(found)
        return again(found.seq)
