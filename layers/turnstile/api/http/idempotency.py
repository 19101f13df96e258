"""The ``Idempotency-Key`` header: the same key again, the same answer, and nothing more is changed (I3).

A key belongs to whoever sent it, so nobody is told what others did. What was done is told again to the same principal
even when its rights are gone, as those of a table's owner are with the table; it was told before. What is looked at for
that is judged as always (I12).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable
from typing import Final, TypeVar

from turnstile.access.authorizer import Guard
from turnstile.api.http.request import current
from turnstile.catalog.commit import Committer
from turnstile.catalog.idempotency import IdempotentCommitter
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import InvalidRequest, TurnstileError
from turnstile.store.ports import World

T = TypeVar("T")

FIELD: Final = "Idempotency-Key"

FINAL: Final = (400, 404, 406, 409, 413, 422)
"""Statuses of refusals that stay: the same request is refused again, whatever happens meanwhile."""

_KEY: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def keyed() -> str | None:
    """The request's key, if it carries one; raises InvalidRequest for one that is no uuid."""
    key = current().headers.get(FIELD.lower())
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidRequest("the idempotency key is no uuid", field=FIELD, remedy="send a uuid, version 7")
    return key


def once(
    key: str,
    catalog: str,
    operation: Callable[[Committer], T],
    again: Callable[[int | None], T],
    *,
    world: World,
    reader: CatalogReader,
    judge: Guard,
    status_of: Callable[[TurnstileError], int],
) -> T:
    """The answer to the request with ``key``: of ``operation``, whose one change of ``catalog`` is applied by the
    committer it is given, or of ``again`` when that was done before.

    Args:
        again: told the number of the commit in which the change can be looked at; None: it changed no tree.
        judge: the request's guard. What somebody is refused whom it has not let pass is not remembered.
        status_of: the status of a refusal; one of ``FINAL`` is remembered.

    Raises:
        KeyReused: the key belongs to another request.
        Repeated: what the first attempt was refused with.
        TurnstileError: what ``operation`` raises.
    """
    request, asker = current(), judge.principal.name
    asked = f"{request.method} {request.path}?{sorted(request.query.items())}\n".encode() + request.body

    def final(error: TurnstileError) -> int:
        status = status_of(error)
        return status if judge.authorized and status in FINAL else 0

    def told(seq: int | None) -> T:
        judge.mark_replayed()
        return again(seq)

    committer = IdempotentCommitter(
        world,
        reader,
        key=world.space.request(catalog, asker, key.lower()),
        asked=hashlib.sha256(asked).hexdigest(),
        final=final,
        pause=time.sleep,
    )
    return committer.run(lambda: operation(committer), told)
