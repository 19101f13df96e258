"""Looks at a table's log before its first commit in this process, for versions after the HEAD's.

A store that was restored from a backup, or lost its last writes, is behind its lake. Its HEADs
would take commits as versions that ``_delta_log`` has already, and nothing could be published any
more. So before the first commit of a table is written, one request looks for the file after
``latest``. If it is there, and the HEAD still does not know of it, the commit is refused: 'repair'
adopts the log's versions (``delta.recover``). A server checks this; a function does not (ADR 65).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from turnstile.delta.core.decide import Refused
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.store.cache import Lru
from turnstile.store.core.errors import ErrorType, OutcomeUnknown, StorageFault
from turnstile.store.core.names import published_path
from turnstile.store.ports import Storages

BEHIND: Final = "behind"
"""The state, in the details of a refusal, of a table with a HEAD behind its log."""

_TABLES: Final = 10_000
_LOOKS: Final = 5
_THREADS: Final = 16


class FirstLook:
    """Looks once at the log of each table that this process commits to. Safe for threads: two that
    look at one table at once find the same.

    Args:
        storages: where the logs are.
        read: the HEAD of a table as it is now.
    """

    def __init__(self, storages: Storages, read: Callable[[str], TableHead]) -> None:
        self._storages = storages
        self._read = read
        self._seen = Lru[str, bool](_TABLES)

    def refusal(self, table_id: str) -> Refused | None:
        """Why the table takes no commits; None once its log was seen to end where the HEAD says.
        One HEAD and one look for a file at the first call for a table, nothing at later ones.
        Raises NotFound, and OutcomeUnknown if the storage does not say.
        """
        if self._seen.get(table_id):
            return None
        head = self._read(table_id)
        for _ in range(_LOOKS):
            if head.state != ACTIVE:
                return None  # the write says so
            if not self._has_next(head):
                self._seen.put(table_id, True)
                return None
            again = self._read(table_id)
            if again.latest == head.latest:
                return _behind(again)
            head = again  # it was ratified and published meanwhile
        return _behind(head)

    def look(self, heads: Iterable[TableHead]) -> None:
        """Looks at the logs of tables by HEADs that were just read, several at once: ``refusal``
        needs no request for them then. It decides a log that does not end where its HEAD says, and
        a storage that does not answer."""
        new = [head for head in heads if head.state == ACTIVE and not self._seen.get(head.table_id)]
        if len(new) <= 1:
            return
        with ThreadPoolExecutor(min(_THREADS, len(new)), thread_name_prefix="look") as pool, suppress(OutcomeUnknown):
            for head, has_next in zip(new, pool.map(self._has_next, new), strict=True):
                if not has_next:
                    self._seen.put(head.table_id, True)

    def _has_next(self, head: TableHead) -> bool:
        try:
            return self._storages.open(head.location).stat(published_path(head.latest + 1)) is not None
        except StorageFault as error:  # the proposal may have been ratified long ago
            raise OutcomeUnknown(f"the log of the table could not be looked at: {error.public_message}") from error


def _behind(head: TableHead) -> Refused:
    name = head.name
    return Refused(
        ErrorType.TABLE_NOT_ACTIVE,
        f"the log of table {name} has version {head.latest + 1}, and the store knows versions up to {head.latest} "
        f"only: the store was "
        "restored from a backup or lost its last writes, or another program wrote past the catalog",
        f"run 'turnstile repair {name}' (or --all), which adopts the log's versions, and send the same request again",
        details={"state": BEHIND, "latest": head.latest},
    )
