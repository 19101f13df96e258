"""Applies requests with an idempotency key once (``Idempotency-Key``).

The row of a request is written in the transaction that swaps the catalog's HEAD. So however often
and however concurrently the request is sent, one of them changes something and all get the same
response (I3). The row has the number of the commit, so the response can be read again as it was,
also after further changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from turnstile.catalog.changes.commit import ChangeFunction, Committer
from turnstile.catalog.changes.waiting import Edit, RejectionHandler
from turnstile.catalog.core.request_rows import DONE, RequestOutcome, request_row
from turnstile.catalog.reader import CatalogReader, View
from turnstile.store.core.errors import ErrorType, TurnstileError
from turnstile.store.core.writes import Row
from turnstile.store.ports import Rejected, World
from turnstile.store.retry import Pause, no_pause

T = TypeVar("T")

FinalStatus = Callable[[TurnstileError], int]
"""Returns the status under which a refusal is stored: the same request gets it again, also after
further changes. 0 for a temporary refusal, or one of a request that was not authorized yet."""


class Repeated(TurnstileError):
    """The refusal that an earlier request with the same key got."""

    def __init__(self, outcome: RequestOutcome) -> None:
        super().__init__(outcome.message, field=outcome.field, remedy=outcome.remedy)
        self.type = outcome.type
        self.details = msgspec.json.decode(outcome.details)


class KeyReused(TurnstileError):
    """The key was sent with another request before."""

    type = ErrorType.KEY_REUSED

    def __init__(self) -> None:
        super().__init__(
            "the idempotency key belongs to another request",
            field="Idempotency-Key",
            remedy="use a fresh uuid for every request, and the same one only to send the same request again",
        )


class _Overtaken(TurnstileError):
    """Another request with this key was faster; this one changed nothing."""

    def __init__(self, row: Row) -> None:
        super().__init__("another request with this key was faster")
        self.row = row


class IdempotentCommitter(Committer):
    """A committer for one request: the last change that it commits also writes the row that
    remembers the request. Earlier changes (``Edit.more``) do not: if the request is sent again they
    are already done. ``key`` is the request's in refs, ``asked`` tells it from other requests,
    ``final`` says which refusals are remembered.
    """

    def __init__(
        self, world: World, reader: CatalogReader, *, key: str, asked: str, final: FinalStatus, pause: Pause = no_pause,
        queued: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(world, reader, pause=pause, queued=queued)
        self._refs = world.refs
        self._clock = world.clock
        self._key = key
        self._asked = asked
        self._final = final
        self._written = False
        self._seq: int | None = None
        self._key_read_at = 0

    def extend(
        self, change: ChangeFunction, on_rejected: RejectionHandler | None = None
    ) -> tuple[ChangeFunction, RejectionHandler | None]:
        """Returns ``change`` with the write of the row that remembers the request, and a handler
        that looks at that row first: it raises the exception that ``run`` handles if another
        request was faster."""
        position = -1  # of the remembering row among the writes of the edit

        def remembering(view: View) -> Edit | None:
            nonlocal position
            edit = change(view)
            self._written = edit is not None and not edit.more
            position = -1
            self._seq = view.tree.commit.seq + (edit is not None)
            if edit is None or edit.more:
                return edit
            position = len(edit.writes)
            write = request_row(self._key, self._asked, self._clock.now_ms(), seq=self._seq)
            return msgspec.structs.replace(edit, writes=(*edit.writes, write))

        def key_first(failed: Mapping[int, Row | None]) -> None:
            earlier = failed.get(position)
            if earlier is not None:
                raise _Overtaken(earlier)
            if on_rejected is not None and failed:
                on_rejected(failed)

        return remembering, key_first

    def run(self, operation: Callable[[], T], again: Callable[[int | None], T]) -> T:
        """Returns the result of ``operation``. If the request was made before, returns that of
        ``again``, called with the number of the commit that shows the change (None: no tree does).
        Raises KeyReused; Repeated: the refusal of an earlier attempt; the errors of ``operation``:
        if one is final, all further attempts get it too.
        """
        self._key_read_at = self._clock.now_ms()
        row = self._refs.read(self._key)
        if row is not None:
            return self._replay(row, again)
        try:
            result = operation()
        except _Overtaken as overtaken:
            return self._replay(overtaken.row, again)
        except TurnstileError as error:
            status = self._final(error)
            earlier = self._remember(status, error) if status else None
            if earlier is not None:
                return self._replay(earlier, again)
            raise
        if not self._written:
            self._remember(DONE)
        return result

    def since(self) -> int:
        """When the key was read: the swap notices a row that was written since, for as long as that
        row is kept. A request that was frozen for longer would be applied twice (I3)."""
        return self._key_read_at

    def _remember(self, status: int, error: TurnstileError | None = None) -> Row | None:
        """Remembers an outcome without a change. Returns the row that is there already, if there is
        one."""
        seq = self._seq if status == DONE else None
        write = request_row(self._key, self._asked, self._clock.now_ms(), status=status, error=error, seq=seq)
        answer = self._refs.write(write)
        return answer.row if isinstance(answer, Rejected) else None

    def _replay(self, row: Row, again: Callable[[int | None], T]) -> T:
        outcome = RequestOutcome.from_row(row)
        if outcome.asked != self._asked:
            raise KeyReused
        if outcome.status != DONE:
            raise Repeated(outcome)
        return again(outcome.seq)
