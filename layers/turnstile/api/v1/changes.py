"""Common parts of changes of a catalog: a moment of its past in a body, and an idempotent
change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

import msgspec

from turnstile.api.http import idempotency
from turnstile.api.http.authorization import guard
from turnstile.api.http.request import idempotency_key
from turnstile.api.http.responses import status_of
from turnstile.api.services import services
from turnstile.catalog.history.core import AsOf, check_as_of, report_field
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import ErrorType

T = TypeVar("T")


class AsOfBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A moment of a catalog: exactly one of a HEAD, a number of its log, a time (ms), or a
    snapshot's name."""

    head: str | None = None
    seq: int | None = None
    time: int | None = None
    snapshot: str | None = None

    def as_of(self, field: str) -> AsOf:
        """Returns the moment; raises InvalidRequest at ``field``, the member that holds it."""
        return check_as_of(AsOf(self.head, self.seq, self.time, self.snapshot), field)

    def report_as(self, field: str) -> AbstractContextManager[None]:
        """Reports a moment that is not there under the member of ``field`` that names it:
        ``to.seq``."""
        (name,) = (name for name in self.__struct_fields__ if getattr(self, name) is not None)
        return report_field(f"{field}.{name}")


_PASSING = (ErrorType.CONCURRENT_CHANGE, ErrorType.TABLE_NOT_ACTIVE, ErrorType.STALE_METADATA)
"""Conflicts of the moment: the same request may be accepted later."""


def once(
    catalog: str, operation: Callable[[CatalogServices], T], again: Callable[[CatalogServices, int | None], T]
) -> T:
    """Returns the answer of a request that changes ``catalog`` by ``operation``. With an
    Idempotency-Key the change is made once, however often the request is sent. Raises
    InvalidRequest for a key that is no uuid, KeyReused for the key of another request.

    Args:
        again: returns the answer for a change that was made before. Its argument is the number of
            the commit that shows the change, so that a counter is answered as it was; None: no
            commit shows it.
    """
    key = idempotency_key()
    here = services().catalog
    if key is None:
        return operation(here)
    return idempotency.once(
        key,
        catalog,
        lambda committer: operation(here.committing_with(committer)),
        lambda seq: again(here, seq),
        world=here.world,
        reader=here.reader,
        guard=guard(),
        status_of=lambda error: 0 if error.type in _PASSING else status_of(error),
    )
