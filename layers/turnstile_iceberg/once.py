"""Requests that carry a key, applied once (REST specification, ``Idempotency-Key``).

The row that remembers a request is written in the transaction that swaps the catalog's HEAD. So however often and
however concurrently it is sent, one of them changes something and all are told the same (I3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from turnstile.core.errors import TurnstileError
from turnstile.core.plan import Row
from turnstile.core.request_rows import DONE, Remembered, remember
from turnstile.core.tree import Tree
from turnstile.ports import Rejected
from turnstile.services.catalog.backoff import Pause, no_pause
from turnstile.services.catalog.change import ChangeFunction, Edit, Judge, View
from turnstile.services.catalog.committer import Committer
from turnstile.services.catalog.reader import CatalogReader
from turnstile.world import World
from turnstile_iceberg.errors import Unprocessable, kind_of

T = TypeVar("T")

FINAL = (400, 404, 406, 409, 422)
"""Statuses of refusals that stay: the same request is refused again, whatever happens meanwhile."""


class Repeated(TurnstileError):
    """A refusal that an earlier request with the same key was given."""

    def __init__(self, found: Remembered) -> None:
        super().__init__(found.message)
        self.type = found.type


class _Known(TurnstileError):
    """Another request with this key was faster; nothing was changed by this one."""

    def __init__(self, row: Row) -> None:
        super().__init__("another request with this key was faster")
        self.row = row


class Once(Committer):
    """A committer for one request: what it commits carries the row that remembers the request.

    Args:
        key: refs key of the request.
        asked: what tells it from other requests.
    """

    def __init__(self, world: World, reader: CatalogReader, *, key: str, asked: str, pause: Pause = no_pause) -> None:
        super().__init__(world, reader, pause=pause, in_line=False)
        self._refs, self._clock = world.refs, world.clock
        self._key, self._asked, self._written = key, asked, False

    def commit(
        self, catalog: str, change: ChangeFunction, *, row: Row | None = None, judge: Judge | None = None
    ) -> Tree:
        """As ``Committer.commit``; raises what ``run`` understands when another request was faster."""
        place = [0]

        def marked(view: View) -> Edit | None:
            edit = change(view)
            self._written = edit is not None
            if edit is None:
                return None
            place[0] = len(edit.writes)
            mark = remember(self._key, self._asked, self._clock.now_ms())
            return msgspec.structs.replace(edit, writes=(*edit.writes, mark))

        def judged(failed: Mapping[int, Row | None]) -> None:
            known = failed.get(place[0])
            if known is not None:
                raise _Known(known)
            if judge is not None and failed:
                judge(failed)

        return super().commit(catalog, marked, row=row, judge=judged)

    def run(self, operation: Callable[[], T], again: Callable[[], T]) -> T:
        """The answer to the request: of ``operation``, or of ``again`` when it was done before.

        Raises:
            Unprocessable: the key belongs to another request.
            Repeated: what an earlier attempt was refused with.
            TurnstileError: what ``operation`` raises; if it is final, for all further attempts too.
        """
        found = self._refs.read(self._key)
        if found is not None:
            return self._replay(found, again)
        try:
            answer = operation()
        except _Known as known:
            return self._replay(known.row, again)
        except TurnstileError as error:
            status, _ = kind_of(error)
            if status in FINAL:
                told = f"{error.message}; {error.remedy}" if error.remedy else error.message
                earlier = self._remember(status, error.type, told)
                if earlier is not None:
                    return self._replay(earlier, again)
            raise
        if not self._written:
            self._remember(DONE)
        return answer

    def _remember(self, status: int, type: str = "", message: str = "") -> Row | None:
        """The row that is there already, if one is."""
        write = remember(self._key, self._asked, self._clock.now_ms(), status=status, type=type, message=message)
        answer = self._refs.write(write)
        return answer.row if isinstance(answer, Rejected) else None

    def _replay(self, row: Row, again: Callable[[], T]) -> T:
        found = Remembered.from_row(row)
        if found.asked != self._asked:
            raise Unprocessable("the idempotency key belongs to another request", field="Idempotency-Key")
        if found.status != DONE:
            raise Repeated(found)
        return again()
