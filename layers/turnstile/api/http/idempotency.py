"""A change that is made once however often its request is sent with the same ``Idempotency-Key`` (I3).

A key belongs to the principal that sent it, so no other learns what was done. A principal gets the same answer again even
when its rights are gone, as those of a table's owner are with the table: it got it before. What is read for that is
authorized as always (I12).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Final, TypeVar

from turnstile.access.authorizer import Guard
from turnstile.api.http.request import current
from turnstile.catalog.commit import Committer
from turnstile.catalog.idempotency import IdempotentCommitter
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import TurnstileError
from turnstile.store.ports import World

T = TypeVar("T")

FINAL: Final = (400, 404, 406, 409, 413, 422)
"""Statuses of refusals that stay: the same request is refused again, whatever happens meanwhile."""


def once(
    key: str,
    catalog: str,
    operation: Callable[[Committer], T],
    again: Callable[[int | None], T],
    *,
    world: World,
    reader: CatalogReader,
    guard: Guard,
    status_of: Callable[[TurnstileError], int],
) -> T:
    """Returns the answer to the request with ``key``: of ``operation``, whose one change of ``catalog`` is applied by
    the committer it is given, or of ``again`` when that was done before. Raises as ``operation``, KeyReused when the key
    belongs to another request, and Repeated with what the first attempt was refused with.

    Args:
        again: gets the number of the commit in which the change can be looked at; None: it changed no tree.
        guard: the request's guard. What a principal is refused that it has not let pass is not remembered.
        status_of: the status of a refusal; one of ``FINAL`` is remembered.
    """
    request = current()
    text = f"{request.method} {request.path}?{sorted(request.query.items())}\n".encode() + request.body

    def final(error: TurnstileError) -> int:
        status = status_of(error)
        return status if guard.authorized and status in FINAL else 0

    def replay(seq: int | None) -> T:
        guard.mark_replayed()
        return again(seq)

    committer = IdempotentCommitter(
        world,
        reader,
        key=world.space.request(catalog, guard.principal.name, key.lower()),
        asked=hashlib.sha256(text).hexdigest(),
        final=final,
        pause=time.sleep,
        queued=True,
    )
    return committer.run(lambda: operation(committer), replay)
