"""Idempotent changes: a change is made once however often its request is sent with the same
``Idempotency-Key`` (I3).

A key belongs to the principal that sent it, so no other principal learns about the change. A
principal gets the same answer again even after it has lost its rights, as the owner of a dropped
table has: it got the answer before. Further reads for an answer are authorized as always (I12).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Final, TypeVar

from turnstile.access.authorizer import Guard
from turnstile.api.http.request import Request, current
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.idempotency import IdempotentCommitter
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import TurnstileError
from turnstile.store.ports import World

T = TypeVar("T")

FINAL: Final = (400, 404, 406, 409, 413, 422)
"""Statuses of final refusals: the same request is refused again, also after further changes."""


def digest_of(request: Request) -> str:
    """Returns the digest by which a repetition of a request is recognised."""
    text = f"{request.method} {request.path}?{sorted(request.query.items())}\n".encode() + request.body
    return hashlib.sha256(text).hexdigest()


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
    """Returns the answer to the request with ``key``. A new request is answered by ``operation``,
    which applies its one change of ``catalog`` by the given committer; a repetition is answered by
    ``again``. Raises as ``operation``, KeyReused when the key belongs to another request, and
    Repeated with the refusal of the first attempt.

    Args:
        again: its argument is the number of the commit that shows the change; None: it changed no
            tree.
        guard: the request's guard. Refusals are stored only for principals that it has authorized.
        status_of: the status of a refusal; one of ``FINAL`` is stored.
    """
    request = current()

    def final(error: TurnstileError) -> int:
        status = status_of(error)
        return status if guard.is_authorized and status in FINAL else 0

    def replay(seq: int | None) -> T:
        guard.mark_replayed()
        return again(seq)

    committer = IdempotentCommitter(
        world,
        reader,
        key=world.space.request(catalog, guard.principal.name, key.lower()),
        asked=digest_of(request),
        final=final,
        pause=time.sleep,
        queued=True,
    )
    return committer.run(lambda: operation(committer), replay)
